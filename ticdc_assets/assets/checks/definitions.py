"""The checks in Dagster: for each table on its mirror (on its changelog without a key), and for the changefeed.

The blocking checks of a table are one step, so a failed check blocks only the assets downstream of that table.
"""

# Dagster evaluates the annotation of `context`, so this module must not postpone annotations.
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Final

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData as Target,
)
from dagster._core.errors import DagsterAssetCheckFailedError
from dagster._core.event_api import EventLogRecord
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord
from pyiceberg.table import Table

from ticdc_assets.assets.checks import results as verdicts
from ticdc_assets.assets.checks.fold_count import FoldCount, count_fold
from ticdc_assets.assets.checks.results import LagLimits, Verdict, checkpoint_near_clock
from ticdc_assets.assets.keys import FeedNames
from ticdc_assets.assets.known_tables import KnownTable, is_sample, not_loaded
from ticdc_assets.assets.metadata.shown import shown
from ticdc_assets.assets.resources import ChangefeedRun, report_failures
from ticdc_assets.assets.steps import Feed
from ticdc_assets.assets.table_status import Reported
from ticdc_assets.errors import SetBackError
from ticdc_assets.notes import NoteCode
from ticdc_assets.pipeline.mirror.pending import pending_work
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets.pipeline.set_back import require_whole
from ticdc_assets.plurals import counted
from ticdc_assets.printable import printable
from ticdc_assets.schema.history.source_table import SourceName, fold_name
from ticdc_assets.sources.storage.scan_result import Problem
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.control.records import TableRecord
from ticdc_assets.tables.foreign_writes import foreign_writes

NOT_HELD: Final = "not_held"
NOTHING_QUARANTINED: Final = "nothing_quarantined"
NEAR_SOURCE: Final = "near_source_checkpoint"
ROWS_EQUAL: Final = "rows_equal_the_changelog"
WRITTEN_BY_RUNS: Final = "written_by_runs_alone"
NO_TABLE_HELD: Final = "no_table_held"
QUARANTINE_EMPTY: Final = "quarantine_is_empty"
NO_GAPS: Final = "no_gaps_in_files"
NEAR_CLOCK: Final = "checkpoint_near_clock"
NO_LATE_ROWS: Final = "no_late_rows"
HAVE_ASSETS: Final = "tables_have_assets"

TABLE_CHECKS: Final = (NOT_HELD, NOTHING_QUARANTINED, NEAR_SOURCE, WRITTEN_BY_RUNS, ROWS_EQUAL)
BLOCKING: Final = (NOT_HELD, NOTHING_QUARANTINED, ROWS_EQUAL)
_VERDICTS_KEPT: Final = 5
_FAILED_SHOWN_MAX: Final = 20

Judge = Callable[[], Verdict]
AnyContext = dg.AssetCheckExecutionContext | dg.AssetExecutionContext


def check_assets(feed: Feed) -> list[dg.AssetChecksDefinition]:
    """All checks of a changefeed."""
    return [changefeed_checks(feed), *(table_checks(feed, table) for table in feed.tables)]


# -- the changefeed ----------------------------------------------------------------------------------------------------


def changefeed_checks(feed: Feed) -> dg.AssetChecksDefinition:
    """Checks of the whole changefeed, including tables without assets."""
    names = feed.names
    specs = [
        dg.AssetCheckSpec(NO_TABLE_HELD, asset=names.watermarks, description="No table is stopped or waiting."),
        dg.AssetCheckSpec(NEAR_CLOCK, asset=names.watermarks, description="TiCDC's checkpoint is near the clock."),
        dg.AssetCheckSpec(
            NO_LATE_ROWS, asset=names.watermarks, description="No row arrived late, and no changes were lost."
        ),
        dg.AssetCheckSpec(HAVE_ASSETS, asset=names.watermarks, description="The code location has loaded every table."),
        dg.AssetCheckSpec(QUARANTINE_EMPTY, asset=names.quarantine, description="Every record can be decoded."),
    ]
    if feed.reads_files:
        specs.append(
            dg.AssetCheckSpec(NO_GAPS, asset=names.watermarks, description="No file is missing at the source.")
        )

    @dg.multi_asset_check(name=names.checks_op, specs=specs, can_subset=True, required_resource_keys={names.resource})
    def checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        run: ChangefeedRun = getattr(context.resources, names.resource)
        with report_failures(run):
            yield from _selected(context, _changefeed_verdicts(feed, run))

    return checks


