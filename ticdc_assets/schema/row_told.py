"""What rows tell of a table whose columns no statement tells, held against what earlier rows told of it.

Rows tell of columns that came. What rows of before had in them nobody tells: it is NULL there. A type that became
another one is followed where every old value stays as it is; else the table stops, and the column is named.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.arrow_types import arrow_type, is_binary
from ticdc_assets.schema.model import Column, Kind, MySqlType, TableSchema
from ticdc_assets.schema.mysql_types import CHARACTER_KINDS, INTEGER_BITS
from ticdc_assets.schema.promotion import preserves

_TODO: Final = (
    "A statement is missing from the stream. Load the table anew, or give its CREATE TABLE in `schema_files`."
)
_UNSIGNED: Final = frozenset({*INTEGER_BITS, Kind.DECIMAL})
_DIGITS_UNTOLD: Final = 65
"""The precision that is taken for a DECIMAL whose own is not told."""


def changed_column(known: TableSchema, told: TableSchema) -> str | None:
    """The first column that rows tell another type of than is known; None where there is none."""
    pairs = ((column, known.column(column.name)) for column in told.columns)
    return next((told.name for told, mine in pairs if mine is not None and _contradicts(mine.type, told.type)), None)


def widened(known: TableSchema, told: TableSchema) -> TableSchema:
    """The table with the columns and types that rows tell besides. SchemaError where old rows do not go with them."""
    if known.key and told.key and _lowered(known.key) != _lowered(told.key):
        raise _error(known, f"the key ({', '.join(known.key)})", f"({', '.join(told.key)}) in a row")
    mine = tuple(_widened(known, column, told.column(column.name)) for column in known.columns)
    new = tuple(replace(column, nullable=True) for column in told.columns if known.column(column.name) is None)
    columns = {column.name.lower(): column for column in (*mine, *new)}
    if len(columns) == len(told.columns):
        return replace(known, columns=tuple(columns[column.name.lower()] for column in told.columns))
    return replace(known, columns=(*mine, *new))


def _widened(table: TableSchema, known: Column, told: Column | None) -> Column:
    if told is None or not _contradicts(known.type, told.type):
        return known
    if not preserves(known.type, told.type):
        where = f"column {known.name!r} of type {known.type.kind}"
        raise _error(table, where, f"type {told.type.kind} in a row: what rows of before become is not told")
    return replace(known, type=told.type)


def _contradicts(known: MySqlType, told: MySqlType) -> bool:
    """Whether values are read in another way under the told type. Lengths that are not told say nothing."""
    if _family(known) != _family(told):
        return True
    if known.elements is not None and told.elements is not None:
        return known.elements != told.elements
    if known.kind is Kind.DECIMAL and _DIGITS_UNTOLD not in (known.length, told.length):
        return bool(arrow_type(known) != arrow_type(told))
    return False


def _family(of: MySqlType) -> tuple[str, bool]:
    if is_binary(of):
        return "binary", False
    return ("text" if of.kind in CHARACTER_KINDS else str(of.kind)), of.kind in _UNSIGNED and of.unsigned


def _lowered(names: tuple[str, ...]) -> set[str]:
    return {name.lower() for name in names}


def _error(table: TableSchema, expected: str, found: str) -> SchemaError:
    return SchemaError(f"{table.schema}.{table.name}", expected, found, _TODO)
