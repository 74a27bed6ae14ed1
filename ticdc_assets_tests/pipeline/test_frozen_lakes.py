"""Lakes that older releases made, continued by today's code: they end equal to a lake that was made whole by it."""

from __future__ import annotations

import fcntl
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets import spark
from ticdc_assets.cli import main
from ticdc_assets_tests.assets.feeds import Feed
from ticdc_assets_tests.frozen_lake import (
    FOLDER,
    LAKES,
    PIN,
    SETTINGS,
    captured,
    changefeeds,
    contents,
    first_half,
    second_half,
)

pytestmark = pytest.mark.spark


@pytest.fixture(params=sorted(path.name for path in LAKES.glob("*.tar.xz")))
def frozen(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The config of a frozen lake, in the folder where all were made."""
    spark.stop()  # another test's session has other settings
    with FOLDER.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process of tests may use it
        shutil.rmtree(FOLDER, ignore_errors=True)
        with tarfile.open(LAKES / request.param) as archive:
            archive.extractall(FOLDER, filter="data")
        yield FOLDER / "changefeeds.yaml"
        shutil.rmtree(FOLDER)


def run(config: Path, *changefeeds: str) -> None:
    for name in changefeeds:
        main(["run", "--config", str(config), "--changefeed", name])


def test_a_lake_of_any_format_is_continued(frozen: Path, tmp_path: Path, capfd: Any):
    whole = Feed(tmp_path, **SETTINGS)
    first_half(whole)
    second_half(whole)
    changefeeds(whole.path, read=captured())
    before = contents(frozen)

    run(frozen, "shop", "read")
    run(whole.path, "shop", "read")

    found, wanted = contents(frozen), contents(whole.path)
    assert [name for name in wanted if found.get(name) != wanted[name]] == []
    assert found.keys() == wanted.keys()
    assert found != before
    assert {name: of_it[0] for name, of_it in found.items() if name.startswith("shop: shop.")} == {
        "shop: shop.users": "live",
        "shop: shop.orders": "live",
        "shop: shop.events": "live",
        "shop: shop.later": "live",
        "shop: shop.gone": "dropped",
        "shop: shop.stopped": "stopped",
    }
    capfd.readouterr()
    assert main(["snapshot", "--config", str(frozen), "--changefeed", "shop", "--list"]) == 0
    assert PIN in capfd.readouterr().out
