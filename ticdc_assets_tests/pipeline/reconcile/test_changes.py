"""Rows of TiDB in a changelog: the newest changes of their TSO, all of a table or none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.changes import layout
from ticdc_assets.errors import NotYetError
from ticdc_assets.failpoints import LISTENERS, Failpoint
from ticdc_assets.pipeline.mirror.segments import changelog_files
from ticdc_assets.pipeline.reconcile.changes import Reconciled, add
from ticdc_assets.tables.progress import progress_of
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError, Feed, Sink

USERS = ("s", "users")


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    sink = Sink(tmp_path / "bucket", checkpoint=200)
    sink.table(USERS)
    sink.file(USERS, 1, [sink.insert(USERS, 110, 1, "ann"), sink.insert(USERS, 200, 2, "bob")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    return feed


def found(feed: Feed, rows: list[dict[str, Any]], *gone: int) -> Reconciled:
    [source_table] = feed.lake.history.source_tables
    return Reconciled(source_table, 200, [rows], [(key,) for key in gone])


def changelog(feed: Feed) -> list[tuple[Any, ...]]:
    """The changes in the order in which readers apply them."""
    rows = feed.lake.lake.catalog.load_table(tuple(feed.record(USERS).changelog)).scan().to_arrow().to_pylist()
    rows.sort(key=lambda row: (row[layout.COMMIT_TS], row[layout.SEQ]))
    return [(row[layout.OP], row["id"], row["name"], row[layout.SEQ] >= layout.FROM_TIDB_SEQ) for row in rows]


STREAM = [("I", 1, "ann", False), ("I", 2, "bob", False)]


def test_rows_of_tidb_are_the_newest_changes_of_their_tso_and_say_where_they_come_from(feed: Feed):
    lake = feed.lake.lake

    table, added = add(lake, found(feed, [{"id": 2, "name": "Bob"}, {"id": 3, "name": None}], 1), "first")
    add(lake, found(feed, [{"id": 1, "name": "ann"}], 2), "second")

    assert added == 3
    assert changelog(feed) == [
        *STREAM,
        ("R", 2, "Bob", True),
        ("R", 3, None, True),
        ("D", 1, None, True),
        ("R", 1, "ann", True),
        ("D", 2, None, True),
    ]
    assert progress_of(table).watermark == 200
    feed.run()
    assert len(changelog(feed)) == 7


def test_a_mirror_finds_them_where_the_newest_runs_had_no_rows(tmp_path: Path):
    sink = Sink(tmp_path / "bucket", checkpoint=200)
    sink.table(USERS)
    sink.file(USERS, 1, [sink.insert(USERS, 110, 1, "ann")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    sink.bucket.checkpoint(400)
    feed.run()
    assert feed.record(USERS).watermark == 400

    reconciled = replace(found(feed, [{"id": 1, "name": "Ann"}]), tso=400)
    table, _ = add(feed.lake.lake, reconciled, "late")

    version = reconciled.source_table.versions[-1]
    assert progress_of(table).watermark == 400
    assert [file.rows for file in changelog_files(table, version, 399, 400, by_arrival=False)] == [1]


def test_a_run_that_publishes_meanwhile_does_not_stop_it(feed: Feed):
    lake, races = feed.lake.lake, [True]

    def race(moment: Failpoint) -> None:
        if moment is Failpoint.BEFORE_CHANGELOG_COMMIT and races and races.pop():
            add(lake, found(feed, [{"id": 8, "name": "other"}]), "other")

    LISTENERS.append(race)
    try:
        add(lake, found(feed, [{"id": 9, "name": "own"}]), "own")
    finally:
        LISTENERS.remove(race)

    assert {key for _, key, _, from_tidb in changelog(feed) if from_tidb} == {8, 9}


def test_one_that_ends_early_has_published_nothing(feed: Feed):
    def end(moment: Failpoint) -> None:
        if moment is Failpoint.BEFORE_CHANGELOG_COMMIT:
            raise BrokenRunError

    LISTENERS.append(end)
    try:
        with pytest.raises(BrokenRunError):
            add(feed.lake.lake, found(feed, [{"id": 9, "name": "x"}]), "ended")
    finally:
        LISTENERS.remove(end)

    assert changelog(feed) == STREAM


def test_rows_that_cannot_be_read_leave_no_file(feed: Feed, tmp_path: Path):
    def rows():
        yield [{"id": 9, "name": "x"}]
        raise NotYetError("upstream", "rows", "none", "Try again.")

    with pytest.raises(NotYetError):
        add(feed.lake.lake, replace(found(feed, []), rows=rows()), "unread")

    assert changelog(feed) == STREAM
    assert list(tmp_path.rglob("*-from-tidb.parquet")) == []


def test_a_tso_of_a_statement_is_refused(feed: Feed):
    of = found(feed, [{"id": 9, "name": "x"}])
    source_table = of.source_table
    version = replace(source_table.versions[-1], from_ts=200)

    with pytest.raises(NotYetError, match="a TSO after the newest statement"):
        add(feed.lake.lake, replace(of, source_table=replace(source_table, versions=(version,))), "early")
