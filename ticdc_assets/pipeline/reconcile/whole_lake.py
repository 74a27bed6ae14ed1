"""Brings a whole lake to TiDB's state at a TSO after its stream was lost, and lets it go on with a new stream.

What TiDB has is read before anything is recorded. Then the gap is recorded, which holds every table until its rows are
those of TiDB at its end. A call that ends early is completed by the next one, at the same TSO. The source is then read
from its beginning: what it has of the time up to the TSO is known already, or is in the gap.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ticdc_assets.config import KafkaSource
from ticdc_assets.errors import ConfigError, NotYetError, SchemaError, TicdcAssetsError
from ticdc_assets.names.folding import fold
from ticdc_assets.pipeline.commit_range import CommitRange, TableState, not_copied
from ticdc_assets.pipeline.history.verification import refusal
from ticdc_assets.pipeline.history.verify import TableVerdict, upstream_of
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets.pipeline.reconcile.copy import completed
from ticdc_assets.pipeline.reconcile.load import ALL_TABLES, tables_of
from ticdc_assets.pipeline.reconcile.repair import added, rebuild_changed_by_others, verification
from ticdc_assets.pipeline.reconcile.resync import ResyncReport
from ticdc_assets.pipeline.record import table_record
from ticdc_assets.pipeline.run.mirrors import run_mirrors
from ticdc_assets.pipeline.set_back import require_control_tables
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.ddl_event import DdlEvent, gaps_of
from ticdc_assets.schema.history.fold.loaded import created
from ticdc_assets.schema.history.source_table import fold_name
from ticdc_assets.schema.model import Kind
from ticdc_assets.sources.upstream.rows import NotThereError, UpstreamRows
from ticdc_assets.sources.upstream.sql import table_reference
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.tables import messages
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.progress import progress_of
from ticdc_assets.tso import now
from ticdc_assets.work_progress import OnProgress, no_progress

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.history.source_table import SourceName, SourceTable
    from ticdc_assets.schema.model import TableSchema
    from ticdc_assets.sources.dump.listing import Dump
    from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog


@dataclass(frozen=True, slots=True)
class _Work:
    """What one call shares: the lake, TiDB, and the gap."""

    lake: Lake
    rows: UpstreamRows
    jvm: Callable[[], JvmCatalog]
    on_progress: OnProgress
    begin: int
    end: int


def resync_all(
    lake: Lake, at: int | None, jvm: Callable[[], JvmCatalog], on_progress: OnProgress = no_progress
) -> ResyncReport:
    """Bring all tables to what TiDB has at the TSO `at`; None is that of a call that ended early, else TiDB's present.
    The mirrors follow in `mirror.run`. An error of one table stops no other: the table is held.

    Raises:
        ConfigError: there is no `upstream`, the stream has no commit_ts, or `at` is below what the lake has.
        NotYetError: there was no run, or TiDB cannot be read: nothing is recorded then.
    """
    upstream, where = upstream_of(lake), f"changefeed {lake.changefeed.name}"
    require_control_tables(lake)
    record = lake.control.newest()
    if record is None:
        raise NotYetError(where, "a run", "none", "Run `ticdc-assets run` first.")
    begin, end = _unfinished(lake, record)
    least = end or record.tso
    if at is not None and at < least:
        raise ConfigError("--at", f"a TSO from {least} on, up to which the lake is read", str(at), "Take a later TSO.")
    report = ResyncReport()
    with UpstreamRows(upstream) as rows:
        if not end or at not in (None, end):
            begin, end = least, at or rows.now()
            _begin(_Work(lake, rows, jvm, on_progress, begin, end), record, report)
        work = _Work(lake, rows, jvm, on_progress, begin, end)
        report.gap = (begin, end)
        _read_source_anew(lake, record, end)
        done = _reconciled(work, report)
        _record(work, done, report)
    return report


def _unfinished(lake: Lake, record: WatermarkRecord) -> tuple[int, int]:
    """The last gap, if a table does not have its rows at its end yet; else zeros."""
    begin, end = next(reversed(gaps_of(lake.control.ddl_events())), (0, 0))
    lows = lake.lows(record)
    is_open = any(
        n.copied_ts == end and n.dropped_ts is None and lows.get(n.id, 0) < end for n in lake.history().source_tables
    )
    return (begin, end) if end and (record.tso < end or is_open) else (0, 0)


# -- the gap -----------------------------------------------------------------------------------------------------------


def _begin(work: _Work, record: WatermarkRecord, report: ResyncReport) -> None:
    """Record the gap, with the tables that go on after it and those that are copied at its end."""
    lake, end = work.lake, work.end
    work.on_progress("reading the tables of TiDB")
    found = _understood(tables_of(lake, work.rows, end, ALL_TABLES), report)
    mirrors = run_mirrors(lake, uuid.uuid4().hex, work.jvm, work.on_progress)
    recorded = lake.recorded(lake.control.newest())
    live = [i for i, table in recorded.items() if table.state != TableState.DROPPED]
    rebuilt, faults = rebuild_changed_by_others(lake, work.jvm, live, work.on_progress)
    report.rebuilt, errors = list(rebuilt.values()), {*faults, *(mirrors.errors if mirrors else ())}
    source_tables = lake.history().by_id()
    events = [DdlEvent(end, "", "", "", gap_from=work.begin, where=f"resync at {end}")]
    for i in live:
        source_table = source_tables.get(i)
        name = fold_name(recorded[i].schema, recorded[i].table)
        if source_table is None or source_table.dropped_ts is not None:
            continue
        if name not in found:
            _require_gone(work, source_table)
            report.gone.append(".".join(source_table.name))
        elif i not in errors and _has_mirror(lake, recorded[i]) and _goes_on(source_table, found[name]):
            begin = max(work.begin, recorded[i].watermark)
            where = f"resync of {'.'.join(source_table.name)} at {end}"
            events.append(DdlEvent(end, *source_table.name, "", gap_from=begin, where=where))
            del found[name]
    lake.control.keep_ddl_events([*events, *found.values()])


def _understood(dump: Dump, report: ResyncReport) -> dict[SourceName, DdlEvent]:
    """The CREATE TABLE of each table by its name; one that is not understood is an error of its table."""
    found = {}
    for table in dump.tables:
        event = DdlEvent(
            dump.tso or 0, *table.name, table.definition, where=f"{table.where} at {dump.tso}", copied=True
        )
        try:
            created(event)
            found[fold_name(*table.name)] = event
        except SchemaError as error:
            report.errors[".".join(table.name)] = str(error)
    return found


def _require_gone(work: _Work, source_table: SourceTable) -> None:
    """Raise NotYetError where TiDB has the table and does not show it to the user: it would count as dropped."""
    name, shown = source_table.name, ".".join(source_table.name)
    try:
        work.rows.answers(f"SHOW CREATE TABLE {table_reference(*name)}", [], work.end)
    except NotThereError:
        return
    raise NotYetError(shown, "a base table that information_schema.tables lists", "one that it does not list",
                      "Grant the user of `upstream` SELECT on it.")  # fmt: skip


def _has_mirror(lake: Lake, table: TableRecord) -> bool:
    mirror = load_or_none(lake.catalog, tuple(table.mirror)) if table.mirror and table.changelog else None
    return mirror is not None and mirror.current_snapshot() is not None


def _goes_on(source_table: SourceTable, event: DdlEvent) -> bool:
    """Whether rows of TiDB have the columns and the key that the lake's rows have, so that both can be compared."""
    table = source_table.newest
    return (
        source_table.stop is None
        and bool(table.key)
        and not refusal(table)
        and _form(table) == _form(created(event).table)
    )


