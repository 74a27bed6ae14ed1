"""Mirrors of both Iceberg formats have the same rows and row counts, whatever form their deletes have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets import spark
from ticdc_assets.pipeline.maintenance.upkeep import compact_small
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets_tests.pipeline.small_feeds import ID, NAME, Feed, Name, Sink, column

pytestmark = pytest.mark.spark

FORMATS = pytest.mark.parametrize("format_version", [2, 3])
T = ("s", "t")
N = column("n", "INT", ColumnDefault="5", ColumnNullable="false")


def written(folder: Path, query: str = "") -> Sink:
    """Two rows, and both updated after a run."""
    sink = Sink(folder / "bucket", checkpoint=1000)
    sink.table(T, query=query)
    sink.file(T, 1, [sink.line(T, "I", 110, 1, "one"), sink.line(T, "I", 120, 2, "two")])
    return sink


def shown(feed: Feed, name: Name = T) -> list[tuple[Any, ...]]:
    """The rows after a run; the record has their number."""
    report = feed.lake.run()
    assert report is not None
    assert report.errors == {}
    mirror = feed.lake.lake.catalog.load_table(tuple(feed.record(name).mirror or ()))
    rows = mirror.scan().to_arrow().drop_columns(["_ticdc_commit_ts"]).to_pylist()
    assert feed.record(name).rows == len(rows)
    return sorted(tuple(row.values()) for row in rows)


@FORMATS
def test_a_column_that_fills_rows_which_were_updated_leaves_one_row_a_key(tmp_path: Path, format_version: int):
    sink = written(tmp_path)
    feed = sink.feed(tmp_path / "lake", format_version=format_version)
    assert shown(feed) == [(1, "one"), (2, "two")]
    sink.file(T, 2, [sink.line(T, "U", 1100, 1, "uno"), sink.line(T, "U", 1100, 2, "due")])
    sink.bucket.checkpoint(2000)
    assert shown(feed) == [(1, "uno"), (2, "due")]
    sink.alter(T, 2100, "ALTER TABLE `t` ADD COLUMN `n` INT NOT NULL DEFAULT 5", [ID, NAME, N])
    sink.bucket.checkpoint(3000)
    assert shown(feed) == [(1, "uno", 5), (2, "due", 5)]

    sink.file(T, 1, [sink.line(T, "U", 3100, 1, "eins", 7), sink.line(T, "D", 3110, 2, "due", 5)], version=2100)
    sink.bucket.checkpoint(4000)

    assert shown(feed) == [(1, "eins", 7)]


@FORMATS
def test_rows_that_come_after_a_truncate_of_updated_ones_are_there_once(tmp_path: Path, format_version: int):
    query = (
        "CREATE TABLE `t` (`id` INT NOT NULL,`name` VARCHAR(20),PRIMARY KEY(`id`)) "
        "PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (10),PARTITION `p1` VALUES LESS THAN (100))"
    )
    sink = written(tmp_path, query)
    feed = sink.feed(tmp_path / "lake", format_version=format_version)
    shown(feed)
    sink.file(T, 2, [sink.line(T, "U", 1100, 1, "uno"), sink.line(T, "U", 1100, 2, "due")])
    sink.bucket.checkpoint(2000)
    assert shown(feed) == [(1, "uno"), (2, "due")]
    for begin, left in ((2100, []), (5100, [(50, "later")])):
        sink.alter(T, begin, "ALTER TABLE `t` TRUNCATE PARTITION `p0`")
        sink.bucket.checkpoint(begin + 900)
        assert shown(feed) == left
        sink.file(T, 1, [sink.line(T, "I", begin + 1100, n, "new") for n in (3, 4, 50)], version=begin)
        sink.bucket.checkpoint(begin + 1900)
        assert shown(feed) == [(3, "new"), (4, "new"), (50, "new")]

        sink.file(T, 2, [sink.line(T, "U", begin + 2100, n, "later") for n in (3, 50)], version=begin)
        sink.bucket.checkpoint(begin + 2900)

        assert shown(feed) == [(3, "later"), (4, "new"), (50, "later")]


@FORMATS
def test_a_mirror_whose_files_were_rewritten_goes_on_with_one_row_a_key(tmp_path: Path, format_version: int):
    sink = written(tmp_path)
    feed = sink.feed(tmp_path / "lake", format_version=format_version)
    shown(feed)
    sink.file(T, 2, [sink.line(T, "U", 1100, 1, "uno"), sink.line(T, "U", 1100, 2, "due")])
    sink.bucket.checkpoint(2000)
    shown(feed)
    session = spark.session(feed.lake.config)
    mirror = feed.lake.lake.catalog.load_table(tuple(feed.record(T).mirror or ()))
    assert compact_small(JvmCatalog(session, feed.lake.catalog_name), SparkWorkers(session), mirror)

    sink.file(T, 3, [sink.line(T, "U", 2100, 1, "eins")])
    sink.bucket.checkpoint(3000)

    assert shown(feed) == [(1, "eins"), (2, "due")]


@pytest.mark.long
def test_rows_are_counted_too_where_a_delete_file_is_of_several_data_files(tmp_path: Path):
    sink = written(tmp_path)
    feed = sink.feed(tmp_path / "lake", format_version=2)
    shown(feed)
    mirror = feed.lake.lake.catalog.load_table(tuple(feed.record(T).mirror or ()))
    mirror.transaction().set_properties({"write.delete.granularity": "partition"}).commit_transaction()
    sink.file(T, 2, [sink.line(T, "I", 1100, 3, "three"), sink.line(T, "I", 1100, 4, "four")])
    sink.bucket.checkpoint(2000)
    shown(feed)

    sink.file(T, 3, [sink.line(T, "U", 2100, 1, "uno"), sink.line(T, "D", 2100, 3, "three")])
    sink.bucket.checkpoint(3000)

    assert shown(feed) == [(1, "uno"), (2, "two"), (4, "four")]
