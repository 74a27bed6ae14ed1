"""Faults of any command: one sentence and an exit code, never a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.cli import main
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.called import on, shop


@pytest.mark.parametrize("command", ["run", "tables", "discover"])
def test_a_config_that_is_not_there_is_one_sentence(tmp_path: Path, capfd: Any, command: str):
    assert main([command, "--config", str(tmp_path / "none.yaml")]) == 2

    printed = capfd.readouterr()
    assert len(printed.err.splitlines()) == 1
    assert "none.yaml" in printed.err


def test_a_changefeed_that_the_config_does_not_have_is_named_with_those_it_has(tmp_path: Path, capfd: Any):
    assert main(on(shop(tmp_path), "run", "--changefeed", "shpo")) == 2
    assert "shop" in capfd.readouterr().err


def test_a_source_that_is_not_there_is_one_sentence(tmp_path: Path, capfd: Any):
    feed = shop(tmp_path)
    feed.bucket.base.rename(tmp_path / "elsewhere")

    assert main(on(feed, "run")) == 1

    printed = capfd.readouterr()
    assert [line for line in printed.err.splitlines() if "bucket_shop" in line]
    assert "Traceback" not in printed.err


def test_a_tso_that_is_none_is_refused_on_the_command_line(tmp_path: Path, capfd: Any):
    with pytest.raises(SystemExit) as exited:
        main(on(shop(tmp_path), "snapshot", "--at", "4.5e17"))

    assert exited.value.code == 2
    assert "digits only" in capfd.readouterr().err
