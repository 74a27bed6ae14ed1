"""Changelogs that were set back: nothing is written to them, and no remedy loses a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyiceberg.table import Table

from ticdc_assets.commands.process.pending import is_needed
from ticdc_assets.errors import SetBackError
from ticdc_assets.notes import NoteCode
from ticdc_assets.pipeline.history.differences import table_differences
from ticdc_assets.pipeline.maintenance import Policy, maintain
from ticdc_assets.pipeline.rebuild.run import RebuildReport, RebuildRequest, rebuild_tables
from ticdc_assets.spark import session
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink
from ticdc_assets_tests.pipeline.two_tables import T, U, changelogs, more, shown, sink

Restore = Callable[[], None]


def registered(feed: Feed, metadata: str, *name: str) -> None:
    identifier = name or tuple(feed.record(T).changelog or ())
    catalog = feed.lake.lake.catalog
    catalog.drop_table(identifier)
    catalog.register_table(identifier, metadata)


def register_older(feed: Feed, older: Table) -> Restore:
    newer = changelogs(feed)[T].metadata_location
    registered(feed, older.metadata_location)
    return lambda: registered(feed, newer)


def roll_back(feed: Feed, older: Table) -> Restore:
    first, newest = older.current_snapshot(), changelogs(feed)[T].current_snapshot()
    assert first is not None
    assert newest is not None

    def set_current(snapshot_id: int) -> None:
        with changelogs(feed)[T].manage_snapshots() as manage:
            manage.set_current_snapshot(snapshot_id)

    set_current(first.snapshot_id)
    return lambda: set_current(newest.snapshot_id)


def make_anew(feed: Feed, older: Table) -> Restore:
    """Drop the changelog, and create one of its name and properties without its rows."""
    identifier, newer = tuple(older.name()), changelogs(feed)[T].metadata_location
    feed.lake.lake.catalog.drop_table(identifier)
    feed.lake.lake.catalog.create_table(identifier, older.schema(), properties=older.properties)
    return lambda: registered(feed, newer)


WAYS = [register_older, roll_back, make_anew]


@pytest.fixture
def made(tmp_path: Path) -> Sink:
    return sink(tmp_path)


@pytest.fixture
def feed(made: Sink) -> Feed:
    """Two runs; more has come since."""
    feed = made.feed(made.folder.parent / "lake")
    feed.run()
    feed.older = changelogs(feed)[T]  # type: ignore[attr-defined]
    more(made)
    feed.run()
    feed.truth = Counter(made.rows)
    return feed


def later(made: Sink, feed: Feed) -> None:
    for name in (T, U):
        made.file(name, 4, [made.insert(name, 2100, 5, "five")])
    made.bucket.checkpoint(3000)
    feed.truth = Counter(made.rows)


@pytest.mark.parametrize("way", WAYS)
def test_a_changelog_that_was_set_back_is_held_and_goes_on_once_it_is_restored(
    made: Sink, feed: Feed, way: Callable[[Feed, Table], Restore]
):
    recorded = feed.record(T)
    restore = way(feed, feed.older)  # type: ignore[attr-defined]
    at = changelogs(feed)[T].metadata_location
    later(made, feed)

    feed.run()
    feed.run()

    assert changelogs(feed)[T].metadata_location == at
    held = feed.record(T)
    assert (held.state, held.watermark) == ("stopped", 2000)
    assert held.has(NoteCode.SET_BACK)
    assert held.changelog_snapshot_id == recorded.changelog_snapshot_id
    assert "`ticdc-assets rebuild --table s.t --from source`" in held.note
    assert feed.state(U) == "live"
    assert feed.found(U) == feed.expected(U)
    restore()
    feed.run()
    made.bucket.checkpoint(4000)
    feed.run()
    assert (feed.state(T), feed.record(T).has(NoteCode.SET_BACK)) == ("live", False)
    assert feed.found() == feed.expected()


@pytest.mark.parametrize("way", [register_older, roll_back])
def test_without_commit_ts_no_file_is_passed_while_a_changelog_is_set_back(
    tmp_path: Path, way: Callable[[Feed, Table], Restore]
):
    made = sink(tmp_path, commit_ts=False)
    feed = made.feed(tmp_path / "lake")
    feed.run()
    older = changelogs(feed)[T]
    more(made)
    feed.run()
    restore = way(feed, older)
    later(made, feed)

    feed.run()
    feed.run()

    assert feed.record(T).has(NoteCode.SET_BACK)
    assert "read the source in a changefeed of another name" in feed.note(T)
    assert feed.found(U) == feed.expected(U)
    restore()
    feed.run()
    assert feed.found() == feed.expected()


@pytest.mark.spark
def test_a_changelog_that_was_set_back_is_noticed_without_new_input_and_when_it_is_restored(feed: Feed):
    restore = register_older(feed, feed.older)  # type: ignore[attr-defined]
    _, pending = feed.scan()
    assert pending.is_empty
    assert is_needed(feed.lake.lake, pending)
    report = feed.lake.mirrors()
    assert report is not None
    assert not report.record.complete
    assert feed.record(T).has(NoteCode.SET_BACK)

    restore()

    _, pending = feed.scan()
    assert is_needed(feed.lake.lake, pending)
    report = feed.lake.mirrors()
    assert report is not None
    assert report.record.complete
    assert not is_needed(feed.lake.lake, feed.scan()[1])
    assert feed.state(T) == "live"


@pytest.mark.parametrize("name", ["schemas", "quarantine"])
def test_a_control_table_that_was_set_back_stops_the_changefeed_before_anything_is_written(
    made: Sink, feed: Feed, name: str
):
    control, catalog = ("ticdc_feed", name), feed.lake.lake.catalog
    older = catalog.load_table(control)
    made.table(("s", "new"), version=2050)
    made.file(("s", "new"), 1, [made.insert(("s", "new"), 2060, 1, "one")], version=2050)
    made.file(T, 4, [made.line(T, "I", 2070, None, "no key")])
    made.bucket.checkpoint(2080)
    feed.run()
    newer = catalog.load_table(control)
    assert newer.metadata_location != older.metadata_location
    registered(feed, older.metadata_location, *control)
    later(made, feed)
    before = feed.lake.snapshots()

    for written in (feed.run, feed.lake.mirrors, lambda: maintain(feed.lake.lake, Policy(datetime.now(UTC)), no_jvm)):
        with pytest.raises(SetBackError, match=f"ticdc_feed.{name}: expected a table that goes on from snapshot"):
            written()

    assert feed.lake.snapshots() == before
    registered(feed, newer.metadata_location, *control)
    feed.run()
    assert feed.found() == feed.expected()
    assert len(feed.quarantined()) == 3


def test_a_quarantine_that_cannot_be_restored_is_given_up_by_dropping_it(made: Sink, feed: Feed):
    later(made, feed)
    feed.lake.lake.catalog.drop_table(("ticdc_feed", "quarantine"))

    feed.run()

    assert feed.found() == feed.expected()


def test_a_comparison_of_two_tsos_leaves_out_a_changelog_that_was_set_back(feed: Feed):
    register_older(feed, feed.older)  # type: ignore[attr-defined]

    found = {table.name: table for table in table_differences(feed.lake.lake, 1000, 2000, ())}

    assert "it was set back" in found["s", "t"].reason
    assert (found["s", "u"].reason, found["s", "u"].added) == ("", 1)


@pytest.mark.variants(1)
@pytest.mark.spark
@pytest.mark.parametrize("kind", ["mirror", "history_table"])
@pytest.mark.parametrize("is_registered", [True, False], ids=["registered", "rolled back"])
def test_a_mirror_or_history_that_was_set_back_is_brought_up_with_the_late_rows_that_it_had(
    made: Sink, kind: str, is_registered: bool
):
    feed = made.feed(made.folder.parent / "lake", history=["s.*"])
    feed.lake.run()
    name = tuple(getattr(feed.record(T), kind))
    catalog = feed.lake.lake.catalog
    older = catalog.load_table(name)
    made.file(T, 3, [made.insert(T, 115, 9, "late"), made.insert(T, 1100, 4, "four")])
    made.bucket.checkpoint(2000)
    feed.lake.run()
    assert (9, "late") in shown(feed, T)
    if is_registered:
        registered(feed, older.metadata_location, *name)
    else:
        procedure = f"{feed.lake.catalog_name}.system.set_current_snapshot"
        quoted = ".".join(f"`{part}`" for part in name)
        session(feed.lake.config).sql(f"CALL {procedure}('{quoted}', {older.metadata.current_snapshot_id})")
    later(made, feed)

    feed.lake.run()

    assert (feed.state(T), feed.record(T).has(NoteCode.SET_BACK)) == ("live", False)
    assert shown(feed, T) == [(1, "one"), (2, "two"), (3, "three"), (4, "four"), (5, "five"), (9, "late")]
    ids = catalog.load_table(tuple(feed.record(T).history_table or ())).scan().to_arrow().column("id").to_pylist()
    assert sorted(ids) == [1, 2, 3, 4, 5, 9]


def test_maintenance_leaves_a_changelog_alone_that_was_set_back(feed: Feed):
    restore = register_older(feed, feed.older)  # type: ignore[attr-defined]
    policy = Policy(datetime.now(UTC) + timedelta(days=9))

    report = maintain(feed.lake.lake, policy, no_jvm)

    assert "s__changes.t was set back since the newest record" in str(report.left_alone)
    restore()
    assert feed.found() == feed.expected()


def no_jvm() -> JvmCatalog:
    pytest.fail("no JVM")


def rebuild(feed: Feed, **wish: object) -> RebuildReport:
    jvm = JvmCatalog(session(feed.lake.config), feed.lake.catalog_name)
    return rebuild_tables(feed.lake.lake, lambda: jvm, RebuildRequest(("s.t",), **wish))  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.spark
def test_a_rebuild_from_a_changelog_that_was_set_back_is_refused_and_one_from_the_source_heals_it(
    made: Sink, feed: Feed
):
    feed.lake.mirrors()
    rows = shown(feed, T)
    register_older(feed, feed.older)  # type: ignore[attr-defined]

    for refused in (rebuild(feed), rebuild(feed, at=1050), rebuild(feed, from_source=True, day=datetime(1970, 1, 1))):
        assert "a table that goes on from snapshot" in str(refused.errors)
    assert shown(feed, T) == rows == [(1, "one"), (2, "two"), (3, "three"), (4, "four")]
    assert rebuild(feed, from_source=True).errors == {}

    assert (feed.state(T), feed.record(T).has(NoteCode.SET_BACK)) == ("live", False)
    assert shown(feed, T) == rows
    later(made, feed)
    feed.run()
    feed.lake.mirrors()
    assert feed.found() == feed.expected()
    assert shown(feed, T) == [*rows, (5, "five")]


@pytest.mark.long
@pytest.mark.spark
def test_a_source_without_the_lost_changes_is_refused_since_the_mirror_shows_them(made: Sink, feed: Feed):
    feed.lake.mirrors()
    register_older(feed, feed.older)  # type: ignore[attr-defined]
    [lost] = made.folder.glob("s/t/100/CDC*3.csv")
    lost.unlink()
    made.bucket.index("s/t/100", 2)

    report = rebuild(feed, from_source=True)

    assert "changes of every commit_ts that the mirror has, found none at 1 of them, first at 1100" in str(
        report.errors
    )
    assert shown(feed, T) == [(1, "one"), (2, "two"), (3, "three"), (4, "four")]
