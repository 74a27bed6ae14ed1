"""The mirror step: merges the changelogs into all mirrors, or into the selected ones."""

# Dagster evaluates the annotation of `context`, so this module must not postpone annotations.
import uuid
from collections.abc import Callable, Iterable, Iterator

import dagster as dg

from ticdc_assets.assets.hooks import Results
from ticdc_assets.assets.known_tables import KnownTable
from ticdc_assets.assets.metadata.figures import (
    Metadata,
    ShownTable,
    history_metadata,
    mirror_metadata,
    watermark_metadata,
)
from ticdc_assets.assets.metadata.history_points import recent
from ticdc_assets.assets.resources import ChangefeedRun
from ticdc_assets.assets.stages.changelogs import publish_with_news
from ticdc_assets.assets.stages.days import closed_days
from ticdc_assets.assets.stages.news import news, reports_news
from ticdc_assets.assets.stages.run_step import run_step
from ticdc_assets.assets.stages.schema_cache import scan_with_news
from ticdc_assets.assets.stages.table_specs import changelog_spec, history_spec, mirror_spec
from ticdc_assets.assets.steps import CODE_VERSION, DATA_VERSION_TAG, Feed, progress_logger
from ticdc_assets.assets.table_status import Reported, reported
from ticdc_assets.pipeline.history_tables.pending import refusal
from ticdc_assets.pipeline.mirror.pending import blocked_tables
from ticdc_assets.pipeline.run.mirrors import MirrorReport, run_mirrors
from ticdc_assets.schema.history.source_table import History, SourceName, fold_name
from ticdc_assets.tables.fields import lake_tables

LogChecks = Callable[[dg.AssetExecutionContext, ChangefeedRun], Exception | None]
"""Logs the results of checks in a requested run, and returns the error of failed ones."""


def mirror_assets(feed: Feed, log_checks: LogChecks) -> dg.AssetsDefinition:
    """The mirrors of all tables with a key, the histories, and the record of the TSO at which all are consistent."""

    def work(context: dg.AssetExecutionContext, feed: Feed, run: ChangefeedRun) -> Results:
        if reports_news(context, feed):
            yield from scan_with_news(context, feed, run)
            yield from publish_with_news(context, feed, run)
            yield from _merge_with_news(context, feed, run, log_checks)
        else:
            yield from _merge(context, feed, run)

    return run_step(feed, feed.names.mirrors_op, mirror_specs(feed), work)


def mirror_specs(feed: Feed) -> list[dg.AssetSpec]:
    """The record of the TSO, the mirrors and the histories."""
    mirrors = (mirror_spec(feed, table) for table in feed.mirrored)
    return [_watermarks_spec(feed), *mirrors, *(history_spec(feed, table) for table in feed.with_history)]


def _watermarks_spec(feed: Feed) -> dg.AssetSpec:
    plain = feed.names.plain
    mirrors = [plain.mirror(table.schema, table.table) for table in feed.mirrored]
    histories = [plain.history(table.schema, table.table) for table in feed.with_history]
    keyless = [plain.changelog(table.schema, table.table) for table in feed.tables if not table.has_key]
    spec = dg.AssetSpec(
        plain.watermarks,
        deps=[plain.quarantine, *mirrors, *histories, *keyless],
        group_name=feed.names.group,
        kinds={"iceberg"},
        code_version=CODE_VERSION,
        description="The TSOs at which all tables can be read together, with the snapshots to read.",
        skippable=True,  # a requested run logs it
    )
    return feed.translated(spec)


def _merge(context: dg.AssetExecutionContext, feed: Feed, run: ChangefeedRun) -> Iterator[dg.MaterializeResult[None]]:
    selected, names = context.selected_asset_keys, feed.names
    chosen = [t for t in feed.mirrored if names.mirror(t.schema, t.table) in selected]
    with_history = [t for t in feed.with_history if names.history(t.schema, t.table) in selected]
    history = run.lake.history()
    whole = len(chosen) == len(feed.mirrored) and names.watermarks in selected
    only = None if whole else _source_tables(history, run, [*chosen, *with_history])
    report = run_mirrors(run.lake, uuid.uuid4().hex, run.jvm, progress_logger(context), only)
    run.published()
    tables = reported(history, report.record if report else None)
    results = _Results(feed, run, report, tables.values())
    for known in chosen:
        table = tables.get(fold_name(known.schema, known.table))
        yield results.result(feed.names.mirror(known.schema, known.table), table)
    for known in with_history:
        table = tables.get(fold_name(known.schema, known.table))
        yield results.of_history(feed.names.history(known.schema, known.table), table)
    if feed.names.watermarks not in context.selected_asset_keys:
        return
    recorded = _recorded(feed, run, report)
    yield recorded
    if only is None and _log_new_tables(context, feed, results, tables):
        context.log_event(_without_upstream(recorded))
    _log_closed_days(context, feed, run, report)


