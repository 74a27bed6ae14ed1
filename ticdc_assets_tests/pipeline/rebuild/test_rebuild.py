"""`rebuild`: a mirror is rebuilt from its changelog next to the old one, and takes its place in one commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.storage.late_files import LateFiles, take_in_late_files
from ticdc_assets.tables.mirror.clone import Clone
from ticdc_assets_tests.pipeline.rebuild.rebuilt import LATER, PLAIN, N, clones, rebuild, shown, sql
from ticdc_assets_tests.pipeline.small_feeds import ID, NAME, BrokenRunError, Feed, Sink, column
from ticdc_assets_tests.pipeline.small_streams import SmallStream, shape
from ticdc_assets_tests.sources.storage.bucket import PHYSICAL_DAY

pytestmark = pytest.mark.spark


def form(feed: Feed, table: str) -> tuple[list[tuple[str, str, bool]], list[str]]:
    schema = feed.lake.lake.catalog.load_table(("s", table)).schema()
    columns = [(field.name, str(field.field_type), field.required) for field in schema.fields]
    return columns, sorted(schema.identifier_field_names())


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    made = Sink(tmp_path / "bucket")
    made.table(PLAIN)
    made.file(PLAIN, 1, [made.insert(PLAIN, 110, 1, "one"), made.insert(PLAIN, 120, 2, "two")])
    made.table(LATER)
    made.file(LATER, 1, [made.insert(LATER, 110, 1, "one"), made.insert(LATER, 120, 2, "two")])
    made.alter(LATER, 200, "ALTER TABLE `later` ADD COLUMN `n` INT NOT NULL DEFAULT 5", [ID, NAME, N])
    made.file(LATER, 1, [made.line(LATER, "I", 210, 3, "three", 7)], version=200)
    return made


def test_a_damaged_mirror_is_whole_again_and_runs_go_on(sink: Sink, tmp_path: Path):
    """Rows taken away, a column dropped by hand, another key: all as the changelog says, in one commit that readers of
    earlier snapshots do not notice."""
    feed = sink.feed(tmp_path, partition="bucket(4)")
    feed.lake.run()
    whole, forms = {t: shown(feed, t) for t in ("plain", "later")}, {t: form(feed, t) for t in ("plain", "later")}
    assert whole["later"] == [(1, "one", 5), (2, "two", 5), (3, "three", 7)]
    old = feed.record(LATER).mirror_snapshot_id
    sql(feed, "DELETE FROM {}.plain WHERE id = 1")
    sql(feed, "ALTER TABLE {}.later DROP COLUMN name")
    sql(feed, "UPDATE {}.later SET n = 6")
    spec = feed.lake.lake.catalog.load_table(("s", "plain")).spec()
    report = rebuild(feed.lake)
    assert report.errors == {}
    assert {t: shown(feed, t) for t in whole} == whole
    assert {t: form(feed, t) for t in whole} == forms
    assert feed.lake.lake.catalog.load_table(("s", "plain")).spec() == spec
    assert shown(feed, "later", old) == whole["later"]
    assert report.record.complete
    assert feed.record(LATER).mirror_snapshot_id != old
    assert clones(feed) == []
    sink.file(PLAIN, 2, [sink.insert(PLAIN, 1100, 3, "three")])
    sink.file(LATER, 2, [sink.line(LATER, "I", 1110, 1, "uno", 1)], version=200)
    sink.bucket.checkpoint(2000)
    assert (again := feed.lake.run()) is not None
    assert again.errors == {}
    assert shown(feed, "plain") == [(1, "one"), (2, "two"), (3, "three")]
    assert shown(feed, "later") == [(1, "uno", 1), (2, "two", 5), (3, "three", 7)]
    assert feed.lake.publish() is None


@pytest.mark.long
def test_a_mirror_as_of_a_tso_is_brought_forward_by_the_next_run(sink: Sink, tmp_path: Path):
    feed = sink.feed(tmp_path)
    feed.lake.run()
    whole = shown(feed, "later")
    assert rebuild(feed.lake, "s.later", at=115).errors == {}
    assert shown(feed, "later") == [(1, "one")]
    assert [name for name, _, _ in form(feed, "later")[0]] == ["id", "name", "_ticdc_commit_ts"]
    assert feed.record(LATER).rows == 1
    newest = feed.lake.lake.control.newest()
    assert newest is not None
    assert not newest.complete
    report = feed.lake.mirrors()
    assert report is not None
    assert report.record.complete
    assert shown(feed, "later") == whole


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("tables", "at", "said"),
    [
        (("s.none",), None, "a table of this changefeed"),
        (("s.later",), 99_999, "is complete: 1000"),
        (("s.later",), 50, "a table with a key at 50"),
    ],
)
def test_a_request_that_cannot_be_meant_changes_nothing(sink: Sink, tmp_path: Path, tables: Any, at: Any, said: str):
    feed = sink.feed(tmp_path)
    feed.lake.run()
    before = feed.lake.snapshots()
    try:
        found = str(rebuild(feed.lake, *tables, at=at).errors)
    except ConfigError as error:
        found = str(error)
    assert said in found
    assert feed.lake.snapshots() == before


@pytest.mark.long
def test_a_rebuild_that_is_killed_leaves_the_mirror_as_it_was(
    sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    feed = sink.feed(tmp_path)
    feed.lake.run()
    sql(feed, "DELETE FROM {}.plain WHERE id = 1")
    at = feed.lake.lake.catalog.load_table(("s", "plain")).metadata_location
    with monkeypatch.context() as patch:
        patch.setattr(Clone, "take_over", _broken)
        patch.setattr("ticdc_assets.pipeline.rebuild.mirror._forget", lambda *_: None)
        with pytest.raises(BrokenRunError):
            rebuild(feed.lake, "s.plain")
    assert feed.lake.lake.catalog.load_table(("s", "plain")).metadata_location == at
    assert shown(feed, "plain") == [(2, "two")]
    assert len(clones(feed)) == 1
    assert rebuild(feed.lake, "s.plain").errors == {}
    assert shown(feed, "plain") == [(1, "one"), (2, "two")]
    assert clones(feed) == []


def _broken(*_: Any) -> None:
    raise BrokenRunError


@pytest.mark.long
def test_a_run_that_comes_first_is_not_undone(sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The run moves the mirror while it is rebuilt: the rebuild begins again, and has what the run brought."""
    feed = sink.feed(tmp_path)
    feed.lake.run()
    sql(feed, "DELETE FROM {}.plain WHERE id = 1")
    true_take_over: Callable[..., None] = Clone.take_over
    turns = []

    def overtaken(clone: Clone, *arguments: Any) -> None:
        if not turns:
            sink.file(PLAIN, 2, [sink.insert(PLAIN, 1100, 3, "three")])
            sink.bucket.checkpoint(2000)
            feed.lake.run()
        turns.append(clone)
        true_take_over(clone, *arguments)

    monkeypatch.setattr(Clone, "take_over", overtaken)
    assert rebuild(feed.lake, "s.plain").errors == {}
    assert len(turns) == 2
    assert shown(feed, "plain") == [(1, "one"), (2, "two"), (3, "three")]
    feed.lake.mirrors()
    newest = feed.lake.lake.control.newest()
    assert newest is not None
    assert newest.complete
    assert newest.tso == 2000