def _changefeed_verdicts(feed: Feed, run: ChangefeedRun) -> Iterator[tuple[dg.AssetCheckKey, Judge]]:
    names, control = feed.names, run.lake.control
    yield dg.AssetCheckKey(names.watermarks, NO_TABLE_HELD), lambda: verdicts.no_table_held(_tables(run))
    yield (
        dg.AssetCheckKey(names.watermarks, NEAR_CLOCK),
        lambda: checkpoint_near_clock(run.clock(), is_sample(run.config), _limits(run)),
    )
    yield dg.AssetCheckKey(names.watermarks, NO_LATE_ROWS), lambda: verdicts.no_late_rows(_late_rows(run), _gap(run))
    yield (
        dg.AssetCheckKey(names.watermarks, HAVE_ASSETS),
        lambda: verdicts.tables_have_assets(not_loaded(_names(run), feed.tables)),
    )
    yield (
        dg.AssetCheckKey(names.quarantine, QUARANTINE_EMPTY),
        lambda: verdicts.nothing_quarantined(control.quarantined(), _quarantine_name(run)),
    )
    if feed.reads_files:
        yield dg.AssetCheckKey(names.watermarks, NO_GAPS), lambda: verdicts.no_gaps(*_problems(run))


def _late_rows(run: ChangefeedRun) -> dict[str, int]:
    """The number of late rows that this run took in, by table."""
    report = run.outcome.changelogs
    source_tables = run.pending().history.by_id() if report and report.late_rows else {}
    return {".".join(source_tables[i].name): rows for i, rows in (report.late_rows if report else {}).items()}


def _gap(run: ChangefeedRun) -> tuple[int, int] | None:
    """The gap at whose end the run began."""
    pending = run.pending()
    begun = pending.record.tso if pending.record is not None else 0
    return next((gap for table in pending.history.source_tables for gap in table.gaps if gap[1] == begun), None)


def _names(run: ChangefeedRun) -> list[SourceName]:
    """The tables that have assets once the definitions load."""
    return [table.name for table in run.tables().values() if table.name == table.source_table.name]


def _limits(run: ChangefeedRun) -> LagLimits:
    return LagLimits.of(run.changefeed.dagster.max_lag_s)


def _problems(run: ChangefeedRun) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    pending = run.pending()
    return pending.problems, pending.notes


def _tables(run: ChangefeedRun) -> tuple[TableRecord, ...]:
    record = run.lake.control.newest()
    return record.tables if record else ()


# -- one table ---------------------------------------------------------------------------------------------------------


def table_checks(feed: Feed, table: KnownTable) -> dg.AssetChecksDefinition:
    """The checks of one table."""
    names = feed.names
    key = _checked_asset(feed, table)
    specs = [
        dg.AssetCheckSpec(NOT_HELD, asset=key, blocking=True, description="The table is not stopped or waiting."),
        dg.AssetCheckSpec(
            NOTHING_QUARANTINED, asset=key, blocking=True, description="No record of the table is in quarantine."
        ),
        dg.AssetCheckSpec(NEAR_SOURCE, asset=key, description="The table is near the source's checkpoint."),
        dg.AssetCheckSpec(WRITTEN_BY_RUNS, asset=key, description="No other writer changed its rows in the lake."),
    ]
    if table.has_key:
        text = "The mirror has as many rows as the fold of its changelog."
        specs.append(dg.AssetCheckSpec(ROWS_EQUAL, asset=key, blocking=True, description=text))

    @dg.multi_asset_check(
        name=names.table_checks_op(table.schema, table.table),
        specs=specs,
        can_subset=True,
        required_resource_keys={names.resource},
    )
    def checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        run: ChangefeedRun = getattr(context.resources, names.resource)
        with report_failures(run):
            yield from _selected(context, _table_verdicts(context, run, table, key))

    return checks


def _checked_asset(feed: Feed, table: KnownTable) -> dg.AssetKey:
    return (feed.names.mirror if table.has_key else feed.names.changelog)(table.schema, table.table)


def _table_verdicts(
    context: AnyContext, run: ChangefeedRun, table: KnownTable, key: dg.AssetKey
) -> Iterator[tuple[dg.AssetCheckKey, Judge]]:
    current = run.tables().get(fold_name(table.schema, table.table))
    judges = (
        _judges(context, run, current, key) if current else dict.fromkeys(TABLE_CHECKS, verdicts.unknown_table_verdict)
    )
    for name, judge in judges.items():
        if name != ROWS_EQUAL or table.has_key:
            yield dg.AssetCheckKey(key, name), judge


