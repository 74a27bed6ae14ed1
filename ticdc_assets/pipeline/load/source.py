"""A Dumpling export as a source of changes: one row with the operation R for each row, at the dump's TSO.

It is read before the first run of the stream, in rounds of some tables each. A load that is interrupted continues with
the tables that have no rows yet.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.table import Table

from ticdc_assets.errors import ConfigError, SchemaError
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.changelog.tables import target_of
from ticdc_assets.pipeline.commit_range import CommitRange, Hold, TableState
from ticdc_assets.pipeline.load.progress import FINISHED, loaded_ts, unfinished_cursor, unfinished_ts
from ticdc_assets.pipeline.load.task import DumpPending, DumpRequest, DumpTask
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets.pipeline.source import ChangeSource, SourceBatch
from ticdc_assets.pipeline.tasks import FileState, TaskFile, TaskReport, pack
from ticdc_assets.plurals import counted
from ticdc_assets.protocols.dump.rows import DumpFile
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.loaded import created, has_stored_columns
from ticdc_assets.schema.history.source_table import fold_name
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.sources.dump.listing import Chunk, DumpedTable, is_csv_file, opened_in
from ticdc_assets.sources.filesystem import open_root
from ticdc_assets.tables.control.records import WatermarkRecord
from ticdc_assets.tso import now

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake

ROUND_BYTES: Final = 4 << 30
"""A round ends after the table that reaches this size. A killed load repeats at most one round."""


class DumpBatch(SourceBatch):
    """The files of the tables of this round. A file that cannot be read holds its table; no row is skipped."""

    deliveries_are_known = True

    def __init__(self, lake: Lake, request: DumpRequest, pending: DumpPending, tables: dict[str, Table]) -> None:
        self._lake = lake
        self._request = request
        self._pending = pending
        self._open = {i for i in pending.turn if pending.commit_ranges[i].is_open and i in tables}
        files = [file for i in sorted(self._open) for file in self._files(i)]
        self.tasks = self._tasks(files, tables)
        self.records = len(files)
        self.amount = counted(len(files), "file")

    @property
    def decode(self) -> Callable[[Any], TaskReport]:
        """Reads the files of one task."""
        from ticdc_assets.pipeline.load.decode import decode  # a scan does not need this slow import

        return decode

    def _files(self, source_table_id: str) -> list[TaskFile]:
        table = self._pending.tables[source_table_id]
        name = fold_name(*table.name)
        return [
            TaskFile(chunk.path, chunk.size_bytes, name, *table.name, self._request.ts, chunk.number)
            for chunk in table.chunks
        ]

    def _tasks(self, files: Sequence[TaskFile], tables: Mapping[str, Table]) -> list[DumpTask]:
        ranges = self._pending.commit_ranges
        by_name = {fold_name(*ranges[i].source_table.name): i for i in self._open}
        tasks = []
        for number, task_files in enumerate(pack(files, self._lake.cores, {})):
            ids = {file.name: by_name[file.name] for file in task_files}
            tasks.append(
                DumpTask(
                    run_id=self._pending.run_id,
                    number=number,
                    root_uri=self._request.root_uri,
                    form=self._request.form,
                    zone=self._request.zone,
                    ts=self._request.ts,
                    files=task_files,
                    versions={name: ranges[i].source_table.versions[0] for name, i in ids.items()},
                    targets={name: target_of(ranges[i], tables[i], ranges[i].low) for name, i in ids.items()},
                    io_properties=self._lake.io_properties,
                    zero_dates_allowed=self._lake.changefeed.bad_input.allows_zero_dates,
                )
            )
        return tasks

    # -- the workers' answers -----------------------------------------------------------------------------------------

    def holds(self, reports: Sequence[TaskReport]) -> dict[str, Hold]:
        """The tables with a file that cannot be read, and those of later rounds."""
        ranges = self._pending.commit_ranges
        held = {i: found.hold for i, found in ranges.items() if found.hold is not None}
        ids = {fold_name(*found.source_table.name): i for i, found in ranges.items()}
        for report in (file for task in reports for file in task.files):
            if report.state is not FileState.READ:
                held[ids[report.name]] = report.hold
        return held

    def cursor(self, reports: Sequence[TaskReport], held: Mapping[str, Hold]) -> str:
        """Whether all tables are loaded."""
        return unfinished_cursor(self._request.ts) if held else FINISHED


class DumpChanges(ChangeSource[DumpPending]):
    """The rows of a dump that the lake lacks."""

    def __init__(self, lake: Lake, request: DumpRequest, round_bytes: int = ROUND_BYTES) -> None:
        self._lake = lake
        self._request = request
        self._round_bytes = round_bytes
        self._chosen = [
            table
            for table in request.dump.tables
            if lake.follows(*table.name) and fold_name(*table.name) not in request.without
        ]
        self.not_understood: dict[str, str] = {}
        """By name, why the CREATE TABLE of a table is not understood; the stream holds such a table."""
        self._events = self._dumped_events()

    def checkpoint(self) -> int | None:
        """The dump's TSO."""
        return self._request.ts

    def scan(self) -> DumpPending:
        """The tables to load next.

        Raises:
            ConfigError: the changefeed has been loaded from another dump, or its stream was read before.
        """
        record, kept = self._lake.control.newest(), self._lake.control.ddl_events()
        self._check(record, kept)
        history = self._lake.folds.of(self._events)
        by_name = {fold_name(*table.name): table for table in self._chosen}
        found = {n.id: n for n in history.source_tables if not n.is_contained and fold_name(*n.name) in by_name}
        tables = {i: by_name[fold_name(*n.name)] for i, n in found.items()}
        lows = self._lake.lows(record)
        if record is not None and unfinished_ts(record) is None:
            self._check_all_are_loaded(tables, lows)
        turn = self._turn({i: table for i, table in tables.items() if lows.get(i, 0) < self._request.ts})
        left = frozenset(i for i in tables if lows.get(i, 0) < self._request.ts and i not in turn)
        later = Hold(TableState.WAITING, Note(NoteCode.NOT_LOADED, "its rows are not loaded yet"))
        known = {_identity(event) for event in kept}
        ranges = {
            i: CommitRange(n, lows.get(i, 0), lows.get(i, 0), later)
            if i in left
            else CommitRange(n, lows.get(i, 0), self._request.ts)
            for i, n in found.items()
        }
        return DumpPending(
            run_id=uuid.uuid4().hex,
            high=self._request.ts,
            plan=Plan.of(self._lake, record, history, ranges),
            new_events=tuple(event for event in self._events if _identity(event) not in known),
            tables=tables,
            turn=turn,
            left=left,
        )

    def prepare(self, pending: DumpPending) -> DumpPending:
        """Record that a load has begun, so that no run of the stream comes between."""
        if pending.record is not None:
            return pending
        cursor = unfinished_cursor(pending.high)
        record = WatermarkRecord(now(), pending.run_id, 0, False, cursor, ())
        self._lake.control.record(record)
        return replace(pending, plan=pending.plan.with_record(record))

    def batch(self, pending: DumpPending, tables: dict[str, Table]) -> DumpBatch:
        """The data files of this round."""
        return DumpBatch(self._lake, self._request, pending, tables)

    # -- the dump -----------------------------------------------------------------------------------------------------

    def _dumped_events(self) -> tuple[DdlEvent, ...]:
        """The dump's statements. Raises DecodeError where a table cannot be loaded."""
        ts, databases = self._request.ts, self._request.dump.databases
        schemas = {table.name[0] for table in self._chosen}
        events = [
            DdlEvent(ts, schema, "", text, where=f"dump: {schema}", loaded=True)
            for schema, text in sorted(databases.items())
            if schema in schemas
        ]
        tables = [
            DdlEvent(ts, *table.name, table.definition, where=f"dump: {'.'.join(table.name)}", loaded=True)
            for table in self._chosen
        ]
        for event, table in zip(tables, list(self._chosen), strict=True):
            try:
                made = created(event).table
            except SchemaError as error:
                self.not_understood[".".join(table.name)] = f"{table.where}: {error}"
                self._chosen.remove(table)
                continue
            if table.chunks and has_stored_columns(event):
                self._check_columns(made, table.chunks[0])
        return (*events, *tables)

    def _check_columns(self, table: TableSchema, chunk: Chunk) -> None:
        """Raise DecodeError where the rows lack the values of stored generated columns."""
        form, root = self._request.form, open_root(self._request.root_uri)
        with opened_in(root, chunk.path, chunk.size_bytes) as stream:
            DumpFile(chunk.path, table, form, self._request.ts, is_csv_file(chunk.path)).check_columns(stream)

    def _turn(self, tables: Mapping[str, DumpedTable]) -> frozenset[str]:
        """The tables of a round, the largest first."""
        turn: set[str] = set()
        size_bytes = 0
        for i in sorted(tables, key=lambda i: (-tables[i].size_bytes, i)):
            if turn and size_bytes >= self._round_bytes:
                break
            turn.add(i)
            size_bytes += tables[i].size_bytes
        return frozenset(turn)

    def _check(self, record: WatermarkRecord | None, kept: Collection[DdlEvent]) -> None:
        where, ts = f"changefeed {self._lake.changefeed.name}", self._request.ts
        if self._lake.by_arrival:
            found = "a stream without commit_ts, which is read in the order of arrival"
            advice = "Let TiCDC send commit_ts (see docs/protocols.md), or begin with the stream alone."
            raise ConfigError(where, "a stream whose rows can be compared with the dump's TSO", found, advice)
        before = unfinished_ts(record)
        if before is not None and before != ts:
            advice = "Continue with that dump, or drop the changefeed's tables and begin again."
            raise ConfigError(where, f"the dump at {before}, whose load has not ended", f"one at {ts}", advice)
        if record is None or before is not None:
            return
        loaded = loaded_ts(kept)
        if loaded == ts:
            return
        found = "none: its stream was read before" if loaded is None else f"a load at {loaded}"
        advice = "Load a dump only before the first run; use a changefeed of another name, with another `target`."
        raise ConfigError(where, f"no rows, or those of the dump at {ts}", found, advice)

    def _check_all_are_loaded(self, tables: Mapping[str, DumpedTable], lows: Mapping[str, int]) -> None:
        """Raise ConfigError where a finished load lacks tables: the stream may have been read since."""
        missing = sorted(".".join(tables[i].name) for i in tables if lows.get(i, 0) < self._request.ts)
        if missing:
            raise ConfigError(
                f"changefeed {self._lake.changefeed.name}",
                "only tables that its load has",
                f"a dump that also has {', '.join(missing)}",
                "Leave these out with --tables or --without, as before: a load that has ended takes no more tables.",
            )


def _identity(event: DdlEvent) -> tuple[int, str, str, bool]:
    return event.commit_ts, event.schema, event.table, event.loaded
