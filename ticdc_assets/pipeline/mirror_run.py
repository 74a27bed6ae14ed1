"""Brings mirrors up to their changelogs, then records the TSO at which all tables can be read together.

It starts from the newest record and the tables themselves, not from the run that published the changelogs, so it can
be run alone, twice, or after a crash.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from ticdc_assets.amounts import counted
from ticdc_assets.faults import of_one_table
from ticdc_assets.moments import Moment, reached
from ticdc_assets.names import column_name
from ticdc_assets.pipeline.exchanges import Exchanges
from ticdc_assets.pipeline.interval import TableState
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.mirror_retirement import retire
from ticdc_assets.pipeline.mirror_rounds import Course, catch_up
from ticdc_assets.pipeline.mirror_work import MirrorWork, blocked_tables, damage_of, mirror_of, pending_work
from ticdc_assets.pipeline.replay_mirror import made_anew, merged_again, name_beside
from ticdc_assets.pipeline.segments import lost_key, segments
from ticdc_assets.schema.lineage import History, Lineage
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.tables.catalog import Identifier
from ticdc_assets.tables.control import TableRecord, WatermarkRecord, now
from ticdc_assets.tables.iceberg_jvm import JvmCatalog
from ticdc_assets.tables.mirror import MirrorOptions, MirrorWriter
from ticdc_assets.tables.mirror_branch import still_at
from ticdc_assets.tables.mirror_size import live_rows
from ticdc_assets.tables.places import Place
from ticdc_assets.tables.progress import progress_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.spark import Workers
    from ticdc_assets.tables.mirror import Segment

MIRROR_FAULT: Final = "its mirror: "
"""How the note of a table begins whose changelog is well and whose mirror is not."""


@dataclass(slots=True)
class MirrorReport:
    """What came of the mirrors: the record, the mirrors brought forward, and the errors by lineage."""

    record: WatermarkRecord
    merged: list[str] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)


def run_mirrors(
    lake: Lake,
    run_id: str,
    jvm: Callable[[], JvmCatalog],
    say: Callable[[str], None] = lambda _: None,
    only: Iterable[str] | None = None,
) -> MirrorReport | None:
    """Bring all mirrors (or those of the lineages `only`) up to the newest record. None where there is no record yet.

    `jvm` is called only where a mirror needs work. Errors of one mirror stop no other. With `on_drop: drop` mirrors of
    dropped tables go.
    """
    record = lake.control.newest()
    if record is None:
        return None
    history = lake.history()
    lake.settle_mirrors(history, record)
    jvm = cache(jvm)
    exchanges = Exchanges(lake, jvm, history, record)
    asked = None if only is None else exchanges.with_partners(set(only))
    late = exchanges.late()
    report = MirrorReport(record, errors=dict(late))
    works = pending_work(lake, history, record, asked, report.errors, exchanges.awaited())
    report.errors.update({work.lineage.id: work.damage for work in works if work.damage})
    works = [work for work in works if not work.damage and work.lineage.id not in late]
    if works:
        say(f"merging {counted(len(works), 'mirror')}")
        _bring_up(lake, run_id, jvm(), works, report)
    while advanced := exchanges.advance(set(report.errors), asked):
        say(f"exchanged rows in {counted(len(advanced), 'changelog')}")
        works = pending_work(lake, history, record, advanced - report.errors.keys(), report.errors, exchanges.awaited())
        _bring_up(lake, run_id, jvm(), works, report)
    report.errors = {**exchanges.errors, **report.errors}
    for mirror in retire(lake, history, record, exchanges.awaited()):
        say(f"removed the mirror {'.'.join(mirror)}: its source table was dropped")
    report.record = record_mirrors(lake, run_id, history, record, report, only is None)
    return report


def _bring_up(lake: Lake, run_id: str, jvm: JvmCatalog, works: Sequence[MirrorWork], report: MirrorReport) -> None:
    workers = SparkWorkers(jvm.spark)
    courses = [_course(lake, run_id, jvm, work) for work in works]
    catch_up(lake, courses, workers)
    for work, course in zip(works, courses, strict=True):
        if (work.replayed is not None or work.to_be_made_anew) and not course.error:
            _guarded_follow(lake, run_id, jvm, workers, work, course)
        if course.error:
            report.errors[work.lineage.id] = course.error
        elif work.lineage.id not in report.merged:
            report.merged.append(work.lineage.id)


def _guarded_follow(
    lake: Lake, run_id: str, jvm: JvmCatalog, workers: Workers, work: MirrorWork, course: Course
) -> None:
    try:
        _follow(lake, run_id, jvm, workers, work, course)
    except Exception as error:  # noqa: BLE001  raised again where it is not of one table
        course.error = str(of_one_table(error))


def _follow(lake: Lake, run_id: str, jvm: JvmCatalog, workers: Workers, work: MirrorWork, course: Course) -> None:
    """Bring into the mirror, from where its course has left it, what came back or came late to its changelog; one that
    was just made has it."""
    assert course.table is not None, "a course without an error has opened its mirror"
    # The changelog is as the run was planned: what another run has merged since must not be merged over.
    mirror = course.table = still_at(course.table, progress_of(course.table))
    if not work.is_new:
        again = _merged_again(lake, work, mirror)
        if again is not None:
            course.left.append(again)
            catch_up(lake, [course], workers)
        else:
            beside = writer_of(lake, run_id, jvm, work.lineage, name_beside(lake, work.lineage, run_id))
            watermark = max(work.watermark, progress_of(mirror).watermark)
            planned = segments(work.lineage, work.changelog, None, watermark, lake.by_arrival)
            made_anew(lake, jvm, course, beside, planned, workers)
    if work.replayed is not None and not course.error:
        course.writer.note_replay(course.table, work.replayed.run_id)


def _merged_again(lake: Lake, work: MirrorWork, mirror: Table) -> Segment | None:
    if work.replayed is None or work.to_be_made_anew:
        return None
    return merged_again(lake, work.lineage, work.changelog, mirror, work.replayed, work.watermark)


def _course(lake: Lake, run_id: str, jvm: JvmCatalog, work: MirrorWork) -> Course:
    writer = writer_of(lake, run_id, jvm, work.lineage, work.place.mirror)
    return Course(writer, work.lineage, work.place.mirror_location, work.changelog, work.planned, deque(work.segments))


def writer_of(lake: Lake, run_id: str, jvm: JvmCatalog, lineage: Lineage, identifier: Identifier) -> MirrorWriter:
    """What writes a mirror of the lineage under this name."""
    options = options_of(lake, lineage)
    changefeed = lake.changefeed
    return MirrorWriter(lake.catalog, jvm, identifier, changefeed.name, run_id, options, changefeed.time_zone)


def options_of(lake: Lake, lineage: Lineage) -> MirrorOptions:
    """What the config asks of the lineage's mirror."""
    fields = lake.changefeed.partition_of(*lineage.name)
    first_key = column_name(lineage.newest.key[0]) if lineage.newest.key else ""
    spec = tuple((f.transform, f.argument, column_name(f.column) if f.column else first_key) for f in fields)
    return MirrorOptions(lake.changefeed.format_version, spec)


