"""Remedies after late statements: the note of a held table names one, and it works."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.pipeline.rebuild.rebuilt import rebuild, shown
from ticdc_assets_tests.pipeline.small_feeds import CREATE, ID, NAME, Feed, Sink

pytestmark = pytest.mark.spark

T, U = ("s", "t"), ("s", "u")


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    """Two tables of two rows, of which the second one is of after the statements that come late."""
    made = Sink(tmp_path / "bucket", checkpoint=1000)
    for name in (T, U):
        made.table(name)
        made.file(name, 1, [made.insert(name, 110, 1, "a"), made.insert(name, 300, 2, "b")])
    return made


def assert_live(feed: Feed) -> None:
    newest = feed.lake.lake.control.newest()
    assert newest is not None
    assert {record.state for record in newest.tables} == {"live"}
    assert newest.complete


@pytest.mark.long
def test_columns_that_were_others_are_read_again_from_the_source(sink: Sink, tmp_path: Path):
    """The column `name` was dropped and made again, of which the folder of a later version did not tell."""
    sink.alter(T, 320, "ALTER TABLE `t` COMMENT = ''")
    sink.file(T, 1, [sink.insert(T, 330, 3, "c")], version=320)
    feed = sink.feed(tmp_path / "lake")
    feed.lake.run()
    sink.alter(T, 310, "ALTER TABLE `t` DROP COLUMN `name`", [ID])
    sink.alter(T, 315, "ALTER TABLE `t` ADD COLUMN `name` VARCHAR(200)")
    feed.lake.run()
    assert feed.state(T) == "stopped"
    assert feed.state(U) == "live"
    assert shown(feed, "t") == [(1, "a"), (2, "b"), (3, "c")]

    refused = rebuild(feed.lake, "s.t")
    assert "--from source" in next(iter(refused.errors.values()))
    assert feed.state(T) == "stopped"
    assert rebuild(feed.lake, "s.t", from_source=True).errors == {}

    assert feed.state(T) == "live"
    sink.file(T, 2, [sink.line(T, "I", 1100, 4, "d")], version=320)
    sink.bucket.checkpoint(2000)
    feed.lake.run()
    assert shown(feed, "t") == [(1, None), (2, None), (3, "c"), (4, "d")]
    assert_live(feed)


@pytest.mark.long
def test_a_table_that_was_made_again_gives_its_rows_back(sink: Sink, tmp_path: Path):
    """The row of 300 is of the second table of the name, and was taken for one of the first."""
    feed = sink.feed(tmp_path / "lake")
    feed.lake.run()
    sink.bucket.schema("s", "t", 200, [ID, NAME], CREATE.format("t"))
    feed.lake.run()
    assert shown(feed, "t") == [(2, "b")]

    assert rebuild(feed.lake, "s.t", from_source=True).errors == {}

    newest = feed.lake.lake.control.newest()
    assert newest is not None
    first = next(record for record in newest.tables if record.source_table == "s.t@100")
    assert first.state == "dropped"
    for name in (first.mirror, first.changelog):
        rows = feed.lake.lake.catalog.load_table(tuple(name or ())).scan().to_arrow()
        assert rows.column("id").to_pylist() == [1]
    assert shown(feed, "t") == [(2, "b")]
    sink.bucket.checkpoint(2000)
    feed.lake.run()
    newest = feed.lake.lake.control.newest()
    assert newest is not None
    assert newest.complete


@pytest.mark.long
def test_a_truncate_that_comes_after_newer_rows_is_done_by_rebuild(sink: Sink, tmp_path: Path):
    feed = sink.feed(tmp_path / "lake")
    feed.lake.run()
    sink.bucket.schema("s", "t", 200, [ID, NAME], "TRUNCATE TABLE `t`", type_=11)
    feed.lake.run()
    assert feed.state(T) == "stopped"
    assert feed.state(U) == "live"
    assert "`ticdc-assets rebuild --table s.t` rebuilds it." in feed.note(T)

    assert rebuild(feed.lake, "s.t").errors == {}

    assert shown(feed, "t") == [(2, "b")]
    assert shown(feed, "u") == [(1, "a"), (2, "b")]
    sink.bucket.checkpoint(2000)
    feed.lake.run()
    assert_live(feed)


@pytest.mark.long
def test_a_truncate_that_comes_before_newer_rows_is_done_by_the_run(tmp_path: Path):
    sink = Sink(tmp_path / "bucket", checkpoint=1000)
    sink.table(T)
    sink.file(T, 1, [sink.insert(T, 110, 1, "a")])
    feed = sink.feed(tmp_path / "lake")
    feed.lake.run()
    sink.bucket.schema("s", "t", 200, [ID, NAME], "TRUNCATE TABLE `t`", type_=11)
    sink.file(T, 1, [sink.insert(T, 300, 2, "b")], version=200)

    feed.lake.run()

    assert shown(feed, "t") == [(2, "b")]
    assert_live(feed)


@pytest.mark.long
def test_a_rebuild_makes_the_mirrors_of_tables_whose_folders_came_in_another_order(tmp_path: Path):
    """`a` became `b`, then `c` became `a`: each folder alone tells of a table of its own."""
    sink = Sink(tmp_path / "bucket", checkpoint=1000)
    feed = sink.feed(tmp_path / "lake")
    for new, old, ts in (("b", "a", 200), ("a", "c", 210)):
        sink.bucket.schema("s", new, ts, [ID, NAME], f"RENAME TABLE `{old}` TO `{new}`", type_=14)
        sink.file(("s", new), 1, [sink.insert(("s", new), 300, 2, f"new {new}")], version=ts)
        feed.lake.run()
    for old in ("c", "a"):
        sink.table(("s", old))
        sink.file(("s", old), 1, [sink.insert(("s", old), 110, 1, f"old {old}")])
        feed.lake.run()

    assert shown(feed, "a") == [(1, "old c"), (2, "new a")]
    assert shown(feed, "b") == [(1, "old a"), (2, "new b")]
    assert {record.state for record in feed.lake.records().values()} == {"live"}
