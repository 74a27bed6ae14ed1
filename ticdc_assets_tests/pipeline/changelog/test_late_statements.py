"""Statements that arrive at or below the TSO up to which their tables were written: nothing else stops, and no table
that is live is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ticdc_assets.errors import StaleRunError
from ticdc_assets.failpoints import Failpoint
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.deliveries.database import Column
from ticdc_assets_tests.deliveries.wires import CanalJson, OpenProtocol, SimpleJson, Wire
from ticdc_assets_tests.pipeline.changelog.findings import total
from ticdc_assets_tests.pipeline.faults.raced import at as at_moment
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import CREATE, BrokenRunError, Feed, Sink, column
from ticdc_assets_tests.pipeline.small_streams import SmallStream, at, shape
from ticdc_assets_tests.pipeline.small_streams import states as stream_states
from ticdc_assets_tests.sources.storage.bucket import ID, NAME

T, U, V = ("s", "t"), ("s", "u"), ("s", "v")
LABEL = column("label", "VARCHAR", ColumnPrecision="200")
WIRES: tuple[Callable[[], Wire], ...] = (CanalJson, OpenProtocol, SimpleJson)


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    """A bucket whose `metadata` is ahead of everything else, and the table `v` that no test touches."""
    made = Sink(tmp_path / "bucket", checkpoint=1000)
    made.table(V)
    made.file(V, 1, [made.insert(V, 110, 1, "a")])
    return made


def states(feed: Feed) -> dict[str, str]:
    """The states of the tables by name, but for those that were replaced."""
    newest = feed.lake.lake.control.newest()
    assert newest is not None
    return {r.table: r.state for r in newest.tables if not r.note.startswith("replaced: ")}


def replaced(feed: Feed) -> list[str]:
    newest = feed.lake.lake.control.newest()
    assert newest is not None
    return sorted(r.source_table for r in newest.tables if r.note.startswith("replaced: "))


def assert_whole(feed: Feed, sink: Sink) -> None:
    """Every row that was written is there once, under the right table, and another run has nothing to do."""
    feed.truth = type(feed.truth)(sink.rows)
    assert feed.found() == feed.expected()
    assert_quiet(feed)


def assert_quiet(feed: Feed) -> None:
    snapshots = feed.lake.snapshots()
    assert feed.run() is None
    assert feed.lake.snapshots() == snapshots


def rename_first(sink: Sink) -> None:
    """The folder of the new name, whose table the old one's folder will turn out to be."""
    sink.bucket.schema("s", "u", 200, [ID, NAME], "RENAME TABLE `t` TO `u`", type_=14)
    sink.file(U, 1, [sink.insert(U, 300, 2, "b")], version=200)


def old_folder(sink: Sink) -> None:
    sink.table(T)
    sink.file(T, 1, [sink.insert(T, 110, 1, "a")])


# -- renames ----------------------------------------------------------------------------------------------------------


def test_the_folder_of_the_old_name_comes_after_that_of_the_new_one(sink: Sink, tmp_path: Path):
    rename_first(sink)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert states(feed) == {"u": "live", "v": "live"}

    old_folder(sink)
    feed.run()

    assert states(feed) == {"u": "live", "v": "live"}
    assert feed.record(U).source_table == "s.t@100"
    assert replaced(feed) == ["s.u@200"]
    assert_whole(feed, sink)


@pytest.mark.parametrize("earlier", ["no record", "a record of other tables"])
@pytest.mark.parametrize("moment", [Failpoint.CHANGELOGS_MADE, Failpoint.DECODED, Failpoint.AFTER_CHANGELOG_COMMIT])
def test_the_old_folder_comes_after_a_run_without_a_record(sink: Sink, tmp_path: Path, moment: Failpoint, earlier: str):
    """The changelog that the ended run made for the new name is renamed, and both folders are read."""
    feed = sink.feed(tmp_path / "lake")
    if earlier != "no record":
        feed.run()
        sink.bucket.checkpoint(1100)
    rename_first(sink)

    def ended() -> None:
        raise BrokenRunError

    with at_moment(moment, ended), pytest.raises(BrokenRunError):
        feed.run()
    old_folder(sink)
    feed.run()

    assert states(feed) == {"u": "live", "v": "live"}
    assert feed.record(U).source_table == "s.t@100"
    assert_whole(feed, sink)


