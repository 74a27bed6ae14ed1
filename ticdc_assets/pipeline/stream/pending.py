"""The result of a scan of messages, and what is recorded of tables that wait and of rows that are misplaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ticdc_assets.advice import Advice
from ticdc_assets.notes import Note, NoteCode, of_codes
from ticdc_assets.pipeline.commit_range import CommitRange, TableState
from ticdc_assets.pipeline.late_statements import is_unrecorded
from ticdc_assets.pipeline.late_tables import is_passed
from ticdc_assets.pipeline.record import unknown_table
from ticdc_assets.pipeline.source import Pending
from ticdc_assets.pipeline.stream.blocked_topics import CaptureHolds
from ticdc_assets.pipeline.stream.decode.official_canal import StatementPositions
from ticdc_assets.pipeline.stream.decode.task import MessageName
from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.pipeline.stream.scan.avro import AvroScan
from ticdc_assets.pipeline.stream.scan.result import StreamScan
from ticdc_assets.plurals import counted
from ticdc_assets.schema.history.source_table import SourceName, SourceTable, fold_name
from ticdc_assets.schema.model import TableName
from ticdc_assets.tables.control.records import TableRecord

if TYPE_CHECKING:
    from ticdc_assets.pipeline.stream.context import DdlLog

_WAITING: Final = str(TableState.WAITING)
_MISPLACED: Final = (
    "behind their own deletes: the messages are not in the order of TiCDC, and the mirror may have rows that were "
    "deleted. Compare it with TiDB"
)
_WARNINGS_MAX: Final = 5
"""The number of runs of which the warnings are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPending(Pending):
    """The result of a scan of messages.

    `names` has the true names of tables that Avro cannot spell. `log` has the statements of another changefeed, where
    this one has none. `faults` are the tables that are held because of the capture. `fresh` are the source tables that
    were not selected when earlier runs read their messages, and those that are read again.
    """

    cursor: StreamCursor
    scan: StreamScan
    names: dict[MessageName, TableName | None]
    follows: Callable[[str, str], bool]
    log: DdlLog | None = None
    faults: CaptureHolds = field(default_factory=CaptureHolds)
    fresh: frozenset[str] = frozenset()
    statement_positions: StatementPositions = field(default_factory=StatementPositions)

    @property
    def has_unread(self) -> bool:
        """Whether there are messages that no run has read."""
        read, begins = self.cursor.in_part, self.cursor.begins
        offsets = self.scan.offsets
        has_older = offsets.has_older or any(offsets.begins.get(p, begin) < begin for p, begin in begins.items())
        return has_older or any(end > read.get(p, (0, 0))[1] for p, end in offsets.ends.items())

    @property
    def checkpoint(self) -> int:
        """The TSO of the stream's watermarks; 0 where it has none."""
        return self.high

    @property
    def foreign_topics(self) -> frozenset[str]:
        """The topics of which no message can be read, where another topic has messages of TiCDC."""
        topics, foreign = {topic for topic, _ in self.scan.offsets.partitions}, self.scan.offsets.foreign
        return frozenset(foreign if topics - foreign else ())

    @property
    def is_empty(self) -> bool:
        """Whether a run would change nothing."""
        known = self.record.tso if self.record else 0
        new = any(end > self.cursor.offsets.get(partition, 0) for partition, end in self.scan.offsets.ends.items())
        if self.log is not None and (self.new_events or self._waits_unrecorded()):
            return False
        if not self.faults.are_recorded(self.record) or is_unrecorded(self.plan):
            return False
        if any(
            is_passed(commit_range) and self._is_unrecorded(commit_range)
            for commit_range in self.commit_ranges.values()
        ):
            return False
        return self.high <= known and not (new and self.record is None) and not self.scan.new_messages

    def _is_unrecorded(self, commit_range: CommitRange) -> bool:
        return self.record is None or commit_range.source_table.id not in {
            table.source_table for table in self.record.tables
        }

    def _waits_unrecorded(self) -> bool:
        tables = self.record.tables if self.record else ()
        recorded = {fold_name(t.schema, t.table) for t in tables if t.state == str(TableState.WAITING)}
        return not {fold_name(*name) for name in self.waiting} <= recorded

    @property
    def waiting(self) -> list[TableName]:
        """The selected tables with rows above the TSO of `log`."""
        spelt = self.scan.avro.names if self.scan.avro else {}
        true_names = {fold_name(*name): self.names.get(written) or name for written, name in spelt.items()}
        names = (true_names.get(name, written) for name, written in self.scan.tables.waiting.items())
        return [name for name in names if self.follows(*name)]


# -- the record --------------------------------------------------------------------------------------------------------


def with_waiting(pending: StreamPending, records: list[TableRecord]) -> list[TableRecord]:
    """The records. Tables with rows above the DDL log are recorded as waiting for it."""
    if pending.log is None or not pending.scan.tables.waiting:
        return records
    why = {
        fold_name(*name): Note(
            NoteCode.NO_STATEMENTS, f"{name[0]}.{name[1]}: {pending.log.lacking}", (Advice.RUN_OTHER_FIRST,)
        )
        for name in pending.waiting
    }
    spelt = {fold_name(*name): name for name in pending.waiting}
    updated = []
    for record in records:
        name = fold_name(record.schema, record.table)
        waits = name in why and record.state == str(TableState.LIVE)
        updated.append(replace(record, state=_WAITING, notes=(why.pop(name),)) if waits else record)
    recorded = {record.source_table for record in updated}
    new = [unknown_table(*spelt[name], _WAITING, note) for name, note in why.items()]
    return updated + [record for record in new if record.source_table not in recorded]


def unknown_tables(pending: StreamPending, problems: Mapping[SourceName, Note]) -> list[TableRecord]:
    """Records of tables that are known only by name from rows: they wait for a schema."""
    known = {name for source_table in pending.history.source_tables for name in source_table.folded_names}
    return [
        unknown_table(*name, _WAITING, replace(problem, code=NoteCode.NO_SCHEMA))
        for name, problem in problems.items()
        if name not in known
    ]


def unread_tables(pending: StreamPending) -> list[TableRecord]:
    """Records of tables that only unreadable messages mention."""
    found = pending.faults.unread.items()
    return [unknown_table(*name, str(hold.state), hold.note) for name, hold in found]


def misplaced_rows(avro: AvroScan | None, source_table: SourceTable, old: TableRecord | None) -> tuple[Note, ...]:
    """The warning about the table's misplaced rows (see `scan.avro`), of this run and of earlier ones."""
    found = list(of_codes(old.notes if old else (), NoteCode.MISPLACED_ROWS))
    names = source_table.folded_names
    rows = sum(count for name, count in (avro.misplaced() if avro else {}).items() if name in names)
    if rows:
        found.append(Note(NoteCode.MISPLACED_ROWS, f"{counted(rows, 'row')} {_MISPLACED}"))
    return tuple(dict.fromkeys(found))[-_WARNINGS_MAX:]
