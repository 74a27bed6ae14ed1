"""What a run of a storage changefeed records: the state and note of every table, and the next cursor.

Every table below the run's TSO has a reason, also a table without a known schema. Warnings (a schema file that does not
match the checksum in its name) stay in the note, whatever the table's state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ticdc_assets.advice import Advice
from ticdc_assets.names.folding import fold
from ticdc_assets.notes import Note, NoteCode, of_codes
from ticdc_assets.pipeline.commit_range import Hold, TableState
from ticdc_assets.pipeline.record import unknown_table
from ticdc_assets.pipeline.storage.plan import FilePlan, FilePlans
from ticdc_assets.pipeline.tasks import FileReport, FileState
from ticdc_assets.schema.history.source_table import History, SourceName, SourceTable, fold_name
from ticdc_assets.tables.control.records import TableRecord

if TYPE_CHECKING:
    from ticdc_assets.sources.storage.cursor import Cursor
    from ticdc_assets.sources.storage.cursor import TableCursor as FolderState
    from ticdc_assets.sources.storage.paths import SourceFile
    from ticdc_assets.sources.storage.scan_result import Problem, Scan

WARNINGS_MAX: Final = 5
"""The number of warnings in a note."""


# -- why tables are held --------------------------------------------------------------------------------------------


def holds_of(problems: Iterable[Problem], history: History) -> dict[SourceName, Hold]:
    """The holds of the scan. A database statement holds all of its tables, because it may drop them."""
    holds: dict[SourceName, Hold] = {}
    for problem in problems:
        hold = Hold(TableState(problem.kind), problem.note)
        for name in [(problem.schema, problem.table)] if problem.table else _tables_of(problem.schema, history):
            holds.setdefault(fold_name(*name), hold)
    return holds


def _tables_of(schema: str, history: History) -> list[SourceName]:
    name_periods = (name_period for source_table in history.source_tables for name_period in source_table.name_periods)
    return [(t.schema, t.table) for t in name_periods if fold(t.schema) == fold(schema)]


def held_by_files(plan: FilePlans, reports: Iterable[FileReport]) -> dict[str, Hold]:
    """The source tables that a file of this run holds, with the first reason."""
    files = {file.path: file for file in plan.read}
    held: dict[str, Hold] = {}
    for report in reports:
        if report.state is not FileState.READ:
            for source_table_id in plan.held_by(files[report.path]):
                held.setdefault(source_table_id, report.hold)
    return held


def unknown_tables(plan: FilePlans, problems: Iterable[Problem]) -> dict[SourceName, TableRecord]:
    """Records of the tables without a known schema: they hold back the recorded TSO like any other table."""
    known = plan.timelines.keys()
    records: dict[SourceName, TableRecord] = {}
    for problem in problems:
        name = fold_name(problem.schema, problem.table)
        if problem.table and plan.follows(problem.schema, problem.table) and name not in known:
            records.setdefault(name, unknown_table(problem.schema, problem.table, str(problem.kind), problem.note))
    for file in plan.files:
        if plan.file_plans[file.path] is FilePlan.UNKNOWN:
            name, note = fold_name(file.schema, file.table), _without_schema(file)
            records.setdefault(name, unknown_table(file.schema, file.table, str(TableState.STOPPED), note))
    return records


def _without_schema(file: SourceFile) -> Note:
    detail = f"{file.path}: expected a schema of {file.schema}.{file.table} for its folder, found none."
    return Note(NoteCode.NO_SCHEMA, detail, (Advice.RESTORE_SCHEMAS,))


# -- warnings ---------------------------------------------------------------------------------------------------------


def warnings_of(scan: Scan, source_table: SourceTable, old: TableRecord | None) -> tuple[Note, ...]:
    """The warnings about the table's schema files, of this run and of earlier ones."""
    found = list(of_codes(old.notes if old else (), NoteCode.SCHEMA_CHECKSUM))
    for file in scan.schema_files:
        name = source_table.name_at(file.version)
        if not file.checksum_ok and name and fold_name(*name) == fold_name(file.schema, file.table):
            found.append(Note(NoteCode.SCHEMA_CHECKSUM, f"{file.where}: not the checksum of its name"))
    return tuple(dict.fromkeys(found))[-WARNINGS_MAX:]


# -- the cursor -------------------------------------------------------------------------------------------------------


def advanced(
    cursor: Cursor, scan: Scan, plan: FilePlans, reports: Iterable[FileReport], held: Mapping[str, Hold]
) -> Cursor:
    """The cursor after every file that was read whole, with no row left for later. Held tables keep their position,
    under all of their names."""
    read = {r.path: r for r in reports if r.state is FileState.READ and not r.left}
    whole = {path for path, report in read.items() if not report.above}
    done = [f for f in scan.data if f.path in whole or plan.file_plans[f.path] is FilePlan.DONE]
    seen = [] if plan.by_arrival else [f for f in scan.data if f.path in read]
    moved = cursor.advance(scan, done, _held_names(scan, plan.history, held), seen)
    return rewound_to_stops(moved, _stops(plan))


def _held_names(scan: Scan, history: History, held: Iterable[str]) -> set[SourceName]:
    """The names of held tables, spelled as in the scan."""
    source_tables = history.by_id()
    wanted = {name for source_table_id in held for name in source_tables[source_table_id].folded_names}
    return {name for table in scan.tables for name in table.names if fold_name(*name) in wanted}


def _stops(plan: FilePlans) -> dict[SourceName, int]:
    """By name, the TSO of the statement at which a table stops."""
    stops: dict[SourceName, int] = {}
    for commit_range in plan.commit_ranges.values():
        stop, (schema, table) = commit_range.source_table.stop, commit_range.source_table.name
        if stop is not None and not commit_range.is_over:
            for name in (fold_name(schema, table), fold_name(schema, "")):
                stops[name] = min(stop.ts, stops.get(name, stop.ts))
    return stops


def rewound_to_stops(cursor: Cursor, stops: Mapping[SourceName, int]) -> Cursor:
    """The cursor without the schema files at which tables stop, so that a corrected one is read."""
    tables = dict(cursor.tables)
    for folder, state in cursor.tables.items():
        stop_ts = stops.get(fold_name(state.schema, state.table))
        if stop_ts is not None:
            tables[folder] = _before(state, stop_ts)
    return replace(cursor, tables=tables)


def _before(state: FolderState, ts: int) -> FolderState:
    kept = {version: checksums for version, checksums in state.schemas.items() if version < ts}
    renamed = {version: names for version, names in state.renamed.items() if version < ts}
    return replace(state, schemas=kept, renamed=renamed, closed_below=min(state.closed_below, ts))