def _judges(context: AnyContext, run: ChangefeedRun, table: Reported, key: dg.AssetKey) -> dict[str, Judge]:
    bad = run.quarantined().get(table.source_table.id, [])
    return {
        NOT_HELD: lambda: verdicts.not_held(table.record),
        NOTHING_QUARANTINED: lambda: verdicts.nothing_quarantined(bad, _quarantine_name(run)),
        NEAR_SOURCE: lambda: verdicts.near_source_checkpoint(table.record, run.clock(), _limits(run)),
        WRITTEN_BY_RUNS: lambda: _written_by_runs(run, table),
        ROWS_EQUAL: lambda: _counted_once(context, key, table, lambda: _count(run, table)),
    }


def _count(run: ChangefeedRun, table: Reported) -> Verdict:
    record = table.record
    changelog = load_or_none(run.lake.catalog, tuple(record.changelog)) if record.changelog else None
    if changelog is None or record.mirror is None:
        return verdicts.rows_equal(None, FoldCount(None))
    if record.has(NoteCode.SET_BACK):
        return verdicts.rows_equal(None, FoldCount(None, "the changelog was set back, as `not_held` says"))
    count = count_fold(table.source_table, changelog, record.watermark, run.lake.by_arrival)
    job = FeedNames(run.changefeed.name, str(run.changefeed.sink.protocol)).rebuild_job
    verdict = verdicts.rows_equal(record.rows, count, job)
    if verdict.passed:
        return verdict
    set_back = _set_back(run, table, changelog)
    if set_back:
        return replace(verdict, sentence=set_back)
    foreign = foreign_writes(changelog)
    if foreign:
        advice = verdicts.changelog_advice(".".join(table.name), foreign, run.lake.by_arrival)
        return replace(verdict, sentence=f"The mirror has other rows than its changelog. {advice}")
    if record.rows is None or record.has(NoteCode.MIRROR) or not _is_behind(run, table):
        return verdict
    return verdicts.not_merged_yet(record.rows, count)


def _set_back(run: ChangefeedRun, table: Reported, changelog: Table) -> str:
    """What to do where the changelog was set back; empty where it was not, or where `not_held` says it."""
    if table.record.has(NoteCode.SET_BACK):
        return ""
    try:
        require_whole(run.lake, table.record, table.recorded_at, changelog)
    except SetBackError as error:
        return str(error)
    return ""


def _written_by_runs(run: ChangefeedRun, table: Reported) -> Verdict:
    record = table.record
    named = {"mirror": record.mirror, "history": record.history_table, "changelog": record.changelog}
    loaded = {kind: load_or_none(run.lake.catalog, tuple(name)) for kind, name in named.items() if name}
    changelog = loaded.pop("changelog", None)
    set_back = _set_back(run, table, changelog) if changelog is not None else ""
    if set_back:
        return Verdict(False, set_back)
    others = {f"the {kind}": foreign_writes(found) for kind, found in loaded.items() if found is not None}
    found = foreign_writes(changelog) if changelog is not None else ()
    return verdicts.written_by_runs_alone(f"{record.schema}.{record.table}", found, others, run.lake.by_arrival)


def _is_behind(run: ChangefeedRun, table: Reported) -> bool:
    """Whether the next run merges changes into the mirror: the last one ended before it, or the mirror was rebuilt as
    of an earlier TSO."""
    lake, newest = run.lake, run.lake.control.newest()
    if newest is None:
        return False
    works = pending_work(lake, Plan.of(lake, newest, lake.history()), [table.source_table.id], errors={})
    return any(work.damage is None for work in works)


def _counted_once(context: AnyContext, key: dg.AssetKey, table: Reported, count: Callable[[], Verdict]) -> Verdict:
    """Count, or repeat the last verdict where the same two snapshots were counted before."""
    snapshots = {
        "mirror_snapshot": str(table.record.mirror_snapshot_id or "none"),
        "changelog_snapshot": str(table.record.changelog_snapshot_id or "none"),
    }
    before = _last_verdict(context.instance, dg.AssetCheckKey(key, ROWS_EQUAL))
    if before is not None and snapshots.items() <= before.facts.items():
        return before
    verdict = count()
    return Verdict(verdict.passed, verdict.sentence, verdict.warns, {**verdict.facts, **snapshots})


