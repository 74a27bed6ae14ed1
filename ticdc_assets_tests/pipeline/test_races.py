"""Runs at the same time, runs that slept, answers that were lost: every change is there once, and nothing goes back."""

from __future__ import annotations

import itertools
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import Table
from requests import ReadTimeout
from sqlalchemy.exc import OperationalError

from ticdc_assets import moments, spark
from ticdc_assets.errors import LakeError, StaleRunError
from ticdc_assets.faults import plain
from ticdc_assets.moments import Moment
from ticdc_assets.pipeline import segments
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables import mirror
from ticdc_assets.tables.iceberg_jvm import JvmTable
from ticdc_assets.tables.progress import WATERMARK, lineage_of, progress_of
from ticdc_assets_tests.pipeline.raced import OVERTAKEN, PUBLISHED, Meeting, races
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink, column
from ticdc_assets_tests.pipeline.test_kills import CHANGELOG_MOMENTS
from ticdc_assets_tests.pipeline.two_tables import T, U, assert_once, changelogs, mirrored, more, publications, sink
from ticdc_assets_tests.sources.storage_bucket import ID, NAME

RACES = 20
N = column("n", "INT", ColumnDefault="5", ColumnNullable="false")
MEETINGS = [
    *(Moment.BEFORE_CHANGELOG_COMMIT, Moment.LOOKED, Moment.BEFORE_CHANGELOG_COMMIT, Moment.SCHEMAS_KEPT),
    *(Moment.BEFORE_CHANGELOG_COMMIT, Moment.DECODED),
]


# -- at the same time -------------------------------------------------------------------------------------------------


def test_of_two_processes_that_meet_before_a_commit_one_publishes(tmp_path: Path):
    race_all(tmp_path, RACES)


@pytest.mark.matrix
def test_of_two_processes_one_publishes_a_thousand_times(tmp_path: Path):
    for number in range(10):
        race_all(tmp_path / str(number), 100)


def race_all(folder: Path, count: int) -> None:
    rounds, feeds = [], []
    for number in range(count):
        feed = sink(folder / str(number), commit_ts=number % 4 != 3).feed(folder / str(number) / "lake")
        feeds.append(feed)
        rounds.append((folder / str(number) / "lake" / "changefeeds.yaml", MEETINGS[number % len(MEETINGS)]))

    outcomes = races(rounds)

    for feed, outcome in zip(feeds, outcomes, strict=True):
        assert set(outcome) <= {PUBLISHED, OVERTAKEN}
        feed.run()  # where each was first at one table, both gave up
        assert_once(feed)
        assert feed.run() is None
    assert any(OVERTAKEN in outcome for outcome in outcomes)


@pytest.mark.spark
@pytest.mark.parametrize("is_new", [False, pytest.param(True, marks=pytest.mark.matrix)], ids=["there", "new"])
def test_of_two_that_merge_at_once_one_publishes(tmp_path: Path, is_new: bool):
    made = sink(tmp_path)
    made.feed(tmp_path / "lake").run()
    if not is_new:
        made.feed(tmp_path / "lake").lake.mirrors("first")
        more(made)
    feed = made.feed(tmp_path / "lake")
    feed.run()
    spark.session(feed.lake.config)  # one of two threads would start a second
    meeting = Meeting(Moment.BEFORE_MIRROR_COMMIT, threading.Barrier(2), each=threading.get_ident)

    feeds = {run_id: made.feed(tmp_path / "lake") for run_id in ("one", "other")}

    def merge(run_id: str) -> str:
        try:
            feeds[run_id].lake.mirrors(run_id)
        except StaleRunError:
            return OVERTAKEN
        except Exception as error:  # noqa: BLE001
            return f"{plain(error)}"
        return PUBLISHED

    moments.LISTENERS.append(meeting)
    try:
        with ThreadPoolExecutor(2) as pool:
            outcomes = sorted(pool.map(merge, feeds))
    finally:
        moments.LISTENERS.remove(meeting)

    # Of several tables each may have its own winner: then both are told that they were overtaken.
    assert outcomes in ([OVERTAKEN, PUBLISHED], [OVERTAKEN, OVERTAKEN])
    feed.lake.mirrors("last")
    assert_merged(feed, made)


def assert_merged(feed: Feed, made: Sink) -> None:
    """Each mirror is the fold of its changelog, and no watermark was published twice with rows."""
    newest = feed.lake.lake.control.newest()
    assert newest is not None
    assert newest.complete
    for name, rows in mirrored(feed).items():
        wanted = [dict(change.new) for change in made.rows if change[:2] == name]
        assert rows == sorted((row["id"], row["name"]) for row in wanted)
        table = feed.lake.lake.catalog.load_table(tuple(feed.record(name).mirror or ()))
        told = publications(table)
        assert told == sorted(set(told))
        assert progress_of(table).watermark == newest.tso


