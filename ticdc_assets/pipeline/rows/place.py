"""Where rows belong: the schema period of each, and what a run does with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ticdc_assets.schema.history.source_table import SchemaPeriod, Timeline

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NO_PERIOD: Final = -1
"""The period of a row from before the first one."""


def periods_at(timeline: Timeline, ts: Ints) -> Ints:
    """The index in `timeline` of each row's schema period or gap: the last one whose `after_ts` is below its time."""
    after = np.array([period.after_ts for period in timeline], np.int64)
    return np.searchsorted(after, ts, side="left").astype(np.int64) - 1


def have_schema(timeline: Timeline, periods: Ints) -> Bools:
    """Which rows are of a time at which their table has a schema."""
    has_schema = np.array([*(isinstance(period, SchemaPeriod) for period in timeline), False])
    return np.asarray(has_schema[periods], np.bool_)


def by_period(timeline: Timeline, periods: Ints, rows: Bools) -> Iterator[tuple[SchemaPeriod, Ints]]:
    """The indices of these rows by their schema period, without those that have no schema."""
    for number in np.unique(periods[rows & have_schema(timeline, periods)]):
        period = timeline[number]
        assert isinstance(period, SchemaPeriod)
        yield period, np.flatnonzero(rows & (periods == number))


class Wanted(NamedTuple):
    """The rows to write, those above the run, those that were written before, and those that may be late."""

    now: Bools
    above: Bools
    again: Bools
    late: Bools


def in_range(low: int, high: int, ts: Ints, was_read: Bools) -> Wanted:
    """What a run does that adds commit_ts in `(low, high]` to a table.

    Args:
        was_read: the rows that an earlier run has read; the table has those of them up to `low`.
    """
    below, above = ts <= low, ts > high
    return Wanted(~(below | above), above, below & was_read, below & ~was_read)
