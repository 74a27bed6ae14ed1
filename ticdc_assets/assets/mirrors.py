"""The mirror stage: one step that brings every mirror, or the selected ones, up to its changelog."""

# Dagster reads the annotation of `context`, so that annotations here are not postponed.
import uuid
from collections.abc import Iterable, Iterator

import dagster as dg

from ticdc_assets.assets.known_tables import KnownTable
from ticdc_assets.assets.metadata import Metadata, mirror_metadata, watermark_metadata
from ticdc_assets.assets.recent import recent
from ticdc_assets.assets.reported import Reported, reported
from ticdc_assets.assets.resources import ChangefeedRun, told_plainly
from ticdc_assets.assets.steps import CODE_VERSION, SOURCE_TYPES, Feed, sayer
from ticdc_assets.pipeline.mirror_run import MirrorReport, run_mirrors
from ticdc_assets.pipeline.mirror_work import blocked_tables
from ticdc_assets.schema.lineage import History, SourceName, fold_name
from ticdc_assets.tables.fields import all_fields


def mirror_assets(feed: Feed) -> dg.AssetsDefinition:
    """The mirrors of all tables with a key, and the record of the TSO at which they can be read together."""

    @dg.multi_asset(
        name=feed.names.mirrors_op,
        specs=[_watermarks_spec(feed), *(_spec(feed, table) for table in feed.mirrored)],
        can_subset=True,
        pool=feed.names.pool,
        required_resource_keys={feed.names.resource},
    )
    def mirrors(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
        run: ChangefeedRun = getattr(context.resources, feed.names.resource)
        with told_plainly(run, context.retry_number):
            yield from _merge(context, feed, run)

    return mirrors


def _watermarks_spec(feed: Feed) -> dg.AssetSpec:
    mirrors = [feed.names.mirror(table.schema, table.table) for table in feed.mirrored]
    keyless = [feed.names.changelog(table.schema, table.table) for table in feed.tables if not table.has_key]
    return dg.AssetSpec(
        feed.names.watermarks,
        deps=[feed.names.quarantine, *mirrors, *keyless],
        group_name=feed.names.group,
        kinds={"iceberg"},
        code_version=CODE_VERSION,
        description="The TSOs at which all tables can be read together, with the snapshots to read.",
    )


def _spec(feed: Feed, table: KnownTable) -> dg.AssetSpec:
    return dg.AssetSpec(
        feed.names.mirror(table.schema, table.table),
        deps=[feed.names.changelog(table.schema, table.table), feed.names.schema_cache],
        group_name=feed.names.group,
        kinds={"iceberg", "spark", "mirror"},
        code_version=CODE_VERSION,
        description=f"The current rows of `{table.schema}.{table.table}`. {SOURCE_TYPES}",
        metadata=feed.mirror_metadata(table),
    )


def _merge(context: dg.AssetExecutionContext, feed: Feed, run: ChangefeedRun) -> Iterator[dg.MaterializeResult[None]]:
    chosen = [t for t in feed.mirrored if feed.names.mirror(t.schema, t.table) in context.selected_asset_keys]
    history = run.lake.history()
    whole = len(chosen) == len(feed.mirrored) and feed.names.watermarks in context.selected_asset_keys
    only = None if whole else _lineages(history, run, chosen)
    report = run_mirrors(run.lake, uuid.uuid4().hex, run.jvm, sayer(context), only)
    run.published()
    found = reported(history, report.record if report else None)
    told = _Teller(feed, run, report, found.values())
    for known in chosen:
        table = found.get(fold_name(known.schema, known.table))
        yield told.result(feed.names.mirror(known.schema, known.table), table)
    if feed.names.watermarks in context.selected_asset_keys:
        yield _recorded(feed, run, report)
    for table in feed.without_assets(found):
        if table.record.mirror and only is None and table.name == table.lineage.name:
            context.log_event(dg.AssetMaterialization(feed.names.mirror(*table.name), metadata=told.metadata(table)))


def _recorded(feed: Feed, run: ChangefeedRun, report: MirrorReport | None) -> dg.MaterializeResult[None]:
    if report is None:
        note = "no record yet: the source has told no checkpoint"
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
            "run_mirrors_merged": len(report.merged),
            "dagster/table_name": ".".join((run.config.catalog.name, *run.lake.control.namespace, "watermarks")),
        },
        data_version=dg.DataVersion(f"{record.tso}-{record.complete}"),
    )


def _lineages(history: History, run: ChangefeedRun, chosen: list[KnownTable]) -> list[str]:
    wanted: set[SourceName] = {fold_name(table.schema, table.table) for table in chosen}
    found = reported(history, run.lake.control.newest())
    return [table.lineage.id for name, table in found.items() if name in wanted]


class _Teller:
    """Says what became of each mirror."""

    def __init__(self, feed: Feed, run: ChangefeedRun, report: MirrorReport | None, tables: Iterable[Reported]) -> None:
        self._feed = feed
        self._run = run
        self._clock = run.clock()
        self._points = recent(run.lake)
        self._places = run.lake.places(run.lake.history())
        self._rows = run.outcome.changelogs.rows_by_op if run.outcome.changelogs else {}
        names = (tuple(table.record.mirror) for table in tables if table.record.mirror)
        self._fields = all_fields(run.lake.catalog, names)

    def result(self, key: dg.AssetKey, table: Reported | None) -> dg.MaterializeResult[None]:
        """A held table is told too, with its state and its old watermark; its checks are red."""
        if table is None:
            return dg.MaterializeResult(asset_key=key, metadata={"state": "unknown"})
        version = dg.DataVersion(str(table.record.mirror_snapshot_id))
        return dg.MaterializeResult(asset_key=key, metadata=self.metadata(table), data_version=version)

    def metadata(self, table: Reported) -> Metadata:
        lineage = table.lineage
        return mirror_metadata(
            self._run.config.catalog.name,
            table.record,
            lineage,
            self._places[lineage.id].mirror_location,
            self._fields.get(tuple(table.record.mirror or ())),
            self._rows.get(lineage.id, {}),
            self._points.get(lineage.id, ()),
            self._feed.names.changelog(*table.name),
            self._clock,
        )
