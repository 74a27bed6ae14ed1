"""The data files of one round of a load."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ticdc_assets.notes import Note
from ticdc_assets.pipeline.changelog.tables import target_of
from ticdc_assets.pipeline.commit_range import Hold
from ticdc_assets.pipeline.load.progress import FINISHED, unfinished_cursor
from ticdc_assets.pipeline.load.task import DumpTask
from ticdc_assets.pipeline.tasks import FileState, TaskFile, TaskReport, pack
from ticdc_assets.plurals import counted
from ticdc_assets.schema.history.source_table import fold_name

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.load.pending import DumpPending
    from ticdc_assets.pipeline.load.request import DumpRequest
    from ticdc_assets.schema.ddl_event import DdlEvent
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.tables.control.records import QuarantinedRecord, TableRecord
    from ticdc_assets.tables.progress import Files


class DumpBatch:
    """The files of the tables of this round. A file that cannot be read holds its table; no row is skipped."""

    amount: str
    records: int
    deliveries_are_known: bool = True
    tasks: Sequence[Any]

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

    def new_schemas(self, reports: Sequence[TaskReport]) -> Sequence[DdlEvent]:
        """None: the dump has the schemas."""
        return ()

    def holds(self, reports: Sequence[TaskReport]) -> dict[str, Hold]:
        """The tables with a file that cannot be read, and those of later rounds."""
        ranges = self._pending.commit_ranges
        held = {i: found.hold for i, found in ranges.items() if found.hold is not None}
        ids = {fold_name(*found.source_table.name): i for i, found in ranges.items()}
        for report in (file for task in reports for file in task.files):
            if report.state is not FileState.READ:
                held[ids[report.name]] = report.hold
        return held

    def bad_records(self, reports: Sequence[TaskReport], held: Mapping[str, Hold]) -> list[QuarantinedRecord]:
        """None: a row that cannot be read holds its table."""
        return []

    def consumed(self, tables: Mapping[str, Table]) -> dict[str, Files]:
        """None: progress is by TSO."""
        return {}

    def cursor(self, reports: Sequence[TaskReport], held: Mapping[str, Hold]) -> str:
        """Whether all tables are loaded."""
        return unfinished_cursor(self._request.ts) if held else FINISHED

    def warnings(self, source_table: SourceTable, old: TableRecord | None) -> tuple[Note, ...]:
        """None."""
        return ()

    def with_unknown_tables(self, records: list[TableRecord], reports: Sequence[TaskReport]) -> list[TableRecord]:
        """The records: each table of the dump has a schema."""
        return records