# -- from the source ---------------------------------------------------------------------------------------------------


def namespaces(feed: Feed) -> set[str]:
    return {".".join(namespace) for namespace in feed.lake.lake.catalog.list_namespaces()}


def test_changelog_and_mirror_come_again_from_the_files(sink: Sink, tmp_path: Path):
    """Also where a file was written again after it was read: what it has got is there before, as late rows."""
    feed = sink.feed(tmp_path)
    feed.lake.run()
    whole, there = {t: shown(feed, t) for t in ("plain", "later")}, namespaces(feed)
    sql(feed, "DELETE FROM {}__changes.later WHERE id = 2")
    sql(feed, "DELETE FROM {}.later WHERE id = 2")
    assert rebuild(feed.lake, "s.later", from_source=True).errors == {}
    assert {t: shown(feed, t) for t in whole} == whole
    changes = feed.lake.lake.catalog.load_table(("s__changes", "later")).scan().to_arrow()
    assert sorted(changes.column("id").to_pylist()) == [1, 2, 3]
    assert namespaces(feed) == there
    assert clones(feed) == []
    sink.file(
        PLAIN, 1, [sink.insert(PLAIN, 110, 1, "one"), sink.insert(PLAIN, 120, 2, "two"), sink.insert(PLAIN, 130, 4, "")]
    )
    sink.file(PLAIN, 2, [sink.insert(PLAIN, 1100, 3, "three")])
    sink.file(LATER, 2, [sink.line(LATER, "I", 1110, 1, "uno", 1)], version=200)
    sink.bucket.checkpoint(2000)
    feed.lake.run()
    assert shown(feed, "later") == [(1, "uno", 1), (2, "two", 5), (3, "three", 7)]
    assert shown(feed, "plain") == [(1, "one"), (2, "two"), (3, "three"), (4, "")]
    assert rebuild(feed.lake, "s.plain", from_source=True).errors == {}
    assert shown(feed, "plain") == [(1, "one"), (2, "two"), (3, "three"), (4, "")]
    assert feed.state(PLAIN) == "live"
    feed.lake.run()
    newest = feed.lake.lake.control.newest()
    assert newest is not None
    assert newest.complete
    sink.bucket.checkpoint(2 * PHYSICAL_DAY)  # the folder of the older version closes
    feed.lake.run()
    assert feed.lake.publish() is None
    sink.file(LATER, 2, [sink.insert(LATER, 130, 4, "four")])
    assert take_in_late_files(feed.lake.lake, write=False).places == {("s/later", 100): [("", None)]}
    assert rebuild(feed.lake, "s.later", from_source=True).errors == {}
    assert shown(feed, "later") == [(1, "uno", 1), (2, "two", 5), (3, "three", 7), (4, "four", 5)]
    assert take_in_late_files(feed.lake.lake, write=True) == LateFiles()


