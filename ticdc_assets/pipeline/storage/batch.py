"""The files of a bucket that one run reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.table import Table

from ticdc_assets.notes import Note
from ticdc_assets.pipeline.changelog.tables import target_of
from ticdc_assets.pipeline.commit_range import Hold
from ticdc_assets.pipeline.source import SourceBatch
from ticdc_assets.pipeline.storage.late_files import newly_closed
from ticdc_assets.pipeline.storage.plan import FilePlans
from ticdc_assets.pipeline.storage.record import advanced, held_by_files, unknown_tables, warnings_of
from ticdc_assets.pipeline.tasks import DecodeTask, FileDecoding, FileReport, FileState, TaskReport, pack
from ticdc_assets.plurals import counted
from ticdc_assets.protocols.canal_json import decoder as canal_json
from ticdc_assets.schema.history.source_table import SchemaGap, SchemaPeriod, SourceTable
from ticdc_assets.sources.storage.paths import SourceFile
from ticdc_assets.tables.control.records import QuarantinedRecord, TableRecord
from ticdc_assets.tables.progress import Files
from ticdc_assets.tso import now

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.storage.pending import StoragePending


class StorageBatch(SourceBatch):
    """The files that `plan` reads, and the interpretation of the workers' answers."""

    deliveries_are_known = True

    def __init__(self, lake: Lake, pending: StoragePending, plan: FilePlans, tables: dict[str, Table]) -> None:
        self._lake = lake
        self._changefeed = lake.changefeed
        self._pending = pending
        self._plan = plan
        self.tasks = self._tasks(tables)
        self.records = len(plan.read)
        self.amount = counted(len(plan.read), "file")

    @property
    def decode(self) -> Callable[[Any], TaskReport]:
        """Reads the files of one task."""
        from ticdc_assets.pipeline.storage.decode import decode  # a scan does not need this slow import

        return decode

    def _tasks(self, tables: dict[str, Table]) -> list[DecodeTask]:
        pending, plan = self._pending, self._plan
        targets = {i: target_of(pending.commit_ranges[i], tables[i], pending.commit_ranges[i].low) for i in plan.open}
        whole = {name: any(_is_keyless(period) for period in timeline) for name, timeline in plan.timelines.items()}
        decoding = decoding_of(self._lake, self._changefeed.bad_input.quarantines)
        tasks = []
        for number, task_files in enumerate(pack(plan.task_files(), self._lake.cores, whole)):
            timelines = {file.name: plan.timelines[file.name] for file in task_files}
            periods = (period for timeline in timelines.values() for period in timeline)
            source_tables = {period.source_table_id for period in periods if isinstance(period, SchemaPeriod)}
            tasks.append(
                DecodeTask(
                    run_id=pending.run_id,
                    number=number,
                    root_uri=self._lake.storage_uri,
                    decoding=decoding,
                    files=task_files,
                    timelines=timelines,
                    targets={i: target for i, target in targets.items() if i in source_tables},
                    io_properties=self._lake.io_properties,
                    held={i: low for i, low in plan.held.items() if i in source_tables},
                )
            )
        return tasks

    # -- the workers' answers -----------------------------------------------------------------------------------------

    def holds(self, reports: Sequence[TaskReport]) -> dict[str, Hold]:
        """By source table, why a file holds it."""
        return held_by_files(self._plan, _files(reports))

    def bad_records(self, reports: Sequence[TaskReport], held: Mapping[str, Hold]) -> list[QuarantinedRecord]:
        """The bad records of the tables that advance. Files of held tables are read again later."""
        pending, plan = self._pending, self._plan
        read_files = {file.path: file for file in plan.read}
        listed = {file.path: file for file in plan.task_files()}
        return [
            QuarantinedRecord(
                now(), pending.run_id, bad.schema, bad.table, bad.path, bad.line, bad.reason, bad.raw,
                listed[bad.path].folder_version, listed[bad.path].ordinal,
                since_tso=bad.commit_ts or max(listed[bad.path].folder_version, self._low(read_files[bad.path]) + 1),
            )
            for report in reports
            for file in report.files
            if file.state is FileState.READ and plan.held_by(read_files[file.path]).isdisjoint(held)
            for bad in file.bad
        ]  # fmt: skip

    def _low(self, file: SourceFile) -> int:
        """The TSO up to which the tables of a file were complete before this run."""
        ranges = self._pending.commit_ranges
        return min((ranges[i].low for i in self._plan.held_by(file) if i in ranges), default=0)

    def consumed(self, tables: Mapping[str, Table]) -> dict[str, Files]:
        """By source table, its files after this run, where progress is by file."""
        return self._plan.consumed()

    # -- the record ---------------------------------------------------------------------------------------------------

    def cursor(self, reports: Sequence[TaskReport], held: Mapping[str, Hold]) -> str:
        """The cursor past every file that no later run needs. The folders that it closes are recorded before."""
        pending = self._pending
        moved = advanced(pending.cursor, pending.scan, self._plan, _files(reports), held)
        self._lake.control.close_folders([*newly_closed(pending.cursor, pending.scan, moved)])
        return moved.to_json()

    def warnings(self, source_table: SourceTable, old: TableRecord | None) -> tuple[Note, ...]:
        """The warnings about the table's schema files."""
        return warnings_of(self._pending.scan, source_table, old)

    def with_unknown_tables(self, records: list[TableRecord], reports: Sequence[TaskReport]) -> list[TableRecord]:
        """The records, plus those of tables without any schema file."""
        return [*records, *unknown_tables(self._plan, self._pending.problems).values()]


def decoding_of(lake: Lake, quarantine: bool) -> FileDecoding:
    """How the files of a changefeed are decoded; without `quarantine`, a bad record stops its table."""
    changefeed, zone = lake.changefeed, lake.changefeed.time_zone
    csv = lake.csv_options if changefeed.sink.protocol == "csv" else None
    return FileDecoding(
        csv=csv,
        forms=canal_json.forms(zone) if csv is None else csv.forms(zone),
        by_arrival=lake.by_arrival,
        quarantine=quarantine,
        zero_dates_allowed=changefeed.bad_input.allows_zero_dates,
        selectors=changefeed.sink.content.column_selectors,
    )


def _files(reports: Sequence[TaskReport]) -> list[FileReport]:
    return [file for report in reports for file in report.files]


def _is_keyless(period: SchemaPeriod | SchemaGap) -> bool:
    return isinstance(period, SchemaPeriod) and not period.version.table.key
