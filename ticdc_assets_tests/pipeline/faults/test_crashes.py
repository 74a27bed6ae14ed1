"""Runs that end in the middle: published changes stay, missing ones are added, none is doubled, order is kept."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from ticdc_assets.changes import layout
from ticdc_assets.changes.typed import TypedChanges, seq_of
from ticdc_assets.commands.process.pending import held
from ticdc_assets.config import load
from ticdc_assets.errors import ConfigError, StaleRunError
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.run import mirrors as mirror_run
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables import changelog
from ticdc_assets.tables.control.tables import Control
from ticdc_assets.tables.progress import FILES, progress_of
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError, Feed, Name, Sink, cut_out
from ticdc_assets_tests.protocols.happened import Change
from ticdc_assets_tests.sources.storage.bucket import ID, NAME

T, U, V = ("s", "t"), ("s", "u"), ("s", "v")
USERS, ORDERS = ("shop", "users"), ("shop", "orders")


def ends_before_the_record(feed: Feed) -> None:
    """A run that publishes all changelogs and is killed before it can record."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(BrokenRunError):
        patch.setattr(Control, "record", killed)
        feed.run()


def killed(*_: Any, **__: Any) -> None:
    raise BrokenRunError


def ends_after_one_table(feed: Feed) -> None:
    """A run that is killed between the commits of two changelogs."""
    publish, tables = changelog.publish, []

    def publish_one(table: Table, *more: Any) -> Table:
        tables.append(table)
        return publish(table, *more) if len(tables) == 1 else killed()  # type: ignore[return-value]

    with pytest.MonkeyPatch.context() as patch, pytest.raises(BrokenRunError):
        patch.setattr(changelog, "publish", publish_one)
        feed.run()


ENDINGS = [ends_before_the_record, ends_after_one_table]


def written(folder: Path, commit_ts: bool = True) -> Sink:
    sink = Sink(folder / "bucket", commit_ts=commit_ts)
    for name in (T, U):
        sink.table(name)
        sink.file(name, 1, [sink.insert(name, 110, 1, "one"), sink.insert(name, 120, 2, "two")])
        sink.file(name, 2, [sink.insert(name, 120, 3, "three")])
    return sink


def ids_in_order(feed: Feed, name: Name) -> list[int]:
    """The ids of a table's rows in the order that the changelog gives them; no two rows have one place."""
    recorded = feed.record(name).changelog
    assert recorded is not None
    rows = feed.lake.lake.catalog.load_table(tuple(recorded)).scan().to_arrow().to_pylist()
    places = [(row[layout.COMMIT_TS] or 0, row[layout.SEQ]) for row in rows]
    assert len(set(places)) == len(rows)
    return [row["id"] for _, row in sorted(zip(places, rows, strict=True), key=lambda pair: pair[0])]


def snapshot_files(feed: Feed, name: Name) -> str | None:
    table = feed.lake.lake.catalog.load_table(tuple(feed.record(name).changelog or ()))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return snapshot.summary.additional_properties.get(FILES)


