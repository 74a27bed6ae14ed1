"""Recoveries that are killed too, at every pair of failpoints, and runs that are cancelled at any time."""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from ticdc_assets.failpoints import Failpoint
from ticdc_assets_tests.pipeline.faults.killed import dies, is_cancelled
from ticdc_assets_tests.pipeline.faults.moments import CHANGELOG_MOMENTS
from ticdc_assets_tests.pipeline.two_tables import T, U, assert_once, more, sink

IN_EVERY_RUN = {
    (Failpoint.SCHEMAS_KEPT, Failpoint.AFTER_CHANGELOG_COMMIT),
    (Failpoint.AFTER_CHANGELOG_COMMIT, Failpoint.BEFORE_CURSOR),
    (Failpoint.BEFORE_CURSOR, Failpoint.QUARANTINED),
}


def pairs() -> Iterator[ParameterSet]:
    for pair in itertools.product(CHANGELOG_MOMENTS, repeat=2):
        marks = () if pair in IN_EVERY_RUN else pytest.mark.matrix
        yield pytest.param(*pair, id=f"{pair[0]}, then {pair[1]}", marks=marks)


@pytest.mark.parametrize(("first", "second"), pairs())
def test_a_run_and_its_recovery_are_killed(first: Failpoint, second: Failpoint, tmp_path: Path):
    by_arrival = CHANGELOG_MOMENTS.index(first) % 2 == CHANGELOG_MOMENTS.index(second) % 2
    made = sink(tmp_path, commit_ts=not by_arrival)
    made.feed(tmp_path / "lake")
    config = tmp_path / "lake" / "changefeeds.yaml"

    assert dies(config, first), "the first moment was never reached"
    more(made)
    assert dies(config, second), "the second moment was never reached"
    feed = made.feed(tmp_path / "lake")
    feed.run()

    assert_once(feed, publications_each=None)
    assert feed.run() is None


@pytest.mark.long
@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.matrix)])
def test_runs_that_are_cancelled_at_any_time_lose_and_double_nothing(count: int, tmp_path: Path):
    made = sink(tmp_path)
    made.feed(tmp_path / "lake")
    config = tmp_path / "lake" / "changefeeds.yaml"
    began = time.monotonic()
    made.feed(tmp_path / "measured").run()
    seconds = time.monotonic() - began
    dice = random.Random(count)

    cancelled = 0
    for number in range(count):
        name = (T, U)[number % 2]
        made.file(name, 3 + number // 2, [made.insert(name, 1005 + 10 * number, 10 + number, "more")])
        made.bucket.checkpoint(1010 + 10 * number)
        by = (signal.SIGINT, signal.SIGTERM)[dice.randrange(2)]
        cancelled += is_cancelled(config, by, dice.random() * seconds * 1.5)
    feed = made.feed(tmp_path / "lake")
    feed.run()

    assert cancelled > count // 4
    assert_once(feed, publications_each=None)
    assert feed.run() is None
