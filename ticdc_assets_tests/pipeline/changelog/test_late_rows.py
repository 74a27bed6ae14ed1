"""Rows at or below the watermark of their table: they are added at their commit_ts, and are no repeats."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.failpoints import Failpoint
from ticdc_assets.pipeline.changelog import late_rows
from ticdc_assets.pipeline.record import ChangelogReport
from ticdc_assets.pipeline.storage.decode import decode
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.changelog.findings import total
from ticdc_assets_tests.pipeline.faults.raced import at as at_moment
from ticdc_assets_tests.pipeline.lakes import FeedLake, Replay, expected_changes
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError, Feed, Name, Sink
from ticdc_assets_tests.sources.storage.bucket import ID, NAME

T, U = ("s", "t"), ("s", "u")
RESTARTS = [w for w in workloads(seed="seed1") if w.root.parent.name in ("storage-csv-restart", "storage-csv-keyless")]


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    made = Sink(tmp_path / "bucket", checkpoint=1000)
    made.table(T)
    return made


def taken(report: ChangelogReport | None) -> dict[str, int]:
    """The late rows of a run, by source table."""
    assert report is not None
    return {source_table.partition("@")[0]: rows for source_table, rows in report.late_rows.items()}


def assert_whole(feed: Feed, sink: Sink) -> None:
    """Every row that was written is there once, no table is held, and another run has nothing to do."""
    feed.truth = type(feed.truth)(sink.rows)
    assert feed.found() == feed.expected()
    assert {record.state for record in feed.lake.records().values()} <= {"live"}
    snapshots = feed.lake.snapshots()
    assert feed.run() is None
    assert feed.lake.snapshots() == snapshots


class Watched(LocalWorkers):
    """Workers that note what they were asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Callable[..., Any]] = []

    def map(self, work: Callable[[Any], Any], payloads: Sequence[Any]) -> list[Any]:
        self.asked += [work] * len(payloads)
        return super().map(work, payloads)


# -- files that come late ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows_max", [late_rows.ROWS_MAX, 1])
def test_data_that_was_copied_after_metadata_is_taken_in(
    sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_max: int
):
    monkeypatch.setattr(late_rows, "ROWS_MAX", rows_max)
    sink.table(U)
    sink.file(T, 1, [sink.insert(T, 110, 1, "a")])
    feed = sink.feed(tmp_path / "lake")
    assert taken(feed.run()) == {}

    sink.file(T, 2, [sink.insert(T, 300, 2, "b"), sink.insert(T, 310, 3, "c")])
    sink.file(T, 3, [sink.line(T, "I", 300, 2, "b"), sink.line(T, "I", 110, 1, "a"), sink.insert(T, 310, 4, "d")])
    sink.file(U, 1, [sink.insert(U, 120, 1, "a")])

    assert taken(feed.run()) == {"s.t": 3, "s.u": 1}
    assert_whole(feed, sink)


def test_a_table_whose_folder_comes_late_is_whole(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 110, 1, "a")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    sink.table(U)
    sink.file(U, 1, [sink.insert(U, 120, 1, "a"), sink.insert(U, 500, 2, "b")])
    feed.run()

    assert_whole(feed, sink)


def test_a_file_that_an_index_names_late_is_read_with_what_is_new(sink: Sink, tmp_path: Path):
    """File 2 was written and its index was not; file 3 has late rows and rows of after the watermark."""
    sink.file(T, 1, [sink.insert(T, 110, 1, "a")])
    sink.bucket.data("s/t/100", 2, sink.insert(T, 300, 2, "b"))
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    sink.file(T, 3, [sink.insert(T, 310, 3, "c"), sink.insert(T, 1500, 4, "d"), sink.insert(T, 2500, 5, "e")])
    sink.bucket.checkpoint(2000)
    feed.run()
    assert feed.found(T) == type(feed.truth)(row for row in sink.rows if row.commit_ts != 2500)
    assert feed.state(T) == "live"
    sink.bucket.checkpoint(3000)

    assert taken(feed.run()) == {}
    assert_whole(feed, sink)


