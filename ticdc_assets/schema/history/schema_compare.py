"""Compares the schema that a stream sends with the folded one, and finds what neither has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ticdc_assets.advice import Advice
from ticdc_assets.errors import SchemaError
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.arrow_types import CHARACTER_KINDS, INTEGER_BITS, arrow_type, is_binary
from ticdc_assets.schema.ddl.mysql_types import same_kind
from ticdc_assets.schema.evolution.promotion import preserves, promotes
from ticdc_assets.schema.model import Column, Kind, MySqlType, TableSchema

_UNSIGNED: Final = frozenset({*INTEGER_BITS, Kind.DECIMAL})
_UNKNOWN_PRECISION: Final = 65
"""The precision of a DECIMAL in a stream that does not send it."""


def same_columns(folded: TableSchema, sent: TableSchema, ordered: bool) -> bool:
    """Whether both have the same column names with types of the same kinds, and in the same order if `ordered`."""
    folded_names, sent_names = ([fold(c.name) for c in table.columns] for table in (folded, sent))
    if folded_names != sent_names if ordered else sorted(folded_names) != sorted(sent_names):
        return False
    return all(_same_kind(c, sent.column(c.name)) for c in folded.columns)


def _same_kind(folded: Column, sent: Column | None) -> bool:
    return sent is not None and same_kind(folded.type, sent.type)


def same_key(folded: TableSchema, sent: TableSchema) -> bool:
    """Whether rows of both match by key: the same key columns, with types that one Iceberg column can hold."""
    columns = {fold(name): folded.column(name) for name in folded.key}
    sent_columns = {fold(name): sent.column(name) for name in sent.key}
    if columns.keys() != sent_columns.keys():
        return False
    pairs = ((columns[name], sent_columns[name]) for name in columns)
    return all(one and other and promotes(one.type, other.type) for one, other in pairs)


def as_made(table: TableSchema) -> TableSchema:
    """A table without its history (uids, column ids, named key), to compare copies by CREATE TABLE LIKE."""
    columns = tuple(replace(column, uid=0, column_id=None) for column in table.columns)
    return replace(table, columns=columns, named_key=())


def unknowns(table: TableSchema, key_is_configured: bool) -> Iterator[str]:
    """What the stream does not send of a table older than it, and where the user can give it."""
    if not table.key and not key_is_configured:
        yield "no key is known: name its columns in `keys`, or give its CREATE TABLE in `schema_files`, to get a mirror"
    numbered = [c.name for c in table.columns if c.type.kind in (Kind.ENUM, Kind.SET) and c.type.elements is None]
    if numbered:
        listed = ", ".join(numbered)
        yield f"labels of {listed} are not known and may be numbers: give its CREATE TABLE in `schema_files`"


# -- schemas inferred from rows ---------------------------------------------------------------------------------------

# Schemas inferred from rows, for a table without a statement or schema: how a later row widens the schema.
#
# A column that appears in a later row is NULL in earlier rows. A column's type changes where every old value stays
# the same; else the table stops with an error that names the column.


def changed_column(known: TableSchema, sent: TableSchema) -> str | None:
    """The first column that has another type in rows than in `known`; None where there is none."""
    pairs = ((column, known.column(column.name)) for column in sent.columns)
    return next(
        (sent.name for sent, column in pairs if column is not None and _contradicts(column.type, sent.type)), None
    )


def widened(known: TableSchema, sent: TableSchema) -> TableSchema:
    """The table with the further columns and types of `sent`. Raises SchemaError where old rows do not fit them."""
    if known.key and sent.key and _lowered(known.key) != _lowered(sent.key):
        raise _error(known, f"the key ({', '.join(known.key)})", f"({', '.join(sent.key)}) in a row")
    widened = tuple(_widened(known, column, sent.column(column.name)) for column in known.columns)
    new = tuple(replace(column, nullable=True) for column in sent.columns if known.column(column.name) is None)
    columns = {fold(column.name): column for column in (*widened, *new)}
    if len(columns) == len(sent.columns):
        return replace(known, columns=tuple(columns[fold(column.name)] for column in sent.columns))
    return replace(known, columns=(*widened, *new))


def _widened(table: TableSchema, known: Column, sent: Column | None) -> Column:
    if sent is None or not _contradicts(known.type, sent.type):
        return known
    if not preserves(known.type, sent.type):
        where = f"column {known.name!r} of type {known.type.kind}"
        raise _error(table, where, f"type {sent.type.kind} in a row: the values that earlier rows get are not known")
    return replace(known, type=sent.type)


def _contradicts(known: MySqlType, sent: MySqlType) -> bool:
    """Whether values are decoded differently under the sent type. Unknown lengths do not count."""
    if _family(known) != _family(sent):
        return True
    if known.elements is not None and sent.elements is not None:
        return known.elements != sent.elements
    if known.kind is Kind.DECIMAL and _UNKNOWN_PRECISION not in (known.length, sent.length):
        return bool(arrow_type(known) != arrow_type(sent))
    return False


def _family(of: MySqlType) -> tuple[str, bool]:
    if is_binary(of):
        return "binary", False
    return ("text" if of.kind in CHARACTER_KINDS else str(of.kind)), of.kind in _UNSIGNED and of.unsigned


def _lowered(names: tuple[str, ...]) -> set[str]:
    return {fold(name) for name in names}


def _error(table: TableSchema, expected: str, found: str) -> SchemaError:
    return SchemaError(f"{table.schema}.{table.name}", expected, found, Advice.MISSING_STATEMENT)
