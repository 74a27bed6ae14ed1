"""Which rows a partition holds, in terms of the table's columns.

In: a table's partitioning. Out: the bounds of RANGE or the values of LIST, over columns, over some functions of a
column, or over an expression; for HASH and KEY (`partitions.hashes`) the expression and the partition's number. All
else is refused (functions of a session, text whose collation does not compare by code points): rows are never removed
by a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Final

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.arrow_types import INTEGER_BITS
from ticdc_assets.schema.ddl.defaults import LiteralDefault, typed_default
from ticdc_assets.schema.ddl.partitions import DEFAULT_PARTITION
from ticdc_assets.schema.ddl.token_cursor import cursor_over
from ticdc_assets.schema.ddl.tokens import TokenKind
from ticdc_assets.schema.model import Column, Kind, MySqlType, PartitionDefinition, Partitioning, TableSchema, TextOrder
from ticdc_assets.schema.partitions.expressions import Expression, read_expression
from ticdc_assets.schema.partitions.hashes import HashRows, KeyRows, hash_rows, key_rows, place_among, refuse

_DATE_KINDS: Final = frozenset({Kind.DATE, Kind.DATETIME})
_FUNCTIONS: Final = {
    "YEAR": _DATE_KINDS,
    "MONTH": _DATE_KINDS,
    "TO_DAYS": _DATE_KINDS,
    "UNIX_TIMESTAMP": frozenset({Kind.TIMESTAMP}),
}
# Not BIT: TiDB places every row of such a table in the partition of 0, whatever its value.
_PLAIN_KINDS: Final = frozenset({*INTEGER_BITS, Kind.YEAR, Kind.CHAR, Kind.VARCHAR, *_DATE_KINDS})
_TEXT_KINDS: Final = frozenset({Kind.CHAR, Kind.VARCHAR})
_DAYS_BEFORE_YEAR_1: Final = 365  # TO_DAYS('0001-01-01') is 366, date.toordinal() of it is 1


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """A partition key: a column, or YEAR, MONTH, TO_DAYS or UNIX_TIMESTAMP of it."""

    column: Column
    function: str | None = None


@dataclass(frozen=True, slots=True)
class ComputedKey:
    """A partition key: an integer that is computed from columns."""

    expression: Expression


PartitionedBy = PartitionKey | ComputedKey


@dataclass(frozen=True, slots=True)
class RangeRows:
    """The rows with `lower <= keys < upper`, compared as tuples; None means no bound.

    NULL is below every value, so it is in the partition without a lower bound. Inside a bound, None is MAXVALUE: above
    every value. Bounds are texts of the key's values, without trailing blanks where these do not count; those
    of UNIX_TIMESTAMP are seconds, or a wall time `YYYY-MM-DD hh:mm:ss` where the statement has one, in the zone that
    TIMESTAMP texts of the changefeed have.
    """

    partition: str
    keys: tuple[PartitionedBy, ...]
    lower: tuple[str | None, ...] | None
    upper: tuple[str | None, ...] | None


@dataclass(frozen=True, slots=True)
class ListRows:
    """The rows whose keys are among `values` (None is NULL). If `others` is true, the rows whose keys are not."""

    partition: str
    keys: tuple[PartitionedBy, ...]
    values: tuple[tuple[str | None, ...], ...]
    others: bool = False


PartitionRows = RangeRows | ListRows | HashRows | KeyRows


def partition_rows(table: TableSchema, names: Iterable[str]) -> tuple[PartitionRows, ...]:
    """The rows of these partitions. Raises SchemaError where they are not known."""
    partitioning = table.partitioning
    if partitioning is None:
        refuse(table, "partitions that are known", "none")
    if partitioning.method in ("HASH", "KEY"):
        hashed = hash_rows if partitioning.method == "HASH" else key_rows
        return tuple(hashed(table, partitioning, place_among(table, partitioning, name)) for name in names)
    keys = _keys(table, partitioning)
    of = _range_rows if partitioning.method == "RANGE" else _list_rows
    return tuple(of(table, partitioning, keys, place_of(table, name)) for name in names)


def place_of(table: TableSchema, name: str) -> int:
    """The position of the partition of this name, without regard to case."""
    return place_among(table, table.partitioning or Partitioning("RANGE"), name)


# -- keys -------------------------------------------------------------------------------------------------------------


def _keys(table: TableSchema, partitioning: Partitioning) -> tuple[PartitionedBy, ...]:
    if partitioning.columns:
        return tuple(_key(table, name, None) for name in partitioning.columns)
    called = _function_of(partitioning.expression or "")
    if called is not None:
        return (_key(table, *called),)
    try:
        return (ComputedKey(read_expression(partitioning.expression or "", table)),)
    except SchemaError:
        refuse(table, "partitions by what can be computed from a row", f"partitions by {partitioning.expression}")


def _key(table: TableSchema, name: str, function: str | None) -> PartitionKey:
    column = table.column(name)
    if column is None or column.virtual:
        refuse(table, "partitions by a column that rows have", f"the column {name}")
    kinds = _PLAIN_KINDS if function is None else _FUNCTIONS[function]
    if column.type.kind not in kinds:
        refuse(table, "partitions by a column that compares as in the lake", f"the {column.type.kind} column {name}")
    if column.type.kind in _TEXT_KINDS and column.text_order is None:
        refuse(
            table, "partitions by text with a binary collation", f"another or no known collation of the column {name}"
        )
    return PartitionKey(column, function)


def _function_of(expression: str) -> tuple[str, str] | None:
    """The column and the function of `YEAR(c)` and the like; FLOOR changes no comparison with whole bounds."""
    tokens = cursor_over(expression)
    floored = tokens.accept("FLOOR") and tokens.accept_symbol("(")
    function = tokens.accept_any(*_FUNCTIONS)
    if function and tokens.accept_symbol("(") and tokens.peek().kind in (TokenKind.WORD, TokenKind.QUOTED):
        name = tokens.column_name()
        if tokens.accept_symbol(")") and (not floored or tokens.accept_symbol(")")) and tokens.done:
            return name, function
    return None


# -- rows -------------------------------------------------------------------------------------------------------------


def _range_rows(
    table: TableSchema, partitioning: Partitioning, keys: tuple[PartitionedBy, ...], place: int
) -> PartitionRows:
    partition = partitioning.partitions[place]
    lower = None if place == 0 else _upper(table, keys, partitioning.partitions[place - 1])
    if place and lower is None:
        refuse(table, "a bound below each partition but the lowest", f"none below {partition.name}")
    return RangeRows(partition.name, keys, lower, _upper(table, keys, partition))


def _upper(
    table: TableSchema, keys: tuple[PartitionedBy, ...], partition: PartitionDefinition
) -> tuple[str | None, ...] | None:
    if partition.less_than[:1] == (None,):
        return None
    if len(partition.less_than) != len(keys):
        refuse(table, f"bounds of {len(keys)} columns", f"{len(partition.less_than)} of the partition {partition.name}")
    pairs = zip(keys, partition.less_than, strict=True)
    return tuple(None if text is None else _value(table, key, text) for key, text in pairs)


def _list_rows(
    table: TableSchema, partitioning: Partitioning, keys: tuple[PartitionedBy, ...], place: int
) -> PartitionRows:
    partition = partitioning.partitions[place]
    others = DEFAULT_PARTITION in partition.values_in
    named = [p for p in partitioning.partitions if DEFAULT_PARTITION not in p.values_in] if others else [partition]
    texts = [text for p in named for text in p.values_in]
    # A default partition may name values too (NULL, DEFAULT); what no other partition names is its own anyway.
    rows = [tuple(texts[i : i + len(keys)]) for i in range(0, len(texts), len(keys))]
    if rows and len(rows[-1]) != len(keys):
        refuse(table, f"values of {len(keys)} columns", f"others in the partition {partition.name}")
    values = tuple(_row(table, keys, row) for row in rows)
    return ListRows(partition.name, keys, values, others)


def _row(table: TableSchema, keys: tuple[PartitionedBy, ...], row: tuple[str | None, ...]) -> tuple[str | None, ...]:
    return tuple(None if t is None else _value(table, key, t) for key, t in zip(keys, row, strict=True))


# -- bounds -----------------------------------------------------------------------------------------------------------

_WHOLE = re.compile(r"[+-]?\d{1,65}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?")


def _value(table: TableSchema, key: PartitionedBy, text: str) -> str:
    """The text of a key's value, of a bound's SQL text."""
    if isinstance(key, ComputedKey):
        value = _function_value("", text)
    else:
        value = _text_value(key, text) if key.function is None else _function_value(key.function, text)
    if value is None:
        refuse(table, "a partition's bound that is a literal of its column", "another expression")
    return value


def _text_value(key: PartitionKey, text: str) -> str | None:
    of, literal = key.column.type, _literal(text)
    if of.kind in _TEXT_KINDS:
        # One that is longer than the column may be cut, by a server whose sql_mode is not strict.
        fits = literal is not None and len(literal) <= (1 if of.length is None else of.length)
        return _compared(key.column, literal) if literal is not None and fits and text.startswith("'") else None
    if of.kind in _DATE_KINDS:
        return None if literal is None else _date_value(literal, of)
    whole = literal if literal is not None and _WHOLE.fullmatch(literal) else _constant(text)
    return None if whole is None else str(int(whole))


def _compared(column: Column, text: str) -> str:
    return text.rstrip(" ") if column.text_order is TextOrder.PADDED else text


def _function_value(function: str, text: str) -> str | None:
    literal = _literal(text)
    if literal is not None and _WHOLE.fullmatch(literal):
        return str(int(literal))
    return _constant(text, wall_time=function == "UNIX_TIMESTAMP")


def _literal(text: str) -> str | None:
    """The value of a string or number, None of an expression."""
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    compact = text.replace(" ", "").strip("()")
    return compact if re.fullmatch(r"[+-]?\d+", compact) else None


def _date_value(literal: str, of: MySqlType) -> str | None:
    value = typed_default(LiteralDefault(literal, is_string=True), of).value
    pattern = _DAY if of.kind is Kind.DATE else _MOMENT
    return value if isinstance(value, str) and pattern.fullmatch(value) else None


def _constant(text: str, wall_time: bool = False) -> str | None:
    """The value of YEAR('..'), MONTH('..') or TO_DAYS('..'); of UNIX_TIMESTAMP('..') its wall time."""
    tokens = cursor_over(text, restored=True)
    function = tokens.accept_any(*_FUNCTIONS)
    if not (function and tokens.accept_symbol("(")):
        return None
    tokens.skip_introducers()
    if tokens.peek().kind is not TokenKind.STRING:
        return None
    argument = tokens.string()
    if not (tokens.accept_symbol(")") and tokens.done):
        return None
    if function == "UNIX_TIMESTAMP":
        return _date_value(argument, MySqlType(Kind.DATETIME)) if wall_time else None
    day = _date_value(argument, MySqlType(Kind.DATE))
    return None if day is None else _of_day(function, day)


def _of_day(function: str, day: str) -> str | None:
    try:
        parsed = date.fromisoformat(day)
    except ValueError:
        return None
    days = {"YEAR": parsed.year, "MONTH": parsed.month, "TO_DAYS": parsed.toordinal() + _DAYS_BEFORE_YEAR_1}
    return str(days[function])
