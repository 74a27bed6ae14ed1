"""Publishes what the workers wrote: repeats out, late rows in, one fenced commit a changelog, leftovers removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.pipeline.alone import answers_of
from ticdc_assets.pipeline.interval import Hold, Interval, TableState
from ticdc_assets.pipeline.late_rows import LateTask, dealt, late_parts
from ticdc_assets.pipeline.repeats import RepeatReport, RepeatTask, overlaps, resolve
from ticdc_assets.pipeline.task import Part, TaskReport
from ticdc_assets.tables import changelog
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.changelog import WrittenFile
from ticdc_assets.tables.commits import COMMITS_AT_ONCE
from ticdc_assets.tables.progress import Files, Progress, columns_of, late_rows_since, progress_of
from ticdc_assets.tables.replayed import Replayed, marked

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.lineage import History
    from ticdc_assets.spark import Workers
    from ticdc_assets.tables.control import WatermarkRecord


@dataclass(frozen=True, slots=True)
class Published:
    """What one changelog gained; `late` of its new rows are at or below the watermark that it had."""

    table: Table
    rows_by_op: dict[str, int]
    repeats: int
    late: int = 0


def publish_all(
    lake: Lake,
    run_id: str,
    history: History,
    intervals: Mapping[str, Interval],
    tables: Mapping[str, Table],
    reports: Sequence[TaskReport],
    held: Mapping[str, Hold],
    workers: Workers,
    consumed: Mapping[str, Files] | None = None,
    *,
    deliveries_are_told: bool,
) -> tuple[dict[str, Published], dict[str, Hold]]:
    """Commit the parts of every lineage that is not held. A held lineage's files are removed: they come again.

    `deliveries_are_told` where the source tells each delivery of the same rows from the next (see `LateTask`).
    `consumed` gives, for tables whose progress is by file, the files that each lineage has with this commit. What a
    library says of one table holds that table: these are told too.
    """
    parts = _by_lineage(part for report in reports for part in report.parts)
    remove_parts(tables, [part for lineage_id in held for part in parts.pop(lineage_id, [])])
    once, broken = _without_repeats(lake, intervals, tables, parts, workers, deliveries_are_told)
    remove_parts(tables, [part for lineage_id in broken for part in once.pop(lineage_id).parts])
    places = lake.places(history) if any(part.late for report in once.values() for part in report.parts) else {}

    def committed(lineage_id: str) -> Published:
        report, table, late = once[lineage_id], tables[lineage_id], _late(once[lineage_id].parts)
        if report.parts:
            files = (consumed or {}).get(lineage_id, ())
            mirror = load_or_none(lake.catalog, places[lineage_id].mirror) if late else None
            mark = marked(intervals[lineage_id].lineage, table, mirror, _replayed(run_id, late)) if late else {}
            table = _commit(lake, run_id, intervals[lineage_id], table, report.parts, files, mark)
        return Published(table, _counts(report.parts), report.repeats, sum(part.rows for part in late))

    def commit(lineage_id: str) -> tuple[str, Published | Hold]:
        try:
            return lineage_id, committed(lineage_id)
        except TicdcAssetsError:
            raise
        except Exception as error:  # noqa: BLE001  raised again where it is not of one table
            # Its files stay: the commit may have landed. Maintenance removes what no table has.
            return lineage_id, _held(tables[lineage_id], error)

    with ThreadPoolExecutor(COMMITS_AT_ONCE) as pool:
        done = dict(pool.map(commit, once))
    published = {i: found for i, found in done.items() if isinstance(found, Published)}
    return published, broken | {i: found for i, found in done.items() if isinstance(found, Hold)}


def _held(table: Table, error: Exception) -> Hold:
    return Hold(TableState.STOPPED, f"{'.'.join(table.name())}: {of_one_table(error)}")


def late_rows(
    published: Mapping[str, Published], tables: Mapping[str, Table], record: WatermarkRecord | None
) -> dict[str, int]:
    """By lineage, the rows that came late: those of this run, and of runs that ended before they could record."""
    recorded = {table.lineage: table.changelog_snapshot_id for table in record.tables} if record else {}
    counts = {i: late_rows_since(table, recorded.get(i)) for i, table in tables.items() if i not in published}
    for lineage_id, one in published.items():
        counts[lineage_id] = max(one.late, late_rows_since(one.table, recorded.get(lineage_id)))
    return {lineage_id: rows for lineage_id, rows in counts.items() if rows}


def _late(parts: Iterable[Part]) -> list[Part]:
    return [part for part in parts if part.late]


def _replayed(run_id: str, late: Sequence[Part]) -> Replayed:
    return Replayed(run_id, min(part.min_ts or 0 for part in late), min(part.version_ts for part in late))


def caught_up(intervals: Mapping[str, Interval], tables: Mapping[str, Table]) -> dict[str, Interval]:
    """The intervals from where each changelog itself is: a run that ended before it could record has published more."""
    return {i: _from(interval, tables.get(i)) for i, interval in intervals.items()}


def _from(interval: Interval, table: Table | None) -> Interval:
    watermark = progress_of(table).watermark if table is not None else 0
    return replace(interval, low=max(interval.low, watermark), high=max(interval.high, watermark))


def _by_lineage(parts: Iterable[Part]) -> dict[str, list[Part]]:
    found: dict[str, list[Part]] = {}
    for part in parts:
        found.setdefault(part.lineage_id, []).append(part)
    return found


def _without_repeats(
    lake: Lake,
    intervals: Mapping[str, Interval],
    tables: Mapping[str, Table],
    parts: Mapping[str, list[Part]],
    workers: Workers,
    deliveries_are_told: bool,
) -> tuple[dict[str, RepeatReport], dict[str, Hold]]:
    """Each change once: among the parts, and of those that may be late those that the changelog lacks. And the tables
    of which that cannot be told."""
    broken: dict[str, Hold] = {}
    done = {i: RepeatReport(tuple(found), 0, ()) for i, found in parts.items()}
    io_properties = dict(lake.io_properties)

    def take(lineage_id: str, parts: Iterable[Part], report: RepeatReport | TicdcAssetsError) -> None:
        before = done[lineage_id]
        if isinstance(report, TicdcAssetsError):
            broken[lineage_id] = _held(tables[lineage_id], report)
            return
        done[lineage_id] = RepeatReport((*parts, *report.parts), before.repeats + report.repeats, ())
        for uri in report.replaced:
            tables[lineage_id].io.delete(uri)

    touched = [i for i, found in parts.items() if overlaps(found)]
    tasks = [RepeatTask(tuple(parts[i]), key_names(intervals[i], tables[i]), io_properties) for i in touched]
    for lineage_id, report in zip(touched, answers_of(workers, resolve, tasks), strict=True):
        take(lineage_id, (), report)
    asked = [
        LateTask(some, keys, tables[i].metadata, deliveries_are_told, io_properties)
        for i, report in done.items()
        if i not in broken and (late := _late(report.parts))
        for keys in [key_names(intervals[i], tables[i])]
        for some in dealt(late, keys)
    ]
    for task, report in zip(asked, answers_of(workers, late_parts, asked), strict=True):
        lineage_id = task.parts[0].lineage_id
        judged = {part.uri for part in task.parts}
        take(lineage_id, [part for part in done[lineage_id].parts if part.uri not in judged], report)
    return done, broken


def key_names(interval: Interval, table: Table) -> dict[int, tuple[str, ...]]:
    """The key columns of each version under their names in the changelog."""
    places = columns_of(table.properties)
    names = {uid: table.schema().find_field(ids[0]).name for uid, ids in places.items()}
    return {
        version.from_ts: tuple(
            names[c.uid] for c in version.table.stored_columns if c.name in version.table.key and c.uid in names
        )
        for version in interval.lineage.versions
    }


def _commit(
    lake: Lake,
    run_id: str,
    interval: Interval,
    table: Table,
    parts: Sequence[Part],
    consumed: Files,
    properties: Mapping[str, str],
) -> Table:
    parent = progress_of(table)
    position = max((part.max_seq for part in parts), default=parent.position) if lake.by_arrival else parent.position
    progress = Progress(max(interval.high, parent.watermark), max(position, parent.position), run_id, consumed)
    files = [WrittenFile(part.uri, part.size_bytes, part.footer) for part in parts]
    late_rows = sum(part.rows for part in _late(parts))
    return changelog.publish(table, lake.changefeed.name, files, parent, progress, properties, late_rows)


def _counts(parts: Sequence[Part]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for part in parts:
        for op, rows in part.rows_by_op.items():
            counts[op] = counts.get(op, 0) + rows
    return counts


def remove_parts(tables: Mapping[str, Table], parts: Iterable[Part]) -> None:
    """Delete files that no changelog has."""
    for part in parts:
        if part.lineage_id in tables:
            tables[part.lineage_id].io.delete(part.uri)
