"""One run of a changefeed whose source is a storage sink: look, decode, publish changelogs.

`look` is cheap and needs no JVM: it says whether anything is pending. `publish_changelogs` does the work and leaves a
record with the source cursor. The mirrors follow in `pipeline.mirror_run`, from the record alone. A run may end
anywhere: what its tables have got is in their own snapshots, and the next run goes on from there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ticdc_assets.amounts import counted
from ticdc_assets.errors import SourceError
from ticdc_assets.moments import Moment, reached
from ticdc_assets.pipeline.changelog_tables import settled_changelogs, target_of
from ticdc_assets.pipeline.interval import Hold, Interval, TableState, intervals
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.late_tables import (
    LateTables,
    late_tables,
    not_followed_yet,
    obstacle_by_arrival,
    with_holds,
    without_folders,
)
from ticdc_assets.pipeline.packing import pack
from ticdc_assets.pipeline.publish import Published, late_rows, publish_all
from ticdc_assets.pipeline.storage_plan import Plan
from ticdc_assets.pipeline.storage_record import (
    advanced,
    held_by_files,
    holds_of,
    says_the_same,
    table_record,
    unknown_tables,
    warnings_of,
)
from ticdc_assets.pipeline.task import DecodeTask, FileFormat, FileReport, FileState
from ticdc_assets.protocols import canal_json
from ticdc_assets.protocols.text_values import TextForms
from ticdc_assets.schema.lineage import History, Lineage, Slot, SourceName, fold_name
from ticdc_assets.sources.filesystem import Root, open_root
from ticdc_assets.sources.storage import read_checkpoint, scan
from ticdc_assets.sources.storage_cursor import Cursor, Problem, Scan
from ticdc_assets.sources.storage_paths import METADATA, Layout
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.control import QuarantinedRecord, TableRecord, WatermarkRecord, now
from ticdc_assets.tables.progress import Progress, lineage_of, progress_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.protocols.events import DdlEvent
    from ticdc_assets.sources.storage_paths import DataFile
    from ticdc_assets.spark import Workers


@dataclass(frozen=True, slots=True)
class Pending:
    """What a look found. `high` is the TSO this run brings every table to that is not held.

    `news` are statements and schemas that are not kept yet, `mended` those among them that were read before and say
    something else now. `told` gives the columns that each schema file lists. `by_arrival` where progress is by file,
    not by TSO. `late` are tables asked for only now, whose files come again.
    """

    run_id: str
    high: int
    record: WatermarkRecord | None
    cursor: Cursor
    scan: Scan
    history: History
    intervals: dict[str, Interval]
    news: tuple[DdlEvent, ...] = ()
    mended: tuple[DdlEvent, ...] = ()
    told: dict[tuple[SourceName, int], tuple[str, ...]] = field(default_factory=dict)
    by_arrival: bool = False
    late: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether a run would change nothing. Files that were seen, and hold rows above the TSO, wait for a later one;
        those that were not may hold late rows."""
        known = self.record.tso if self.record else 0
        if self.news or self.mended or self.high > known:
            return False
        if self.by_arrival and self.scan.data:
            return False
        if any(self._may_be_read(file) for file in self.scan.unseen):
            return False
        recorded = Lake.recorded(self.record)
        return all(i in recorded and recorded[i].watermark >= n.high for i, n in self.intervals.items())

    def _may_be_read(self, file: DataFile) -> bool:
        """Whether the file is of a table that is asked for and goes on; late rows of one that stopped can wait."""
        borne = (self.intervals.get(lineage.id) for lineage in self.history.ever_called(file.schema, file.table))
        return any(interval is not None and interval.hold is None for interval in borne)

    @property
    def checkpoint(self) -> int:
        """How far the source is, or `until`; 0 where it has not told that."""
        return self.scan.checkpoint_ts or 0

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why tables are held."""
        return self.scan.problems


@dataclass(slots=True)
class ChangelogReport:
    """What the changelogs gained: per lineage the rows by operation; and what was odd. `late_rows` counts, by lineage,
    those of the rows that came after their table was complete up to a later TSO."""

    run_id: str
    high: int
    rows_by_op: dict[str, dict[str, int]] = field(default_factory=dict)
    repeats: int = 0
    zero_dates: int = 0
    quarantined: int = 0
    files: int = 0
    late_rows: dict[str, int] = field(default_factory=dict)
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
        checkpoint = self._checkpoint(record)
        bound = checkpoint if checkpoint is None or self._until is None else min(checkpoint, self._until)
        high = max(record.tso if record else 0, bound or 0)
        upto = None if bound is None and not high else high
        pending = self._looked(record, cursor, high, upto)
        late = self._late(pending)
        if late.again:
            pending = self._looked(record, late.cursor, high, upto)
        gone = without_folders((pending.intervals[i].lineage for i in late.again), pending.scan.tables)
        held = with_holds(pending.intervals, {**late.held, **gone})
        return replace(pending, late=late.again.difference(gone), intervals=held)

    def _late(self, pending: Pending) -> LateTables:
        """The tables that nobody asked for when the cursor passed files of theirs."""
        late = not_followed_yet(pending.record, pending.intervals)
        followed = [n.lineage for n in pending.intervals.values() if n.lineage not in late] if late else []
        places = self._lake.places(pending.history) if late else {}

        def obstacle(lineage: Lineage) -> str:
            if not self._lake.by_arrival:
                return ""
            table = load_or_none(self._lake.catalog, places[lineage.id].changelog)
            is_there = table is not None and lineage_of(table) == lineage.id and progress_of(table) != Progress()
            return obstacle_by_arrival(lineage, followed, is_there)

        return late_tables(pending.cursor, pending.scan.tables, late, obstacle)

    def _checkpoint(self, record: WatermarkRecord | None) -> int | None:
        """How far the source is; SourceError where it has told that once and does not now."""
        checkpoint = read_checkpoint(self._root)
        if checkpoint is None and record is not None and record.tso:
            raise SourceError(
                self._root.where(METADATA),
                f"a checkpoint, since the lake is complete up to {record.tso} from it",
                "no such file",
                "Check that `sink_uri` or `source.storage` names the folder that TiCDC writes to. Nothing was read.",
            )
        return checkpoint

    def _looked(self, record: WatermarkRecord | None, cursor: Cursor, high: int, upto: int | None) -> Pending:
        skip = self._changefeed.skip_files
        found = scan(
            self._root,
            Layout.of(self._changefeed.sink),
            cursor,
            checkpoint_ts=upto,
            skip_files=skip,
            tells_repeats=not self._lake.by_arrival,
        )
        kept = {event.where: event for event in self._lake.control.ddl_events()}
        told = [file.to_ddl_event() for file in found.schema_files]
        fresh = [event for event in told if kept.get(event.where) != event]
        events = {**kept, **{event.where: event for event in fresh}}.values()
        history = self._lake.folds.of(events)
        chosen = [lineage for lineage in history.lineages if self._lake.asks_for(lineage)]
        return Pending(
            run_id=uuid.uuid4().hex,
            high=high,
            record=record,
            cursor=cursor,
            scan=found,
            history=history,
            intervals=intervals(chosen, self._lake.lows(record), high, self._holds(found.problems, history)),
            news=tuple(event for event in fresh if event.where not in kept),
            mended=tuple(event for event in fresh if event.where in kept),
            told={
                (fold_name(e.schema, e.table), e.commit_ts): tuple(c.name for c in e.after.columns)
                for e in events
                if e.after is not None
            },
            by_arrival=self._lake.by_arrival,
        )

    def _holds(self, problems: Sequence[Problem], history: History) -> dict[SourceName, Hold]:
        borne = {fold_name(t.schema, t.table) for n in history.lineages if self._lake.asks_for(n) for t in n.tenures}
        asked = (p for p in problems if self._lake.follows(p.schema, p.table) or fold_name(p.schema, p.table) in borne)
        return holds_of(asked, history)

    # -- changelogs -----------------------------------------------------------------------------------------------

    def publish_changelogs(
        self, pending: Pending, workers: Workers, say: Callable[[str], None] = lambda _: None
    ) -> ChangelogReport:
        """Decode all pending files in one pass and append to every changelog; leaves a record with the cursor."""
        from ticdc_assets.pipeline.decode import decode  # what looks alone need not wait for this

        lake = self._lake
        reached(Moment.LOOKED)
        lake.control.mend_ddl_events(pending.mended)
        lake.control.keep_ddl_events(pending.news)
        reached(Moment.SCHEMAS_KEPT)
        pending = self._noted(pending)
        settled, tables = settled_changelogs(lake, pending.history, pending.intervals, pending.record)
        reached(Moment.CHANGELOGS_MADE)
        pending = replace(pending, intervals=settled)
        plan = self._plan(pending, tables)
        tasks = self._tasks(pending, tables, plan)
        say(f"decoding {counted(len(plan.read), 'file')} in {counted(len(tasks), 'task')}")
        reports = workers.map(decode, tasks)
        reached(Moment.DECODED)
        files = [file for report in reports for file in report.files]
        held = held_by_files(plan, files)
        quarantined = self._quarantine(pending, plan, files, held)
        reached(Moment.QUARANTINED)
        say("publishing changelogs")
        published, broken = publish_all(
            lake, pending.run_id, pending.history, pending.intervals, tables, reports, held, workers, plan.consumed(),
            deliveries_are_told=True,
        )  # fmt: skip
        held |= broken
        record = self._record(pending, plan, tables, files, held, published)
        return ChangelogReport(
            run_id=pending.run_id,
            high=pending.high,
            rows_by_op={lineage_id: p.rows_by_op for lineage_id, p in published.items() if p.rows_by_op},
            late_rows=late_rows(published, tables, pending.record),
            repeats=sum(f.repeats for f in files) + sum(p.repeats for p in published.values()),
            zero_dates=sum(f.zero_dates for f in files),
            quarantined=quarantined,
            files=len(files),
            record=record,
        )

    def _noted(self, pending: Pending) -> Pending:
        """With tables that are asked for only now on record, at nothing, and the cursor from where they are read: a run
        that ends after it has published some of them leaves them like any others."""
        if not pending.late or pending.record is None:
            return pending
        places = self._lake.places(pending.history)
        hold = Hold(TableState.WAITING, "It is asked for since this run, and is read from its beginning.")
        new = [table_record(pending.intervals[i], hold, None, places[i], None, "") for i in sorted(pending.late)]
        record = replace(
            pending.record,
            recorded_at=now(),
            run_id=pending.run_id,
            complete=False,
            cursor=pending.cursor.to_json(),
            tables=(*(t for t in pending.record.tables if t.lineage not in pending.late), *new),
        )
        self._lake.control.record(record)
        return replace(pending, record=record)

    def _plan(self, pending: Pending, tables: dict[str, Table]) -> Plan:
        progress = {lineage_id: progress_of(table) for lineage_id, table in tables.items()}
        return Plan(
            files=pending.scan.data,
            history=pending.history,
            intervals=pending.intervals,
            progress=progress,
            cursor=pending.cursor,
            by_arrival=self._lake.by_arrival,
            follows=self._lake.follows,
            told=pending.told,
            seen=pending.scan.seen,
        )

    def _tasks(self, pending: Pending, tables: dict[str, Table], plan: Plan) -> list[DecodeTask]:
        targets = {i: target_of(pending.intervals[i], tables[i], pending.intervals[i].low) for i in plan.open}
        whole = {name: any(_is_keyless(slot) for slot in slots) for name, slots in plan.timelines.items()}
        tasks = []
        for number, dealt in enumerate(pack(plan.task_files(), self._lake.cores, whole)):
            timelines = {file.name: plan.timelines[file.name] for file in dealt}
            lineages = {slot.lineage_id for slots in timelines.values() for slot in slots}
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
                    timelines=timelines,
                    targets={i: target for i, target in targets.items() if i in lineages},
                    io_properties=self._lake.io_properties,
                    held={i: low for i, low in plan.held.items() if i in lineages},
                    quarantine=self._changefeed.on_bad_message == "quarantine",
                    zero_dates_allowed=self._changefeed.zero_dates == "null",
                )
            )
        return tasks

    def _forms(self) -> TextForms:
        zone = self._changefeed.time_zone
        return self._lake.csv_options.forms(zone) if self._changefeed.sink.protocol == "csv" else canal_json.forms(zone)

    # -- afterwards -----------------------------------------------------------------------------------------------

    def _quarantine(self, pending: Pending, plan: Plan, files: Iterable[FileReport], held: Mapping[str, Hold]) -> int:
        """Keep the bad records of the tables that go on, before anything is published: a record is then either in a
        changelog or in quarantine, wherever a run may end. Files of held tables come again."""
        offered = {file.path: file for file in plan.read}
        told = {file.path: file for file in plan.task_files()}
        records = [
            QuarantinedRecord(
                now(), pending.run_id, bad.schema, bad.table, bad.path, bad.line, bad.reason, bad.raw,
                told[bad.path].folder_version, told[bad.path].ordinal,
            )
            for file in files
            if file.state is FileState.READ and plan.held_by(offered[file.path]).isdisjoint(held)
            for bad in file.bad
        ]  # fmt: skip
        self._lake.control.quarantine(records)
        return len(records)

    def _record(
        self,
        pending: Pending,
        plan: Plan,
        tables: dict[str, Table],
        files: Sequence[FileReport],
        held: dict[str, Hold],
        published: dict[str, Published],
    ) -> WatermarkRecord:
        record = WatermarkRecord(
            recorded_at=now(),
            run_id=pending.run_id,
            tso=pending.high,
            complete=False,
            cursor=advanced(pending.cursor, pending.scan, plan, files, held).to_json(),
            tables=tuple(self._table_records(pending, plan, tables, held, published)),
        )
        newest = self._lake.control.newest()
        if newest is not None and (newest != pending.record or says_the_same(record, newest)):
            return newest  # another run has recorded meanwhile, and may know more files, or there is nothing new
        reached(Moment.BEFORE_CURSOR)
        self._lake.control.record(record)
        reached(Moment.AFTER_CURSOR)
        return record

    def _table_records(
        self,
        pending: Pending,
        plan: Plan,
        tables: dict[str, Table],
        held: dict[str, Hold],
        published: dict[str, Published],
    ) -> Iterable[TableRecord]:
        recorded = self._lake.recorded(pending.record)
        places = self._lake.places(pending.history)
        for lineage_id, interval in pending.intervals.items():
            old = recorded.get(lineage_id)
            table = published[lineage_id].table if lineage_id in published else tables.get(lineage_id)
            warnings = warnings_of(pending.scan, interval.lineage, old)
            yield table_record(interval, held.get(lineage_id), old, places[lineage_id], table, warnings)
        yield from unknown_tables(plan, pending.problems).values()


def _is_keyless(slot: Slot) -> bool:
    return slot.version is not None and not slot.version.table.key
