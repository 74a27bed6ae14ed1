"""`rebuild`: rebuilds mirrors from their changelogs, each replaced in one commit.

A rebuild writes a mirror under a second name (`tables.iceberg.clone`), up to the changelog's watermark or to a given
TSO. Meanwhile readers use the present mirror and runs continue. Later changes are merged by the next run. A rebuild
that ends early, or that loses against a run, leaves the mirror unchanged.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import date
from difflib import get_close_matches
from functools import cache, partial
from typing import Final, TypeVar

from ticdc_assets.errors import ConfigError, NotYetError, StaleRunError
from ticdc_assets.faults import interrupted_by, redacted_error
from ticdc_assets.notes import LAKE_FAULTS, Note, NoteCode, of_codes
from ticdc_assets.pipeline.history_tables.run import run_histories
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.mirror.segments import reached_versions
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets.pipeline.rebuild.changelog import changelog_from_source, check_can_be_read_again
from ticdc_assets.pipeline.rebuild.mirror import MirrorRebuild, NotMadeError, clone_name, kept_clone
from ticdc_assets.pipeline.recorded.views import bring_up_views
from ticdc_assets.pipeline.renamed_tables import rename_changelogs, rename_histories, rename_mirrors
from ticdc_assets.pipeline.run.mirrors import MirrorReport, record_mirrors
from ticdc_assets.pipeline.set_back import require_control_tables
from ticdc_assets.plurals import counted
from ticdc_assets.schema.history.source_table import SourceTable, fold_name
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.control.records import WatermarkRecord
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets.tables.mirror.clone import clone_of
from ticdc_assets.tables.progress import Progress, progress_of, source_table_of
from ticdc_assets.work_progress import OnProgress, no_progress

Answer = TypeVar("Answer")

TRIES: Final = 3
"""How often a rebuild starts again after a run has committed first."""


@dataclass(slots=True)
class RebuildReport:
    """By source table, the TSO (by arrival the position) of its rebuilt mirror, or why the mirror is unchanged."""

    run_id: str
    record: WatermarkRecord
    rebuilt: dict[str, Progress] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RebuildRequest:
    """Which tables to rebuild, named as `schema.table` (all where none is named), from where, and up to which TSO.

    `day` is the UTC day of commits to which a rebuild from the source is limited.
    """

    tables: tuple[str, ...] = ()
    from_source: bool = False
    at: int | None = None
    day: date | None = None


def rebuild_tables(
    lake: Lake,
    jvm: Callable[[], JvmCatalog],
    request: RebuildRequest,
    on_progress: OnProgress = no_progress,
) -> RebuildReport:
    """Rebuild the requested tables. A fault of one table stops no other and is in the report.

    Args:
        jvm: returns the catalog in Spark's JVM; called with the first table.

    Raises:
        ConfigError: a name, the TSO or the day is invalid for this changefeed.
        NotYetError: nothing was published yet.
    """
    _check_day(request)
    if request.from_source:
        check_can_be_read_again(lake)
    require_control_tables(lake)
    plan = recorded_plan(lake)
    chosen = chosen_tables(plan, request.tables, keyless=request.from_source)
    _check_tso(lake, request.at, chosen if request.tables else ())
    lake.control.claim()
    rename_mirrors(lake, plan)
    report = RebuildReport(uuid.uuid4().hex, plan.newest)
    for number, source_table in enumerate(chosen, start=1):
        place = f", {number:,} of {counted(len(chosen), 'table')}" if len(chosen) > 1 else ""
        on_progress(f"rebuilding {'.'.join(source_table.name)}{place}")
        _rebuild_one(lake, jvm, source_table, request, report, on_progress)
    faults = _with_tries(lambda _: _histories_anew(lake, jvm, request, report, on_progress), "")
    plan = recorded_plan(lake)
    report.errors |= plan.newest.texts(faults)
    mirrors = _left(plan.newest, report.rebuilt)
    report.record = record_mirrors(lake, report.run_id, plan, mirrors, asked_for_all=False)
    bring_up_views(lake, jvm, plan.history, on_progress)
    return report


def _rebuild_one(
    lake: Lake,
    jvm: Callable[[], JvmCatalog],
    source_table: SourceTable,
    request: RebuildRequest,
    report: RebuildReport,
    on_progress: OnProgress,
) -> None:
    """Rebuild one table: from the source its changelog, then its mirror if it ever had a key. The report gets the
    result or the error."""
    try:
        if request.from_source:
            again = partial(_changelog_read_again, lake, jvm, source_table.id, on_progress, request.day)
            report.rebuilt[source_table.id] = _with_tries(again, report.run_id)
        if not request.from_source or any(version.table.key for version in source_table.versions):
            work = partial(_rebuilt, lake, jvm, source_table.id, request.at)
            report.rebuilt[source_table.id] = _with_tries(work, report.run_id)
    except NotMadeError as error:
        report.rebuilt.pop(source_table.id, None)
        report.errors[source_table.id] = str(error)
    except Exception as error:
        if interrupted_by(error):
            raise
        report.rebuilt.pop(source_table.id, None)
        report.errors[source_table.id] = str(redacted_error(error))


def _histories_anew(
    lake: Lake,
    jvm: Callable[[], JvmCatalog],
    request: RebuildRequest,
    report: RebuildReport,
    on_progress: OnProgress,
) -> dict[str, Note]:
    """Rebuild the histories of the rebuilt tables. A mirror that is rebuilt as of a TSO has the same history."""
    if request.at is not None:
        return {}
    plan = recorded_plan(lake)
    rename_histories(lake, plan)
    return run_histories(lake, report.run_id, cache(jvm), plan, report.rebuilt, on_progress, anew=True)


def _left(record: WatermarkRecord, rebuilt: Collection[str]) -> MirrorReport:
    """The rebuilt tables, and the recorded faults of the others."""
    others = [t for t in record.tables if t.source_table not in rebuilt]
    faults = {t.source_table: note for t in others for note in of_codes(t.notes, *LAKE_FAULTS)}
    return MirrorReport(record, list(rebuilt), faults)


def recorded_plan(lake: Lake) -> Plan:
    """The newest record, and the history. Raises NotYetError before anything was published."""
    record = lake.control.newest()
    if record is None:
        advice = "Run `ticdc-assets run` first."
        raise NotYetError(f"changefeed {lake.changefeed.name}", "a changefeed that was published", "none", advice)
    return Plan.of(lake, record, lake.history())


def chosen_tables(plan: Plan, only: Collection[str], *, keyless: bool = False) -> list[SourceTable]:
    """The recorded tables with these present names; where no name is given, all that can have a mirror, and with
    `keyless` also those that cannot."""
    recorded = {i: table for i, table in plan.recorded.items() if table.changelog is not None}
    known = [source_table for source_table in plan.history.source_tables if source_table.id in recorded]
    if not only:
        existing = [n for n in known if n.dropped_ts is None]
        return [n for n in existing if keyless or list(reached_versions(n, recorded[n.id].watermark))]
    found: list[SourceTable] = []
    for name in only:
        named = [source_table for source_table in known if _folded(".".join(source_table.name)) == _folded(name)]
        if not named:
            near = get_close_matches(name, [".".join(source_table.name) for source_table in known], n=1)
            meant = f"Did you mean {near[0]}? " if near else ""
            advice = (
                f"{meant}Name it as schema.table, as it is called at the source now: `ticdc-assets tables` lists them."
            )
            raise ConfigError(f"table {name}", "a table of this changefeed with a changelog", "none", advice)
        # Of tables that were dropped and created again under one name, the last is selected.
        found.append(next((n for n in named if n.dropped_ts is None), named[-1]))
        found += [n for n in named if n not in found and recorded[n.id].has(NoteCode.LATE_STATEMENT)]
    return found


def _folded(name: str) -> str:
    return fold_name("", name)[1]


def _check_tso(lake: Lake, at: int | None, named: Collection[SourceTable]) -> None:
    if at is None:
        return
    if lake.by_arrival:
        found = "a stream without commit_ts, which is read in the order of arrival"
        advice = "Rebuild it without `at`."
        raise ConfigError(
            f"changefeed {lake.changefeed.name}", "a stream with commit_ts, which can stop at a TSO", found, advice
        )
    if not named:
        advice = "Name the tables, as schema.table."
        raise ConfigError("at", "tables to bring to that TSO", "none named", advice)


def _check_day(request: RebuildRequest) -> None:
    if request.day is not None and not (request.from_source and request.at is None):
        found = "one as of a TSO" if request.from_source else "one from the changelog, which is not read by day"
        advice = "Give `day` with `from` source and without `at`; without `day`, all days are read again."
        raise ConfigError("day", "a rebuild from the source", found, advice)


def _with_tries(work: Callable[[str], Answer], run_id: str) -> Answer:
    for left in reversed(range(TRIES)):
        try:
            return work(f"{run_id}{left}")
        except StaleRunError:
            if not left:
                raise
    raise AssertionError


def _changelog_read_again(
    lake: Lake,
    jvm: Callable[[], JvmCatalog],
    source_table_id: str,
    on_progress: OnProgress,
    day: date | None,
    run_id: str,
) -> Progress:
    """Rebuild the changelog, or a day of it, from the source."""
    plan = recorded_plan(lake)
    source_table, taken = plan.source_tables[source_table_id], rename_changelogs(lake, plan)
    name = plan.locations[source_table_id].changelog
    changelog = load_or_none(lake.catalog, name)
    if changelog is None or source_table_of(changelog) != source_table_id or source_table_id in taken:
        advice = "Run `ticdc-assets run` first; it reports why there is none."
        raise ConfigError(".".join(name), "the table's changelog", "none", advice)
    clone = clone_of(jvm(), changelog, clone_name(lake, source_table, f"c{run_id}"), lake.changefeed.name)
    with kept_clone(lake, source_table, clone.identifier):
        clone.empty()
        changelog_from_source(lake, jvm(), source_table, plan.newest, clone, run_id, on_progress, day)
        return progress_of(changelog.refresh())


def _rebuilt(lake: Lake, jvm: Callable[[], JvmCatalog], source_table_id: str, at: int | None, run_id: str) -> Progress:
    """One try, from the newest record: a run may have advanced since the last try."""
    plan = recorded_plan(lake)
    source_table, place = plan.source_tables[source_table_id], plan.locations[source_table_id]
    work = MirrorRebuild(lake, jvm, source_table, place, plan.recorded[source_table_id], plan.newest.recorded_at, at)
    return work.rebuild(run_id)
