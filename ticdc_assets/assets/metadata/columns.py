"""The columns of a table for Dagster: types, descriptions, key, and the columns that they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import dagster as dg

from ticdc_assets.changes import layout
from ticdc_assets.changes.layout import changelog_columns, mirror_columns
from ticdc_assets.printable import printable
from ticdc_assets.schema.mysql_types import format_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.schema.model import Column
    from ticdc_assets.tables.fields import LakeField, LakeTable

DESCRIPTIONS: Final = {
    layout.OP: "I, U or D: an insert, an update or a delete.",
    layout.COMMIT_TS: "The TSO of the commit that made the change. NULL where the stream has none.",
    layout.COMMIT_TIME: "The time of the commit, with millisecond precision, in UTC.",
    layout.SEQ: "The order of changes inside one commit_ts. Without commit_ts, the order of arrival.",
    layout.TABLE_VERSION: "The TSO of the statement that gave the row its columns.",
    layout.BEFORE: "The old values of an update, where the stream sends them.",
    layout.VALID_FROM: "The TSO from which the table had the row: that of the commit that made it.",
    layout.VALID_TO: "The TSO from which the table no longer had the row. NULL where it still has it.",
    layout.VALID_FROM_TIME: "The time of `_ticdc_valid_from`, with millisecond precision, in UTC.",
    layout.VALID_TO_TIME: "The time of `_ticdc_valid_to`, with millisecond precision, in UTC.",
    layout.IS_CURRENT: "Whether the table still has the row.",
}
"""The descriptions of the columns that this project adds."""

_MEMBERS_MAX: Final = 100
"""A struct with more members is shown without them."""


def column_schema(table: LakeTable, source_table: SourceTable) -> dg.TableSchema:
    """The columns of a lake table. Source columns have the type and the COMMENT of the source, added columns the type
    of Iceberg and a fixed description."""
    known = {c.uid: c for version in source_table.versions for c in version.table.stored_columns}
    key = set(source_table.newest.key)
    columns = [_column(field, known, key) for field in table.fields]
    constraints = [printable(f"key: {', '.join(source_table.newest.key)}")] if key else []
    return dg.TableSchema(columns, dg.TableConstraints(other=constraints))


def _column(field: LakeField, known: Mapping[int, Column], key: set[str]) -> dg.TableColumn:
    column = known.get(field.uid or 0)
    is_key = column is not None and column.name in key
    return dg.TableColumn(
        printable(field.name),
        printable(_type(field, known)),
        description=(printable(column.comment) or None) if column is not None else DESCRIPTIONS.get(field.name),
        constraints=dg.TableColumnConstraints(nullable=not field.required, other=["key"] if is_key else []),
    )


def _type(field: LakeField, known: Mapping[int, Column]) -> str:
    column = known.get(field.uid or 0)
    if column is not None:
        return format_type(column.type)
    if not 0 < len(field.fields) <= _MEMBERS_MAX:
        return field.type
    return f"{field.type}<{', '.join(f'{member.name}: {_type(member, known)}' for member in field.fields)}>"


# -- lineage -----------------------------------------------------------------------------------------------------------


def changelog_lineage(source_table: SourceTable, source: dg.AssetKey) -> dg.TableColumnLineage:
    """Maps each changelog column to the column of the source, which is named `schema.table.column`."""
    prefix = ".".join(source_table.name)
    names = {c.uid: c.name for version in source_table.versions for c in version.table.stored_columns}
    return dg.TableColumnLineage(
        {
            printable(c.name): [dg.TableColumnDep(source, printable(f"{prefix}.{names[c.uid]}"))]
            for c in changelog_columns(source_table)
        }
    )


def mirror_lineage(source_table: SourceTable, changelog: dg.AssetKey) -> dg.TableColumnLineage:
    """Maps each mirror column to the changelog column of the same source column."""
    names = {c.uid: c.name for c in changelog_columns(source_table)}
    newest = source_table.newest
    of_source = {
        printable(c.name): [dg.TableColumnDep(changelog, printable(names[c.uid]))]
        for c in mirror_columns(newest.stored_columns, newest.key)
    }
    return dg.TableColumnLineage({**of_source, layout.COMMIT_TS: [dg.TableColumnDep(changelog, layout.COMMIT_TS)]})
