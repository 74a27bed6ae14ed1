"""The checks in Dagster: for each table on its mirror (a keyless table's on its changelog), and for the changefeed.

A table's blocking checks are a step of their own, so that a red table holds back what is built on it and nothing else.
"""

# Dagster reads the annotation of `context`, so that annotations here are not postponed.
from collections.abc import Callable, Iterator
from typing import Any, Final

import dagster as dg

from ticdc_assets.assets import verdicts
from ticdc_assets.assets.fold_count import FoldCount, count_fold
from ticdc_assets.assets.known_tables import KnownTable, is_sample
from ticdc_assets.assets.reported import Reported
from ticdc_assets.assets.resources import ChangefeedRun, told_plainly
from ticdc_assets.assets.steps import Feed
from ticdc_assets.assets.verdicts import Verdict
from ticdc_assets.schema.history import fold_name
from ticdc_assets.tables.catalog import load_or_none

GOES_ON: Final = "goes_on"
NOTHING_QUARANTINED: Final = "nothing_quarantined"
KEEPS_UP: Final = "keeps_up"
ROWS_EQUAL: Final = "rows_equal_the_changelog"
ALL_GO_ON: Final = "all_tables_go_on"
QUARANTINE_EMPTY: Final = "quarantine_is_empty"
NO_GAPS: Final = "no_gaps_in_files"
SOURCE_MOVES: Final = "source_keeps_up"

_VERDICTS_KEPT: Final = 5


def check_assets(feed: Feed) -> list[dg.AssetChecksDefinition]:
    """All checks of a changefeed."""
    return [changefeed_checks(feed), *(table_checks(feed, table) for table in feed.tables)]


# -- the changefeed -------------------------------------------------------------------------------------------------------


def changefeed_checks(feed: Feed) -> dg.AssetChecksDefinition:
    """What is red as long as anything anywhere in the changefeed needs somebody; tables without assets included."""
    names = feed.names
    specs = [
        dg.AssetCheckSpec(ALL_GO_ON, asset=names.watermarks, description="No table is stopped or waiting."),
        dg.AssetCheckSpec(SOURCE_MOVES, asset=names.watermarks, description="TiCDC's checkpoint is near the clock."),
        dg.AssetCheckSpec(NO_GAPS, asset=names.watermarks, description="No file is missing at the source."),
        dg.AssetCheckSpec(QUARANTINE_EMPTY, asset=names.quarantine, description="Every record could be decoded."),
    ]

    @dg.multi_asset_check(name=names.checks_op, specs=specs, required_resource_keys={names.resource})
    def checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        run: ChangefeedRun = getattr(context.resources, names.resource)
        with told_plainly(run):
            yield from _changefeed_results(feed, run)

    return checks


def _changefeed_results(feed: Feed, run: ChangefeedRun) -> Iterator[dg.AssetCheckResult]:
    names, control = feed.names, run.lake.control
    record = control.newest()
    where = _quarantine_name(run)
    yield _result(ALL_GO_ON, names.watermarks, verdicts.all_go_on(record.tables if record else ()))
    yield _result(SOURCE_MOVES, names.watermarks, verdicts.source_moves(run.clock(), is_sample(run.config)))
    yield _result(NO_GAPS, names.watermarks, verdicts.no_gaps(run.pending().problems))
    yield _result(QUARANTINE_EMPTY, names.quarantine, verdicts.nothing_quarantined(control.quarantined(), where))


# -- one table ------------------------------------------------------------------------------------------------------------


