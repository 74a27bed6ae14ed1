"""Why the changes of a table do not determine its rows."""

from __future__ import annotations

from ticdc_assets.pipeline.history.tables import version_after
from ticdc_assets.schema.evolution.schema_state import ConvertColumn, DeletePartitions, KeyChanged
from ticdc_assets.schema.history.source_table import SourceTable, Version


def versions_between(source_table: SourceTable, after: int, until: int) -> list[Version]:
    """The versions whose statements have a TSO in `(after, until]`."""
    return [version for version in source_table.versions if after < version.from_ts <= until]


def undetermined(source_table: SourceTable, after: int, until: int) -> str:
    """Why the changes in `(after, until]` do not show which rows exist; empty if they do."""
    newest = version_after(source_table, until).table
    if not newest.key:
        return "the table has no key, so its rows cannot be compared"
    key_uids = {column.uid for name in newest.key if (column := newest.column(name)) is not None}
    if removed := removed_partitions(source_table, after, until):
        return removed
    for version in versions_between(source_table, after, until):
        for effect in version.effects:
            if isinstance(effect, KeyChanged) or (isinstance(effect, ConvertColumn) and effect.new_uid in key_uids):
                return f"the statement at {version.from_ts} changed the key"
    return ""


def removed_partitions(source_table: SourceTable, after: int, until: int) -> str:
    """The first statement in `(after, until]` that removed partitions, as a reason; empty if there is none."""
    for version in versions_between(source_table, after, until):
        if any(isinstance(effect, DeletePartitions) for effect in version.effects):
            return f"the statement at {version.from_ts} removed partitions, whose rows are not in the changelog"
    return ""
