"""The specs of the assets of one table: its changelog, its mirror and its history. They also give the keys of tables
that the code location has not loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from ticdc_assets.assets.steps import CODE_VERSION, SOURCE_TYPES

if TYPE_CHECKING:
    from ticdc_assets.assets.known_tables import KnownTable
    from ticdc_assets.assets.steps import Feed


def changelog_spec(feed: Feed, table: KnownTable) -> dg.AssetSpec:
    """The changelog of a table."""
    names = feed.names
    spec = dg.AssetSpec(
        names.plain.changelog(table.schema, table.table),
        deps=[names.plain.schema_cache],
        kinds={"iceberg", "changelog"},
        code_version=f"{names.protocol}-{CODE_VERSION}",
        description=f"Every change of `{table.schema}.{table.table}`, once and in order. {SOURCE_TYPES}",
        metadata=feed.changelog_metadata(table),
    )
    return _completed(feed, table, spec)


def mirror_spec(feed: Feed, table: KnownTable) -> dg.AssetSpec:
    """The mirror of a table."""
    spec = dg.AssetSpec(
        feed.names.plain.mirror(table.schema, table.table),
        deps=[feed.names.plain.changelog(table.schema, table.table)],
        kinds={"iceberg", "spark", "mirror"},
        code_version=CODE_VERSION,
        description=f"The current rows of `{table.schema}.{table.table}`. {SOURCE_TYPES}",
        metadata=feed.mirror_metadata(table),
    )
    return _completed(feed, table, spec)


def history_spec(feed: Feed, table: KnownTable) -> dg.AssetSpec:
    """The history of a table."""
    spec = dg.AssetSpec(
        feed.names.plain.history(table.schema, table.table),
        deps=[feed.names.plain.changelog(table.schema, table.table)],
        kinds={"iceberg", "spark", "history"},
        code_version=CODE_VERSION,
        description=f"Every version of every row of `{table.schema}.{table.table}`. {SOURCE_TYPES}",
        metadata=feed.history_metadata(table),
    )
    return _completed(feed, table, spec)


def _completed(feed: Feed, table: KnownTable, spec: dg.AssetSpec) -> dg.AssetSpec:
    """The spec with what all assets of the table have, under the keys that Dagster shows."""
    of_table = spec.replace_attributes(
        group_name=feed.names.group,
        owners=feed.shown.owners_of(table.schema, table.table),
        tags=feed.shown.tags_of(table.schema, table.table),
        freshness_policy=feed.freshness,
    )
    return feed.translated(of_table)
