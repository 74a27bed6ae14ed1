"""Files that are added to folders of past dates and older versions: read by the next run, or their table is held."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.pipeline.storage import late_files, source
from ticdc_assets.pipeline.storage.late_files import LateFiles, take_in_late_files
from ticdc_assets.sources.storage.cursor import Cursor
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink, hand_made
from ticdc_assets_tests.sources.storage.bucket import JULY_31, PHYSICAL_DAY

T = ("s", "t")
OLD, NEW = JULY_31 + 100, JULY_31 + 8 * PHYSICAL_DAY + 1000
"""The versions of the table; the first has the dates of August 1 to 8."""


def day(number: int) -> str:
    return f"2025-08-{number:02}"


def at(number: int, more: int = 0) -> int:
    """A commit_ts on a day of August."""
    return JULY_31 + number * PHYSICAL_DAY + more


@dataclass
class DatedBucket:
    """A bucket by date whose days up to the fourth were consumed and closed; the fifth is open."""

    folder: Path
    commit_ts: bool = True
    sink: Sink = field(init=False)

    def __post_init__(self) -> None:
        self.sink = Sink(self.folder / "bucket", at(1), self.commit_ts)
        self.sink.table(T, OLD)

    def feed(self, **settings: Any) -> Feed:
        sink = {"csv": {"include-commit-ts": self.commit_ts}, "date-separator": "day"}
        return hand_made(self.sink.folder, self.folder / "lake", "csv", type(self.truth)(), sink, **settings)

    @property
    def truth(self) -> Any:
        from collections import Counter

        return Counter(self.sink.rows)

    def put(self, place: str, number: int, ts: int, key: int, *, index: bool = True, version: int = OLD) -> str:
        """One file with one row."""
        folder = f"s/t/{version}/{place}".rstrip("/")
        if index:
            self.sink.bucket.index(folder, number)
        return self.sink.bucket.data(folder, number, self.sink.insert(T, ts, key, "a"))

    def days(self, feed: Feed, *numbers: int) -> None:
        """A file on each day, and a run."""
        for number in numbers:
            self.put(day(number), 1, at(number, 1), number)
            self.sink.bucket.checkpoint(at(number, 2))
            feed.run()

    def alter(self, feed: Feed) -> None:
        """A newer version with rows closes all dates of the first one."""
        self.sink.alter(T, NEW, "ALTER TABLE `t` COMMENT = 'a'")
        self.put(day(8), 1, NEW + 1, 80, version=NEW)
        self.sink.bucket.checkpoint(NEW + 2)
        feed.run()
        self.put(day(12), 1, at(12), 120, version=NEW)
        self.sink.bucket.checkpoint(at(12, 1))
        feed.run()


@pytest.fixture
def bucket(tmp_path: Path) -> DatedBucket:
    return DatedBucket(tmp_path)


def cursor_of(lake: FeedLake) -> Cursor:
    record = lake.lake.control.newest()
    assert record is not None
    return Cursor.from_json(record.cursor)


def compared(feed: Feed, write: bool = True) -> LateFiles:
    return take_in_late_files(feed.lake.lake, write=write)


def assert_whole(feed: Feed, bucket: DatedBucket) -> None:
    """Every row is there once, the table is live, nothing is late any more, and a run has nothing to do."""
    assert feed.found() == bucket.truth
    assert feed.state(T) == "live"
    assert compared(feed) == LateFiles()
    assert feed.run() is None


# -- dates that come late, in a version that is listed -----------------------------------------------------------------


def test_a_date_that_comes_behind_newer_ones_is_read_by_the_next_run(bucket: DatedBucket):
    feed = bucket.feed()
    bucket.days(feed, 1, 2, 4, 8)
    closed = cursor_of(feed.lake).tables["s/t"].open[OLD].over[""]
    assert [number for number in range(1, 9) if day(number) in closed] == [1, 2, 4]

    bucket.put(day(3), 1, at(3, 1), 3)
    report = feed.run()

    assert report is not None
    assert sum(report.late_rows.values()) == 1
    assert_whole(feed, bucket)
    bucket.days(feed, 9)
    closed = cursor_of(feed.lake).tables["s/t"].open[OLD].over[""]
    assert [number for number in range(1, 9) if day(number) in closed] == [1, 2, 3, 4]


# -- folders that stay open a while ------------------------------------------------------------------------------------


def test_a_date_closes_with_the_first_run_that_finds_nothing_new_in_it(bucket: DatedBucket):
    """A bucket that is copied in steps: each run sees a part of the past dates."""
    feed = bucket.feed()
    bucket.days(feed, 8)
    for step in (1, 2, 3):
        bucket.put(day(3), step, at(3, step), 30 + step)
        feed.run()
    assert_whole(feed, bucket)
    bucket.days(feed, 9)

    assert day(3) in cursor_of(feed.lake).tables["s/t"].open[OLD].over[""]
    assert feed.found() == bucket.truth


def test_a_version_stays_open_for_a_day_after_the_next_one(bucket: DatedBucket):
    feed = bucket.feed()
    bucket.days(feed, 8)
    bucket.sink.alter(T, NEW, "ALTER TABLE `t` COMMENT = 'a'")
    bucket.put(day(8), 1, NEW + 1, 80, version=NEW)
    bucket.sink.bucket.checkpoint(NEW + 2)
    feed.run()
    for number, key in ((2, 20), (3, 21)):
        bucket.put(day(8), number, at(8, 1 + number), key)
        report = feed.run()
        assert report is not None
        assert sum(report.late_rows.values()) == 1
    assert_whole(feed, bucket)

    bucket.put(day(12), 1, at(12), 120, version=NEW)
    bucket.sink.bucket.checkpoint(at(12, 1))
    feed.run()
    assert OLD not in cursor_of(feed.lake).tables["s/t"].open
    assert feed.found() == bucket.truth


# -- once a day, by runs -----------------------------------------------------------------------------------------------


@pytest.fixture
def each_run_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_files, "COMPARED_AFTER", timedelta(0))


def test_closed_folders_are_compared_once_a_day(bucket: DatedBucket, monkeypatch: pytest.MonkeyPatch):
    feed = bucket.feed()
    bucket.days(feed, 1, 2, 4, 8)
    bucket.put(day(2), 2, at(2, 5), 20)
    bucket.days(feed, 9)
    assert feed.found() != bucket.truth

    monkeypatch.setattr(source, "now", lambda: datetime.now(UTC) + timedelta(hours=25))
    bucket.days(feed, 10)
    assert_whole(feed, bucket)
    assert cursor_of(feed.lake).compared_ms > datetime.now(UTC).timestamp() * 1000


def test_more_folders_than_a_run_compares_are_left_to_maintenance(
    bucket: DatedBucket, each_run_compares: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(late_files, "COMPARED_MAX", 2)
    feed = bucket.feed()
    bucket.days(feed, 1, 2, 4, 8)
    path = bucket.put(day(2), 2, at(2, 5), 20)
    bucket.days(feed, 9)
    assert feed.found() != bucket.truth

    assert take_in_late_files(feed.lake.lake, write=True).paths == (path,)
    feed.run()
    assert_whole(feed, bucket)


# -- files that come late, in folders that no run lists --------------------------------------------------------------


def in_a_closed_date(bucket: DatedBucket, feed: Feed) -> list[str]:
    return [bucket.put(day(2), 2, at(2, 5), 20), bucket.put(day(2), 3, at(2, 6), 21)]


def without_an_index(bucket: DatedBucket, feed: Feed) -> list[str]:
    return [bucket.put(day(1), 2, at(1, 5), 20, index=False)]


def in_a_date_of_an_older_version(bucket: DatedBucket, feed: Feed) -> list[str]:
    bucket.alter(feed)
    return [bucket.put(day(2), 2, at(2, 5), 20)]


def in_a_new_date_of_an_older_version(bucket: DatedBucket, feed: Feed) -> list[str]:
    bucket.alter(feed)
    return [bucket.put(day(3), 1, at(3, 5), 20)]


def in_a_new_partition_of_an_older_version(bucket: DatedBucket, feed: Feed) -> list[str]:
    bucket.alter(feed)
    return [bucket.put(f"77/{day(2)}", 1, at(2, 5), 20)]


def in_two_versions(bucket: DatedBucket, feed: Feed) -> list[str]:
    bucket.alter(feed)
    return [bucket.put(day(2), 2, at(2, 5), 20), bucket.put(day(8), 2, NEW + 5, 21, version=NEW)]


def of_a_dropped_table(bucket: DatedBucket, feed: Feed) -> list[str]:
    bucket.sink.bucket.schema("s", "t", NEW, None, "DROP TABLE `t`", 4)
    bucket.sink.bucket.checkpoint(NEW + 1)
    feed.run()
    return [bucket.put(day(2), 2, at(2, 5), 20)]


def of_another_dispatcher(bucket: DatedBucket, feed: Feed) -> list[str]:
    folder = f"s/t/{OLD}/{day(2)}"
    bucket.sink.bucket.index(folder, 1, "d2")
    return [bucket.sink.bucket.data(folder, 1, bucket.sink.insert(T, at(2, 7), 20, "a"), "d2")]


LATE = [
    in_a_closed_date, without_an_index, in_a_date_of_an_older_version, in_a_new_date_of_an_older_version,
    in_a_new_partition_of_an_older_version, in_two_versions, of_a_dropped_table, of_another_dispatcher,
]  # fmt: skip
Late = Callable[[DatedBucket, Feed], list[str]]


@pytest.mark.parametrize("late", LATE, ids=lambda late: late.__name__)
def test_a_file_that_is_added_to_a_closed_folder_is_found_and_read(bucket: DatedBucket, late: Late):
    feed = bucket.feed()
    bucket.days(feed, 1, 2, 4, 8)
    paths = late(bucket, feed)
    assert feed.run() is None

    assert sorted(compared(feed, write=False).paths) == sorted(paths)
    assert feed.run() is None
    assert sorted(compared(feed).paths) == sorted(paths)
    report = feed.run()

    assert report is not None
    assert (report.records_read, sum(report.late_rows.values())) == (len(paths), len(paths))
    assert feed.found() == bucket.truth
    assert compared(feed) == LateFiles()
    assert feed.run() is None


@pytest.mark.usefixtures("each_run_compares")
@pytest.mark.parametrize("late", LATE, ids=lambda late: late.__name__)
def test_a_run_with_news_finds_it_too(bucket: DatedBucket, late: Late):
    feed = bucket.feed()
    bucket.days(feed, 1, 2, 4, 8)
    late(bucket, feed)
    bucket.sink.bucket.checkpoint(NEW + 20 * PHYSICAL_DAY)
    report = feed.run()

    assert report is not None
    assert feed.found() == bucket.truth
    assert compared(feed) == LateFiles()
    assert feed.run() is None


def test_a_file_that_was_cut_when_its_folder_closed_is_read_again(bucket: DatedBucket):
    feed = bucket.feed()
    bucket.days(feed, 1, 2, 4, 8)
    file = bucket.sink.folder / f"s/t/{OLD}/{day(2)}/CDC{1:020}.csv"
    file.write_bytes(file.read_bytes() + bucket.sink.insert(T, at(2, 9), 20, "b"))

    assert len(compared(feed).paths) == 1
    feed.run()

    assert_whole(feed, bucket)


def test_folders_that_were_removed_and_come_back_are_compared_with_what_they_had(bucket: DatedBucket, tmp_path: Path):
    feed = bucket.feed()
    bucket.days(feed, 1, 2, 4, 8)
    folder = bucket.sink.folder / f"s/t/{OLD}/{day(2)}"
    shutil.move(folder, tmp_path / "kept")
    assert compared(feed) == LateFiles()
    shutil.move(tmp_path / "kept", folder)
    assert compared(feed) == LateFiles()
    bucket.put(day(2), 2, at(2, 5), 20)

    assert len(compared(feed).paths) == 1
    feed.run()

    assert_whole(feed, bucket)


def test_files_that_the_user_skips_are_not_late(bucket: DatedBucket):
    feed = bucket.feed(skip_files=[f"s/t/{OLD}/{day(2)}/*2.csv"])
    bucket.days(feed, 1, 2, 4, 8)
    bucket.put(day(2), 2, at(2, 5), 20)

    assert compared(feed) == LateFiles()


def test_folders_that_an_earlier_version_closed_are_not_compared(bucket: DatedBucket):
    """Its cursors name the newest closed date and keep no last files; what is closed from then on is compared."""
    feed = bucket.feed()
    bucket.days(feed, 1, 2, 4, 8)
    control = feed.lake.lake.control
    control._catalog.drop_table((*control.namespace, "closed_folders"))
    record = control.newest()
    assert record is not None
    text = record.cursor.replace('"format":2', '"format":1').replace(cursor_of(feed.lake).tables["s/t"].open[OLD].over[""].to_text(), day(4))  # fmt: skip # noqa: E501
    assert text.count(day(4)) == 1
    control.record(type(record)(datetime.now(UTC), "earlier", record.tso, False, text, record.tables))
    bucket.put(day(2), 2, at(2, 5), 20)
    bucket.put(day(3), 1, at(3, 5), 21)

    assert feed.run() is None
    assert compared(feed) == LateFiles()
    bucket.days(feed, 10, 13)
    bucket.put(day(8), 2, at(8, 5), 22)
    assert len(compared(feed).paths) == 1
    feed.run()

    assert feed.found() == type(bucket.truth)(row for row in bucket.sink.rows if dict(row.new)["id"] not in (20, 21))


# -- rows in the order of arrival --------------------------------------------------------------------------------------


ALWAYS = (in_a_closed_date, in_a_date_of_an_older_version, of_another_dispatcher)
IN_ORDER = [
    pytest.param(late, marks=() if late in ALWAYS else pytest.mark.matrix, id=late.__name__)
    for late in LATE
    if late is not of_a_dropped_table
]


@pytest.mark.parametrize("late", IN_ORDER)
def test_without_commit_ts_the_table_is_held_until_the_files_are_skipped(tmp_path: Path, late: Late):
    bucket = DatedBucket(tmp_path, commit_ts=False)
    feed = bucket.feed()
    bucket.days(feed, 1, 2, 4, 8)
    before = bucket.truth
    paths = late(bucket, feed)
    newer = type(before)(row for row in bucket.truth if dict(row.new)["id"] >= 80)
    compared(feed)
    feed.run()

    assert feed.state(T) == "stopped"
    assert f"{paths[0]}: expected no new file there" in feed.note(T)
    assert feed.found() == before + newer
    feed = bucket.feed(skip_files=paths)
    feed.run()
    assert feed.state(T) == "live"
    assert feed.found() == before + newer