def _form(table: TableSchema) -> tuple[list[tuple[object, ...]], list[str]]:
    times = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
    columns: list[tuple[object, ...]] = [
        (fold(c.name), str(arrow_type(c.type)), c.type.elements, c.type.length or 0 if c.type.kind in times else 0)
        for c in table.stored_columns
    ]
    return columns, [fold(name) for name in table.key]


def _read_source_anew(lake: Lake, record: WatermarkRecord, end: int) -> None:
    """Forget which offsets of Kafka were landed: topics are landed from where the config says."""
    table = (
        messages.load(lake.catalog, lake.control.namespace) if isinstance(lake.changefeed.source, KafkaSource) else None
    )
    if table is not None and record.tso < end:
        messages.empty(table, lake.changefeed.name)


# -- the rows ----------------------------------------------------------------------------------------------------------


def _reconciled(work: _Work, report: ResyncReport) -> dict[str, Table]:
    """The changelogs of the tables that have the rows of TiDB now."""
    lake, run_id, done = work.lake, uuid.uuid4().hex, {}
    recorded, lows = lake.recorded(lake.control.newest()), lake.lows(lake.control.newest())
    for source_table in lake.history().source_tables:
        if source_table.copied_ts != work.end or source_table.dropped_ts is not None:
            continue
        name, i = ".".join(source_table.name), source_table.id
        report.tsos[name] = work.end
        if lows.get(i, 0) >= work.end:
            continue
        work.on_progress(f"reading {name}")
        try:
            if source_table.gaps:
                done[i], report.added[name] = _repaired(work, source_table, recorded[i], run_id)
            else:
                workers = SparkWorkers(work.jvm().spark)
                report.copied[name] = completed(lake, work.rows, upstream_of(lake), source_table, workers, run_id)
        except TicdcAssetsError as error:
            report.errors[name] = str(error)
    report.run_ids.append(run_id)
    return done


def _repaired(work: _Work, source_table: SourceTable, record: TableRecord, run_id: str) -> tuple[Table, int]:
    """The changelog of a table that goes on, with the rows of TiDB that its mirror lacks, and their number."""
    lake, changelog = work.lake, work.lake.catalog.load_table(tuple(record.changelog or ()))
    if progress_of(changelog).watermark >= work.end:
        return changelog, 0
    found = verification(lake, source_table, record, work.end, work.on_progress)
    comparison, key = found.compare(list(found.ranges())), tuple(c.name for c in source_table.newest.ordered_key)
    verdict = TableVerdict(source_table.id, source_table.name, key, work.end, comparison)
    return (changelog, 0) if verdict.is_equal else added(lake, verdict, source_table, work.rows, run_id)


# -- the record --------------------------------------------------------------------------------------------------------


def _record(work: _Work, done: dict[str, Table], report: ResyncReport) -> None:
    """Record all tables at the end of the gap, and that the source is read from its beginning."""
    lake, newest = work.lake, work.lake.control.newest()
    assert newest is not None
    plan, tables = Plan.of(lake, newest, lake.history()), []
    for old in newest.tables:
        source_table = plan.source_tables.get(old.source_table)
        if source_table is None:
            continue
        low = work.end if source_table.id in done else old.watermark
        hold = not_copied(source_table) if low < source_table.copied_ts else None
        place, table = plan.locations[source_table.id], done.get(source_table.id)
        tables.append(table_record(CommitRange(source_table, low, low), hold, old, place, table, ()))
    is_first = newest.tso < work.end
    lake.control.record(
        replace(
            newest,
            recorded_at=now(),
            run_id=report.run_ids[-1],
            tso=max(newest.tso, work.end),
            cursor="" if is_first else newest.cursor,
            complete=False,
            settled=False,
            tables=tuple(tables),
        )
    )