def test_a_partition_that_joins_or_comes_back_with_older_rows_is_taken_in(sink: Sink, tmp_path: Path):
    first, second = ("s", "t/100/7"), ("s", "t/100/8")

    def put(place: Name, number: int, *rows: bytes) -> None:
        folder = "/".join(place)
        sink.bucket.index(folder, number)
        sink.bucket.data(folder, number, b"".join(rows))

    put(first, 1, sink.insert(T, 110, 1, "a"))
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    put(second, 1, sink.insert(T, 105, 2, "b"), sink.insert(T, 900, 3, "c"))
    assert taken(feed.run()) == {"s.t": 2}

    kept = tmp_path / "kept"
    shutil.move(sink.folder / "s/t/100/8", kept)
    put(first, 2, sink.insert(T, 1200, 4, "d"))
    sink.bucket.checkpoint(2000)
    feed.run()
    shutil.move(kept, sink.folder / "s/t/100/8")
    put(second, 2, sink.insert(T, 950, 5, "e"))

    assert taken(feed.run()) == {"s.t": 1}
    assert_whole(feed, sink)


@pytest.mark.parametrize("place", ["s/t", "s/t/100/8"], ids=["table", "partition"])
def test_rows_that_were_above_the_checkpoint_are_late_if_it_passes_them_while_their_folder_is_away(
    sink: Sink, tmp_path: Path, place: str
):
    """Their file was read before, when they were above the checkpoint: they are no repeats for that."""
    sink.table(U)
    for partition, rows in {"7": [(110, 1)], "8": [(120, 2), (1500, 3)]}.items():
        sink.bucket.index(f"s/t/100/{partition}", 1)
        lines = b"".join(sink.insert(T, ts, number, "a") for ts, number in rows)
        sink.bucket.data(f"s/t/100/{partition}", 1, lines)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    kept = tmp_path / "kept"
    shutil.move(sink.folder / place, kept)
    sink.file(U, 1, [sink.insert(U, 1600, 1, "a")])
    sink.bucket.checkpoint(2000)
    feed.run()
    shutil.move(kept, sink.folder / place)

    assert taken(feed.run()) == {"s.t": 1}
    assert_whole(feed, sink)


def test_the_folder_of_an_older_version_that_comes_late_is_read(sink: Sink, tmp_path: Path):
    """The rows of version 200, and those that `t` had before it was dropped, come after those of 300."""
    sink.alter(T, 200, "ALTER TABLE `t` COMMENT = 'a'")
    sink.alter(T, 300, "ALTER TABLE `t` COMMENT = 'b'")
    sink.table(U)
    sink.bucket.schema("s", "u", 400, [ID, NAME], "DROP TABLE `u`", 4)
    sink.file(T, 1, [sink.insert(T, 110, 1, "a")])
    sink.file(T, 1, [sink.insert(T, 310, 3, "c")], version=300)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    sink.file(T, 2, [sink.insert(T, 1100, 4, "d")], version=300)
    sink.bucket.checkpoint(2000)
    feed.run()

    sink.file(T, 1, [sink.insert(T, 210, 2, "b")], version=200)
    sink.file(U, 1, [sink.insert(U, 120, 1, "a")])

    assert taken(feed.run()) == {"s.t": 1, "s.u": 1}
    assert feed.found() == type(feed.truth)(sink.rows)
    assert feed.run() is None


def test_late_rows_have_the_columns_and_the_day_of_their_own_time(tmp_path: Path):
    """Of a table that got a column, and one that was renamed since."""
    day = 86_400_000 << 18
    sink = Sink(tmp_path / "bucket", checkpoint=9 * day)
    for name in (T, U):
        sink.table(name)
        sink.file(name, 1, [sink.insert(name, 110, 1, "a")])
    wider = [ID, NAME, {"ColumnName": "n", "ColumnType": "INT"}]
    sink.alter(T, 5 * day, "ALTER TABLE `t` ADD COLUMN `n` INT", wider)
    sink.bucket.schema("s", "w", 5 * day, [ID, NAME], "RENAME TABLE `u` TO `w`", 14)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert feed.found() == feed.expected()

    for name in (T, U):
        sink.file(name, 2, [sink.insert(name, 2 * day, 2, "b"), sink.insert(name, 3 * day, 3, "c")])
    report = feed.run()

    assert report is not None
    assert sorted(report.late_rows.values()) == [2, 2]
    feed.truth = type(feed.truth)(sink.rows)
    assert feed.found() == feed.expected()
    table = feed.lake.lake.catalog.load_table(("s__changes", "t"))
    assert {file["record_count"] for file in table.inspect.files().to_pylist()} == {1}
    assert {row["partition"]["commit_day"].isoformat() for row in table.inspect.partitions().to_pylist()} == {
        "1970-01-01",
        "1970-01-03",
        "1970-01-04",
    }
    assert feed.run() is None


