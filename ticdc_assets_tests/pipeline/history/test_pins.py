"""Pins: a record that stays readable, by every reader, until it is released."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ticdc_assets import spark
from ticdc_assets.commands.read.listing import recorded_snapshot
from ticdc_assets.commands.read.snapshot import snippet
from ticdc_assets.errors import ConfigError, NotYetError
from ticdc_assets.pipeline.history.pins import Pinned, pin, release
from ticdc_assets.pipeline.maintenance import Policy, maintain
from ticdc_assets.tables.control.retention import named_pins
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets.tables.iceberg.tags import tag_of
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.maintenance.maintained import LATER
from ticdc_assets_tests.pipeline.small_feeds import Sink, column
from ticdc_assets_tests.sources.storage.bucket import ID, NAME

pytestmark = pytest.mark.spark

ORDERS, ITEMS = ("shop", "orders"), ("shop", "items")
NAMED = "end-of-july"
TRUTH = {ORDERS: [(1, "one"), (2, "two")], ITEMS: [(7, "seven")]}
"""The rows at TSO 150."""
TELL = """
import json
found = {}
for name, rows in tables.items():
    rows = rows.collect() if hasattr(rows, "collect") else rows
    rows = rows.to_arrow_table() if hasattr(rows, "to_arrow_table") else rows
    rows = rows.to_arrow() if hasattr(rows, "to_arrow") else rows
    found[".".join(name)] = [list(rows.column_names), sorted([row["id"], row["name"]] for row in rows.to_pylist())]
