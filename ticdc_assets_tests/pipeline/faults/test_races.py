"""Concurrent runs, runs that slept, lost answers: every change is there once, and no watermark goes back."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from requests import ReadTimeout
from sqlalchemy.exc import OperationalError

from ticdc_assets.errors import LakeError, StaleRunError
from ticdc_assets.failpoints import Failpoint
from ticdc_assets.faults import redacted_error
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables.progress import progress_of
from ticdc_assets_tests.pipeline.faults.moments import CHANGELOG_MOMENTS
from ticdc_assets_tests.pipeline.faults.raced import OVERTAKEN, PUBLISHED, at, races
from ticdc_assets_tests.pipeline.two_tables import assert_once, changelogs, more, sink

RACES = 20
MEETINGS = [
    *(Failpoint.BEFORE_CHANGELOG_COMMIT, Failpoint.SCANNED, Failpoint.BEFORE_CHANGELOG_COMMIT, Failpoint.SCHEMAS_KEPT),
    *(Failpoint.BEFORE_CHANGELOG_COMMIT, Failpoint.DECODED),
]


# -- at the same time -------------------------------------------------------------------------------------------------


def test_one_of_two_processes_that_meet_before_a_commit_publishes(tmp_path: Path):
    race_all(tmp_path, RACES)


@pytest.mark.matrix
def test_one_of_two_processes_publishes_each_of_a_thousand_times(tmp_path: Path):
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


# -- asleep -----------------------------------------------------------------------------------------------------------


SLEPT_IN_EVERY_RUN = {
    (Failpoint.SCANNED, True), (Failpoint.CHANGELOGS_MADE, False), (Failpoint.BEFORE_CHANGELOG_COMMIT, True),
    (Failpoint.BEFORE_CHANGELOG_COMMIT, False), (Failpoint.AFTER_CHANGELOG_COMMIT, True),
    (Failpoint.BEFORE_CURSOR, False),
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
def test_an_overtaken_run_changes_nothing(tmp_path: Path, moment: Failpoint, commit_ts: bool):
    made = sink(tmp_path, commit_ts)
    feed = made.feed(tmp_path / "lake")
    run, pending = feed.scan()

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


@pytest.mark.parametrize("moment", [Failpoint.SCANNED, Failpoint.BEFORE_CHANGELOG_COMMIT])
def test_a_run_whose_table_another_run_renamed_says_that_it_was_overtaken(tmp_path: Path, moment: Failpoint):
    made = sink(tmp_path, commit_ts=True)
    made.feed(tmp_path / "lake").run()
    more(made)
    feed = made.feed(tmp_path / "lake")
    run, pending = feed.scan()

    def overtake() -> None:
        made.alter(("s", "renamed"), 2500, "RENAME TABLE `s`.`t` TO `s`.`renamed`")
        made.bucket.checkpoint(3000)
        made.feed(tmp_path / "lake").run()

    with at(moment, overtake), pytest.raises(StaleRunError, match="Another run recorded first"):
        run.publish_changelogs(pending, LocalWorkers())

    made.feed(tmp_path / "lake").run()
    assert feed.lake.records()["s", "renamed"].watermark == 3000


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
                assert isinstance(redacted_error(fault), LakeError)
        feed.run()

        assert_once(feed)
        assert feed.run() is None
        if lossy.commits < number:
            break
    assert number > 5
