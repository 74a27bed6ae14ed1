"""History tables after statements, late rows and killed runs: the same rows as their changelogs give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ticdc_assets import spark
from ticdc_assets.changes.layout import VALID_FROM, VALID_TO
from ticdc_assets.failpoints import Failpoint
from ticdc_assets.pipeline.rebuild.run import RebuildRequest, rebuild_tables
from ticdc_assets.pipeline.recorded.lake import RecordedLake
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets_tests.pipeline.faults.raced import at
from ticdc_assets_tests.pipeline.history_tables.folded import folded
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError, Feed, Sink, column
from ticdc_assets_tests.sources.storage.bucket import ID, NAME

pytestmark = pytest.mark.spark

LATER = [ID, NAME, column("n", "INT", ColumnNullable="false", ColumnDefault="5")]
NAMES = ("plain", "later", "gone", "was")
Versions = list[tuple[Any, ...]]


def run(feed: Feed) -> None:
    report = feed.lake.run()
    assert report is not None
    assert report.errors == {}
    assert report.record.complete


def killed_at(feed: Feed, moment: Failpoint) -> None:
    def killed() -> None:
        raise BrokenRunError

    with at(moment, killed), pytest.raises(BrokenRunError):
        feed.lake.run()


def recorded(feed: Feed) -> RecordedLake:
    record = feed.lake.lake.control.newest(complete=True)
    assert record is not None
    return RecordedLake(feed.lake.lake, record)


def ordered(rows: pa.Table) -> Versions:
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=str)


def kept(feed: Feed, table: str, *names: str) -> Versions:
    """The rows of the history table at its recorded snapshot, which are those that its changelog gives. A column that
    no data file of the changelog has yet is not in its snapshot."""
    lake = recorded(feed)
    rows, wanted = lake.history_table(f"s.{table}").to_arrow(), folded(lake, f"s.{table}")
    assert set(wanted.column_names) <= set(rows.column_names)
    assert ordered(rows.select(wanted.column_names)) == ordered(wanted), table
    return ordered(rows.select(["id", "name", *names, VALID_FROM, VALID_TO]))


def made(folder: Path, tables: Sequence[str] = NAMES) -> tuple[Sink, Feed]:
    sink = Sink(folder / "bucket", checkpoint=1000)
    for table in tables:
        name = ("s", table)
        sink.table(name)
        sink.file(name, 1, [
            sink.line(name, "I", 110, 1, "first"), sink.line(name, "I", 130, 3, "stays"),
            sink.line(name, "U", 150, 1, "second"), sink.line(name, "D", 160, 3, "stays"),
        ])  # fmt: skip
    return sink, sink.feed(folder / "lake", history=["s.*"])


FIRST = [(1, "first", 110, 150), (1, "second", 150, None), (3, "stays", 130, 160)]


def test_histories_follow_changes_statements_and_late_rows_wherever_a_run_ends(tmp_path: Path):
    """`later` goes through ADD COLUMN with a default, `gone` through TRUNCATE, `was` through RENAME TABLE."""
    sink, feed = made(tmp_path)
    killed_at(feed, Failpoint.HISTORY_MADE)
    feed.lake.mirrors("first")
    assert [kept(feed, name) for name in NAMES] == [FIRST] * 4

    sink.alter(("s", "later"), 1100, "ALTER TABLE `later` ADD COLUMN `n` INT NOT NULL DEFAULT 5", LATER)
    sink.alter(("s", "gone"), 1100, "TRUNCATE TABLE `gone`")
    sink.bucket.schema("s", "is", 1100, [ID, NAME], "RENAME TABLE `was` TO `is`", type_=14)
    sink.file(("s", "plain"), 2, [sink.line(("s", "plain"), "U", 1200, 1, "third")])
    sink.bucket.checkpoint(2000)
    killed_at(feed, Failpoint.AFTER_CURSOR)
    feed.lake.mirrors("second")
    assert kept(feed, "plain") == [FIRST[0], (1, "second", 150, 1200), (1, "third", 1200, None), FIRST[2]]
    assert kept(feed, "later", "n") == [
        (1, "first", None, 110, 150), (1, "second", 5, 150, None), (3, "stays", None, 130, 160),
    ]  # fmt: skip
    assert kept(feed, "gone") == [FIRST[0], (1, "second", 150, 1100), FIRST[2]]
    assert kept(feed, "is") == FIRST

    for table in NAMES:
        name = ("s", table)
        sink.file(
            name,
            3 if table == "plain" else 2,
            [sink.line(name, "U", 120, 1, "late"), sink.line(name, "I", 170, 7, "late too")],
        )
    killed_at(feed, Failpoint.BRANCH_WRITTEN)
    feed.lake.mirrors("third")

    late = [(1, "first", 110, 120), (1, "late", 120, 150)]
    assert kept(feed, "is") == [*late, FIRST[1], FIRST[2], (7, "late too", 170, None)]
    assert kept(feed, "gone") == [*late, (1, "second", 150, 1100), FIRST[2], (7, "late too", 170, 1100)]
    assert (7, "late too", 5, 170, None) in kept(feed, "later", "n")
    assert len(kept(feed, "plain")) == 6
    snapshots = feed.lake.snapshots()
    assert feed.lake.run() is None
    assert feed.lake.snapshots() == snapshots


@pytest.mark.long
def test_a_rebuild_makes_a_history_again_and_a_drop_ends_its_rows(tmp_path: Path):
    sink, feed = made(tmp_path)
    run(feed)
    table = feed.lake.lake.catalog.load_table(("s", "plain__history"))
    session = spark.session(feed.lake.config)
    session.sql(f"DELETE FROM {feed.lake.catalog_name}.s.plain__history WHERE `id` = 1")
    assert table.refresh().scan().count() == 1

    report = rebuild_tables(
        feed.lake.lake, lambda: JvmCatalog(session, feed.lake.catalog_name), RebuildRequest(("s.plain",))
    )

    assert report.errors == {}
    assert kept(feed, "plain") == FIRST
    sink.bucket.schema("s", "plain", 1100, [], "DROP TABLE `plain`", type_=4)
    sink.bucket.checkpoint(2000)
    run(feed)
    ended = table.refresh().scan().to_arrow().select(["id", VALID_FROM, VALID_TO])
    assert ordered(ended) == [(1, 110, 150), (1, 150, 1100), (3, 130, 160)]


@pytest.mark.long
def test_rows_have_no_version_while_their_table_is_dropped(tmp_path: Path):
    """`plain` is dropped in one run and comes back in the next one, `was` is dropped and comes back twice in one run.
    Then a late row comes."""
    sink, feed = made(tmp_path, ("plain", "was"))
    plain, was, now = ("s", "plain"), ("s", "was"), ("s", "is")
    sink.alter(plain, 900, "DROP TABLE `plain`")
    run(feed)
    sink.alter(plain, 1100, "RECOVER TABLE `plain`")
    sink.alter(was, 1100, "DROP TABLE `was`")
    sink.alter(was, 1200, "RECOVER TABLE `was`")
    sink.file(was, 1, [sink.line(was, "U", 1250, 1, "third")], version=1200)
    sink.alter(was, 1300, "ALTER TABLE `was` ADD COLUMN `n` INT NOT NULL DEFAULT 5", LATER)
    sink.alter(was, 1400, "DROP TABLE `was`")
    sink.alter(now, 1500, "FLASHBACK TABLE `was` TO `is`", LATER)
    sink.file(now, 1, [sink.line(now, "D", 1600, 1, "third", 5)], version=1500)
    sink.bucket.checkpoint(2000)
    run(feed)
    first = [(1, "first", 110, 150), (3, "stays", 130, 160)]
    assert kept(feed, "plain") == sorted([*first, (1, "second", 150, 900), (1, "second", 1100, None)], key=str)
    old = [(i, name, None, *valid) for i, name, *valid in [*first, (1, "second", 150, 1100), (1, "second", 1200, 1250)]]
    third = [(1, "third", 5, 1250, 1400), (1, "third", 5, 1500, 1600)]
    assert kept(feed, "is", "n") == sorted([*old, *third], key=str)

    sink.file(was, 2, [sink.line(was, "I", 170, 7, "late")])
    run(feed)

    late = [(7, "late", None, 170, 1100), (7, "late", 5, 1200, 1400), (7, "late", 5, 1500, None)]
    assert kept(feed, "is", "n") == sorted([*old, *third, *late], key=str)


@pytest.mark.matrix
def test_a_statement_that_converts_values_converts_the_rows_that_are_valid(tmp_path: Path):
    """The old values stay in the column that the changelog has kept of them."""
    sink, feed = made(tmp_path)
    number = [ID, column("name", "INT")]
    name = ("s", "typed")
    sink.table(name, columns=number, query="CREATE TABLE `typed` (`id` INT PRIMARY KEY, `name` INT)")
    sink.file(
        name, 1, [sink.line(name, "I", 110, 1, 7), sink.line(name, "U", 120, 1, 8), sink.line(name, "I", 130, 2, 9)]
    )
    run(feed)
    sink.alter(name, 1100, "ALTER TABLE `typed` MODIFY COLUMN `name` VARCHAR(200)", [ID, NAME])
    sink.file(name, 1, [sink.line(name, "U", 1200, 2, "ten")], version=1100)
    sink.bucket.checkpoint(2000)
    run(feed)

    rows = recorded(feed).history_table("s.typed").to_arrow()

    old = next(column for column in rows.column_names if column.startswith("name__v"))
    assert ordered(rows.select(["id", old, "name", VALID_FROM, VALID_TO])) == [
        (1, 7, None, 110, 120), (1, 8, "8", 120, None), (2, 9, "9", 130, 1200), (2, None, "ten", 1200, None),
    ]  # fmt: skip