def test_a_run_that_another_one_overtook_renames_none_of_its_tables(sink: Sink, tmp_path: Path):
    """The slower run has not seen the old folder, so it does not know the source table that has the name by now."""
    rename_first(sink)
    feed = sink.feed(tmp_path / "lake")
    slower = run_of(feed.lake.lake)
    pending = slower.scan()
    old_folder(sink)
    feed.run()

    with pytest.raises(StaleRunError):
        slower.publish_changelogs(pending, LocalWorkers())

    assert feed.record(U).source_table == "s.t@100"
    assert_whole(feed, sink)


def test_a_late_rename_without_rows_under_the_new_name_is_read_once(sink: Sink, tmp_path: Path):
    """What is read again are repeats alone, so that no commit of rows notes the new history."""
    old_folder(sink)
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    sink.bucket.schema("s", "u", 200, [ID, NAME], "RENAME TABLE `t` TO `u`", type_=14)
    report = feed.run()

    assert report is not None
    assert total(report).repeats > 0
    assert_whole(feed, sink)


@pytest.mark.parametrize(
    "moment", [Failpoint.SCHEMAS_KEPT, Failpoint.CHANGELOGS_MADE, Failpoint.AFTER_CHANGELOG_COMMIT]
)
def test_a_run_that_broke_at_a_late_statement_is_repeated(sink: Sink, tmp_path: Path, moment: Failpoint):
    rename_first(sink)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    old_folder(sink)

    def broken() -> None:
        raise BrokenRunError

    with at_moment(moment, broken), pytest.raises(BrokenRunError):
        feed.run()
    feed.run()

    assert states(feed) == {"u": "live", "v": "live"}
    assert_whole(feed, sink)


def test_a_recorded_table_takes_the_rows_of_a_name_that_another_one_had(sink: Sink, tmp_path: Path):
    """The statement came without its own schema file: rows of `u` were taken for those of a table of their own."""
    old_folder(sink)
    sink.bucket.schema("s", "u", 250, [ID, NAME], "ALTER TABLE `u` COMMENT = ''")
    sink.file(U, 1, [sink.insert(U, 300, 2, "b")], version=250)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert states(feed) == {"t": "live", "u": "live", "v": "live"}

    sink.bucket.schema("s", "u", 200, [ID, NAME], "RENAME TABLE `t` TO `u`", type_=14)
    feed.run()

    assert states(feed) == {"u": "live", "v": "live"}
    assert replaced(feed) == ["s.u@250"]
    assert_whole(feed, sink)


# -- other statements -------------------------------------------------------------------------------------------------


