"""The source as an external asset, and the schema cache: the first step of a run, which scans the source."""

# Dagster evaluates the annotation of `context`, so this module must not postpone annotations.
from typing import Any, Final

import dagster as dg

from ticdc_assets.assets.hooks import Results
from ticdc_assets.assets.keys import FeedNames
from ticdc_assets.assets.metadata.figures import watermark_metadata
from ticdc_assets.assets.resources import ChangefeedRun
from ticdc_assets.assets.stages.news import news
from ticdc_assets.assets.stages.run_step import run_step
from ticdc_assets.assets.steps import CODE_VERSION, DATA_VERSION_TAG, INPUT_VERSION_TAG, Feed, progress_logger
from ticdc_assets.pipeline.landing.land import topic_faults
from ticdc_assets.pipeline.sources import is_landed
from ticdc_assets.printable import printable
from ticdc_assets.schema.history.source_table import History

OFFSETS_LEFT: Final = "offsets_left"
"""The metadata with the offsets of Kafka that a run leaves for the next one, by `max_messages` and `max_bytes`."""

UNLANDED: Final = "unlanded_offsets"
"""The metadata of the source with the offsets of Kafka that are not landed."""


def source_spec(feed: Feed, shown_uri: str) -> dg.AssetSpec:
    """The changefeed as an external asset; its data version is the TSO up to which it is complete."""
    spec = dg.AssetSpec(
        feed.names.plain.source,
        group_name=feed.names.group,
        kinds={"tidb", "ticdc"},
        description=f"TiCDC changefeed `{feed.names.changefeed}` ({feed.names.protocol}).",
        metadata={"sink_uri": shown_uri, "protocol": feed.names.protocol},
    )
    return feed.translated(spec)


def schema_cache_spec(feed: Feed) -> dg.AssetSpec:
    """The schema cache."""
    spec = dg.AssetSpec(
        feed.names.plain.schema_cache,
        deps=[feed.names.plain.source],
        group_name=feed.names.group,
        kinds={"iceberg"},
        code_version=CODE_VERSION,
        description="Every version of every table's schema, with the TSO after which it is in effect.",
    )
    return feed.translated(spec)


def schema_cache_asset(feed: Feed) -> dg.AssetsDefinition:
    """Scans the source once for the whole run. New schema versions are published together with the changelogs."""
    return run_step(feed, feed.names.schema_cache_op, [schema_cache_spec(feed)], _scan, can_subset=False)


def _scan(context: dg.AssetExecutionContext, feed: Feed, run: ChangefeedRun) -> Results:
    yield _scanned(context, feed, run)


def scan_with_news(context: dg.AssetExecutionContext, feed: Feed, run: ChangefeedRun) -> Results:
    """The same in the one step of a requested run."""
    outcome = schema_cache_spec(feed), _scanned(context, feed, run)
    yield from news(context, feed, [outcome], {feed.names.source: str(run.clock().checkpoint)})


def _scanned(context: dg.AssetExecutionContext, feed: Feed, run: ChangefeedRun) -> dg.MaterializeResult[None]:
    run.land(progress_logger(context))
    for sentence in run.changefeed.warnings:
        context.log.warning(printable(sentence))
    pending = run.pending()
    observed = _observed(feed, run)
    if is_new(context.instance, observed):
        context.log_event(observed)
    # Dagster read the version of the source before this step, which may have found a later one.
    made_from = {INPUT_VERSION_TAG.format(feed.names.source.to_user_string()): (observed.tags or {})[DATA_VERSION_TAG]}
    return dg.MaterializeResult(
        asset_key=feed.names.schema_cache,
        metadata={
            **_counts(pending.history),
            **watermark_metadata(pending.high, run.clock()),
            **({OFFSETS_LEFT: run.outcome.offsets_left} if run.outcome.offsets_left else {}),
            **{f"fault_of_topic_{topic}": printable(sentence) for topic, sentence in topic_faults(run.lake).items()},
        },
        data_version=dg.DataVersion(schema_version(pending.history)),
        tags=made_from,
    )


def _observed(feed: Feed, run: ChangefeedRun) -> dg.AssetMaterialization:
    checkpoint = run.clock().checkpoint
    left = {UNLANDED: run.outcome.offsets_left} if is_landed(run.changefeed) else {}
    return observation(feed.names, checkpoint, {**watermark_metadata(checkpoint, run.clock()), **left})


def is_new(instance: dg.DagsterInstance, observed: dg.AssetMaterialization) -> bool:
    """Whether the last observation of the source has another TSO, or other offsets that are not landed."""
    last = instance.fetch_materializations(observed.asset_key, limit=1)
    return [_seen(r.asset_materialization) for r in last.records if r.asset_materialization] != [_seen(observed)]


def _seen(observed: dg.AssetMaterialization) -> tuple[str | None, object]:
    return (observed.tags or {}).get(DATA_VERSION_TAG), observed.metadata.get(UNLANDED)


def observation(names: FeedNames, checkpoint: int, metadata: dict[str, Any]) -> dg.AssetMaterialization:
    """Reports the TSO up to which the source is complete, as the data version of the external asset.

    A materialization, because Dagster reads the data version of an external asset only from this kind of event.
    """
    return dg.AssetMaterialization(names.source, metadata=metadata, tags={DATA_VERSION_TAG: str(checkpoint)})


def _counts(history: History) -> dict[str, int]:
    source_tables = history.source_tables
    return {
        "tables": sum(source_table.dropped_ts is None for source_table in source_tables),
        "tables_dropped": sum(source_table.dropped_ts is not None for source_table in source_tables),
        "tables_stopped": sum(source_table.stop is not None for source_table in source_tables),
        "schema_versions": sum(len(source_table.versions) for source_table in source_tables),
    }


def schema_version(history: History) -> str:
    """The data version of the schema cache: the TSO of the newest statement."""
    return str(max((version.from_ts for table in history.source_tables for version in table.versions), default=0))