@pytest.mark.spark
@pytest.mark.matrix
def test_of_two_processes_that_merge_at_once_one_publishes(tmp_path: Path):
    rounds, sinks = [], []
    for number in range(10):
        made = sink(tmp_path / str(number))
        sinks.append(made)
        feed = made.feed(tmp_path / str(number) / "lake")
        feed.run()
        if number % 2:
            feed.lake.mirrors("first")
            more(made)
            made.feed(tmp_path / str(number) / "lake").run()
        rounds.append((tmp_path / str(number) / "lake" / "changefeeds.yaml", Moment.BEFORE_MIRROR_COMMIT))

    outcomes = races(rounds, mirrors=True)

    for number, (made, outcome) in enumerate(zip(sinks, outcomes, strict=True)):
        assert set(outcome) <= {PUBLISHED, OVERTAKEN}
        feed = made.feed(tmp_path / str(number) / "lake")
        feed.lake.mirrors("last")
        assert_merged(feed, made)
    assert any(OVERTAKEN in outcome for outcome in outcomes)


@pytest.mark.spark
def test_a_merge_that_is_overtaken_as_it_opens_its_mirror_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = sink(tmp_path)
    made.feed(tmp_path / "lake").run()
    made.feed(tmp_path / "lake").lake.mirrors("first")
    more(made)
    feed = made.feed(tmp_path / "lake")
    feed.run()
    pending = [made.feed(tmp_path / "lake").lake]

    def looked_at(table: Table) -> str | None:
        if pending:
            pending.pop().mirrors("other")
        return lineage_of(table)

    monkeypatch.setattr(mirror, "lineage_of", looked_at)

    with pytest.raises(StaleRunError):
        feed.lake.mirrors("one")

    feed.lake.mirrors("last")
    assert_merged(feed, made)


@pytest.mark.spark
def test_a_merge_that_is_overtaken_between_two_parts_publishes_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 1)
    made = sink(tmp_path)
    made.feed(tmp_path / "lake").run()
    more(made)
    feed = made.feed(tmp_path / "lake")
    feed.run()
    other = made.feed(tmp_path / "lake").lake

    with at(Moment.AFTER_MIRROR_COMMIT, lambda: other.mirrors("other")), pytest.raises(StaleRunError):
        feed.lake.mirrors("one")

    feed.lake.mirrors("last")
    assert_merged(feed, made)


STATEMENTS = {
    "TRUNCATE": (lambda t: f"TRUNCATE TABLE `{t}`", [ID, NAME], []),
    "ADD COLUMN": (lambda t: f"ALTER TABLE `{t}` ADD COLUMN `n` INT NOT NULL DEFAULT 5", [ID, NAME, N], [1, 2, 3]),
}


@pytest.mark.spark
@pytest.mark.parametrize(("query", "columns", "left"), STATEMENTS.values(), ids=STATEMENTS)
def test_a_merge_that_is_overtaken_inside_a_statement_publishes_no_more(
    tmp_path: Path, query: Callable[[str], str], columns: list[dict[str, str]], left: list[int]
):
    made = sink(tmp_path)
    made.feed(tmp_path / "lake").run()
    made.feed(tmp_path / "lake").lake.mirrors("first")
    for name in (T, U):
        made.alter(name, 1100, query(name[1]), columns)
        made.file(name, 1, [made.line(name, "I", 1110, 4, "four", *[7] * (len(columns) - 2))], version=1100)
    made.bucket.checkpoint(2000)
    feed = made.feed(tmp_path / "lake")
    feed.run()
    other = made.feed(tmp_path / "lake").lake

    with at(Moment.AFTER_MIRROR_COMMIT, lambda: other.mirrors("other")), pytest.raises(StaleRunError):
        feed.lake.mirrors("one")

    feed.lake.mirrors("last")
    for name, rows in mirrored(feed).items():
        assert [row[0] for row in rows] == [*left, 4]
        table = feed.lake.lake.catalog.load_table(tuple(feed.record(name).mirror or ()))
        told = [s.summary.additional_properties.get(WATERMARK) for s in table.snapshots() if s.summary]
        watermarks = [int(watermark) for watermark in told if watermark]
        assert watermarks == sorted(watermarks)
        assert set(watermarks) == {1000, 1100, 2000}


# -- asleep -----------------------------------------------------------------------------------------------------------


@contextmanager
def at(moment: Moment, act: Callable[[], Any]) -> Iterator[None]:
    """Does something the first time that the moment is reached."""
    pending = [act]

    def listen(reached: Moment) -> None:
        if reached is moment and pending:
            pending.pop()()

    moments.LISTENERS.append(listen)
    try:
        yield
    finally:
        moments.LISTENERS.remove(listen)


