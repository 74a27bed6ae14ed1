"""The layout of a bucket is recognised from the names in it, whatever the config says."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ticdc_assets.config.reading.sections import NAME
from ticdc_assets.sources.inspection import Bounds, Inspection, inspect_source
from ticdc_assets.sources.inspection.settings import changefeed_name, config_lines
from ticdc_assets.sources.storage.paths import Layout
from ticdc_assets_tests.sources.storage.bucket import Bucket

ROW = b'"I","users","shop",459802241048510466,1,"a"\r\n'
VERSION = 459802239535939587
CHECKPOINT = 459802261460090884


def bucket(folder: Path, layout: Layout) -> Bucket:
    made = Bucket(folder, layout, CHECKPOINT)
    made.schema("shop", "users", VERSION, folder="112" if layout.table_id_as_path else None)
    return made


def inspected(made: Bucket) -> Inspection:
    return inspect_source(str(made.base), Bounds())


def written_config(found: Inspection) -> dict:
    return next(iter(yaml.safe_load(config_lines(found))["changefeeds"].values()))["config"]


@pytest.mark.parametrize(
    ("separator", "folder"),
    [("none", ""), ("year", "/2025"), ("month", "/2025-08"), ("day", "/2025-08-01")],
)
def test_the_date_separator_is_reported(tmp_path: Path, separator: str, folder: str):
    made = bucket(tmp_path, Layout(separator))
    made.files(f"shop/users/{VERSION}{folder}", 1, 2, content=ROW)

    found = inspected(made)

    assert found.detected.options["date-separator"] == separator
    assert found.counts.inserts == 2
    assert not found.problems


@pytest.mark.parametrize(
    ("separator", "folder"),
    [("none", "/2017"), ("month", "/2017/2025-08"), ("day", "/113/2025-08-01")],
)
def test_partitions_are_distinguished_from_dates(tmp_path: Path, separator: str, folder: str):
    """A physical table id may be four digits, as a year is."""
    made = bucket(tmp_path, Layout(separator))
    made.files(f"shop/users/{VERSION}{folder}", 1, content=ROW)
    made.files(f"shop/users/{VERSION}{folder.replace('/2017', '/2018').replace('/113', '/114')}", 1, content=ROW)

    found = inspected(made)

    if separator != "none":  # without dates, a year and a partition look alike
        assert found.detected.options["date-separator"] == separator
        assert found.detected.options["enable-partition-separator"] is True
    assert found.counts.inserts == 2
    assert not found.problems


@pytest.mark.parametrize("digits", [6, 12, 20])
def test_the_width_of_file_numbers_is_reported(tmp_path: Path, digits: int):
    made = bucket(tmp_path, Layout("none", index_digits=digits))
    made.files(f"shop/users/{VERSION}", 1, content=ROW)

    found = inspected(made)

    assert found.detected.options["file-index-digit"] == digits
    assert written_config(found)["sink"].get("file-index-digit", 20) == digits
    assert not found.problems


def test_tables_spread_over_nodes_are_reported(tmp_path: Path):
    made = bucket(tmp_path, Layout("none", across_nodes=True))
    for dispatcher in ("a1", "b2"):
        made.files(f"shop/users/{VERSION}", 1, 2, dispatcher=dispatcher, content=ROW)

    found = inspected(made)

    assert written_config(found)["scheduler"] == {"enable-table-across-nodes": True}
    assert found.counts.inserts == 4
    assert not found.problems


def test_folders_named_by_table_id_are_reported(tmp_path: Path):
    made = bucket(tmp_path, Layout("none", table_id_as_path=True))
    made.files(f"112/{VERSION}", 1, content=ROW)

    found = inspected(made)

    assert written_config(found)["sink"]["cloud-storage-config"] == {"use-table-id-as-path": True}
    assert [(t.schema, t.table, t.counts.inserts) for t in found.tables.values()] == [("shop", "users", 1)]
    assert not found.problems


def test_a_bucket_without_rows_yet_says_what_is_unknown(tmp_path: Path):
    found = inspected(bucket(tmp_path, Layout("none")))

    assert found.detected.options["date-separator"] == "not shown yet"
    assert found.events.statements == 1
    assert not found.problems


def test_the_old_layout_is_read(tmp_path: Path):
    made = Bucket(tmp_path, Layout("none", index_digits=6), CHECKPOINT)
    path = made.schema("shop", "users", VERSION)
    made.write(f"shop/users/{VERSION}/schema.json", (made.base / path).read_bytes())
    made.remove(path)
    made.data(f"shop/users/{VERSION}", 1, ROW)

    found = inspected(made)

    assert found.detected.options["file-index-digit"] == 6
    assert found.counts.inserts == 1
    assert not found.problems


@pytest.mark.parametrize(
    ("place", "name"),
    [("/data/shop", "shop"), ("s3://b/my-feed/", "my_feed"), ("/2025-08", "changefeed_2025_08"), ("/", "changefeed")],
)
def test_the_suggested_name_is_one_that_a_config_takes(place: str, name: str):
    assert changefeed_name(place) == name
    assert NAME.fullmatch(name)
