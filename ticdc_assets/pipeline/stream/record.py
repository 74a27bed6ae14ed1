"""What a run of a message changefeed records of tables that wait, and of rows that are misplaced."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ticdc_assets.advice import Advice
from ticdc_assets.notes import Note, NoteCode, of_codes
from ticdc_assets.pipeline.commit_range import TableState
from ticdc_assets.pipeline.record import unknown_table
from ticdc_assets.pipeline.stream.pending import StreamPending
from ticdc_assets.plurals import counted
from ticdc_assets.schema.history.source_table import fold_name
from ticdc_assets.tables.control.records import TableRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ticdc_assets.pipeline.stream.scan.avro import AvroScan
    from ticdc_assets.schema.history.source_table import SourceName, SourceTable

_WAITING: Final = str(TableState.WAITING)
_MISPLACED: Final = (
    "behind their own deletes: the messages are not in the order of TiCDC, and the mirror may have rows that were "
    "deleted. Compare it with TiDB"
)
_WARNINGS_MAX: Final = 5
"""The number of runs of which the warnings are kept."""


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
    known = {
        fold_name(t.schema, t.table)
        for source_table in pending.history.source_tables
        for t in source_table.name_periods
    }
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
    """The warning about the table's misplaced rows (see `scan.avro_repeats`), of this run and of earlier ones."""
    found = list(of_codes(old.notes if old else (), NoteCode.MISPLACED_ROWS))
    names = {fold_name(period.schema, period.table) for period in source_table.name_periods}
    rows = sum(count for name, count in (avro.misplaced() if avro else {}).items() if name in names)
    if rows:
        found.append(Note(NoteCode.MISPLACED_ROWS, f"{counted(rows, 'row')} {_MISPLACED}"))
    return tuple(dict.fromkeys(found))[-_WARNINGS_MAX:]
