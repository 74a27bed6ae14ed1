"""One run of a changefeed whose source is a storage sink: look, decode, publish changelogs.

`look` is cheap and needs no JVM: it says whether anything is pending. `publish_changelogs` does the work and leaves a
record with the source cursor. The mirrors follow in `pipeline.mirror_run`, from the record alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ticdc_assets.changes.layout import changelog_columns
from ticdc_assets.pipeline.decode import decode
from ticdc_assets.pipeline.interval import Hold, Interval, TableState, held_by_file, intervals
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.packing import pack
from ticdc_assets.pipeline.publish import Published, publish_all
from ticdc_assets.pipeline.task import DecodeTask, FileFormat, FileReport, FileState, Target, TaskFile, TaskReport
from ticdc_assets.protocols import canal_json
from ticdc_assets.protocols.text_values import TextForms
from ticdc_assets.schema.history import History, SourceName, fold_name
from ticdc_assets.sources.filesystem import Root, open_root
from ticdc_assets.sources.storage import read_checkpoint, scan
from ticdc_assets.sources.storage_cursor import Cursor, Problem, Scan
from ticdc_assets.sources.storage_paths import DataFile, Layout
from ticdc_assets.tables import changelog
from ticdc_assets.tables.control import QuarantinedRecord, TableRecord, WatermarkRecord, now
from ticdc_assets.tables.progress import progress_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.config.sink import SinkOptions
    from ticdc_assets.spark import Workers


@dataclass(frozen=True, slots=True)
class Pending:
    """What a look found. `high` is the TSO this run brings every table to that is not held."""

    run_id: str
    high: int
    record: WatermarkRecord | None
    cursor: Cursor
    scan: Scan
    history: History
    intervals: dict[str, Interval]

    @property
    def is_empty(self) -> bool:
        """Whether a run would change nothing."""
        known = self.record.tso if self.record else 0
        return not self.scan.data and not self.scan.schema_files and self.high <= known

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why tables are held."""
        return self.scan.problems


@dataclass(slots=True)
class ChangelogReport:
    """What the changelogs gained: per lineage the rows by operation; and what was odd."""

    run_id: str
    high: int
    rows_by_op: dict[str, dict[str, int]] = field(default_factory=dict)
    repeats: int = 0
    zero_dates: int = 0
    quarantined: int = 0
    files: int = 0
    record: WatermarkRecord | None = None


