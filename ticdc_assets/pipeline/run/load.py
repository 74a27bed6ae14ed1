"""Loads a dump: round by round into the changelogs, then into the mirrors."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ticdc_assets.pipeline.load.progress import unfinished_ts
from ticdc_assets.pipeline.run import ChangelogRun
from ticdc_assets.pipeline.run.mirrors import run_mirrors
from ticdc_assets.work_progress import OnProgress, no_progress

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.load.source import DumpChanges
    from ticdc_assets.spark import Workers
    from ticdc_assets.tables.control.records import WatermarkRecord
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog


@dataclass(slots=True)
class LoadReport:
    """The newest record, the number of rows that were loaded by source table, and the errors by table name."""

    record: WatermarkRecord | None
    rows: dict[str, int] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


def load_changelogs(
    lake: Lake, source: DumpChanges, workers: Callable[[], Workers], on_progress: OnProgress
) -> LoadReport:
    """Append the rows of the dump to the changelogs of the tables that lack them. A table with a file that cannot be
    read has no rows afterwards; the others have theirs. A table
    whose CREATE TABLE is not understood is not loaded, and the stream holds it.

    Raises:
        ConfigError: see `DumpChanges.scan`.
    """
    report, run = LoadReport(lake.control.newest(), errors=dict(source.not_understood)), ChangelogRun(lake, source)
    while not (pending := source.scan()).is_empty:
        done = run.publish_changelogs(pending, workers(), on_progress)
        report.record = done.record
        report.rows |= {i: sum(counts.values()) for i, counts in done.rows_by_op.items()}
        recorded = done.record.tables if done.record is not None else ()
        turn = [table for table in recorded if table.source_table in pending.turn]
        failed = {f"{t.schema}.{t.table}": t.note for t in turn if t.watermark < pending.high}
        report.errors |= failed
        if failed and len(failed) == len(turn):
            break  # the tables that are left come before these again
    return report


def load(
    lake: Lake,
    source: DumpChanges,
    workers: Callable[[], Workers],
    jvm: Callable[[], JvmCatalog],
    on_progress: OnProgress = no_progress,
) -> LoadReport:
    """Load a dump into changelogs and mirrors. Without effect where all is loaded.

    Raises:
        ConfigError: see `DumpChanges.scan`.
    """
    report = load_changelogs(lake, source, workers, on_progress)
    if report.record is None or unfinished_ts(report.record) is not None or report.record.complete:
        return report
    done = run_mirrors(lake, uuid.uuid4().hex, jvm, on_progress)
    if done is not None:
        report.record = done.record
        report.errors |= _named(done.record, done.record.texts(done.errors))
    return report


def _named(record: WatermarkRecord, errors: Mapping[str, str]) -> dict[str, str]:
    names = {table.source_table: f"{table.schema}.{table.table}" for table in record.tables}
    return {names.get(i, i): error for i, error in errors.items()}
