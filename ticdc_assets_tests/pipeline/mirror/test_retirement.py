"""The mirror of a dropped source table stays, or is removed if the changefeed is configured so."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from ticdc_assets.pipeline.run.mirrors import run_mirrors
from ticdc_assets_tests.pipeline.small_feeds import Feed, Name, Sink
from ticdc_assets_tests.sources.storage.bucket import ID, NAME

T, U = ("s", "t"), ("s", "u")


def sink(folder: Path) -> Sink:
    made = Sink(folder / "bucket")
    for name in (T, U):
        made.table(name)
        made.file(name, 1, [made.insert(name, 110, 1, "one"), made.insert(name, 120, 2, "two")])
    return made


def drop(made: Sink) -> None:
    """The source drops `t` and makes another of that name later; `u` goes on."""
    made.bucket.schema(*T, 1100, [ID, NAME], "DROP TABLE `s`.`t`", type_=4)
    made.file(U, 2, [made.insert(U, 1110, 3, "three")])
    made.bucket.checkpoint(2000)


def mirror(feed: Feed, name: Name) -> Table | None:
    try:
        return feed.lake.lake.catalog.load_table(name)
    except NoSuchTableError:
        return None


def ids(feed: Feed, name: Name) -> list[int]:
    table = mirror(feed, name)
    return sorted(row["id"] for row in table.scan().to_arrow().to_pylist()) if table else []


@pytest.mark.spark
def test_the_mirror_of_a_dropped_table_goes_where_the_changefeed_says_so(tmp_path: Path):
    made = sink(tmp_path)
    made.feed(tmp_path / "lake", on_drop="drop").lake.run()
    feed = made.feed(tmp_path / "lake", on_drop="drop")
    folder = Path(feed.lake.lake.catalog.load_table(T).location().removeprefix("file://"))
    assert list(folder.rglob("*.parquet"))
    drop(made)

    assert feed.lake.run(until=1050) is None or mirror(feed, T) is not None  # not yet
    report = feed.lake.run()

    assert report is not None
    assert report.errors == {}
    assert report.record.complete
    assert mirror(feed, T) is None
    assert not list(folder.rglob("*.parquet"))
    assert (feed.state(T), feed.record(T).mirror, feed.record(T).rows) == ("dropped", None, None)
    assert feed.record(T).changelog is not None
    assert ids(feed, U) == [1, 2, 3]
    assert feed.lake.run() is None
    again = feed.lake.mirrors("again")
    assert again is not None
    assert (again.merged, mirror(feed, T)) == ([], None)


@pytest.mark.long
@pytest.mark.spark
def test_the_mirror_of_a_table_that_comes_back_is_made_again(tmp_path: Path):
    made = sink(tmp_path)
    made.feed(tmp_path / "lake", on_drop="drop").lake.run()
    drop(made)
    feed = made.feed(tmp_path / "lake", on_drop="drop")
    feed.lake.run()
    assert mirror(feed, T) is None
    made.alter(T, 2100, "RECOVER TABLE `t`")
    made.file(T, 1, [made.line(T, "D", 2110, 1, "one"), made.line(T, "I", 2120, 9, "new")], version=2100)
    made.bucket.checkpoint(3000)

    report = feed.lake.run()

    assert report is not None
    assert report.errors == {}
    assert report.record.complete
    assert (ids(feed, T), ids(feed, U), feed.state(T)) == ([2, 9], [1, 2, 3], "live")


@pytest.mark.spark
def test_a_new_table_of_the_name_of_one_that_was_dropped_has_a_mirror_of_its_own(tmp_path: Path):
    made = sink(tmp_path)
    made.feed(tmp_path / "lake", on_drop="drop").lake.run()
    drop(made)
    made.table(T, version=1200)
    made.file(T, 1, [made.insert(T, 1210, 9, "new")], version=1200)
    feed = made.feed(tmp_path / "lake", on_drop="drop")

    report = feed.lake.run()

    assert report is not None
    assert report.errors == {}
    assert ids(feed, T) == [9]
    assert [name for *_, name in feed.lake.lake.catalog.list_tables(("s",))] == ["t", "u"]


@pytest.mark.long
@pytest.mark.spark
def test_a_dropped_table_keeps_its_mirror_by_default(tmp_path: Path):
    made = sink(tmp_path)
    made.feed(tmp_path / "lake").lake.run()
    drop(made)
    feed = made.feed(tmp_path / "lake")

    feed.lake.run()

    assert feed.state(T) == "dropped"
    assert ids(feed, T) == [1, 2]


def test_a_table_created_and_dropped_between_runs_gets_no_mirror(tmp_path: Path):
    made = sink(tmp_path)
    drop(made)
    feed = made.feed(tmp_path / "lake", on_drop="drop", tables=["s.t"])
    feed.run()

    report = run_mirrors(feed.lake.lake, "test", lambda: pytest.fail("no mirror needs work"))

    assert report is not None
    assert (report.merged, mirror(feed, T)) == ([], None)
    assert report.record.complete