SLEPT_IN_EVERY_RUN = {
    (Moment.LOOKED, True), (Moment.CHANGELOGS_MADE, False), (Moment.BEFORE_CHANGELOG_COMMIT, True),
    (Moment.BEFORE_CHANGELOG_COMMIT, False), (Moment.AFTER_CHANGELOG_COMMIT, True), (Moment.BEFORE_CURSOR, False),
}  # fmt: skip


@pytest.mark.parametrize(
    ("moment", "commit_ts"),
    [
        pytest.param(
            *case,
            id=f"{case[0]}, by {'commit_ts' if case[1] else 'arrival'}",
            marks=() if case in SLEPT_IN_EVERY_RUN else pytest.mark.matrix,
        )
        for case in itertools.product(CHANGELOG_MOMENTS, (True, False))
    ],
)
def test_a_run_that_slept_while_another_went_on_changes_nothing(tmp_path: Path, moment: Moment, commit_ts: bool):
    made = sink(tmp_path, commit_ts)
    feed = made.feed(tmp_path / "lake")
    run, pending = feed.look()

    def overtake() -> None:
        more(made)
        while True:
            with suppress(StaleRunError):  # the tables that do not sleep may still be published
                made.feed(tmp_path / "lake").run()
                return

    with at(moment, overtake), suppress(StaleRunError):
        run.publish_changelogs(pending, LocalWorkers())

    feed = made.feed(tmp_path / "lake")
    newest = feed.lake.lake.control.newest()
    assert newest is not None
    assert newest.tso == 2000
    assert all(progress_of(table).watermark == 2000 for table in changelogs(feed).values())
    feed.run()
    assert feed.found() == feed.expected()
    assert feed.run() is None


# -- answers that are lost --------------------------------------------------------------------------------------------


class LossyCatalog:
    """Loses the answer of the catalog's nth commit, after it landed or before it did."""

    def __init__(self, number: int, landed: bool, error: Callable[[], Exception]) -> None:
        self._number = number
        self._landed = landed
        self._error = error
        self._commit = SqlCatalog.commit_table
        self.commits = 0

    def __call__(self, catalog: SqlCatalog, *arguments: Any) -> Any:
        self.commits += 1
        if self.commits != self._number:
            return self._commit(catalog, *arguments)
        if self._landed:
            self._commit(catalog, *arguments)
        raise self._error()


ANSWERS = [
    pytest.param(lambda: CommitStateUnknownException("500"), id="state unknown"),
    pytest.param(lambda: CommitFailedException("409"), id="conflict"),
    pytest.param(lambda: ReadTimeout("no answer"), id="no answer", marks=pytest.mark.matrix),
    pytest.param(
        lambda: OperationalError("x", {}, sqlite3.OperationalError("x")), id="database", marks=pytest.mark.matrix
    ),
]


@pytest.mark.parametrize(
    "landed",
    [
        pytest.param(lambda number: bool(number % 2), id="landed or not"),
        pytest.param(lambda number: True, id="landed", marks=pytest.mark.matrix),
        pytest.param(lambda number: False, id="did not land", marks=pytest.mark.matrix),
    ],
)
@pytest.mark.parametrize("error", ANSWERS)
def test_a_commit_whose_answer_is_lost_is_there_once(
    tmp_path: Path, landed: Callable[[int], bool], error: Callable[[], Exception], monkeypatch: pytest.MonkeyPatch
):
    for number in itertools.count(1):
        feed = sink(tmp_path / str(number)).feed(tmp_path / str(number) / "lake")
        lossy = LossyCatalog(number, landed(number), error)
        with monkeypatch.context() as patch:
            patch.setattr(SqlCatalog, "commit_table", partialmethod(lossy))
            try:
                feed.run()
            except (ReadTimeout, OperationalError) as fault:
                assert isinstance(plain(fault), LakeError)
        feed.run()

        assert_once(feed)
        assert feed.run() is None
        if lossy.commits < number:
            break
    assert number > 5


@pytest.mark.spark
def test_a_merge_that_landed_and_was_answered_with_a_conflict_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = sink(tmp_path)
    made.feed(tmp_path / "lake").run()
    made.feed(tmp_path / "lake").lake.mirrors("first")
    more(made)
    feed = made.feed(tmp_path / "lake")
    feed.run()
    swap = JvmTable._swap

    def asked_again(table: JvmTable, base: Any, fresh: Any) -> None:
        swap(table, base, fresh)
        swap(table, base, fresh)

    monkeypatch.setattr(JvmTable, "_swap", asked_again)

    feed.lake.mirrors("one")

    assert_merged(feed, made)