def _last_verdict(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> Verdict | None:
    records = instance.event_log_storage.get_asset_check_execution_history(key, limit=_VERDICTS_KEPT)
    for record in records:
        evaluation = record.evaluation
        if isinstance(evaluation, dg.AssetCheckEvaluation):  # a planned check has no evaluation yet
            facts = {name: value.value for name, value in evaluation.metadata.items()}
            return Verdict(evaluation.passed, evaluation.description or "", False, facts)
    return None


# -- both --------------------------------------------------------------------------------------------------------------


def _quarantine_name(run: ChangefeedRun) -> str:
    return ".".join((run.config.catalog.name, *run.lake.control.namespace, "quarantine"))


def _selected(
    context: dg.AssetCheckExecutionContext, judges: Iterable[tuple[dg.AssetCheckKey, Judge]]
) -> Iterator[dg.AssetCheckResult]:
    for key, judge in judges:
        if key in context.selected_asset_check_keys:
            yield check_result(key, judge())


def check_result(key: dg.AssetCheckKey, verdict: Verdict) -> dg.AssetCheckResult:
    """The verdict as a result of Dagster."""
    return dg.AssetCheckResult(
        check_name=key.name,
        asset_key=key.asset_key,
        passed=verdict.passed,
        severity=dg.AssetCheckSeverity.WARN if verdict.warns else dg.AssetCheckSeverity.ERROR,
        description=printable(verdict.sentence),
        metadata=shown({fact: value for fact, value in verdict.facts.items() if value is not None}),
    )


# -- runs that report news ---------------------------------------------------------------------------------------------


def log_checks(feed: Feed, context: dg.AssetExecutionContext, run: ChangefeedRun) -> Exception | None:
    """Evaluate all checks. Log those of tables that this run has materialized, and of the others those that differ from
    their last result.

    Returns:
        the error to raise at the end of the step where a blocking check fails, as Dagster raises it in steps of checks.
    """
    names = feed.names
    tables = (_table_verdicts(context, run, table, _checked_asset(feed, table)) for table in feed.tables)
    judged = {key: judge() for key, judge in chain(_changefeed_verdicts(feed, run), *tables)}
    records = context.instance.get_asset_records(list({key.asset_key for key in judged}))
    last = {record.asset_entry.asset_key: record.asset_entry.last_materialization_record for record in records}
    now = {key for key, record in last.items() if record is not None and record.run_id == context.run_id}
    now -= {names.watermarks, names.quarantine}  # their checks are those of the changefeed
    before = context.instance.event_log_storage.get_latest_asset_check_execution_by_key(list(judged))
    for key, verdict in judged.items():
        evaluation = _evaluation(key, verdict, last.get(key.asset_key))
        if key.asset_key in now or _differs(evaluation, before.get(key)):
            context.log_event(evaluation)
    failed = [key for key, verdict in judged.items() if key.name in BLOCKING and not (verdict.passed or verdict.warns)]
    if not failed:
        return None
    listed = ", ".join(f"{key.name} of {key.asset_key.to_user_string()}" for key in failed[:_FAILED_SHOWN_MAX])
    return DagsterAssetCheckFailedError(f"{counted(len(failed), 'blocking check')} failed: {listed}")


def _evaluation(key: dg.AssetCheckKey, verdict: Verdict, made: EventLogRecord | None) -> dg.AssetCheckEvaluation:
    """The result, with the newest materialization of its asset: Dagster shows it beside that of the same run."""
    result = check_result(key, verdict)
    return dg.AssetCheckEvaluation(
        key.asset_key,
        key.name,
        verdict.passed,
        result.metadata,
        made and Target(storage_id=made.storage_id, run_id=made.run_id, timestamp=made.timestamp),
        result.severity,
        result.description,
        key.name in BLOCKING,
    )


def _differs(evaluation: dg.AssetCheckEvaluation, record: AssetCheckExecutionRecord | None) -> bool:
    """Whether a result is to be told: passed, or severity, or what a failed check says, or the rows that were counted.
    A lag always differs."""
    before = record.evaluation if record is not None else None
    if not isinstance(before, dg.AssetCheckEvaluation):
        return True
    outcome = (evaluation.passed, evaluation.severity) != (before.passed, before.severity)
    told = not evaluation.passed and evaluation.check_name not in (NEAR_CLOCK, NEAR_SOURCE)
    sentence = told and evaluation.description != before.description
    return outcome or sentence or (evaluation.check_name == ROWS_EQUAL and evaluation.metadata != before.metadata)