@pytest.mark.long
def test_without_a_name_every_table_comes_again_from_the_files(sink: Sink, tmp_path: Path):
    """Also one without a key, which has no mirror."""
    log = ("s", "log")
    sink.table(log, columns=[column("id", "INT"), NAME], query="CREATE TABLE `log` (`id` INT,`name` VARCHAR(200))")
    sink.file(log, 1, [sink.insert(log, 110, 1, "one"), sink.insert(log, 120, 1, "one")])
    feed = sink.feed(tmp_path)
    feed.lake.run()
    whole = {table: shown(feed, table) for table in ("plain", "later")}
    for table in ("plain", "later", "log"):
        sql(feed, f"DELETE FROM {{}}__changes.{table}")
    sql(feed, "DELETE FROM {}.plain")

    report = rebuild(feed.lake, from_source=True)

    assert (len(report.rebuilt), report.errors) == (3, {})
    assert {table: shown(feed, table) for table in whole} == whole
    changes = feed.lake.lake.catalog.load_table(("s__changes", "log")).scan().to_arrow()
    assert changes.column("id").to_pylist() == [1, 1]


def test_a_source_that_lacks_what_the_changelog_has_changes_nothing(sink: Sink, tmp_path: Path):
    feed = sink.feed(tmp_path)
    feed.lake.run()
    whole = shown(feed, "plain")
    sink.file(PLAIN, 1, [sink.insert(PLAIN, 110, 1, "one")])
    at = feed.lake.lake.catalog.load_table(("s__changes", "plain")).metadata_location
    [error] = rebuild(feed.lake, "s.plain", from_source=True).errors.values()
    assert "expected all changes of every commit_ts that the changelog has, found fewer at 1 of them" in error
    assert feed.lake.lake.catalog.load_table(("s__changes", "plain")).metadata_location == at
    assert shown(feed, "plain") == whole
    assert clones(feed) == []


@pytest.mark.long
def test_messages_are_read_again_from_the_first_offset(tmp_path: Path):
    stream, a, b = SmallStream(tmp_path), shape("a"), shape("b")
    for number, table in enumerate((a, b)):
        stream.create(1 + number, table)
        stream.put(5, table, number)
    stream.watermark(9)
    feed = Feed(stream.lake(), stream.capture, Counter())
    feed.lake.run()
    stream.rename(10, b, shape("c"))
    stream.put(11, shape("c"), 7)
    stream.watermark(19)
    feed.lake.run()
    sql(feed, "DELETE FROM {}__changes.c")
    sql(feed, "DELETE FROM {}.c")
    assert rebuild(feed.lake, "s.c", from_source=True).errors == {}
    assert [row[0] for row in shown(feed, "c")] == [1, 7]
    assert [row[0] for row in shown(feed, "a")] == [0]
    assert feed.lake.publish() is None
