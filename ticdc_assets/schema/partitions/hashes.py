"""Which rows a HASH or KEY partition holds, and the names of these partitions.

TiDB puts a row into the HASH partition `abs(expression % count)`, NULL into the first; into the KEY partition
`crc32(texts of the columns) % count`. Partitions without a name of their own are p0, p1 and so on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

from ticdc_assets.errors import SchemaError
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.arrow_types import INTEGER_BITS
from ticdc_assets.schema.model import Column, Kind, Partitioning, TableSchema
from ticdc_assets.schema.partitions.expressions import ColumnValue, Expression, read_expression

_WHOLE_KINDS: Final = frozenset({*INTEGER_BITS, Kind.YEAR})
_TEXT_KINDS: Final = frozenset({Kind.CHAR, Kind.VARCHAR})
# TIMESTAMP is hashed in the time zone of the writing session, which no stream sends.
_HASHED_KINDS: Final = frozenset({*_WHOLE_KINDS, *_TEXT_KINDS, Kind.VARBINARY, Kind.DATE, Kind.DATETIME})


@dataclass(frozen=True, slots=True)
class HashRows:
    """The rows for which `abs(expression % count)` is `place`; NULL is at place 0."""

    partition: str
    expression: Expression
    place: int
    count: int


@dataclass(frozen=True, slots=True)
class KeyRows:
    """The rows for which `crc32(texts of the columns, one after another) % count` is `place`.

    A text is the value as TiDB prints it, without trailing blanks where its collation ignores them; NULL
    is one byte 0.
    """

    partition: str
    columns: tuple[Column, ...]
    place: int
    count: int


def hash_rows(table: TableSchema, partitioning: Partitioning, place: int) -> HashRows:
    """The rows of a HASH partition."""
    return HashRows(name_at(partitioning, place), _hashed(table, partitioning), place, partitioning.count)


def _hashed(table: TableSchema, partitioning: Partitioning) -> Expression:
    if partitioning.columns:
        column = table.column(partitioning.columns[0])
        if column is None or column.virtual or column.type.kind not in _WHOLE_KINDS:
            refuse(table, "HASH partitions by whole numbers that rows have", f"the column {partitioning.columns[0]}")
        return ColumnValue(column)
    try:
        return read_expression(partitioning.expression or "", table)
    except SchemaError:
        refuse(table, "partitions by what can be computed from a row", f"partitions by {partitioning.expression}")


def key_rows(table: TableSchema, partitioning: Partitioning, place: int) -> KeyRows:
    """The rows of a KEY partition; without columns it is by those of the primary key, in their order there."""
    primary = next((index.columns for index in table.indexes if index.primary), ())
    names = partitioning.columns or primary
    if not names:
        refuse(table, "KEY partitions by columns that are known", "neither columns nor a primary key")
    columns = tuple(_key_column(table, name) for name in names)
    return KeyRows(name_at(partitioning, place), columns, place, partitioning.count)


def _key_column(table: TableSchema, name: str) -> Column:
    column = table.column(name)
    if column is None or column.virtual or column.type.kind not in _HASHED_KINDS:
        found = f"the column {name}" if column is None else f"the {column.type.kind} column {name}"
        refuse(table, "KEY partitions by columns whose hash can be computed", found)
    if column.type.kind in _TEXT_KINDS and column.text_order is None:
        found = f"another or no known collation of the column {name}"
        refuse(table, "partitions by text with a binary collation", found)
    return column


# -- names ------------------------------------------------------------------------------------------------------------


def place_among(table: TableSchema, partitioning: Partitioning, name: str) -> int:
    """The position of the partition of this name, without regard to case."""
    names = [fold(known) for known in names_of(partitioning)]
    if fold(name) not in names:
        refuse(table, f"a partition {name}", "no partition of that name")
    return names.index(fold(name))


def names_of(partitioning: Partitioning) -> list[str]:
    """The names of all known partitions."""
    if partitioning.partitions:
        return [partition.name for partition in partitioning.partitions]
    return [f"p{place}" for place in range(partitioning.count)]


def name_at(partitioning: Partitioning, place: int) -> str:
    """The name of the partition at a position."""
    return names_of(partitioning)[place]


def refuse(table: TableSchema, expected: str, found: str) -> NoReturn:
    """Raise the error of a statement on partitions whose rows are not known."""
    advice = "The rows that it affects are not known."
    raise SchemaError(f"a partition of {table.schema}.{table.name}", expected, found, advice)
