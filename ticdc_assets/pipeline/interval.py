"""Which tables a run may bring forward, from where and how far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ticdc_assets.schema.lineage import Lineage, SourceName, fold_name


class TableState(StrEnum):
    """What a user sees of a table: `live`, `dropped` at the source, `waiting` for something that may come by itself,
    `stopped` until somebody helps."""

    LIVE = "live"
    DROPPED = "dropped"
    WAITING = "waiting"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a table cannot be brought forward in this run."""

    state: TableState
    reason: str


@dataclass(frozen=True, slots=True)
class Interval:
    """What one run adds to a lineage: commit_ts in `(low, high]`; `hold` set where it adds nothing, or stops short."""

    lineage: Lineage
    low: int
    high: int
    hold: Hold | None = None

    @property
    def is_open(self) -> bool:
        """Whether rows may be added at all."""
        return self.high > self.low and (self.hold is None or self.lineage.stop is not None)

    @property
    def is_over(self) -> bool:
        """Whether rows above `high` are given up: the table could not go on from there, and is dropped by now."""
        return self.hold is not None and self.hold.state is TableState.DROPPED

    @property
    def is_spent(self) -> bool:
        """Whether no row is asked for any more."""
        return self.is_over and self.high <= self.low

    @property
    def state(self) -> TableState:
        if self.hold is not None:
            return self.hold.state
        return TableState.DROPPED if self.lineage.dropped_ts is not None else TableState.LIVE


def intervals(
    lineages: Iterable[Lineage], lows: Mapping[str, int], high: int, holds: Mapping[SourceName, Hold]
) -> dict[str, Interval]:
    """The interval of every lineage. A held name holds every lineage that may have rows under it."""
    return {lineage.id: _interval(lineage, lows.get(lineage.id, 0), high, holds) for lineage in lineages}


def _interval(lineage: Lineage, low: int, high: int, holds: Mapping[SourceName, Hold]) -> Interval:
    for tenure in lineage.tenures:
        hold = holds.get(fold_name(tenure.schema, tenure.table))
        if hold is not None and (tenure.until_ts is None or tenure.until_ts > low):
            return Interval(lineage, low, low, hold)
    if lineage.stop is not None and lineage.stop.ts < high:
        gone = lineage.dropped_ts is not None and lineage.dropped_ts <= high
        hold = Hold(TableState.DROPPED if gone else TableState.STOPPED, lineage.stop.reason)
        return Interval(lineage, low, max(low, lineage.stop.ts), hold)
    return Interval(lineage, low, max(low, high))


def is_held(interval: Interval) -> bool:
    """Whether nothing of the table may be published; one that only stops at a TSO is published up to it."""
    stop = interval.lineage.stop
    return interval.hold is not None and (stop is None or interval.hold.reason != stop.reason)


def may_have_rows(interval: Interval, name: SourceName) -> bool:
    """Whether what came under this name may be rows of the lineage that it has not got."""
    return not interval.is_spent and any(
        fold_name(tenure.schema, tenure.table) == name and (tenure.until_ts is None or tenure.until_ts > interval.low)
        for tenure in interval.lineage.tenures
    )
