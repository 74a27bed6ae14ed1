"""Brings history tables up to their changelogs, after the mirrors. It may end anywhere and run again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ticdc_assets.notes import Note
from ticdc_assets.pipeline.history.knowledge import LakeKnowledge
from ticdc_assets.pipeline.history_tables.pending import HistoryWork, pending_histories
from ticdc_assets.pipeline.mirror.rounds import MIRRORS_AT_ONCE, Failure, guarded
from ticdc_assets.plurals import counted
from ticdc_assets.tables.history.writer import HistoryWriter
from ticdc_assets.work_progress import OnProgress, no_progress

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.plan import Plan
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog


def run_histories(
    lake: Lake,
    run_id: str,
    jvm: Callable[[], JvmCatalog],
    plan: Plan,
    only: Iterable[str] | None = None,
    on_progress: OnProgress = no_progress,
    anew: bool = False,
) -> dict[str, Note]:
    """Bring history tables up to the record of the plan, each in one commit. An error of one table stops no other.

    Args:
        jvm: returns the catalog in Spark's JVM; called only if a history table needs work.
        only: the ids of the source tables to bring up; None for all.
        anew: rewrite all rows, also of history tables that lack nothing.

    Returns:
        By source table, the error that stopped its history table.
    """
    errors: dict[str, Note] = {}
    works = pending_histories(lake, plan, run_id, only, errors, anew)
    if works:
        on_progress(f"writing {counted(len(works), 'history', 'histories')}")
        errors |= _bring_up(lake, run_id, jvm(), works, LakeKnowledge.recorded(lake, plan.newest))
    return errors


def _bring_up(
    lake: Lake, run_id: str, jvm: JvmCatalog, works: Sequence[HistoryWork], known: LakeKnowledge
) -> dict[str, Note]:
    changefeed = lake.changefeed

    def bring_up(work: HistoryWork) -> object:
        options = (changefeed.name, run_id, changefeed.mirror.format_version, changefeed.time_zone)
        writer = HistoryWriter(lake.catalog, jvm, work.place.history_table, *options)
        plan = replace(work.plan, told=known.table(work.source_table, work.plan.high).properties)
        return guarded(partial(writer.bring_up, plan, work.place.history_location))

    with ThreadPoolExecutor(MIRRORS_AT_ONCE) as pool:
        done = zip(works, pool.map(bring_up, works), strict=True)
        return {work.source_table.id: found.note for work, found in done if isinstance(found, Failure)}