def test_columns_that_were_others_hold_their_table_alone(sink: Sink, tmp_path: Path):
    sink.table(T)
    sink.file(T, 1, [sink.insert(T, 110, 1, "a"), sink.insert(T, 300, 2, "b")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    before = feed.found(T)

    sink.alter(T, 200, "ALTER TABLE `t` RENAME COLUMN `name` TO `label`", [ID, LABEL])
    sink.file(V, 2, [sink.insert(V, 1500, 2, "b")])
    sink.bucket.checkpoint(2000)
    feed.run()

    assert states(feed) == {"t": "stopped", "v": "live"}
    assert "`ticdc-assets rebuild --table s.t --from source` reads it again." in feed.note(T)
    assert feed.record(T).watermark == 1000
    assert sum(feed.found(V).values()) == 2
    assert sum(feed.lake.changes().values()) == sum(before.values()) + 2
    sink.bucket.checkpoint(3000)
    feed.run()
    assert states(feed) == {"t": "stopped", "v": "live"}
    assert feed.record(V).watermark == 3000


def test_a_column_that_no_row_was_written_without_holds_nothing(sink: Sink, tmp_path: Path):
    sink.table(T)
    sink.file(T, 1, [sink.insert(T, 110, 1, "a")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    sink.alter(T, 200, "ALTER TABLE `t` ADD COLUMN `label` VARCHAR(200)", [ID, NAME, LABEL])
    rows = [sink.insert(T, 300, 2, "b", "c", columns=("id", "name", "label"))]
    sink.file(T, 1, rows, version=200)
    feed.run()

    assert states(feed) == {"t": "live", "v": "live"}
    assert_whole(feed, sink)


def test_a_table_that_was_dropped_and_made_again_is_held_and_the_new_one_is_whole(sink: Sink, tmp_path: Path):
    """Rows of the second table were taken for those of the first one."""
    sink.table(T)
    sink.file(T, 1, [sink.insert(T, 110, 1, "a"), sink.insert(T, 300, 2, "b")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    sink.bucket.schema("s", "t", 200, [ID, NAME], CREATE.format("t"))
    feed.run()

    newest = feed.lake.lake.control.newest()
    assert newest is not None
    states = {r.source_table: r.state for r in newest.tables}
    assert states == {"s.t@100": "stopped", "s.t@200": "live", "s.v@100": "live"}
    second = next(r for r in newest.tables if r.source_table == "s.t@200")
    table = feed.lake.lake.catalog.load_table(tuple(second.changelog or ()))
    assert table.scan().to_arrow().column("id").to_pylist() == [2]


def test_a_schema_file_of_a_version_that_was_finished_is_seen(sink: Sink, tmp_path: Path):
    sink.table(T)
    sink.file(T, 1, [sink.insert(T, 110, 1, "a")])
    sink.alter(T, 300, "ALTER TABLE `t` COMMENT = 'x'")
    sink.file(T, 1, [sink.insert(T, 400, 3, "c")], version=300)
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    sink.alter(T, 200, "ALTER TABLE `t` COMMENT = ''")
    sink.file(T, 1, [sink.insert(T, 250, 2, "b")], version=200)
    feed.run()

    assert states(feed) == {"t": "live", "v": "live"}
    assert_whole(feed, sink)


# -- messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.__name__)
def test_the_second_half_of_a_capture_comes_before_the_first(tmp_path: Path, wire: Callable[[], Wire]):
    stream = SmallStream(tmp_path, wire())
    first, second = shape("a"), shape("b", version=6)
    stream.create(1, first)
    stream.bootstrap(first)
    stream.put(5, first, 1)
    stream.rename(6, first, second)
    stream.bootstrap(second)
    capture = stream.capture / "messages.jsonl"
    half = len(capture.read_text())
    stream.put(7, second, 2)
    stream.watermark(9)
    whole = capture.read_text()
    capture.write_text(whole[half:])
    lake = stream.lake()
    lake.publish()

    capture.write_text(whole)
    lake.publish()

    assert _ids(lake) == {"b": [1, 2]}
    assert lake.publish() is None


def _ids(lake: FeedLake) -> dict[str, list[int]]:
    """The ids in the changelog of every table that is live."""
    found = {}
    for record in lake.records().values():
        assert record.state == "live", record.note
        table = lake.lake.catalog.load_table(tuple(record.changelog or ()))
        found[record.table] = sorted(table.scan().to_arrow().column("id").to_pylist())
    return found


def test_an_index_that_comes_in_time_is_not_taken_for_a_late_statement(tmp_path: Path):
    stream, table = SmallStream(tmp_path), shape("a", Column("c", "INT"))
    stream.create(1, table)
    stream.put(5, table, 1, c=1)
    stream.watermark(9)
    lake = stream.lake()
    lake.publish()

    stream.ddl(10, "ALTER TABLE `a` ADD UNIQUE INDEX `u` (`c`)", table)
    stream.put(15, table, 2, c=2)
    stream.watermark(19)
    lake.publish()

    assert stream_states(lake) == {"a": "live"}
    assert lake.complete_tso() == at(19)
