"""Which tables a run may advance, from which TSO, and up to which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from ticdc_assets.advice import Advice
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.schema.history.source_table import SourceName, SourceTable, Stop


class TableState(StrEnum):
    """The state of a table as users see it: `live`, `dropped` at the source, `waiting` for input that may still arrive,
    or `stopped` until an operator acts."""

    LIVE = "live"
    DROPPED = "dropped"
    WAITING = "waiting"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a run does not advance a table."""

    state: TableState
    note: Note

    @property
    def code(self) -> str:
        """The code of the note."""
        return self.note.code

    def reason(self, source_table: SourceTable) -> str:
        """The note for people, about this table."""
        return self.note.text(".".join(source_table.name))


@dataclass(frozen=True, slots=True)
class CommitRange:
    """What one run adds to a source table: commit_ts in `(low, high]`. `hold` is set where the run adds nothing, or
    stops below its TSO."""

    source_table: SourceTable
    low: int
    high: int
    hold: Hold | None = None

    @property
    def is_open(self) -> bool:
        """Whether rows may be added."""
        return self.high > self.low and (self.hold is None or self.source_table.stop is not None)

    @property
    def is_over(self) -> bool:
        """Whether rows above `high` are given up: the table stopped there, and is dropped at the source."""
        return self.hold is not None and self.hold.state is TableState.DROPPED

    @property
    def is_exhausted(self) -> bool:
        """Whether the table needs no more rows."""
        return self.is_over and self.high <= self.low

    @property
    def state(self) -> TableState:
        if self.hold is not None:
            return self.hold.state
        return TableState.DROPPED if self.source_table.dropped_ts is not None else TableState.LIVE


def commit_ranges(
    source_tables: Iterable[SourceTable], lows: Mapping[str, int], high: int, holds: Mapping[SourceName, Hold]
) -> dict[str, CommitRange]:
    """The commit range of every source table, by its id.

    Args:
        lows: by source table, the TSO up to which its changelog is complete.
        high: the TSO to which the run advances every table that is not held.
        holds: by name; a held name holds every source table that may have rows under it.
    """
    return {
        source_table.id: _commit_range(source_table, lows.get(source_table.id, 0), high, holds)
        for source_table in source_tables
    }


def _commit_range(source_table: SourceTable, low: int, high: int, holds: Mapping[SourceName, Hold]) -> CommitRange:
    if low < source_table.copied_ts:
        return CommitRange(source_table, low, low, not_copied(source_table))
    for name_period in source_table.name_periods:
        hold = holds.get(name_period.folded)
        if hold is not None and (name_period.until_ts is None or name_period.until_ts > low):
            return CommitRange(source_table, low, low, hold)
    if source_table.stop is not None and source_table.stop.waits_for_schema:
        note = Note(NoteCode.NO_SCHEMA, source_table.stop.reason)
        return CommitRange(source_table, low, low, Hold(TableState.WAITING, note))
    if source_table.stop is not None and source_table.stop.ts < high:
        gone = source_table.dropped_ts is not None and source_table.dropped_ts <= high
        hold = _hold_of_dropped(source_table.stop) if gone else _hold_of(source_table.stop)
        return CommitRange(source_table, low, max(low, source_table.stop.ts), hold)
    return CommitRange(source_table, low, max(low, high))


def not_copied(source_table: SourceTable) -> Hold:
    """The hold of a table whose copy from TiDB has not ended: rows of the stream would hide that rows are missing."""
    state = TableState.WAITING if source_table.dropped_ts is None else TableState.DROPPED
    detail = f"its rows at {source_table.copied_ts} are not copied yet."
    advice = Advice.RESYNC_ALL_AGAIN if source_table.gaps else Advice.RESYNC_AGAIN
    return Hold(state, Note(NoteCode.NOT_LOADED, detail, (advice,)))


def _hold_of(stop: Stop) -> Hold:
    """The hold of a table that stopped at a statement, with what lets it continue."""
    return Hold(TableState.STOPPED, Note(NoteCode.STATEMENT, stop.reason, (*stop.advice, Advice.CREATE_AGAIN)))


def _hold_of_dropped(stop: Stop) -> Hold:
    return Hold(TableState.DROPPED, Note(NoteCode.STATEMENT, stop.reason, stop.advice))


def is_held(commit_range: CommitRange) -> bool:
    """Whether nothing of the table may be published. A table that stops at a TSO is published up to it."""
    stop = commit_range.source_table.stop
    if commit_range.hold is None or stop is None:
        return commit_range.hold is not None
    return commit_range.hold not in (_hold_of(stop), _hold_of_dropped(stop))


def may_have_rows(commit_range: CommitRange, name: SourceName) -> bool:
    """Whether records under this name may be rows that the source table lacks."""
    return not commit_range.is_exhausted and any(
        name_period.folded == name and (name_period.until_ts is None or name_period.until_ts > commit_range.low)
        for name_period in commit_range.source_table.name_periods
    )


def with_holds(commit_ranges: Mapping[str, CommitRange], held: Mapping[str, Hold]) -> dict[str, CommitRange]:
    """The commit ranges, with the holds of held tables."""
    return {i: replace(n, high=n.low, hold=held[i]) if i in held else n for i, n in commit_ranges.items()}
