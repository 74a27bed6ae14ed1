"""Brings mirrors up to their changelogs, then records the TSO at which all tables can be read together.

It starts from the newest record and the tables, not from the run that published the changelogs. So it can run alone,
twice, or after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from ticdc_assets.advice import Advice
from ticdc_assets.config import Publish
from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.faults import of_one_table
from ticdc_assets.notes import LAKE_FAULTS, Note, NoteCode
from ticdc_assets.pipeline.commit_range import TableState
from ticdc_assets.pipeline.history_tables.pending import history_table_of, pending_histories, refusal
from ticdc_assets.pipeline.history_tables.run import run_histories
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.mirror.exchanges import Exchanges
from ticdc_assets.pipeline.mirror.pending import (
    MirrorWork,
    blocked_tables,
    damage_of,
    mirror_of,
    pending_work,
    tables_beyond,
)
from ticdc_assets.pipeline.mirror.replayed import merged_again, rebuild_mirror, replacement_name
from ticdc_assets.pipeline.mirror.retirement import retire
from ticdc_assets.pipeline.mirror.rounds import Failure, MirrorJob, catch_up, guarded
from ticdc_assets.pipeline.mirror.segments import lost_key, segments
from ticdc_assets.pipeline.mirror.staged import StagedMirrors
from ticdc_assets.pipeline.mirror.writers import writer_of
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets.pipeline.quarantine import with_quarantine
from ticdc_assets.pipeline.recorded.views import bring_up_views
from ticdc_assets.pipeline.renamed_tables import rename_histories, rename_mirrors
from ticdc_assets.pipeline.set_back import require_control_tables
from ticdc_assets.plurals import counted
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets.tables.locations import TableLocations
from ticdc_assets.tables.mirror.branch import require_progress
from ticdc_assets.tables.mirror.size import live_rows
from ticdc_assets.tables.progress import progress_of
from ticdc_assets.tso import now
from ticdc_assets.work_progress import OnProgress, no_progress

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.spark import Workers
    from ticdc_assets.tables.mirror.writer import Segment


@dataclass(slots=True)
class MirrorReport:
    """The result for the mirrors: the record, the mirrors that advanced, and the errors by source table."""

    record: WatermarkRecord
    merged: list[str] = field(default_factory=list)
    errors: dict[str, Note] = field(default_factory=dict)


def run_mirrors(
    lake: Lake,
    run_id: str,
    jvm: Callable[[], JvmCatalog],
    on_progress: OnProgress = no_progress,
    only: Iterable[str] | None = None,
) -> MirrorReport | None:
    """Bring mirrors and history tables up to the newest record, then record their snapshots. With `on_drop: drop`,
    mirrors of dropped tables are removed. An error of one table stops no other. With `publish: together`, one commit at
    the end publishes all mirrors and the record.

    Args:
        jvm: returns the catalog in Spark's JVM; called only if a table needs work.
        only: the ids of the source tables to bring up; None for all.

    Returns:
        None if there is no record yet.

    Raises:
        StaleRunError: another run has published first.
        ConfigError: the catalog cannot publish mirrors together.
    """
    require_control_tables(lake)
    lake.control.claim()
    record = lake.control.newest()
    if record is None:
        return None
    plan = Plan.of(lake, record, lake.history())
    jvm = cache(jvm)
    if lake.changefeed.mirror.publish is Publish.EACH:
        return _run(lake, run_id, jvm, plan, on_progress, only)
    staged = StagedMirrors(lake, run_id, jvm, plan)
    try:
        return _run(lake, run_id, jvm, staged.plan, on_progress, only, staged)
    finally:
        staged.close()


def _run(
    lake: Lake,
    run_id: str,
    jvm: Callable[[], JvmCatalog],
    plan: Plan,
    on_progress: OnProgress,
    only: Iterable[str] | None,
    staged: StagedMirrors | None = None,
) -> MirrorReport:
    record = plan.newest
    rename_mirrors(lake, plan)
    rename_histories(lake, plan)
    with suppress(Exception):  # the end of the run reports it
        bring_up_views(lake, jvm, plan.history)  # they name mirrors, which have been renamed
    exchanges = Exchanges(lake, jvm, plan)
    selected = None if only is None else exchanges.with_partners(set(only))
    late = exchanges.late()
    report = MirrorReport(record, errors=dict(late))
    works = pending_work(lake, plan, selected, report.errors, exchanges.awaited())
    report.errors.update({work.source_table.id: work.damage for work in works if work.damage is not None})
    works = [work for work in works if work.damage is None and work.source_table.id not in late]
    if works:
        on_progress(f"merging {counted(len(works), 'mirror')}")
        _bring_up(lake, run_id, jvm(), works, report, on_progress, staged)
    while advanced := exchanges.advance(set(report.errors), selected):
        on_progress(f"exchanged rows in {counted(len(advanced), 'changelog')}")
        works = pending_work(lake, plan, advanced - report.errors.keys(), report.errors, exchanges.awaited())
        _bring_up(lake, run_id, jvm(), works, report, on_progress, staged)
    report.errors = {**exchanges.errors, **report.errors}
    made = (i for i in _ids(record, selected) if i not in report.errors)
    report.errors |= run_histories(lake, run_id, jvm, plan, made, on_progress)
    kept = exchanges.awaited() | (staged.source_tables if staged is not None else frozenset())
    for mirror in retire(lake, plan, kept):
        on_progress(f"removed the mirror {'.'.join(mirror)}: its source table was dropped")
    report.record = record_mirrors(lake, run_id, plan, report, only is None, staged)
    bring_up_views(lake, jvm, plan.history, on_progress)
    return report


def _ids(record: WatermarkRecord, only: Collection[str] | None) -> list[str]:
    return [t.source_table for t in record.tables if only is None or t.source_table in only]


def _bring_up(
    lake: Lake,
    run_id: str,
    jvm: JvmCatalog,
    works: Sequence[MirrorWork],
    report: MirrorReport,
    on_progress: OnProgress,
    staged: StagedMirrors | None,
) -> None:
    if staged is not None:
        works = staged.stage(works, report.errors)
    workers = SparkWorkers(jvm.spark)
    jobs = [_job(lake, run_id, jvm, work) for work in works]
    for work, job, mirror in zip(works, jobs, catch_up(lake, jobs, workers, on_progress), strict=True):
        outcome = mirror
        if (work.replayed is not None or work.must_be_rebuilt) and not isinstance(mirror, Failure):
            outcome = guarded(partial(_follow, lake, run_id, jvm, workers, work, job, mirror))
        if isinstance(outcome, Failure):
            report.errors[work.source_table.id] = outcome.note
        elif work.source_table.id not in report.merged:
            report.merged.append(work.source_table.id)


def _follow(
    lake: Lake, run_id: str, jvm: JvmCatalog, workers: Workers, work: MirrorWork, job: MirrorJob, merged: Table
) -> Table | Failure:
    """Merge replayed and late changes of the changelog into the mirror, after its segments are merged. A new mirror
    already has them."""
    # The changelog is that of the plan: a newer merge of another run must not be overwritten.
    mirror: Table | Failure = (merged := require_progress(merged, progress_of(merged)))
    if not work.is_new:
        again = _merged_again(lake, work, merged)
        if again is not None:
            [mirror] = catch_up(lake, [replace(job, planned=progress_of(merged), segments=(again,))], workers)
        else:
            replacement = writer_of(
                lake, run_id, jvm, work.source_table, replacement_name(lake, work.source_table, run_id)
            )
            watermark = max(work.watermark, progress_of(merged).watermark)
            planned = segments(work.source_table, work.changelog, None, watermark, lake.by_arrival)
            mirror = rebuild_mirror(lake, jvm, job, merged, replacement, planned, workers)
    if work.replayed is not None and not isinstance(mirror, Failure):
        job.writer.note_replay(mirror, work.replayed.run_id)
    return mirror


def _merged_again(lake: Lake, work: MirrorWork, mirror: Table) -> Segment | None:
    if work.replayed is None or work.must_be_rebuilt:
        return None
    return merged_again(lake, work.source_table, work.changelog, mirror, work.replayed, work.watermark)


def _job(lake: Lake, run_id: str, jvm: JvmCatalog, work: MirrorWork) -> MirrorJob:
    writer = writer_of(lake, run_id, jvm, work.source_table, work.place.mirror)
    return MirrorJob(
        writer, work.source_table, work.place.mirror_location, work.changelog, work.planned, tuple(work.segments)
    )


# -- the record --------------------------------------------------------------------------------------------------------


def record_mirrors(
    lake: Lake,
    run_id: str,
    plan: Plan,
    report: MirrorReport,
    asked_for_all: bool,
    staged: StagedMirrors | None = None,
) -> WatermarkRecord:
    """Record the present state of every table. A table is complete if it is not held, and not behind or beyond the
    recorded TSO; the record is complete if all tables are. A table is beyond it after a run that ended before its
    record, and in a run up to an earlier TSO.

    Args:
        plan: its record is the one from which this run started.
        report: what this run did to the mirrors.
        asked_for_all: whether the run was to bring up all tables; else tables that lack changes make the record
            incomplete.
        staged: the mirrors that are published in one commit with the record.

    Returns:
        The new record, or that of another run that has recorded meanwhile.
    """
    if staged is not None:
        staged.prepare(report.errors)
    record, exchanges = plan.newest, Exchanges(lake, None, plan)
    faults = {**exchanges.undone(), **exchanges.late(), **report.errors}
    found = (_guarded_record(lake, plan, table, faults) for table in record.tables)
    present = [t if t.has(NoteCode.SET_BACK) else exchanges.with_snapshot(t) for t in found]
    present = present if staged is None else staged.with_names(present)
    tables = with_quarantine(lake, present, plan.history)
    lacking = {t.source_table for t in (*blocked_tables(tables), *tables_beyond(tables, record.tso))}
    lacking |= set() if asked_for_all else _behind(lake, plan)
    tables = tuple(replace(table, complete=table.source_table not in lacking) for table in tables)
    complete = all(table.complete for table in tables)
    newest = lake.control.newest()
    if newest is not None and newest != record:
        if staged is not None:
            staged.publish(None)
        return newest  # another run continues from there: the mirrors here are not at this record's TSO
    fresh = replace(record, recorded_at=now(), run_id=run_id, complete=complete, tables=tables, settled=True)
    if not record.settled or (fresh.tables, fresh.held) != (record.tables, record.held):
        hit(Failpoint.BEFORE_RECORD)
        (staged.publish if staged is not None else lake.control.record)(fresh)
        hit(Failpoint.AFTER_RECORD)
    elif staged is not None:
        staged.publish(None)
    lake.control.keep_tables(tables)
    return fresh


def _behind(lake: Lake, plan: Plan) -> set[str]:
    """The tables that lack changes of their changelog in a mirror or a history table."""
    errors: dict[str, Note] = {}
    mirrors = pending_work(lake, plan, errors=errors)
    histories = pending_histories(lake, plan, errors=errors)
    behind = {work.source_table.id for work in mirrors} | {work.source_table.id for work in histories}
    given_up = {
        t.source_table for t in plan.recorded.values() if t.state == str(TableState.DROPPED) and t.has(NoteCode.MIRROR)
    }
    return (behind | errors.keys()) - given_up


def _guarded_record(lake: Lake, plan: Plan, table: TableRecord, faults: Mapping[str, Note]) -> TableRecord:
    """The record of a table; the former one where its mirror cannot be read."""
    try:
        return _table_record(lake, plan, table, faults)
    except Exception as error:  # noqa: BLE001  raised again where it is not of one table
        fault = faults.get(table.source_table) or Note.of(NoteCode.MIRROR, of_one_table(error))
        return _with_fault(table, plan, fault)


def _table_record(lake: Lake, plan: Plan, table: TableRecord, faults: Mapping[str, Note]) -> TableRecord:
    source_table = plan.source_tables.get(table.source_table)
    if source_table is None:
        return table
    place = plan.locations[source_table.id]
    mirror = mirror_of(lake, source_table.id, place)
    snapshot = mirror.current_snapshot() if mirror is not None else None
    damage = damage_of(source_table, mirror) if mirror is not None else None
    fault = faults.get(table.source_table) or damage or _key_came_back(source_table, table.watermark)
    if lost_key(source_table, table.watermark) is not None:
        mirror, snapshot = None, None  # it shows rows older than the table's changelog
    if not table.has(NoteCode.LATE_STATEMENT):
        table = _with_fault(table, plan, fault) if fault else _without_fault(table, plan)
    name, history_snapshot_id = _history_of(lake, source_table, place, table)
    return replace(
        table,
        mirror=list(place.mirror) if mirror is not None else None,
        mirror_snapshot_id=snapshot.snapshot_id if snapshot else None,
        rows=live_rows(mirror) if mirror is not None else None,
        history_table=name,
        history_snapshot_id=history_snapshot_id,
    )


def _history_of(
    lake: Lake, source_table: SourceTable, place: TableLocations, table: TableRecord
) -> tuple[list[str] | None, int | None]:
    """The name and the snapshot of the table's history; None where it is not kept up to the table's watermark."""
    if not lake.keeps_history(source_table) or refusal(lake, source_table, table.watermark):
        return None, None
    found = history_table_of(lake, source_table.id, place)
    snapshot = found.current_snapshot() if found is not None else None
    return (list(place.history_table), snapshot.snapshot_id) if snapshot is not None else (None, None)


def _with_fault(table: TableRecord, plan: Plan, fault: Note) -> TableRecord:
    """The table with a fault of a table of the lake, and with the reason for which it is held anyway. A dropped table
    holds nothing back because of its mirror: at the recorded TSO it does not exist."""
    sound = _without_fault(table, plan)
    notes = (*sound.notes, fault)
    if sound.state in (str(TableState.WAITING), str(TableState.STOPPED)):
        return replace(sound, notes=notes)
    dropped_ts = plan.source_tables[table.source_table].dropped_ts
    is_gone = dropped_ts is not None and dropped_ts <= plan.newest.tso and fault.code == NoteCode.MIRROR
    return replace(sound, state=str(TableState.DROPPED if is_gone else TableState.STOPPED), notes=notes)


def _without_fault(table: TableRecord, plan: Plan) -> TableRecord:
    """The table as if no table of the lake had a fault, whatever an earlier run recorded."""
    rest = tuple(note for note in table.notes if note.code not in LAKE_FAULTS)
    if rest == table.notes or not all(note.is_warning for note in rest):
        return replace(table, notes=rest)
    dropped = plan.source_tables[table.source_table].dropped_ts is not None
    return replace(table, state=str(TableState.DROPPED if dropped else TableState.LIVE), notes=rest)


def _key_came_back(source_table: SourceTable, watermark: int) -> Note | None:
    lost = lost_key(source_table, watermark)
    if lost is None or not source_table.version_at(watermark + 1).table.key:
        return None
    name = ".".join(source_table.name)
    detail = f"{name}: expected a key at all times, found a time without one, which begins at {lost}."
    return Note(NoteCode.MIRROR, detail, (Advice.NAME_KEY_IF_SENT, Advice.CREATE_AGAIN))