def table_checks(feed: Feed, table: KnownTable) -> dg.AssetChecksDefinition:
    """The checks of one table."""
    names = feed.names
    key = (names.mirror if table.has_key else names.changelog)(table.schema, table.table)
    specs = [
        dg.AssetCheckSpec(GOES_ON, asset=key, blocking=True, description="The table is not stopped or waiting."),
        dg.AssetCheckSpec(NOTHING_QUARANTINED, asset=key, blocking=True, description="No change of it was kept aside."),
        dg.AssetCheckSpec(KEEPS_UP, asset=key, description="The table is near the source's checkpoint."),
    ]
    if table.has_key:
        text = "The mirror has as many rows as its changelog folds to."
        specs.append(dg.AssetCheckSpec(ROWS_EQUAL, asset=key, blocking=True, description=text))

    @dg.multi_asset_check(
        name=names.table_checks_op(table.schema, table.table), specs=specs, required_resource_keys={names.resource}
    )
    def checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        run: ChangefeedRun = getattr(context.resources, names.resource)
        with told_plainly(run):
            for name, verdict in _table_verdicts(context, run, table, key):
                yield _result(name, key, verdict)

    return checks


def _table_verdicts(
    context: dg.AssetCheckExecutionContext, run: ChangefeedRun, table: KnownTable, key: dg.AssetKey
) -> Iterator[tuple[str, Verdict]]:
    found = run.tables().get(fold_name(table.schema, table.table))
    if found is None:
        names = (GOES_ON, NOTHING_QUARANTINED, KEEPS_UP, *((ROWS_EQUAL,) if table.has_key else ()))
        yield from ((name, verdicts.unknown_table()) for name in names)
        return
    bad = run.quarantined().get(fold_name(*found.lineage.name), [])
    yield GOES_ON, verdicts.goes_on(found.record)
    yield NOTHING_QUARANTINED, verdicts.nothing_quarantined(bad, _quarantine_name(run))
    yield KEEPS_UP, verdicts.keeps_up(found.record, run.clock())
    if table.has_key:
        yield ROWS_EQUAL, _counted_once(context, key, found, lambda: _count(run, found))


def _count(run: ChangefeedRun, found: Reported) -> Verdict:
    record = found.record
    changelog = load_or_none(run.lake.catalog, tuple(record.changelog))
    if changelog is None or record.mirror is None:
        return verdicts.rows_equal(None, FoldCount(None))
    count = count_fold(found.lineage, changelog, record.watermark, run.lake.by_arrival)
    return verdicts.rows_equal(record.rows, count)


def _counted_once(
    context: dg.AssetCheckExecutionContext, key: dg.AssetKey, found: Reported, count: Callable[[], Verdict]
) -> Verdict:
    """Count, unless these very snapshots were counted before: then that verdict stands, red or green."""
    snapshots = f"{found.record.mirror_snapshot_id} of {found.record.changelog_snapshot_id}"
    before = _last_verdict(context.instance, dg.AssetCheckKey(key, ROWS_EQUAL))
    if before is not None and before.facts.get("snapshots") == snapshots:
        return before
    verdict = count()
    return Verdict(verdict.passed, verdict.sentence, verdict.warns, {**verdict.facts, "snapshots": snapshots})


def _last_verdict(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> Verdict | None:
    records = instance.event_log_storage.get_asset_check_execution_history(key, limit=_VERDICTS_KEPT)
    for record in records:
        evaluation = record.evaluation
        if evaluation is not None:
            facts = {name: value.value for name, value in evaluation.metadata.items()}
            return Verdict(evaluation.passed, evaluation.description or "", False, facts)
    return None


# -- both -----------------------------------------------------------------------------------------------------------------


def _quarantine_name(run: ChangefeedRun) -> str:
    return ".".join((run.config.catalog.name, *run.lake.control.namespace, "quarantine"))


def _result(name: str, key: dg.AssetKey, verdict: Verdict) -> dg.AssetCheckResult:
    metadata: dict[str, Any] = {fact: value for fact, value in verdict.facts.items() if value is not None}
    return dg.AssetCheckResult(
        check_name=name,
        asset_key=key,
        passed=verdict.passed,
        severity=dg.AssetCheckSeverity.WARN if verdict.warns else dg.AssetCheckSeverity.ERROR,
        description=verdict.sentence,
        metadata=metadata,
    )