def _merge_with_news(
    context: dg.AssetExecutionContext, feed: Feed, run: ChangefeedRun, log_checks: LogChecks
) -> Iterator[dg.AssetMaterialization]:
    """Everything in a requested run. The record comes last: Dagster drops events that are logged after it where the
    step fails, as it does for a failed check. It is no output of the step, which Dagster would store once more."""
    names = feed.names
    report = run_mirrors(run.lake, uuid.uuid4().hex, run.jvm, progress_logger(context))
    run.published()
    tables = reported(run.lake.history(), report.record if report else None)
    results = _Results(feed, run, report, tables.values())
    versions, outcomes = {}, []
    for known in feed.tables:
        table = tables.get(fold_name(*known.name))
        key = names.changelog(*known.name)
        versions[key] = str(table.record.changelog_snapshot_id) if table else ""
        if known.has_key:
            outcomes.append((mirror_spec(feed, known), results.result(names.mirror(*known.name), table)))
        if known in feed.with_history:
            outcomes.append((history_spec(feed, known), results.of_history(names.history(*known.name), table)))
    yield from news(context, feed, outcomes, versions)
    _log_closed_days(context, feed, run, report)
    failed = log_checks(context, run)
    _log_new_tables(context, feed, results, tables)
    yield _without_upstream(_recorded(feed, run, report))
    if failed is not None:
        raise failed


def _log_new_tables(
    context: dg.AssetExecutionContext, feed: Feed, results: "_Results", tables: dict[SourceName, Reported]
) -> bool:
    """Log the tables that have no assets in the loaded definitions; whether there are any."""
    new = [t for t in feed.without_assets(tables) if t.name == t.source_table.name]
    for table in new:
        if table.record.mirror:
            key = mirror_spec(feed, KnownTable(*table.name)).key
            context.log_event(dg.AssetMaterialization(key, metadata=results.metadata(table)))
        if table.record.history_table:
            key = history_spec(feed, KnownTable(*table.name)).key
            context.log_event(dg.AssetMaterialization(key, metadata=results.of_history(key, table).metadata))
    if new and feed.hooks.on_new_tables is not None:
        feed.hooks.on_new_tables(context)
    return bool(new)


def _log_closed_days(
    context: dg.AssetExecutionContext, feed: Feed, run: ChangefeedRun, report: MirrorReport | None
) -> None:
    if report is not None and feed.shown.days_from is not None:
        known = context.instance.get_materialized_partitions(feed.names.days)
        for closed in closed_days(feed, run, report.record, known):
            context.log_event(closed)


def _without_upstream(recorded: dg.MaterializeResult[None]) -> dg.AssetMaterialization:
    """The same record without the versions of the mirrors that it was made from. Dagster then compares times: the
    asset stays up to date when the code location is reloaded and it has mirrors upstream that it did not have."""
    version = recorded.data_version.value if recorded.data_version else ""
    assert recorded.asset_key is not None
    return dg.AssetMaterialization(recorded.asset_key, metadata=recorded.metadata, tags={DATA_VERSION_TAG: version})


def _recorded(feed: Feed, run: ChangefeedRun, report: MirrorReport | None) -> dg.MaterializeResult[None]:
    if report is None:
        note = "no record yet: the source has no checkpoint"
        return dg.MaterializeResult(asset_key=feed.names.watermarks, metadata={"complete": False, "note": note})
    record = report.record
    held = blocked_tables(record.tables)
    return dg.MaterializeResult(
        asset_key=feed.names.watermarks,
        metadata={
            **watermark_metadata(record.tso, run.clock()),
            "complete": record.complete,
            "tables": len(record.tables),
            "tables_held": len(held),
            "tables_with_quarantine": sum(bool(table.quarantined) for table in record.tables),
            "run_mirrors_merged": len(report.merged),
            "dagster/table_name": ".".join((run.config.catalog.name, *run.lake.control.namespace, "watermarks")),
        },
        data_version=dg.DataVersion(f"{record.tso}-{record.complete}"),
    )


