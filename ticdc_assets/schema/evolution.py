"""What a DDL statement does to a table: its shape afterwards, and what becomes of the rows that are there.

In: a `Shape` and a `Statement`. Out: a `Change`: the new shape and its effects, in the order to apply them. All
names of one ALTER mean the table before the statement, as in MySQL (`RENAME COLUMN a TO b, RENAME COLUMN b TO a`
swaps); AFTER and new indexes mean the columns as they become. Promised: a column keeps its uid while the lake's
column can stay the same one, and a uid is never given twice in a table's life. What is not understood is a SchemaError.
"""

from __future__ import annotations

from dataclasses import replace

from ticdc_assets.schema import ddl_statements as ddl
from ticdc_assets.schema.alteration import Alteration
from ticdc_assets.schema.collations import UNNAMED, Collation
from ticdc_assets.schema.ddl_create import columns_of
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.schema.partition_rows import ListRows, PartitionKey, PartitionRows, RangeRows
from ticdc_assets.schema.promotion import lake_type, preserves, promotes
from ticdc_assets.schema.shapes import (
    Change,
    ConvertColumn,
    DeletePartitions,
    Effect,
    ExchangedRows,
    FillColumn,
    KeyChanged,
    Shape,
    TruncateRows,
    check_names,
    ddl_error,
)

__all__ = [
    "Change",
    "ConvertColumn",
    "DeletePartitions",
    "Effect",
    "ExchangedRows",
    "FillColumn",
    "KeyChanged",
    "ListRows",
    "PartitionKey",
    "PartitionRows",
    "RangeRows",
    "Shape",
    "TruncateRows",
    "adopt",
    "alter",
    "alter_all",
    "create",
    "lake_type",
    "preserves",
    "promotes",
    "shape_of",
]


def create(statement: ddl.CreateTable, database: Collation = UNNAMED) -> Shape:
    """The shape of a new table in a database of that collation; for CREATE TABLE LIKE take `shape_of` the other table
    under the new name."""
    if statement.like is not None:
        other = ".".join(statement.like)
        raise ddl_error(statement.schema, statement.name, f"the columns of {other}", "CREATE TABLE LIKE alone")
    collation = statement.collation.within(database)
    columns = columns_of(statement, collation)
    check_names(statement.schema, statement.name, [column.name for column in columns])
    of = (statement.schema, statement.name, columns, statement.indexes, statement.partitioning)
    return shape_of(TableSchema(*of, collation=collation))


def shape_of(table: TableSchema) -> Shape:
    """The shape of a table as a stream tells it; columns without uids get theirs, 1..n."""
    uids = [column.uid for column in table.columns]
    if 0 in uids or len(set(uids)) < len(uids):
        table = replace(table, columns=tuple(replace(c, uid=i) for i, c in enumerate(table.columns, start=1)))
    return Shape(table, max((column.uid for column in table.columns), default=0) + 1)


def adopt(shape: Shape, told: TableSchema) -> Shape:
    """The table as a stream now tells it, where no statement does: columns of the same name whose type promotes are
    the same columns; others are new."""
    next_uid, columns = shape.next_uid, []
    for column in told.columns:
        old = shape.table.column(column.name)
        same = old is not None and promotes(old.type, column.type)
        columns.append(replace(column, uid=old.uid if same and old is not None else next_uid))
        next_uid += not same
    return replace(shape, table=replace(told, columns=tuple(columns)), next_uid=next_uid)


def alter(shape: Shape, action: ddl.Action) -> Change:
    """The change that one action makes."""
    return alter_all(shape, ddl.AlterTable(shape.table.schema, shape.table.name, (action,)))


def alter_all(shape: Shape, statement: ddl.AlterTable | ddl.TruncateTable) -> Change:
    """The change that a whole statement makes."""
    if isinstance(statement, ddl.TruncateTable):
        return Change(shape, (TruncateRows(),))
    return Alteration(shape).run(statement.actions)
