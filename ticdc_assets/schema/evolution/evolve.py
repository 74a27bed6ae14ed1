"""What a DDL statement does to a table: its columns afterwards, and its effects on existing rows.

In: a `Shape` and a `Statement`. Out: a `Change`: the new state and its effects, in the order to apply them. All
names in one ALTER refer to the table before the statement, as in MySQL (`RENAME COLUMN a TO b, RENAME COLUMN b TO a`
swaps); AFTER and new indexes refer to the columns after it. A column keeps its uid while its Iceberg column can stay
the same, and a table never uses a uid twice. A statement that is not understood raises SchemaError.
"""

from __future__ import annotations

from dataclasses import replace

from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.create import table_columns
from ticdc_assets.schema.evolution.alteration import Alteration
from ticdc_assets.schema.evolution.promotion import promotes
from ticdc_assets.schema.evolution.schema_state import (
    Change,
    Shape,
    TruncateRows,
    check_names,
    ddl_error,
)
from ticdc_assets.schema.model import UNNAMED, Collation, TableSchema


def create(statement: ddl.CreateTable, database: Collation = UNNAMED) -> Shape:
    """The state of a new table in a database of that collation. For CREATE TABLE LIKE use `shape_of` with the other
    table under the new name."""
    if statement.like is not None:
        other = ".".join(statement.like)
        raise ddl_error(statement.schema, statement.name, f"the columns of {other}", "CREATE TABLE LIKE alone")
    collation = statement.collation.within(database)
    columns = table_columns(statement, collation)
    check_names(statement.schema, statement.name, [column.name for column in columns])
    of = (statement.schema, statement.name, columns, statement.indexes, statement.partitioning)
    return shape_of(TableSchema(*of, collation=collation, comment=statement.comment))


def shape_of(table: TableSchema) -> Shape:
    """The state of a table; columns without uids get the uids 1..n."""
    uids = [column.uid for column in table.columns]
    if 0 in uids or len(set(uids)) < len(uids):
        table = replace(table, columns=tuple(replace(c, uid=i) for i, c in enumerate(table.columns, start=1)))
    return Shape(table, max((column.uid for column in table.columns), default=0) + 1)


def adopt(shape: Shape, sent: TableSchema) -> Shape:
    """The state for a schema that the stream sends without a statement: a column keeps its uid where its name is the
    same and its type promotes; other columns are new."""
    next_uid, columns = shape.next_uid, []
    for column in sent.columns:
        old = shape.table.column(column.name)
        same = old is not None and promotes(old.type, column.type)
        columns.append(replace(column, uid=old.uid if same and old is not None else next_uid))
        next_uid += not same
    return replace(shape, table=replace(sent, columns=tuple(columns)), next_uid=next_uid)


def alter(shape: Shape, action: ddl.Action) -> Change:
    """The change that one action makes."""
    return alter_all(shape, ddl.AlterTable(shape.table.schema, shape.table.name, (action,)))


def alter_all(shape: Shape, statement: ddl.AlterTable | ddl.TruncateTable) -> Change:
    """The change that a whole statement makes."""
    if isinstance(statement, ddl.TruncateTable):
        return Change(shape, (TruncateRows(),))
    return Alteration(shape).run(statement.actions)
