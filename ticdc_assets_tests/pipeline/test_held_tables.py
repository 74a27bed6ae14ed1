"""A table that is held stops time for itself: the others are read at the newest TSO, and a join with it is refused or
goes back to the newest TSO at which all of its tables are complete."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.commands.read.listing import recorded_snapshot
from ticdc_assets.errors import NotYetError
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.history.pins import _tables_of
from ticdc_assets.pipeline.record import unknown_table
from ticdc_assets.pipeline.recorded.lake import RecordedLake, recorded_lake
from ticdc_assets.pipeline.recorded.views import wanted_views
from ticdc_assets.tables.control.retention import thin
from ticdc_assets.tables.control.tables import everybody
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink

A, B = ("s", "a"), ("s", "b")


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return held(tmp_path)


def held(tmp_path: Path, **settings: Any) -> Feed:
    """At 1000 both tables are complete; at 2000 `b` is held at a statement."""
    sink = Sink(tmp_path / "bucket", checkpoint=1000)
    for name in (A, B):
        sink.table(name)
        sink.file(name, 1, [sink.insert(name, 110, 1, "one")])
    feed = sink.feed(tmp_path / "lake", **settings)
    feed.lake.publish()
    assert feed.lake.complete_tso() == 1000
    sink.file(A, 2, [sink.insert(A, 1100, 2, "two")])
    sink.alter(B, 1100, "ALTER TABLE `b` FROBNICATE `id`")
    sink.bucket.checkpoint(2000)
    feed.lake.publish()
    assert feed.lake.complete_tso() == 1000
    return feed


def read(feed: Feed, *tables: str, at: int | None = None) -> RecordedLake:
    return recorded_lake(feed.lake.config, feed.lake.lake.changefeed, at, tables)


def test_the_other_tables_are_read_at_the_newest_tso_and_the_held_one_is_refused(feed: Feed):
    lake = read(feed)

    assert (lake.tso, lake.tables, list(lake.held)) == (2000, ("s.a",), ["s.b"])
    assert sorted(lake.changelog("s.a").to_arrow()["id"].to_pylist()) == [1, 2]
    with pytest.raises(NotYetError, match="FROBNICATE"):
        lake.changelog("s.b")


@pytest.mark.parametrize("tables", [("s.b",), ("s.a", "s.b"), ("*.*",)])
def test_tables_that_are_named_are_read_where_all_of_them_are_complete(feed: Feed, tables: tuple[str, ...]):
    lake = read(feed, *tables)

    assert (lake.tso, lake.tables, lake.held) == (1000, ("s.a", "s.b"), {})
    assert lake.changelog("s.a").to_arrow()["id"].to_pylist() == [1]
    assert read(feed, "s.a").tso == 2000
    assert read(feed, "s.a", at=1999).tso == 1000


def test_a_record_names_the_tables_that_are_held_with_their_codes(feed: Feed):
    found = recorded_snapshot(feed.lake.lake, 5000)
    assert (found["tso"], [(t["table"], t["codes"], t["watermark"]) for t in found["held"]]) == (
        2000,
        [("b", ["statement"], 1100)],
    )
    assert recorded_snapshot(feed.lake.lake, 5000, ["s.b"])["tso"] == 1000
    assert recorded_snapshot(feed.lake.lake, 1500)["held"] == []


def test_a_pin_tags_no_table_that_is_held(feed: Feed):
    lake = feed.lake.lake
    record, before = lake.control.at(2000), lake.control.at(2000, everybody)
    assert record is not None and before is not None

    assert {table.name()[-1] for table, _ in _tables_of(lake, record)} == {"a"}
    assert {table.name()[-1] for table, _ in _tables_of(lake, before)} == {"a", "b"}


def test_a_run_without_news_writes_no_further_record(feed: Feed):
    newest = feed.lake.lake.control.newest()
    feed.lake.publish()
    feed.lake.complete_tso()
    assert feed.lake.lake.control.newest() == newest


@pytest.mark.parametrize(("policy", "shown"), [("back", [("a", 1000), ("b", 1000)]), ("refuse", [("a", 2000)])])
def test_views_go_back_with_a_held_table_or_are_without_it(tmp_path: Path, policy: str, shown: list[tuple[str, int]]):
    feed = held(tmp_path, views="{schema}__recorded.{table}", held_views=policy)
    control = feed.lake.lake.control
    for number, tso in enumerate((1000, 2000)):  # without Spark there are no mirrors
        record = control.at(tso)
        assert record is not None
        tables = tuple(replace(t, mirror=[t.schema, t.table], mirror_snapshot_id=tso) for t in record.tables)
        at = record.recorded_at + timedelta(minutes=1 + number)
        control.record(replace(record, recorded_at=at, run_id=f"with mirrors {tso}", tables=tables))

    wanted = wanted_views(feed.lake.lake, feed.lake.history)

    assert [(view.view[-1], view.shown.tso) for view in wanted] == shown


def test_maintenance_keeps_the_newest_record_of_each_kind(feed: Feed):
    control = feed.lake.lake.control
    newest = control.newest()
    assert newest is not None
    later = newest.recorded_at + timedelta(days=2)
    control.record(replace(newest, recorded_at=later, run_id="later", tso=3000, settled=False, complete=False))

    thin(control, later, 0, later, write=True)

    assert [
        record.tso if record else None for record in (control.at(wanted=everybody), control.at(), control.newest())
    ] == [
        1000,
        2000,
        3000,
    ]


@pytest.mark.parametrize("tables", [("s.a", "s.new"), ("*.*",)])
def test_a_table_that_was_never_complete_leads_to_a_record_before_it_was_there(feed: Feed, tables: tuple[str, ...]):
    control = feed.lake.lake.control
    newest = control.at()
    assert newest is not None
    unknown = unknown_table("s", "new", "waiting", Note(NoteCode.NO_SCHEMA, "no columns"))
    later = newest.recorded_at + timedelta(minutes=1)
    control.record(replace(newest, recorded_at=later, run_id="later", tso=3000, tables=(*newest.tables, unknown)))

    assert read(feed).tso == 3000
    assert read(feed, *tables).tso == (2000 if "s.a" in tables else 1000)
