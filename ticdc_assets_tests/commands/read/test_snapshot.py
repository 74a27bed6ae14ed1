"""`ticdc-assets snapshot`: pins and code for readers, as the command line shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.cli import main
from ticdc_assets_tests.assets.feeds import ts
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.called import on, shop


def test_a_record_is_pinned_listed_and_released(tmp_path: Path, without_java: None, capfd: Any):
    feed = shop(tmp_path)
    feed.run()
    capfd.readouterr()

    assert main(on(feed, "snapshot", "--at", str(ts(15)), "--pin", "july", "--json")) == 0
    printed = capfd.readouterr()
    assert (json.loads(printed.out)["pin"], json.loads(printed.out)["tso"]) == ("july", ts(10))
    assert f"july pins {ts(10)}" in printed.err
    assert f"the newest record up to {ts(15)}" in printed.err
    changelog = feed.lake.catalog.load_table(("shop__changes", "users"))
    assert "july" in changelog.metadata.refs

    assert main(on(feed, "snapshot", "--list", "--json")) == 0
    assert json.loads(capfd.readouterr().out) == [{"pin": "july", "tso": ts(10), "gaps": []}]

    assert main(on(feed, "snapshot", "--at", str(ts(10)), "--reader", "pyiceberg")) == 0
    assert "('shop', 'users'): " in capfd.readouterr().out

    assert main(on(feed, "snapshot", "--release", "july")) == 0
    assert "july is released" in capfd.readouterr().out
    assert "july" not in changelog.refresh().metadata.refs
    assert main(on(feed, "snapshot", "--list")) == 0
    assert "No pin." in capfd.readouterr().err
    assert main(on(feed, "snapshot", "--release", "july")) == 1
    assert "expected a pin july, found none" in capfd.readouterr().err


@pytest.mark.parametrize("options", [[], ["--list", "--release", "x"], ["--pin", "x"], ["--list", "--pin", "x"]])
def test_options_that_do_not_go_together_are_refused(tmp_path: Path, capfd: Any, options: list[str]):
    assert main(on(shop(tmp_path), "snapshot", *options)) == 2

    assert "expected one of --at, --list and --release" in capfd.readouterr().err


def test_code_for_a_reader_is_refused_without_a_tso(tmp_path: Path, capfd: Any):
    assert main(on(shop(tmp_path), "snapshot", "--list", "--reader", "spark")) == 2

    assert "--reader: expected --at TSO with it, found none." in capfd.readouterr().err


def test_verify_without_an_upstream_says_what_to_set(tmp_path: Path, capfd: Any):
    assert main(on(shop(tmp_path), "verify")) == 2

    assert "expected `upstream` in the config, found none" in capfd.readouterr().err