# -- the record --------------------------------------------------------------------------------------------------------


def record_mirrors(
    lake: Lake, run_id: str, history: History, record: WatermarkRecord, report: MirrorReport, asked_for_all: bool
) -> WatermarkRecord:
    """Write what is now true of every table; `complete` where no table is held and no mirror is behind."""
    places = lake.places(history)
    lineages = history.by_id()
    exchanges = Exchanges(lake, None, history, record)
    errors = {**exchanges.undone(), **exchanges.late(), **report.errors}
    tables = tuple(
        exchanges.with_snapshot(_guarded_record(lake, lineages, places, table, errors)) for table in record.tables
    )
    complete = not blocked_tables(tables) and (asked_for_all or not _is_behind(lake, history, record))
    newest = lake.control.newest()
    if newest is not None and newest != record:
        return newest  # another run goes on from there: what its mirrors show is not of this record's TSO
    fresh = replace(record, recorded_at=now(), run_id=run_id, complete=complete, tables=tables)
    if (fresh.tables, fresh.complete) != (record.tables, record.complete):
        reached(Moment.BEFORE_RECORD)
        lake.control.record(fresh)
        reached(Moment.AFTER_RECORD)
    lake.control.keep_tables(tables)
    return fresh


def _is_behind(lake: Lake, history: History, record: WatermarkRecord) -> bool:
    errors: dict[str, str] = {}
    return bool(pending_work(lake, history, record, errors=errors) or errors)


def _guarded_record(
    lake: Lake,
    lineages: Mapping[str, Lineage],
    places: Mapping[str, Place],
    table: TableRecord,
    errors: Mapping[str, str],
) -> TableRecord:
    """The same, or what was known of a table whose mirror cannot be read."""
    try:
        return _table_record(lake, lineages, places, table, errors)
    except Exception as error:  # noqa: BLE001  raised again where it is not of one table
        fault = errors.get(table.lineage) or str(of_one_table(error))
        return replace(table, state=str(TableState.STOPPED), note=MIRROR_FAULT + fault)


def _table_record(
    lake: Lake,
    lineages: Mapping[str, Lineage],
    places: Mapping[str, Place],
    table: TableRecord,
    errors: Mapping[str, str],
) -> TableRecord:
    if table.lineage not in lineages:
        return table
    mirror = mirror_of(lake, table.lineage, places[table.lineage])
    snapshot = mirror.current_snapshot() if mirror is not None else None
    damage = damage_of(lineages[table.lineage], mirror) if mirror is not None else ""
    error = errors.get(table.lineage) or damage or _key_came_back(lineages[table.lineage], table.watermark)
    if lost_key(lineages[table.lineage], table.watermark) is not None:
        mirror, snapshot = None, None  # what it shows is older than the table's changelog
    state, note = (str(TableState.STOPPED), MIRROR_FAULT + error) if error else _without_fault(table, lineages)
    return replace(
        table,
        mirror=list(places[table.lineage].mirror) if mirror is not None else None,
        mirror_snapshot_id=snapshot.snapshot_id if snapshot else None,
        rows=live_rows(mirror) if mirror is not None else None,
        state=state,
        note=note,
    )


def _without_fault(table: TableRecord, lineages: Mapping[str, Lineage]) -> tuple[str, str]:
    """State and note of a table whose mirror is well, whatever an earlier run said of it."""
    if not table.note.startswith(MIRROR_FAULT):
        return table.state, table.note
    dropped = lineages[table.lineage].dropped_ts is not None
    return str(TableState.DROPPED if dropped else TableState.LIVE), ""


def _key_came_back(lineage: Lineage, watermark: int) -> str | None:
    lost = lost_key(lineage, watermark)
    if lost is None or not lineage.version_at(watermark + 1).table.key:
        return None
    return (
        f"{lineage.name[0]}.{lineage.name[1]}: expected a key without a break, found none from {lost} on for a while. "
        "Its changelog is complete; no mirror can be made of the rows of that time."
    )
