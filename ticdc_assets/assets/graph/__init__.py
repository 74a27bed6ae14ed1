"""Builds Definitions from a config: for each changefeed its assets, checks, jobs, sensors and schedules.

Reads the config, and the tables of the lake where the caller does not name them. Starts no JVM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import dagster as dg

from ticdc_assets.assets.automation.schedules import maintenance_schedule, verify_schedule
from ticdc_assets.assets.automation.sensors import sensors_of
from ticdc_assets.assets.checks.definitions import check_assets, log_checks
from ticdc_assets.assets.checks.upstream import upstream_check_keys, upstream_checks
from ticdc_assets.assets.hooks import Hooks
from ticdc_assets.assets.jobs.as_of import as_of_job
from ticdc_assets.assets.jobs.maintenance import maintenance_job
from ticdc_assets.assets.jobs.rebuild import rebuild_job
from ticdc_assets.assets.jobs.replay import replay_job
from ticdc_assets.assets.jobs.resync import resync_job
from ticdc_assets.assets.keys import FeedNames
from ticdc_assets.assets.loaded_tables import loaded_tables
from ticdc_assets.assets.resources import lake_resource
from ticdc_assets.assets.stages.changelogs import changelog_assets, changelog_specs
from ticdc_assets.assets.stages.days import days_asset, days_spec
from ticdc_assets.assets.stages.mirrors import mirror_assets, mirror_specs
from ticdc_assets.assets.stages.schema_cache import schema_cache_asset, schema_cache_spec, source_spec
from ticdc_assets.assets.steps import Feed
from ticdc_assets.assets.translation import translated_keys
from ticdc_assets.pipeline.sources import reads_files

if TYPE_CHECKING:
    from ticdc_assets.assets.known_tables import KnownTable
    from ticdc_assets.config import Changefeed, Config


def definitions_of(
    config: Config,
    only: Sequence[str] | None = None,
    among_others: bool = False,
    hooks: Hooks | None = None,
    known: Mapping[str, Sequence[KnownTable]] | None = None,
) -> dg.Definitions:
    """The definitions of the config's changefeeds, or of those named in `only`.

    Args:
        among_others: whether the code location may also hold changefeeds of other configs.
        hooks: what a component changes.
        known: the tables that get assets, by changefeed; those of another changefeed are read from its lake.

    Raises:
        ConfigError: `only` names a changefeed that the config does not have, or two assets are translated to one key.
    """
    found, known = chosen(config, only), known or {}
    names = _names(found, among_others)
    tables = {c.name: known[c.name] if c.name in known else loaded_tables(config, c) for c in found}
    return dg.Definitions.merge(
        *(changefeed_definitions(config, c, names[c.name], hooks or Hooks(), tables[c.name]) for c in found)
    )


def chosen(config: Config, only: Sequence[str] | None) -> tuple[Changefeed, ...]:
    """The changefeeds of the config, or those named in `only`. Raises ConfigError."""
    return config.changefeeds if only is None else tuple(config.changefeed(name) for name in only)


def _names(changefeeds: Sequence[Changefeed], among_others: bool) -> dict[str, FeedNames]:
    protocols = Counter(changefeed.sink.protocol for changefeed in changefeeds)
    return {
        changefeed.name: FeedNames(
            changefeed.name,
            str(changefeed.sink.protocol),
            shares_protocol=among_others or protocols[changefeed.sink.protocol] > 1,
        )
        for changefeed in changefeeds
    }


def changefeed_definitions(
    config: Config, changefeed: Changefeed, names: FeedNames, hooks: Hooks, tables: Sequence[KnownTable]
) -> dg.Definitions:
    """The definitions of one changefeed. Its job runs in one process, so that its steps share one Spark session."""
    known = tuple(sorted(t for t in tables if changefeed.tables.matches(t.schema, t.table)))
    target, shown = changefeed.target, changefeed.dagster
    history = changefeed.mirror.history
    plain = Feed(names, known, config.catalog.name, target, reads_files(changefeed), shown, hooks, history)
    keys = translated_keys(changefeed.name, _specs(plain, changefeed)) if hooks.translate else {}
    feed = replace(plain, names=replace(names, renamed=keys))
    job = dg.define_asset_job(
        feed.names.job,
        selection=_everything(feed),
        tags=feed.names.tags,
        executor_def=dg.in_process_executor,
        description=f"The daily job: brings all tables of {changefeed.name} up to its source. A sensor requests it.",
    )
    lake = lake_resource(config, changefeed)
    resync = [resync_job(feed, lake)] if changefeed.large_rows.upstream is not None else []
    found = dg.Definitions(
        assets=[
            source_spec(feed, changefeed.redacted_sink_uri),
            schema_cache_asset(feed),
            changelog_assets(feed),
            mirror_assets(feed, partial(log_checks, feed)),
            *([days_asset(feed, feed.shown.days_from)] if feed.shown.days_from else []),
        ],
        asset_checks=check_assets(feed),
        jobs=[
            job,
            maintenance_job(feed, lake),
            rebuild_job(feed, lake),
            replay_job(feed, lake),
            as_of_job(feed, lake),
            *resync,
        ],
        sensors=sensors_of(config, changefeed, feed, feed.names.job),
        schedules=[maintenance_schedule(feed)],
        resources={feed.names.resource: lake},
    )
    return dg.Definitions.merge(found, _verification(feed)) if upstream_check_keys(feed) else found


def _specs(feed: Feed, changefeed: Changefeed) -> list[dg.AssetSpec]:
    """The specs of all assets."""
    days = [days_spec(feed, feed.shown.days_from)] if feed.shown.days_from else []
    source = source_spec(feed, changefeed.redacted_sink_uri)
    return [source, schema_cache_spec(feed), *changelog_specs(feed), *mirror_specs(feed), *days]


def _everything(feed: Feed) -> dg.AssetSelection:
    """All assets of a run with their checks, except the checks that read TiDB. They are selected by key: a component's
    `post_processing` may change groups."""
    selection = dg.AssetSelection.assets(*feed.keys)
    compared = upstream_check_keys(feed)
    return selection - dg.AssetSelection.checks(*compared) if compared else selection


def _verification(feed: Feed) -> dg.Definitions:
    """The checks that read TiDB, and their job. It changes nothing, so runs may be active at the same time."""
    job = dg.define_asset_job(
        feed.names.verify_job,
        selection=dg.AssetSelection.checks(*upstream_check_keys(feed)),
        executor_def=dg.in_process_executor,
        description=f"Compares the mirrors of {feed.names.changefeed} with TiDB.",
    )
    return dg.Definitions(asset_checks=[upstream_checks(feed)], jobs=[job], schedules=[verify_schedule(feed)])