@pytest.mark.parametrize("commit_ts", [True, False], ids=["by commit_ts", "by arrival"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_run_after_one_that_was_killed_publishes_the_rest_once(tmp_path: Path, commit_ts: bool, ending: Any):
    sink = written(tmp_path, commit_ts)
    sink.file(T, 3, [sink.line(T, "I", 130, None, "no key"), sink.insert(T, 140, 4, "four")])
    ending(sink.feed(tmp_path / "lake"))
    for name in (T, U):
        sink.file(name, 4 if name == T else 3, [sink.insert(name, 1100, 5, "five")])
    sink.bucket.checkpoint(2000)
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert feed.found() == feed.expected()
    assert [bad.line for bad in feed.quarantined()] == [0]
    assert (ids_in_order(feed, T), ids_in_order(feed, U)) == ([1, 2, 3, 4, 5], [1, 2, 3, 5])
    snapshots = feed.lake.snapshots()
    assert feed.run() is None
    assert feed.lake.snapshots() == snapshots


def test_a_run_that_is_killed_again_and_again_goes_on_from_where_its_tables_are(tmp_path: Path):
    sink = written(tmp_path, commit_ts=False)
    for number in range(3, 6):
        ends_before_the_record(sink.feed(tmp_path / "lake"))
        sink.file(T, number, [sink.insert(T, 0, number + 1, "more")])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert feed.found() == feed.expected()
    assert ids_in_order(feed, T) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("goes_back", [False, True], ids=["bounded by a TSO", "after metadata went back"])
def test_no_record_is_complete_while_a_killed_run_left_tables_beyond_its_tso(
    goes_back: bool, ending: Any, tmp_path: Path
):
    sink = written(tmp_path)
    feed = sink.feed(tmp_path / "lake")
    ending(feed)
    if goes_back:
        sink.bucket.checkpoint(115)
    feed.lake.publish(until=None if goes_back else 115)
    assert feed.lake.complete_tso() == 0
    [sentence] = held(feed.lake.lake, feed.lake.lake.control.newest())
    assert "beyond 115, since a run ended early. A run up to 1000 or later" in sentence
    sink.bucket.checkpoint(1000)

    feed.run()

    assert list(held(feed.lake.lake, feed.lake.lake.control.newest())) == []

    assert feed.lake.complete_tso() == 1000
    assert feed.found() == feed.expected()


def test_one_of_two_runs_with_the_same_plan_publishes(tmp_path: Path):
    for commit_ts in (True, False):
        sink = written(tmp_path / str(commit_ts), commit_ts)
        feed = sink.feed(tmp_path / str(commit_ts) / "lake")
        (first, first_scan), (second, second_scan) = feed.scan(), feed.scan()
        first.publish_changelogs(first_scan, LocalWorkers())
        recorded = feed.lake.lake.control.newest()
        second.publish_changelogs(second_scan, LocalWorkers())

        assert feed.found() == feed.expected()
        assert feed.lake.lake.control.newest() == recorded


def test_a_run_that_was_overtaken_while_it_decoded_publishes_nothing(tmp_path: Path):
    class Slow(LocalWorkers):
        def map(self, work: Any, payloads: Any) -> Any:
            answers = super().map(work, payloads)
            feed.run()
            return answers

    sink = written(tmp_path)
    feed = sink.feed(tmp_path / "lake")
    run, pending = feed.scan()

    with pytest.raises(StaleRunError, match="Another run published first"):
        run.publish_changelogs(pending, Slow())

    assert feed.found() == feed.expected()


def test_a_workload_without_commit_ts_comes_out_once_after_a_run_was_killed(tmp_path: Path):
    feed = cut_out("storage-csv-no-commit-ts", [USERS, ORDERS], tmp_path)
    ends_before_the_record(feed)

    feed.run()

    assert timeless(feed.found()) == timeless(feed.expected())


def timeless(changes: Counter[Change]) -> Counter[Change]:
    return Counter(change._replace(commit_ts=0) for change in changes.elements())


# -- order ------------------------------------------------------------------------------------------------------------


def test_a_table_without_commit_ts_keeps_its_order_when_it_is_renamed(tmp_path: Path):
    """Files that still come under the old name stand behind those that were read, and before those of the new one."""
    sink = written(tmp_path, commit_ts=False)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    sink.file(T, 3, [sink.insert(T, 0, 4, "four")])
    sink.alter(V, 200, "RENAME TABLE `s`.`t` TO `s`.`v`")
    for number in range(1, 4):
        sink.file(V, number, [sink.insert(V, 0, number + 4, "later")], version=200)
    sink.bucket.checkpoint(2000)

    feed.run()

    assert ids_in_order(feed, V) == [1, 2, 3, 4, 5, 6, 7]


def test_a_snapshot_names_only_the_files_that_no_record_has_passed(tmp_path: Path):
    sink = written(tmp_path, commit_ts=False)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert snapshot_files(feed, T) == '{"s/t//100////":2}'
    sink.alter(T, 200, "ALTER TABLE `t` ADD COLUMN `n` INT", [ID, NAME, {"ColumnName": "n", "ColumnType": "INT"}])
    sink.file(T, 1, [sink.insert(T, 0, 4, "four", 4, columns=("id", "name", "n"))], version=200)
    sink.bucket.checkpoint(2000)

    feed.run()

    assert snapshot_files(feed, T) == '{"s/t//200////":1}'
    assert snapshot_files(feed, U) == '{"s/u//100////":2}'
    table = feed.lake.lake.catalog.load_table(tuple(feed.record(T).changelog or ()))
    assert progress_of(table).files == (("s/t//200////", 1),)


def test_without_commit_ts_files_behind_a_statement_that_cannot_be_read_wait_for_it(tmp_path: Path):
    sink = written(tmp_path, commit_ts=False)
    path = sink.alter(T, 200, "ALTER TABLE `t` FROBNICATE")
    sink.file(T, 1, [sink.insert(T, 0, 4, "four")], version=200)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert feed.state(T) == "stopped"
    assert ids_in_order(feed, T) == [1, 2, 3]
    assert ids_in_order(feed, U) == [1, 2, 3]

    file = feed.bucket / path
    file.write_text(file.read_text().replace("FROBNICATE", "ADD INDEX `n`(`name`)"))
    feed.run()

    assert feed.state(T) == "live"
    assert ids_in_order(feed, T) == [1, 2, 3, 4]


def test_rows_of_one_commit_keep_their_order_over_files_and_runs(tmp_path: Path):
    """Deletes stand before inserts, whatever file they are in; else file and line decide."""
    sink = Sink(tmp_path / "bucket")
    sink.table(T)
    sink.file(T, 1, [sink.insert(T, 120, n, "a") for n in (2, 3)])
    sink.file(T, 2, [sink.insert(T, 120, 4, "a"), sink.line(T, "D", 120, 1, "b"), sink.insert(T, 1200, 7, "c")])
    sink.file(T, 3, [sink.insert(T, 120, 5, "a"), sink.insert(T, 130, 6, "a"), sink.insert(T, 1200, 8, "c")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert ids_in_order(feed, T) == [1, 2, 3, 4, 5, 6]
    sink.bucket.checkpoint(2000)

    feed.run()

    assert ids_in_order(feed, T) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_the_largest_place_in_the_largest_file_of_the_longest_run_is_a_number():
    line, half, time, none = (pa.array([number], pa.int64()) for number in ((1 << 31) - 1, 1, 7, None))
    insert = TypedChanges((), pa.array(["I"]), time, none, line, half, (), (), pa.array([False]), 0)

    [largest] = seq_of(insert, (1 << 30) - 1).to_pylist()

    assert 0 < largest == (1 << 63) - 1
    with pytest.raises(OverflowError):
        seq_of(insert, 1 << 30)


def test_two_changefeeds_do_not_share_a_table(tmp_path: Path):
    sink = written(tmp_path)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    path = tmp_path / "lake" / "changefeeds.yaml"
    path.write_text(path.read_text().replace("  feed:", "  other:"))
    config = load(path, {})
    run = run_of(Lake(config, config.changefeed("other")))

    with pytest.raises(ConfigError, match="expected a table of the changefeed other, found one of feed"):
        run.publish_changelogs(run.scan(), LocalWorkers())


def test_a_run_that_was_overtaken_while_it_merged_records_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sink = written(tmp_path)
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    def overtaken(*_: Any) -> list[Any]:
        sink.bucket.checkpoint(2000)
        feed.run()
        return []

    monkeypatch.setattr(mirror_run, "pending_work", overtaken)
    mirror_run.run_mirrors(feed.lake.lake, "late", lambda: None)  # type: ignore[arg-type, return-value]

    newest = feed.lake.lake.control.newest()
    assert newest is not None
    assert newest.tso == 2000
    assert not newest.complete
    assert feed.lake.lake.control.newest(complete=True) is None
