"""Mirrors that somebody changed by hand: a mirror that a run cannot continue is held, with the reason, until `rebuild`
repairs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.pipeline.rebuild.rebuilt import LATER, PLAIN, N, rebuild, shown, sql
from ticdc_assets_tests.pipeline.small_feeds import ID, NAME, Feed, Sink

pytestmark = pytest.mark.spark


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    """A table that got a column with a default, and one that nothing happened to."""
    sink = Sink(tmp_path / "bucket", checkpoint=150)
    for name in (PLAIN, LATER):
        sink.table(name)
        sink.file(name, 1, [sink.insert(name, 110, 1, "one"), sink.insert(name, 120, 2, "two")])
    made = sink.feed(tmp_path)
    made.lake.run()
    sink.alter(LATER, 200, "ALTER TABLE `later` ADD COLUMN `n` INT NOT NULL DEFAULT 5", [ID, NAME, N])
    sink.file(LATER, 1, [sink.line(LATER, "I", 210, 3, "three", 7)], version=200)
    sink.file(PLAIN, 2, [sink.insert(PLAIN, 210, 3, "three")])
    sink.bucket.checkpoint(300)
    made.lake.run()
    return made


def before(feed: Feed, table: str) -> int:
    """The snapshot that the first run left."""
    record = feed.lake.lake.control.at(150)
    assert record is not None
    return next(t.mirror_snapshot_id for t in record.tables if t.table == table) or 0


def rolled_back(feed: Feed, table: str) -> None:
    sql(feed, f"CALL {feed.lake.catalog_name}.system.set_current_snapshot('s.{table}', {before(feed, table)})")


def assert_held(feed: Feed, said: str) -> None:
    feed.lake.mirrors()
    newest = feed.lake.lake.control.newest()
    assert newest is not None
    assert not newest.complete
    assert feed.state(LATER) == "stopped"
    assert said in feed.note(LATER)
    assert "`ticdc-assets rebuild --table s.later` rebuilds it." in feed.note(LATER)
    assert feed.state(PLAIN) == "live"
    assert shown(feed, "plain") == [(1, "one"), (2, "two"), (3, "three")]
    assert rebuild(feed.lake, "s.later").errors == {}
    assert shown(feed, "later") == [(1, "one", 5), (2, "two", 5), (3, "three", 7)]
    assert (feed.state(LATER), feed.note(LATER)) == ("live", "")


@pytest.mark.long
def test_a_mirror_that_was_set_back_behind_a_statement_is_held(feed: Feed):
    """The one that was set back behind no statement comes forward by itself."""
    rolled_back(feed, "later")
    rolled_back(feed, "plain")
    assert_held(feed, "expected rows as of the statement at 200, found those of 100")


def test_a_column_that_was_dropped_by_hand_is_noticed(feed: Feed):
    sql(feed, "ALTER TABLE {}.later DROP COLUMN n")
    assert_held(feed, "expected its columns, found none for n")


@pytest.mark.long
def test_a_table_that_is_held_for_two_reasons_stays_held_once_its_mirror_is_rebuilt(feed: Feed):
    """It stopped at a statement, before or after its mirror was damaged."""
    rolled_back(feed, "later")
    sink = Sink(feed.bucket, checkpoint=400)
    sink.alter(LATER, 310, "ALTER TABLE `later` FROBNICATE", [ID, NAME, N])
    feed.lake.run()
    assert feed.state(LATER) == "stopped"
    assert "FROBNICATE" in feed.note(LATER)
    assert "`ticdc-assets rebuild --table s.later` rebuilds it." in feed.note(LATER)
    feed.lake.mirrors()
    assert feed.note(LATER).count("rebuilds it") == 1

    assert rebuild(feed.lake, "s.later").errors == {}

    newest = feed.lake.lake.control.newest()
    assert newest is not None
    assert (feed.state(LATER), feed.record(LATER).watermark, newest.tso) == ("stopped", 310, 400)
    assert "FROBNICATE" in feed.note(LATER)
    assert "rebuild" not in feed.note(LATER)
    assert not newest.complete
    assert feed.run() is None