class StorageRun:
    """A run of one changefeed over one lake."""

    def __init__(self, lake: Lake, until: int | None = None) -> None:
        self._lake = lake
        self._changefeed = lake.changefeed
        self._until = until
        self._root: Root = open_root(lake.storage_uri)

    # -- look -----------------------------------------------------------------------------------------------------

    def look(self) -> Pending:
        """Read `metadata` first, list after: so every file needed for the checkpoint is seen."""
        record = self._lake.control.newest()
        cursor = Cursor.from_json(record.cursor) if record and record.cursor else Cursor.empty()
        checkpoint = read_checkpoint(self._root) or 0
        high = max(record.tso if record else 0, min(checkpoint, self._until or checkpoint))
        skip = self._changefeed.skip_files
        found = scan(self._root, _layout(self._changefeed.sink), cursor, checkpoint_ts=high or None, skip_files=skip)
        history = self._lake.history([file.to_ddl_event() for file in found.schema_files])
        holds = self._holds(found.problems)
        chosen = [lineage for lineage in history.lineages if self._lake.follows(*lineage.name)]
        return Pending(
            run_id=uuid.uuid4().hex,
            high=high,
            record=record,
            cursor=cursor,
            scan=found,
            history=history,
            intervals=intervals(chosen, self._lake.lows(record), high, holds),
        )

    def _holds(self, problems: Sequence[Problem]) -> dict[SourceName, Hold]:
        return {
            fold_name(p.schema, p.table): Hold(TableState(p.kind), p.sentence)
            for p in problems
            if self._lake.follows(p.schema, p.table)
        }

    # -- changelogs -----------------------------------------------------------------------------------------------

    def publish_changelogs(
        self, pending: Pending, workers: Workers, say: Callable[[str], None] = lambda _: None
    ) -> ChangelogReport:
        """Decode all pending files in one pass and append to every changelog; leaves a record with the cursor."""
        lake = self._lake
        lake.control.keep_ddl_events([file.to_ddl_event() for file in pending.scan.schema_files])
        lake.settle_changelogs(pending.history, pending.record)
        tables = self._ensure_changelogs(pending)
        tasks = self._tasks(pending, tables)
        say(f"decoding {sum(len(t.files) for t in tasks)} files in {len(tasks)} tasks")
        reports = workers.map(decode, tasks)
        held = self._held(pending, reports)
        say("publishing changelogs")
        published = publish_all(lake, pending.run_id, pending.intervals, tables, reports, held, workers)
        return self._record(pending, tables, reports, held, published)

    def _ensure_changelogs(self, pending: Pending) -> dict[str, Table]:
        places = self._lake.places(pending.history)
        made = {}
        for interval in pending.intervals.values():
            lineage = interval.lineage
            if interval.high > 0 or interval.low > 0:
                place = places[lineage.id]
                columns = changelog_columns(lineage)
                made[lineage.id] = changelog.ensure(
                    self._lake.catalog, place.changelog, lineage.id, columns, place.changelog_location
                )
        return made

    def _tasks(self, pending: Pending, tables: dict[str, Table]) -> list[DecodeTask]:
        targets = {i.lineage.id: self._target(i, tables[i.lineage.id], pending) for i in self._open(pending, tables)}
        files = [file for file in self._files(pending, tables) if self._wanted(pending, file, targets)]
        timelines = pending.history.timelines()
        whole = {name: any(_is_keyless(slot) for slot in slots) for name, slots in timelines.items()}
        tasks = []
        for number, dealt in enumerate(pack(files, self._lake.cores, whole)):
            used = {file.name for file in dealt}
            lineages = {slot.lineage_id for name in used for slot in timelines[name]}
            tasks.append(
                DecodeTask(
                    run_id=pending.run_id,
                    number=number,
                    root_uri=self._lake.storage_uri,
                    format=FileFormat(self._changefeed.sink.protocol),
                    csv=self._lake.csv_options,
                    forms=self._forms(),
                    by_arrival=self._lake.by_arrival,
                    files=dealt,
                    timelines={name: timelines[name] for name in used},
                    targets={i: target for i, target in targets.items() if i in lineages},
                    io_properties=self._lake.io_properties,
                    quarantine=self._changefeed.on_bad_message == "quarantine",
                    zero_dates_allowed=self._changefeed.zero_dates == "null",
                )
            )
        return tasks

    def _forms(self) -> TextForms:
        zone = self._changefeed.time_zone
        return self._lake.csv_options.forms(zone) if self._changefeed.sink.protocol == "csv" else canal_json.forms(zone)

    def _open(self, pending: Pending, tables: dict[str, Table]) -> list[Interval]:
        return [
            i for i in pending.intervals.values() if i.lineage.id in tables and (self._lake.by_arrival or i.is_open)
        ]

    def _target(self, interval: Interval, table: Table, pending: Pending) -> Target:
        schemas = {
            version.from_ts: changelog.write_schema(table, [c.uid for c in version.table.stored_columns])
            for version in interval.lineage.versions
        }
        location = table.location().rstrip("/")
        return Target(interval.lineage.id, interval.low, interval.high, f"{location}/data", schemas)

    def _files(self, pending: Pending, tables: dict[str, Table]) -> list[TaskFile]:
        """The scan's files in order of consumption, numbered on from what each table has seen."""
        positions = self._positions(tables, pending)
        files = []
        for file in sorted(pending.scan.data, key=lambda f: (fold_name(f.schema, f.table), f.order)):
            name = fold_name(file.schema, file.table)
            ordinal = positions.get(name, 0)
            positions[name] = ordinal + 1
            files.append(TaskFile(file.path, file.size, name, file.schema, file.table, file.version, ordinal))
        return files

    def _positions(self, tables: dict[str, Table], pending: Pending) -> dict[SourceName, int]:
        """By name, the ordinal of the next file: beyond every file whose rows are in the changelog."""
        if not self._lake.by_arrival:
            return {}
        positions: dict[SourceName, int] = {}
        for lineage_id, table in tables.items():
            seen = progress_of(table).position
            name = fold_name(*pending.intervals[lineage_id].lineage.name)
            positions[name] = max(positions.get(name, 0), (seen >> 32) + 1 if seen >= 0 else 0)
        return positions

    def _wanted(self, pending: Pending, file: TaskFile, targets: dict[str, Target]) -> bool:
        """Whether a file may hold rows of a table that this run brings forward."""
        low = min((i.low for i in pending.intervals.values()), default=0)
        return bool(held_by_file(pending.history, file.name, low) & targets.keys())

    # -- afterwards -----------------------------------------------------------------------------------------------

    def _held(self, pending: Pending, reports: Sequence[TaskReport]) -> dict[str, Hold]:
        """The lineages that a file of this run holds back, with the first reason."""
        held: dict[str, Hold] = {}
        for file in (file for report in reports for file in report.files):
            if file.state is FileState.READ:
                continue
            for lineage_id, interval in pending.intervals.items():
                if lineage_id in held_by_file(pending.history, file.name, interval.low):
                    held.setdefault(lineage_id, Hold(TableState(file.state), file.problem))
        return held

    def _record(
        self,
        pending: Pending,
        tables: dict[str, Table],
        reports: Sequence[TaskReport],
        held: dict[str, Hold],
        published: dict[str, Published],
    ) -> ChangelogReport:
        files = [file for report in reports for file in report.files]
        self._quarantine(pending, files)
        records = [
            self._table_record(pending, interval, tables, held, published) for interval in pending.intervals.values()
        ]
        record = WatermarkRecord(
            recorded_at=now(),
            run_id=pending.run_id,
            tso=pending.high,
            complete=False,
            cursor=self._advanced(pending, files, held).to_json(),
            tables=tuple(records),
        )
        self._lake.control.record(record)
        return ChangelogReport(
            run_id=pending.run_id,
            high=pending.high,
            rows_by_op={lineage_id: p.rows_by_op for lineage_id, p in published.items()},
            repeats=sum(f.repeats for f in files) + sum(p.repeats for p in published.values()),
            zero_dates=sum(f.zero_dates for f in files),
            quarantined=sum(len(f.bad) for f in files),
            files=len(files),
            record=record,
        )

    def _quarantine(self, pending: Pending, files: Iterable[FileReport]) -> None:
        records = [
            QuarantinedRecord(now(), pending.run_id, bad.schema, bad.table, bad.path, bad.line, bad.reason, bad.raw)
            for file in files
            for bad in file.bad
        ]
        self._lake.control.quarantine(records)

    def _advanced(self, pending: Pending, files: Sequence[FileReport], held: dict[str, Hold]) -> Cursor:
        """The cursor past every file that is done with: read whole, nothing above the watermark, table not held."""
        reports = {file.path: file for file in files}
        done: list[DataFile] = []
        for file in pending.scan.data:
            report = reports.get(file.path)
            name = fold_name(file.schema, file.table)
            names_held = any(i in held for i in held_by_file(pending.history, name, 0))
            if report is None:
                # Not read in this run: only a table that nobody asked for is done with unread.
                done.extend([] if self._lake.follows(file.schema, file.table) else [file])
            elif report.state is FileState.READ and not report.above and not names_held:
                done.append(file)
        held_names = {fold_name(*pending.intervals[i].lineage.name) for i in held}
        return pending.cursor.advance(pending.scan, done, held_names)

    def _table_record(
        self,
        pending: Pending,
        interval: Interval,
        tables: dict[str, Table],
        held: dict[str, Hold],
        published: dict[str, Published],
    ) -> TableRecord:
        lineage = interval.lineage
        hold = held.get(lineage.id)
        done = replace(interval, high=interval.low, hold=hold) if hold else interval
        old = self._lake.recorded(pending.record).get(lineage.id)
        place = self._lake.places(pending.history)[lineage.id]
        table = published[lineage.id].table if lineage.id in published else tables.get(lineage.id)
        snapshot = table.current_snapshot() if table is not None else None
        return TableRecord(
            lineage=lineage.id,
            schema=lineage.name[0],
            table=lineage.name[1],
            state=str(done.state),
            note=done.hold.reason if done.hold else "; ".join(lineage.marks),
            key=list(lineage.newest.key),
            watermark=done.high,
            mirror=old.mirror if old else None,
            mirror_snapshot_id=old.mirror_snapshot_id if old else None,
            changelog=list(place.changelog) if table is not None else None,
            changelog_snapshot_id=snapshot.snapshot_id if snapshot else None,
            rows=old.rows if old else None,
        )


def _layout(sink: SinkOptions) -> Layout:
    return Layout(
        date_separator=str(sink.date_separator),
        extension="csv" if sink.protocol == "csv" else "json",
        partition_separator=sink.enable_partition_separator,
        index_digits=sink.file_index_width,
        table_id_as_path=sink.use_table_id_as_path,
        across_nodes=sink.table_across_nodes,
    )


def _is_keyless(slot: object) -> bool:
    version = getattr(slot, "version", None)
    return version is not None and not version.table.key
