"""Brings chosen tables to what TiDB has: a live table gets the rows that differ, any other table is copied."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ticdc_assets.pipeline.history.tables import split_name
from ticdc_assets.pipeline.history.verify import upstream_of, verify
from ticdc_assets.pipeline.reconcile.copy import copy_tables, live_tables
from ticdc_assets.pipeline.reconcile.repair import rebuild_changed_by_others, repair
from ticdc_assets.schema.history.source_table import fold_name
from ticdc_assets.sources.upstream.rows import UpstreamRows
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.work_progress import OnProgress, no_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.history.source_table import SourceName
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog


@dataclass(slots=True)
class ResyncReport:
    """By name of a table: the TSO, the rows that were copied, the changes that a live table gained, and errors.

    `compared` is the number of chosen rows, None where all are compared.
    `gone` are tables that TiDB does not have any more, and `gap` has the TSOs between which no changes are known.
    `rebuilt` are the live tables that another writer had changed; `run_ids` those under which changes were published.
    """

    run_ids: list[str] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)
    tsos: dict[str, int] = field(default_factory=dict)
    copied: dict[str, int] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    compared: int | None = None
    gone: list[str] = field(default_factory=list)
    gap: tuple[int, int] | None = None


def resync_tables(
    lake: Lake,
    names: Sequence[SourceName],
    at: int | None,
    jvm: Callable[[], JvmCatalog],
    on_progress: OnProgress = no_progress,
) -> ResyncReport:
    """Repair or copy the tables. The mirrors follow in `mirror.run`. An error of one table stops no other.

    Args:
        at: the TSO of copies; None is TiDB's present. A live table is compared at its own watermark.
        jvm: called only if a table is rebuilt, because another writer changed it, or is copied.

    Raises:
        ConfigError, NotYetError: see `copy_tables`.
    """
    upstream, report = upstream_of(lake), ResyncReport()
    live = live_tables(lake, names)
    rebuilt, errors = rebuild_changed_by_others(lake, jvm, list(live), on_progress)
    report.rebuilt, report.errors = list(rebuilt.values()), {live[i]: error for i, error in errors.items()}
    sound = [name for i, name in live.items() if i not in errors]
    verdicts = list(verify(lake, None, sound, on_progress=on_progress)) if sound else []
    shown = {verdict.source_table: ".".join(verdict.name) for verdict in verdicts}
    compared = [verdict for verdict in verdicts if verdict.is_comparable and (verdict.key or verdict.is_equal)]
    with UpstreamRows(upstream) as rows:
        repaired = repair(lake, compared, rows)
    for verdict in compared:
        name = shown[verdict.source_table]
        report.tsos[name] = verdict.tso
        if verdict.comparison is None:
            report.errors[name] = verdict.reason
        elif verdict.source_table not in repaired.errors:
            report.added[name] = repaired.added.get(verdict.source_table, 0)
    report.errors |= {shown[i]: error for i, error in repaired.errors.items()}
    report.run_ids += [repaired.run_id] if repaired.added else []
    done = {fold_name(*verdict.name) for verdict in compared} | {fold_name(*split_name(live[i])) for i in errors}
    left = [name for name in names if fold_name(*name) not in done]
    if left:
        copies = copy_tables(lake, left, at, SparkWorkers(jvm().spark), on_progress)
        report.tsos |= copies.tsos
        report.copied, report.errors = copies.rows, report.errors | copies.errors
        report.run_ids += [copies.run_id] if copies.rows else []
    return report
