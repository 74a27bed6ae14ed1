"""Which history tables are behind their changelogs, and which tables can have none. Needs no JVM."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from ticdc_assets.errors import SetBackError
from ticdc_assets.faults import of_one_table
from ticdc_assets.notes import UNFIT_CHANGELOGS, Note, NoteCode
from ticdc_assets.pipeline.history.refusals import undetermined, versions_between
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.mirror.segments import changelog_files
from ticdc_assets.pipeline.set_back import require_whole
from ticdc_assets.schema.history.source_table import History, SourceTable
from ticdc_assets.schema.history.written_history import effects_digest
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord
from ticdc_assets.tables.history.writer import ALL_KEYS, NOTHING, HistoryPlan, HistoryState, state_of
from ticdc_assets.tables.locations import TableLocations
from ticdc_assets.tables.mirror.exchanged_rows import is_awaited
from ticdc_assets.tables.progress import Progress, source_table_of
from ticdc_assets.tables.replayed import unfollowed

if TYPE_CHECKING:
    from ticdc_assets.pipeline.plan import Plan


@dataclass(frozen=True, slots=True)
class HistoryWork:
    """A history table that is behind, and what it lacks."""

    source_table: SourceTable
    place: TableLocations
    plan: HistoryPlan


def pending_histories(
    lake: Lake,
    plan: Plan,
    run_id: str = "",
    only: Iterable[str] | None = None,
    errors: dict[str, Note] | None = None,
    anew: bool = False,
) -> list[HistoryWork]:
    """The history tables that are behind the record of the plan. Writes nothing.

    Args:
        run_id: the run that will write them; "" if none will.
        only: the ids of the source tables to look at; None for all.
        errors: gets the error of each table that cannot be read, by source table; without it the first one is raised.
        anew: return every history table that the config asks for.
    """
    if not lake.changefeed.mirror.history.takes_any:
        return []
    wanted, at = None if only is None else set(only), plan.newest.recorded_at
    works = []
    for source_table in plan.history.source_tables:
        recorded = plan.recorded.get(source_table.id)
        if recorded is None or (wanted is not None and source_table.id not in wanted):
            continue
        place = plan.locations[source_table.id]
        try:
            made = _plan(lake, source_table, place, recorded, at, run_id, anew)
        except SetBackError:
            continue  # the work on its mirror reports it
        except Exception as error:
            if errors is None:
                raise
            errors[source_table.id] = Note.of(NoteCode.MIRROR, of_one_table(error))
            continue
        if made is not None:
            works.append(HistoryWork(source_table, place, made))
    return works


def refusal(lake: Lake, source_table: SourceTable, watermark: int) -> str:
    """Why a table that the config asks for has no history up to its watermark; empty if it has one, or is not asked
    for."""
    if not lake.keeps_history(source_table):
        return ""
    return undetermined(source_table, -1, watermark)


def refusals(lake: Lake, history: History, record: WatermarkRecord | None) -> dict[str, str]:
    """Why tables with a key that the config asks for have no history, by source table."""
    source_tables, found = history.by_id(), {}
    for table in record.tables if record is not None else ():
        source_table = source_tables.get(table.source_table)
        if source_table is not None and source_table.version_at(table.watermark + 1).table.key:
            found[source_table.id] = refusal(lake, source_table, table.watermark)
    return {source_table_id: reason for source_table_id, reason in found.items() if reason}


def history_table_of(lake: Lake, source_table_id: str, place: TableLocations) -> Table | None:
    """The source table's history, if it has one."""
    found = load_or_none(lake.catalog, place.history_table)
    return found if found is not None and source_table_of(found) == source_table_id else None


def _plan(
    lake: Lake,
    source_table: SourceTable,
    place: TableLocations,
    recorded: TableRecord,
    at: datetime,
    run_id: str,
    anew: bool,
) -> HistoryPlan | None:
    watermark = recorded.watermark
    if not lake.keeps_history(source_table) or recorded.has(*UNFIT_CHANGELOGS) or watermark == 0:
        return None
    if refusal(lake, source_table, watermark):
        return None
    changelog = load_or_none(lake.catalog, place.changelog)
    if changelog is None or source_table_of(changelog) != source_table.id:
        return None
    require_whole(lake, recorded, at, changelog)
    if any(is_awaited(version, changelog) for version in versions_between(source_table, -1, watermark)):
        return None  # the rows of an exchange are not in the changelog yet
    table = history_table_of(lake, source_table.id, place)
    planned = state_of(table) if table is not None else NOTHING
    mark = unfollowed(changelog, None)
    high = max(watermark, planned.progress.watermark)
    followed = mark.run_id if mark is not None else ""
    wanted = HistoryState(Progress(high, -1, run_id), effects_digest(source_table, high), followed)
    again = ALL_KEYS if anew else _made_again(source_table, changelog, planned, high)
    plan = HistoryPlan(source_table, changelog, planned, wanted, again)
    return plan if table is None or again is not None or _has_more(plan) else None


def _made_again(source_table: SourceTable, changelog: Table, planned: HistoryState, high: int) -> int | None:
    """The TSO from which keys with changes are made again; None where the history only lacks newer changes."""
    mark, have = unfollowed(changelog, None), planned.progress.watermark
    if planned == NOTHING:
        return None
    if planned.effects != effects_digest(source_table, have):
        return ALL_KEYS  # a statement came late
    if any(absence.includes(have) and not absence.includes(high) for absence in source_table.absences):
        return ALL_KEYS  # rows that ended at the drop go on
    if mark is None or mark.run_id == planned.followed:
        return None
    return min(mark.first, have + 1) if mark.replaces == planned.followed else ALL_KEYS


def _has_more(plan: HistoryPlan) -> bool:
    """Whether there are changes or statements above the history's watermark."""
    source_table, low, high = plan.source_table, plan.planned.progress.watermark, plan.high
    if versions_between(source_table, low, high):
        return True
    if any(low < absence.dropped_ts <= high for absence in source_table.absences):
        return True
    return bool(changelog_files(plan.changelog, source_table.versions[-1], low, high, by_arrival=False))