print("FOUND", json.dumps(found))
"""


@dataclass
class PinnedLake:
    """A lake that is pinned at TSO 150, has gone on, and was maintained as if 50 days had passed."""

    feed: FeedLake
    jvm: JvmCatalog
    pinned: Pinned

    def maintained(self) -> None:
        maintain(self.feed.lake, Policy(LATER, older_than_hours=1, days_kept=0), lambda: self.jvm)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> PinnedLake:
    folder = tmp_path_factory.mktemp("pins")
    sink = Sink(folder / "bucket")
    for name, rows in TRUTH.items():
        sink.table(name)
        sink.file(name, 1, [sink.insert(name, 110 + i, i, text) for i, text in rows])
    sink.bucket.checkpoint(150)
    feed = sink.feed(folder / "lake").lake
    feed.run()
    jvm = JvmCatalog(spark.session(feed.config), feed.catalog_name)
    pinned = pin(feed.lake, lambda: jvm, NAMED, 155)
    more = [ID, NAME, column("n", "INT", ColumnDefault="7")]
    sink.alter(ORDERS, 160, "ALTER TABLE `orders` ADD COLUMN `n` INT DEFAULT 7", more)
    sink.file(ORDERS, 1, [sink.line(ORDERS, "D", 170, 1, "one", 7), sink.line(ORDERS, "U", 171, 2, "2", 7)], 160)
    sink.alter(("shop", "goods"), 161, "RENAME TABLE `shop`.`items` TO `shop`.`goods`")
    sink.bucket.checkpoint(200)
    feed.run()
    sink.file(ORDERS, 2, [sink.line(ORDERS, "I", 210, 3, "three", 7)], 160)
    sink.bucket.checkpoint(250)
    feed.run()
    made = PinnedLake(feed, jvm, pinned)
    made.maintained()
    return made


def test_a_pin_is_the_newest_record_up_to_the_tso_and_tags_every_table(lake: PinnedLake):
    assert (lake.pinned.name, lake.pinned.tso, named_pins(lake.feed.lake.control)) == (NAMED, 150, {NAMED: 150})
    assert [name for name, _ in lake.pinned.tables] == [
        "shop.items",
        "shop__changes.items",
        "shop.orders",
        "shop__changes.orders",
    ]
    assert recorded_snapshot(lake.feed.lake, 199)["tso"] == 150


@pytest.mark.long
def test_a_pin_again_is_the_same_pin_and_another_tso_under_its_name_is_refused(lake: PinnedLake):
    assert pin(lake.feed.lake, lambda: pytest.fail("nothing to tag"), NAMED, 150).tso == 150
    with pytest.raises(ConfigError, match=r"a name that pins no other TSO than 250, found end-of-july at 150"):
        pin(lake.feed.lake, lambda: lake.jvm, NAMED, 250)
    with pytest.raises(ConfigError, match="not the name of a branch"):
        pin(lake.feed.lake, lambda: lake.jvm, "main", 250)
    with pytest.raises(NotYetError, match="a recorded TSO up to 5"):
        pin(lake.feed.lake, lambda: lake.jvm, "early", 5)
    assert named_pins(lake.feed.lake.control) == {NAMED: 150}


def wanted() -> dict[str, Any]:
    columns = ["id", "name", "_ticdc_commit_ts"]
    renamed = {"shop.orders": TRUTH[ORDERS], "shop.goods": TRUTH[ITEMS]}
    return {name: [columns, [list(row) for row in rows]] for name, rows in renamed.items()}


def test_spark_reads_all_tables_as_they_were(lake: PinnedLake):
    code = snippet("spark", lake.feed.catalog_name, recorded_snapshot(lake.feed.lake, 150)["tables"])
    names: dict[str, Any] = {"spark": spark.session(lake.feed.config)}

    exec(code, names)

    found = {
        ".".join(name): [rows.columns, sorted([row.id, row["name"]] for row in rows.collect())]
        for name, rows in names["tables"].items()
    }
    assert found == wanted()
    tagged = names["spark"].sql(f"SELECT id FROM {lake.feed.catalog_name}.shop.orders VERSION AS OF '{NAMED}'")
    assert sorted(row.id for row in tagged.collect()) == [1, 2]


@pytest.mark.variants(1)
@pytest.mark.parametrize("reader", ["pyiceberg", "polars", "duckdb"])
def test_a_reader_reads_all_tables_as_they_were(reader: str, lake: PinnedLake, tmp_path: Path):
    catalog = {"type": "sql", "uri": lake.feed.config.catalog.uri}
    (tmp_path / ".pyiceberg.yaml").write_text(yaml.safe_dump({"catalog": {lake.feed.catalog_name: catalog}}))
    environ = {**os.environ, "PYICEBERG_HOME": str(tmp_path), "PYTHONPATH": os.environ.get("TICDC_ASSETS_READERS", "")}
    code = snippet(reader, lake.feed.catalog_name, recorded_snapshot(lake.feed.lake, 150)["tables"])
    if reader == "duckdb":
        load = "import duckdb_extensions\nfor name in ('avro', 'iceberg'): duckdb_extensions.import_extension(name)\n"
        code = load + code

    command = [sys.executable, "-c", code + TELL]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)

    if "ModuleNotFoundError" in ended.stderr and reader != "pyiceberg":
        pytest.skip("not installed: .ci/readers.txt, in a folder that TICDC_ASSETS_READERS names")
    assert ended.returncode == 0, ended.stderr[-3000:]
    [said] = [line for line in ended.stdout.splitlines() if line.startswith("FOUND ")]
    assert json.loads(said.removeprefix("FOUND ")) == wanted()


def test_a_released_pin_goes_with_its_tags_and_then_with_its_snapshots(lake: PinnedLake):
    catalog = lake.feed.lake.catalog
    [snapshot_id] = [i for name, i in lake.pinned.tables if name == "shop.orders"]
    assert tag_of(catalog.load_table(ORDERS), NAMED) == snapshot_id

    assert release(lake.feed.lake, lambda: lake.jvm, NAMED) == 150
    assert catalog.load_table(ORDERS).snapshot_by_id(snapshot_id) is not None
    lake.maintained()

    for table in (ORDERS, ("shop", "goods"), ("shop__changes", "orders")):
        assert tag_of(catalog.load_table(table), NAMED) is None
    assert catalog.load_table(ORDERS).snapshot_by_id(snapshot_id) is None
    with pytest.raises(NotYetError, match="a recorded TSO up to 199"):
        recorded_snapshot(lake.feed.lake, 199)
    with pytest.raises(NotYetError, match="expected a pin end-of-july, found none"):
        release(lake.feed.lake, lambda: lake.jvm, NAMED)
