"""Copies tables from TiDB at a TSO: a table that is held, or that the lake lacks, goes on from there.

The copy is a source table of its own, which begins at the TSO with the columns and rows that TiDB has then. The table
that had the name before ends there. A copy that is killed is held until it is made again, and has all its rows or none.
The mirrors follow in `mirror.run`.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ticdc_assets.advice import Advice
from ticdc_assets.errors import ConfigError, NotYetError, TicdcAssetsError
from ticdc_assets.notes import LAKE_FAULTS
from ticdc_assets.pipeline.changelog.tables import changelogs_to_write
from ticdc_assets.pipeline.commit_range import CommitRange, TableState
from ticdc_assets.pipeline.history.verify import upstream_of
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets.pipeline.reconcile.ranges import Copied, CopyTask, copy, first_seq
from ticdc_assets.pipeline.record import record_changelogs, table_record
from ticdc_assets.pipeline.set_back import require_control_tables
from ticdc_assets.pipeline.tasks import answers_of
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.loaded import created
from ticdc_assets.schema.history.source_table import fold_name
from ticdc_assets.sources.upstream.key_ranges import key_order
from ticdc_assets.sources.upstream.ranges import dealt, ranges_of
from ticdc_assets.sources.upstream.rows import UpstreamRows
from ticdc_assets.sources.upstream.sql import table_reference
from ticdc_assets.tables import changelog
from ticdc_assets.tables.progress import Progress, progress_of
from ticdc_assets.work_progress import OnProgress, no_progress

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.config import Upstream
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.history.source_table import SourceName, SourceTable
    from ticdc_assets.spark import Workers

CONNECTIONS_MAX: Final = 8


@dataclass(slots=True)
class CopyReport:
    """By name of a table, the TSO of its copy and the number of its rows, or why there is none."""

    run_id: str
    tsos: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


def live_tables(lake: Lake, names: Sequence[SourceName]) -> dict[str, str]:
    """By source table, the names of those tables that are not held, and whose tables in the lake have no fault: a
    copy would not change what they show."""
    wanted = {fold_name(*name) for name in names}
    return {
        i: f"{table.schema}.{table.table}"
        for i, table in lake.recorded(lake.control.newest()).items()
        if table.state == TableState.LIVE
        and not table.has(*LAKE_FAULTS)
        and fold_name(table.schema, table.table) in wanted
    }


def copy_tables(
    lake: Lake,
    names: Sequence[SourceName],
    at: int | None,
    workers: Workers,
    on_progress: OnProgress = no_progress,
) -> CopyReport:
    """Copy tables as TiDB has them at the TSO `at`; None is TiDB's present. A copy that was killed is completed at its
    own TSO. An error of one table stops no other.

    Raises:
        ConfigError: there is no `upstream`, the stream has no commit_ts, or `tables` does not select a table.
        NotYetError: there was no run.
    """
    upstream, where = upstream_of(lake), f"changefeed {lake.changefeed.name}"
    require_control_tables(lake)
    record = lake.control.newest()
    if record is None:
        raise NotYetError(where, "a run", "none", "Run `ticdc-assets run` first.")
    for name in names:
        if not all(name) or not lake.follows(*name):
            advice = "Name it as schema.table, and select it with `tables`."
            raise ConfigError(where, "a table of the changefeed", ".".join(name), advice)
    if at is not None and at < record.tso:
        advice = "A copy begins where the stream is read, or later."
        raise ConfigError("--at", f"a TSO from {record.tso} on, that of the newest record", str(at), advice)
    report = CopyReport(uuid.uuid4().hex)
    with UpstreamRows(upstream) as rows:
        for name in names:
            shown = ".".join(name)
            on_progress(f"copying {shown}")
            try:
                source_table = _begun(lake, rows, name, at)
                report.tsos[shown] = source_table.copied_ts
                report.rows[shown] = completed(lake, rows, upstream, source_table, workers, report.run_id)
            except TicdcAssetsError as error:
                report.errors[shown] = str(error)
    return report


def _begun(lake: Lake, rows: UpstreamRows, name: SourceName, at: int | None) -> SourceTable:
    """The source table of the copy: one that is not complete, or a new one."""
    pending = _current(lake, name)
    lows = lake.lows(lake.control.newest())
    if pending is not None and pending.gaps and lows.get(pending.id, 0) < pending.copied_ts:
        at_end = f"one whose rows at {pending.copied_ts} are not complete"
        raise NotYetError(".".join(name), "a table after the gap", at_end, Advice.RESYNC_ALL_AGAIN)
    if pending is not None and lows.get(pending.id, 0) < pending.copied_ts and at in (None, pending.copied_ts):
        return pending
    tso = rows.now() if at is None else at
    [answer] = rows.answers(f"SHOW CREATE TABLE {table_reference(*name)}", [], tso)
    event = DdlEvent(tso, *name, (answer[1] or b"").decode(), where=f"upstream: {'.'.join(name)} at {tso}", copied=True)
    created(event)
    lake.control.keep_ddl_events([event])
    found = _current(lake, name)
    assert found is not None
    return found


def _current(lake: Lake, name: SourceName) -> SourceTable | None:
    found = (
        n for n in lake.history().ever_called(*name) if n.dropped_ts is None and fold_name(*n.name) == fold_name(*name)
    )
    return next(found, None)


def completed(
    lake: Lake, rows: UpstreamRows, upstream: Upstream, source_table: SourceTable, workers: Workers, run_id: str
) -> int:
    """The number of the copied rows, once they are in the changelog and the table is recorded."""
    tso, source_table_id = source_table.copied_ts, source_table.id
    plan = Plan.of(lake, lake.control.newest(), lake.history())
    plan, tables = changelogs_to_write(lake, plan.with_ranges({source_table_id: CommitRange(source_table, tso, tso)}))
    commit_range = plan.commit_ranges[source_table_id]
    if commit_range.hold is not None or source_table_id not in tables:
        found = commit_range.hold.reason(source_table) if commit_range.hold else "none"
        raise NotYetError(".".join(source_table.name), "a changelog", found, "Try again once that is mended.")
    table, count = tables[source_table_id], 0
    if progress_of(table).watermark < tso:
        table, count = _published(lake, rows, upstream, source_table, table, workers, run_id)
    done = table_record(
        replace(commit_range, low=tso, high=tso), None, None, plan.locations[source_table_id], table, ()
    )
    record_changelogs(lake, run_id, {}, (done,))
    return count


def _published(
    lake: Lake,
    rows: UpstreamRows,
    upstream: Upstream,
    source_table: SourceTable,
    table: Table,
    workers: Workers,
    run_id: str,
) -> tuple[Table, int]:
    version, tso, parent = source_table.versions[0], source_table.copied_ts, progress_of(table)
    schema = changelog.write_schema(table, [column.uid for column in version.table.stored_columns])
    folder = f"{table.location().rstrip('/')}/data"
    ranges = list(ranges_of(rows, source_table.name, key_order(version.table.ordered_key), tso))
    tasks = [
        CopyTask(
            upstream=upstream,
            name=source_table.name,
            version=version,
            tso=tso,
            ranges=some,
            uri=f"{folder}/{run_id}-{number:06d}-from-tidb.parquet",
            schema=schema,
            first=first_seq(number),
            io_properties=dict(lake.io_properties),
        )
        for number, some in dealt(ranges, min(lake.cores, CONNECTIONS_MAX))
    ]
    answers = answers_of(workers, copy, tasks)
    copied = [answer for answer in answers if isinstance(answer, Copied)]
    errors = [answer for answer in answers if isinstance(answer, TicdcAssetsError)]
    files = [one.file for one in copied if one.file is not None]
    if errors:
        for file in files:
            table.io.delete(file.uri)
        raise errors[0]
    progress = Progress(tso, parent.position, run_id)
    return changelog.publish(table, lake.changefeed.name, files, parent, progress), sum(one.rows for one in copied)
