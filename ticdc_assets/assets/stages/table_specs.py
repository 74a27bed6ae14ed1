"""The specs of the assets of one table: its changelog, its mirror and its history. They also give the keys of tables
that the code location has not loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from ticdc_assets.assets.steps import CODE_VERSION, SOURCE_TYPES
from ticdc_assets.printable import printable

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
        description=f"Every change of `{_name(table)}`, once and in order. {SOURCE_TYPES}",
        metadata=feed.changelog_metadata(table),
    )
    return _completed(feed, table, spec)


def mirror_spec(feed: Feed, table: KnownTable) -> dg.AssetSpec:
    """The mirror of a table."""
    key = feed.names.plain.mirror(table.schema, table.table)
    return _of_changelog(feed, table, key, "mirror", "The current rows", feed.mirror_metadata(table))


def history_spec(feed: Feed, table: KnownTable) -> dg.AssetSpec:
    """The history of a table."""
    key = feed.names.plain.history(table.schema, table.table)
    return _of_changelog(feed, table, key, "history", "Every version of every row", feed.history_metadata(table))


def _of_changelog(
    feed: Feed, table: KnownTable, key: dg.AssetKey, kind: str, content: str, metadata: dict[str, str]
) -> dg.AssetSpec:
    """The spec of an asset that is made of the changelog of its table."""
    spec = dg.AssetSpec(
        key,
        deps=[feed.names.plain.changelog(table.schema, table.table)],
        kinds={"iceberg", "spark", kind},
        code_version=CODE_VERSION,
        description=f"{content} of `{_name(table)}`. {SOURCE_TYPES}",
        metadata=metadata,
    )
    return _completed(feed, table, spec)


def _name(table: KnownTable) -> str:
    return printable(f"{table.schema}.{table.table}")


def _completed(feed: Feed, table: KnownTable, spec: dg.AssetSpec) -> dg.AssetSpec:
    """The spec with what all assets of the table have, under the keys that Dagster shows."""
    of_table = spec.replace_attributes(
        group_name=feed.names.group,
        owners=feed.shown.owners_of(table.schema, table.table),
        tags=feed.shown.tags_of(table.schema, table.table),
        freshness_policy=feed.freshness,
    )
    return feed.translated(of_table)