def test_equal_rows_without_a_key_are_as_many_as_came(tmp_path: Path):
    columns = [{**ID, "ColumnIsPk": "false"}, NAME]
    sink = Sink(tmp_path / "bucket", checkpoint=1000)
    sink.table(T, columns=columns, query="CREATE TABLE `t` (`id` INT NOT NULL,`name` VARCHAR(200))")
    sink.file(T, 1, [sink.insert(T, 110, 1, "a"), sink.insert(T, 110, 1, "a"), sink.insert(T, 120, 2, "b")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    again = [sink.line(T, "I", 110, 1, "a"), sink.line(T, "I", 110, 1, "a")]
    sink.file(T, 2, [*again, sink.insert(T, 110, 1, "a"), sink.insert(T, 115, 1, "a"), sink.insert(T, 115, 1, "a")])
    report = feed.run()

    assert taken(report) == {"s.t": 3}
    assert report is not None
    assert total(report).repeats == 2
    assert_whole(feed, sink)


# -- repeats stay repeats ----------------------------------------------------------------------------------------------


def test_what_a_restart_sends_again_is_counted_and_nothing_else(sink: Sink, tmp_path: Path):
    lines = [sink.insert(T, 110, 1, "a"), sink.insert(T, 120, 2, "b")]
    sink.file(T, 1, lines)
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    sink.file(T, 2, lines)
    report = feed.run()

    assert report is not None
    assert (total(report).repeats, report.late_rows, report.rows_by_op) == (2, {}, {})
    assert_whole(feed, sink)


def test_a_file_that_is_read_again_for_rows_above_the_watermark_costs_no_look_at_the_changelog(
    sink: Sink, tmp_path: Path
):
    sink.file(T, 1, [sink.insert(T, 110, 1, "a"), sink.insert(T, 1500, 2, "b"), sink.insert(T, 2500, 3, "c")])
    feed = sink.feed(tmp_path / "lake")
    workers = Watched()
    feed.lake.publish(workers)
    for checkpoint in (2000, 3000):
        assert feed.run() is None
        sink.bucket.checkpoint(checkpoint)
        report = feed.lake.publish(workers)
        assert report is not None
        assert total(report).repeats > 0

    assert workers.asked == [decode] * 3
    assert_whole(feed, sink)


@pytest.mark.parametrize("workload", RESTARTS, ids=lambda w: w.name)
def test_a_restarting_bucket_that_arrives_in_steps_has_no_late_rows(workload: Workload, tmp_path: Path):
    replay = Replay(workload, tmp_path / "bucket")
    lake = FeedLake(workload, tmp_path / "lake", replay.folder)
    repeats = 0
    while not replay.is_over:
        replay.write(25)
        report = lake.publish()
        if report is not None:
            assert report.late_rows == {}
            repeats += total(report).repeats

    csv = workload.variant["config"]["sink"].get("csv", {})
    assert lake.changes() == expected_changes(workload, csv.get("output-old-value", False))
    assert bool(repeats) == ("restart" in workload.name)


# -- held tables and broken runs ---------------------------------------------------------------------------------------


def test_late_rows_of_a_held_table_wait_until_it_goes_on(sink: Sink, tmp_path: Path):
    """They lie in a file under the name that another table has by now, which goes on meanwhile."""
    sink.file(T, 1, [sink.insert(T, 110, 1, "a")])
    sink.bucket.schema("s", "u", 200, [ID, NAME], "RENAME TABLE `t` TO `u`", 14)
    sink.table(T, version=300)
    sink.file(U, 1, [sink.insert(U, 400, 2, "b")], version=200)
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    broken = sink.file(U, 2, [b"\x00\xff" * 50], version=200)
    sink.bucket.checkpoint(2000)
    feed.run()
    assert feed.state(U) == "waiting"

    sink.file(T, 1, [sink.insert(T, 150, 9, "late"), sink.insert(T, 350, 3, "c")], version=300)
    feed.run()
    assert feed.found(T) == type(feed.truth)(r for r in sink.rows if r[:2] == T and r.commit_ts != 150)
    broken.write_bytes(sink.insert(U, 1500, 4, "d"))
    feed.run()

    assert_whole(feed, sink)


@pytest.mark.parametrize("moment", [Failpoint.BEFORE_CHANGELOG_COMMIT, Failpoint.AFTER_CHANGELOG_COMMIT])
def test_a_run_that_broke_at_late_rows_is_repeated(sink: Sink, tmp_path: Path, moment: Failpoint):
    sink.file(T, 1, [sink.insert(T, 500, 1, "a")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    sink.file(T, 2, [sink.insert(T, 110, 2, "b")])

    def broken() -> None:
        raise BrokenRunError

    with at_moment(moment, broken), pytest.raises(BrokenRunError):
        feed.run()
    assert taken(feed.run()) == {"s.t": 1}

    assert_whole(feed, sink)
