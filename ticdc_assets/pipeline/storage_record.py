"""What a run of a storage changefeed leaves on record: the state and note of every table, and the next cursor.

Every table that is not brought to the run's TSO says why, also one whose schema nobody can read yet. Warnings (a
schema file that has not the checksum of its name) stay in the note, whatever becomes of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ticdc_assets.pipeline.interval import Hold, Interval, TableState
from ticdc_assets.pipeline.storage_plan import Fate, Plan
from ticdc_assets.pipeline.task import FileReport, FileState
from ticdc_assets.schema.lineage import History, Lineage, SourceName, fold_name
from ticdc_assets.tables.control import TableRecord

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.sources.storage_cursor import Cursor, Problem, Scan
    from ticdc_assets.sources.storage_cursor import TableState as FolderState
    from ticdc_assets.sources.storage_paths import DataFile
    from ticdc_assets.tables.control import WatermarkRecord
    from ticdc_assets.tables.places import Place

WARNINGS_MAX: Final = 5
"""Warnings that a note shows; more say nothing new."""

_WRONG_CHECKSUM: Final = "not the checksum of its name"
_BETWEEN: Final = "; "


def says_the_same(record: WatermarkRecord, other: WatermarkRecord) -> bool:
    """Whether nothing that a record says of the source and its tables differs."""
    return (record.tso, record.cursor, record.tables) == (other.tso, other.cursor, other.tables)


# -- why tables are held --------------------------------------------------------------------------------------------


def holds_of(problems: Iterable[Problem], history: History) -> dict[SourceName, Hold]:
    """What the scan holds. A database's own statements concern all of its tables: one may drop them."""
    holds: dict[SourceName, Hold] = {}
    for problem in problems:
        hold = Hold(TableState(problem.kind), problem.sentence)
        for name in [(problem.schema, problem.table)] if problem.table else _tables_of(problem.schema, history):
            holds.setdefault(fold_name(*name), hold)
    return holds


def _tables_of(schema: str, history: History) -> list[SourceName]:
    tenures = (tenure for lineage in history.lineages for tenure in lineage.tenures)
    return [(t.schema, t.table) for t in tenures if t.schema.lower() == schema.lower()]


def held_by_files(plan: Plan, reports: Iterable[FileReport]) -> dict[str, Hold]:
    """The lineages that a file of this run holds back, with the first reason."""
    files = {file.path: file for file in plan.read}
    held: dict[str, Hold] = {}
    for report in reports:
        if report.state is not FileState.READ:
            for lineage_id in plan.held_by(files[report.path]):
                held.setdefault(lineage_id, Hold(TableState(report.state), report.problem))
    return held


def unknown_tables(plan: Plan, problems: Iterable[Problem]) -> dict[SourceName, TableRecord]:
    """Tables that no schema tells of yet, as records: they hold back the TSO like any other."""
    borne = plan.timelines.keys()
    records: dict[SourceName, TableRecord] = {}
    for problem in problems:
        name = fold_name(problem.schema, problem.table)
        if problem.table and plan.follows(problem.schema, problem.table) and name not in borne:
            records.setdefault(name, _unknown(problem.schema, problem.table, str(problem.kind), problem.sentence))
    for file in plan.files:
        if plan.fates[file.path] is Fate.UNKNOWN:
            name, note = fold_name(file.schema, file.table), _without_schema(file)
            records.setdefault(name, _unknown(file.schema, file.table, str(TableState.STOPPED), note))
    return records


def _unknown(schema: str, table: str, state: str, note: str) -> TableRecord:
    lineage = f"{schema}.{table}@unknown"
    return TableRecord(lineage, schema, table, state, note, [], 0, None, None, None, None, None)


def _without_schema(file: DataFile) -> str:
    return (
        f"{file.path}: expected a schema of {file.schema}.{file.table} for its folder, found none. "
        "Look whether schema files were removed from the bucket."
    )


# -- table records ----------------------------------------------------------------------------------------------------


def table_record(
    interval: Interval, hold: Hold | None, old: TableRecord | None, place: Place, table: Table | None, warnings: str
) -> TableRecord:
    """One table as the run leaves it; the mirror's part stays as it was until the mirror is brought up."""
    lineage = interval.lineage
    done = replace(interval, high=interval.low, hold=hold) if hold else interval
    snapshot = table.current_snapshot() if table is not None else None
    told = [done.hold.reason] if done.hold else list(lineage.marks)
    return TableRecord(
        lineage=lineage.id,
        schema=lineage.name[0],
        table=lineage.name[1],
        state=str(done.state),
        note=_BETWEEN.join(filter(None, [*told, warnings])),
        key=list(lineage.newest.key),
        watermark=done.high,
        mirror=old.mirror if old else None,
        mirror_snapshot_id=old.mirror_snapshot_id if old else None,
        changelog=list(place.changelog) if table is not None else old.changelog if old else None,
        changelog_snapshot_id=snapshot.snapshot_id if snapshot else old.changelog_snapshot_id if old else None,
        rows=old.rows if old else None,
    )


def warnings_of(scan: Scan, lineage: Lineage, old: TableRecord | None) -> str:
    """What is odd with the table's schema files, found now or by earlier runs."""
    found = [part for part in (old.note if old else "").split(_BETWEEN) if part.endswith(_WRONG_CHECKSUM)]
    for file in scan.schema_files:
        name = lineage.name_at(file.version)
        if not file.checksum_ok and name and fold_name(*name) == fold_name(file.schema, file.table):
            found.append(f"{file.where}: {_WRONG_CHECKSUM}")
    return _BETWEEN.join(list(dict.fromkeys(found))[-WARNINGS_MAX:])


# -- the cursor -------------------------------------------------------------------------------------------------------


def advanced(cursor: Cursor, scan: Scan, plan: Plan, reports: Iterable[FileReport], held: Mapping[str, Hold]) -> Cursor:
    """The cursor past every file that is done with: read whole, no row left for later. Held tables stay where they are,
    under all of their names."""
    read = {r.path: r for r in reports if r.state is FileState.READ and not r.left}
    whole = {path for path, report in read.items() if not report.above}
    done = [f for f in scan.data if f.path in whole or plan.fates[f.path] is Fate.DONE]
    seen = [] if plan.by_arrival else [f for f in scan.data if f.path in read]
    moved = cursor.advance(scan, done, _held_names(scan, plan.history, held), seen)
    return asked_again(moved, _stops(plan))


def _held_names(scan: Scan, history: History, held: Iterable[str]) -> set[SourceName]:
    """The names of held tables as the scan spells them."""
    lineages = history.by_id()
    wanted = {fold_name(t.schema, t.table) for lineage_id in held for t in lineages[lineage_id].tenures}
    return {name for table in scan.tables for name in table.names if fold_name(*name) in wanted}


def _stops(plan: Plan) -> dict[SourceName, int]:
    """By name, the TSO of the statement that a table stops at."""
    stops: dict[SourceName, int] = {}
    for interval in plan.intervals.values():
        stop, (schema, table) = interval.lineage.stop, interval.lineage.name
        if stop is not None and not interval.is_over:
            for name in (fold_name(schema, table), fold_name(schema, "")):
                stops[name] = min(stop.ts, stops.get(name, stop.ts))
    return stops


def asked_again(cursor: Cursor, stops: Mapping[SourceName, int]) -> Cursor:
    """The cursor with the schema files forgotten that tables stop at, so that a mended one is seen."""
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
