"""Streams of Alibaba's Canal (not TiCDC): the position of a row determines its schema version.

In one partition, rows and statements are in the order of execution, whatever their timestamps. Between partitions they
are ordered by the second of execution, within one second by the time of sending, and where both are equal by the row's
columns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ticdc_assets.names.folding import fold
from ticdc_assets.pipeline.rows.fit import ColumnRules, LeavesOut
from ticdc_assets.schema.history.source_table import SchemaGap, SchemaPeriod, Timeline
from ticdc_assets.tso import LOGICAL_BITS

if TYPE_CHECKING:
    from ticdc_assets.pipeline.stream.offsets.ranges import TopicPartition
    from ticdc_assets.protocols.events import RowEvent
    from ticdc_assets.schema.ddl_event import DdlEvent

_SECOND_MS: Final = 1000


def _none_left_out(_column: str) -> bool:
    return False


def has_columns_of(period: SchemaPeriod | SchemaGap, sent: Set[str], leaves_out: LeavesOut = _none_left_out) -> bool:
    """Whether columns are those of a schema period, but for some that the changefeed leaves out."""
    return isinstance(period, SchemaPeriod) and ColumnRules(period.version.table, leaves_out).fit(sent)


@dataclass(frozen=True, slots=True)
class PositionedRow:
    """The position of a row, its times of execution and sending, and its column names in lower case."""

    partition: TopicPartition
    offset: int
    commit_ms: int | None
    sent_ms: int | None
    columns: frozenset[str]

    @classmethod
    def of(cls, row: RowEvent, partition: TopicPartition, offset: int) -> PositionedRow:
        """The row of a message at this offset."""
        return cls(partition, offset, row.time.commit_ms, row.time.sent_ms, frozenset(fold(name) for name in row.wire))

    def fits(self, period: SchemaPeriod | SchemaGap, leaves_out: LeavesOut = _none_left_out) -> bool:
        """Whether the row has the columns of a schema period, but for those that the changefeed leaves out."""
        return has_columns_of(period, self.columns, leaves_out)


@dataclass(frozen=True, slots=True)
class StatementPositions:
    """The positions of such a stream's statements: by partition their offsets and TSOs; by TSO their times of execution
    and sending."""

    steps: Mapping[TopicPartition, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    times: Mapping[int, tuple[int | None, int | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Iterable[DdlEvent]) -> StatementPositions:
        """The positions and times of statements that only positions order."""
        steps: dict[TopicPartition, dict[int, int]] = {}
        times: dict[int, tuple[int | None, int | None]] = {}
        for event in events:
            if event.origin.place is not None and event.origin.as_written:
                topic, partition, offset = event.origin.place
                steps.setdefault((topic, partition), {}).setdefault(offset, event.commit_ts)
                times[event.commit_ts] = (event.origin.commit_ms, event.origin.sent_ms)
        return cls({partition: tuple(sorted(found.items())) for partition, found in steps.items()}, times)

    def period(
        self, timeline: Timeline, row: PositionedRow, leaves_out: LeavesOut = _none_left_out
    ) -> SchemaPeriod | SchemaGap | None:
        """The schema period or gap that the row falls in."""
        begins = [period.after_ts for period in timeline]
        before, after = self._around(row)
        first = max(bisect_left(begins, before + 1) - 1, 0)
        last = len(timeline) if after is None else bisect_left(begins, after)
        if first >= last:
            return None
        chosen = timeline[first]
        undecided: list[SchemaPeriod | SchemaGap] = []
        for period in timeline[first + 1 : last]:
            is_behind = self._is_behind(row, period.after_ts)
            if is_behind is False:
                break
            if is_behind:
                chosen, undecided = period, []
            else:
                undecided.append(period)
        return next((period for period in (chosen, *undecided) if row.fits(period, leaves_out)), chosen)

    def last_before(self, row: PositionedRow) -> int:
        """The TSO of the last statement before the row in its own partition; 0 where there is none."""
        return self._around(row)[0]

    def _around(self, row: PositionedRow) -> tuple[int, int | None]:
        """The TSOs of the statements before and after the row in its own partition."""
        steps = self.steps.get(row.partition, ())
        number = bisect_left(steps, (row.offset,))
        return steps[number - 1][1] if number else 0, steps[number][1] if number < len(steps) else None

    def _is_behind(self, row: PositionedRow, ts: int) -> bool | None:
        """Whether the row was executed after a statement of another partition; None where that is unknown."""
        commit_ms, sent_ms = self.times.get(ts, (ts >> LOGICAL_BITS, None))
        if row.commit_ms is not None and commit_ms is not None:
            row_s, statement_s = row.commit_ms // _SECOND_MS, commit_ms // _SECOND_MS
            if row_s != statement_s:
                return row_s > statement_s
        if row.sent_ms is None or sent_ms is None or row.sent_ms == sent_ms:
            return None
        return row.sent_ms > sent_ms


@dataclass(slots=True)
class Clocks:
    """The times assigned to the messages of such a stream during a scan. In each partition they increase from statement
    to statement, and no statement shares its time with another message. `known` are the times that earlier runs
    assigned to statements, by position."""

    known: Mapping[tuple[str, int, int], int] = field(default_factory=dict)
    _stated: dict[TopicPartition, int] = field(default_factory=dict)
    _newest: dict[TopicPartition, int] = field(default_factory=dict)

    def of_statement(self, place: tuple[str, int, int], commit_ms: int | None) -> int:
        """The time of the statement at a place: that of an earlier run, else its own.

        A new one is after all earlier times of its partition.
        """
        partition = self._begun(place)
        ts = self.known.get(place)
        if ts is None:
            ts = max((commit_ms or 0) << LOGICAL_BITS, self._newest[partition] + 1)
        self._stated[partition] = ts
        self._newest[partition] = max(self._newest[partition], ts)
        return ts

    def of_row(self, place: tuple[str, int, int], commit_ms: int | None) -> int:
        """The time of the row at a place: its own, but after the last statement of its partition."""
        partition = self._begun(place)
        ts = max((commit_ms or 0) << LOGICAL_BITS, self._stated[partition] + 1)
        self._newest[partition] = max(self._newest[partition], ts)
        return ts

    def _begun(self, place: tuple[str, int, int]) -> TopicPartition:
        partition = place[:2]
        if partition not in self._newest:
            before = (ts for at, ts in self.known.items() if at[:2] == partition and at[2] < place[2])
            self._stated[partition] = self._newest[partition] = max(before, default=0)
        return partition