def _source_tables(history: History, run: ChangefeedRun, chosen: list[KnownTable]) -> list[str]:
    wanted: set[SourceName] = {fold_name(table.schema, table.table) for table in chosen}
    tables = reported(history, run.lake.control.newest())
    return [table.source_table.id for name, table in tables.items() if name in wanted]


def _views(run: ChangefeedRun) -> dict[str, str]:
    """The view of each mirror that has one, by source table."""
    if run.lake.changefeed.target.view is None:
        return {}
    catalog = run.config.catalog.name
    return {view.source_table: ".".join((catalog, *view.view)) for view in run.lake.control.views()}


def _verified(run: ChangefeedRun) -> dict[str, Metadata]:
    """The newest comparison of each mirror with TiDB, by source table; none without an upstream."""
    if run.lake.changefeed.large_rows.upstream is None:
        return {}
    newest = {row.source_table: row for row in reversed(run.lake.control.verified())}
    return {
        i: {
            "verified": f"{'equal' if row.is_equal else 'differs'} at {row.tso}: {row.extent}, {row.rows:,} rows",
            "verified_time": dg.MetadataValue.timestamp(row.verified_at),
        }
        for i, row in newest.items()
    }


class _Results:
    """Builds the materialization result of each mirror."""

    def __init__(self, feed: Feed, run: ChangefeedRun, report: MirrorReport | None, tables: Iterable[Reported]) -> None:
        self._feed = feed
        self._run = run
        self._clock = run.clock()
        self._points = recent(run.lake)
        self._places = run.lake.table_locations(run.lake.history())
        self._views = _views(run)
        self._verified = _verified(run)
        self._rows = run.outcome.changelogs.rows_by_op if run.outcome.changelogs else {}
        records = [table.record for table in tables]
        names = [*(record.mirror for record in records), *(record.history_table for record in records)]
        self._tables = lake_tables(run.lake.catalog, [tuple(name) for name in names if name])

    def result(self, key: dg.AssetKey, table: Reported | None) -> dg.MaterializeResult[None]:
        """A held table is reported too, with its state and its old watermark; its checks fail."""
        if table is None:
            return dg.MaterializeResult(asset_key=key, metadata={"state": "unknown"})
        version = dg.DataVersion(str(table.record.mirror_snapshot_id))
        return dg.MaterializeResult(asset_key=key, metadata=self.metadata(table), data_version=version)

    def of_history(self, key: dg.AssetKey, table: Reported | None) -> dg.MaterializeResult[None]:
        """The same for a table's history."""
        if table is None:
            return dg.MaterializeResult(asset_key=key, metadata={"state": "unknown"})
        key_of_changelog = changelog_spec(self._feed, KnownTable(*table.name)).key
        metadata = history_metadata(table, self._history(table), key_of_changelog, self._clock)
        reason = refusal(self._run.lake, table.source_table, table.record.watermark)
        metadata |= {"no_history": reason} if reason else {}
        version = dg.DataVersion(str(table.record.history_snapshot_id))
        return dg.MaterializeResult(asset_key=key, metadata=metadata, data_version=version)

    def metadata(self, table: Reported) -> Metadata:
        source_table_id = table.source_table.id
        shown = mirror_metadata(
            table,
            self._mirror(table),
            self._rows.get(source_table_id, {}),
            self._points.get(source_table_id, ()),
            changelog_spec(self._feed, KnownTable(*table.name)).key,
            self._clock,
        )
        view = self._views.get(source_table_id)
        return {**shown, **({"view": view} if view else {}), **self._verified.get(source_table_id, {})}

    def _mirror(self, table: Reported) -> ShownTable:
        location = self._places[table.source_table.id].mirror_location
        return self._shown(table.record.mirror, location)

    def _history(self, table: Reported) -> ShownTable:
        location = self._places[table.source_table.id].history_location
        return self._shown(table.record.history_table, location)

    def _shown(self, identifier: Iterable[str] | None, location: str | None) -> ShownTable:
        name = tuple(identifier or ())
        return ShownTable(self._run.config.catalog.name, name, location, self._tables.get(name))
