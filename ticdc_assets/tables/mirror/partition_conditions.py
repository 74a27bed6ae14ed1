"""The rows of partitions, as conditions over a mirror."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from ticdc_assets.advice import Advice
from ticdc_assets.errors import SchemaError
from ticdc_assets.names import column_name, quote
from ticdc_assets.protocols.values.text import time_zone
from ticdc_assets.schema.arrow_types import CHARACTER_KINDS, INTEGER_BITS, arrow_type
from ticdc_assets.schema.model import Column, Kind, TextOrder
from ticdc_assets.schema.partitions.expressions import DATE_KINDS, Call, ColumnValue, Expression, Number, columns_in
from ticdc_assets.schema.partitions.hashes import HashRows, KeyRows
from ticdc_assets.schema.partitions.rows import ComputedKey, ListRows, PartitionedBy, PartitionKey, PartitionRows
from ticdc_assets.tables.conversion.literals import literal, typed_literal

_WHOLE_KINDS: Final = frozenset({*INTEGER_BITS, Kind.YEAR})
_WHOLE: Final = "decimal(38,0)"
_ZERO_OF_ZERO_DATE: Final = frozenset({"YEAR", "MONTH", "QUARTER", "DAYOFMONTH", "HOUR", "MINUTE", "SECOND"})
_NULL_OF_ZERO_DATE: Final = frozenset({"TO_DAYS", "DAYOFYEAR", "DAYOFWEEK", "WEEKDAY"})


def rows_condition(partitions: Iterable[PartitionRows], zone: str) -> str:
    """The rows of the partitions, as a WHERE condition."""
    conditions = [_rows(rows, zone) for rows in partitions]
    if "true" in conditions:
        return "true"  # Spark reads `WHERE (true)` as another name of the table and its columns
    return " OR ".join(f"({condition})" for condition in conditions if condition != "false") or "false"


def doubt_condition(partitions: Iterable[PartitionRows]) -> str | None:
    """The condition of rows that may or may not be in one of the partitions; None where there are none.

    A date that no calendar has is NULL in a mirror, and TiDB placed it by its digits.
    """
    columns = {column.name: column for rows in partitions for column in doubtful_dates(_computed(rows))}
    return " OR ".join(f"{quote(column_name(name))} IS NULL" for name in columns) or None


def _computed(rows: PartitionRows) -> Iterable[HashRows | KeyRows | ComputedKey]:
    if isinstance(rows, HashRows | KeyRows):
        return (rows,)
    return [key for key in rows.keys if isinstance(key, ComputedKey)]


def _rows(rows: PartitionRows, zone: str) -> str:
    if isinstance(rows, HashRows):
        return hash_condition(rows)
    if isinstance(rows, KeyRows):
        return key_condition(rows)
    if isinstance(rows, ListRows):
        return _listed(rows, zone)
    conditions = []
    if rows.lower is not None:
        conditions.append(f"NOT ({_below(rows.keys, rows.lower, zone)})")
    if rows.upper is not None:
        conditions.append(_below(rows.keys, rows.upper, zone))
    return " AND ".join(f"({c})" for c in conditions) or "true"


def _below(keys: tuple[PartitionedBy, ...], bound: tuple[str | None, ...], zone: str) -> str:
    """Whether the keys compare below a bound, as tuples; NULL is below every value, None in the bound above all."""
    key, text, rest = keys[0], bound[0], (keys[1:], bound[1:])
    expression = _key(key)
    if text is None:
        return "true"
    limit = _bound(key, text, zone)
    # A blank is below every character except the control characters, so only with these a longer text can be below its
    # own beginning. Otherwise the column is compared without rtrim, so that Iceberg skips files by their bounds.
    compared = f"rtrim({expression})" if _is_padded(key) and min(text, default=" ") < " " else expression
    below = f"{expression} IS NULL OR {compared} < {limit}"
    if not rest[0]:
        return below
    return f"{below} OR ({_is(key, text, zone)} AND ({_below(*rest, zone)}))"


def _listed(rows: ListRows, zone: str) -> str:
    """Whether the keys are among the values, or are not; never NULL. A list is one IN, since Spark overflows its stack
    at a chain of as many conditions as a list can have values."""
    if not rows.values:
        return "true" if rows.others else "false"
    if len(rows.keys) > 1:
        expression, values = _tuples(rows, zone)
        return f"{expression} {'NOT ' if rows.others else ''}IN ({', '.join(values)})"
    key, has_null = rows.keys[0], (None,) in rows.values
    texts = [text for (text,) in rows.values if text is not None]
    values = [_bound(key, text, zone) for text in texts]
    return _others(key, values, has_null) if rows.others else _those(key, texts, values, has_null)


def _those(key: PartitionedBy, texts: list[str], values: list[str], has_null: bool) -> str:
    found = [f"{_key(key)} IS NULL"] if has_null else []
    if values:
        found.append(f"({_key(key)} IS NOT NULL AND {_between(key, texts)}{_compared(key)} IN ({', '.join(values)}))")
    return " OR ".join(found)


def _others(key: PartitionedBy, values: list[str], has_null: bool) -> str:
    among = f"{_compared(key)} NOT IN ({', '.join(values)})" if values else "true"
    return f"{_key(key)} IS NOT NULL AND {among}" if has_null else f"{_key(key)} IS NULL OR {among}"


def _between(key: PartitionedBy, texts: list[str]) -> str:
    """Bounds of texts whose trailing blanks do not count, so that Iceberg skips files by their bounds. A text that is a
    value and blanks is smaller than the value with "!", the character after the blank."""
    if not _is_padded(key):
        return ""
    lowest, above = literal(min(texts), pa.string()), literal(max(f"{text}!" for text in texts), pa.string())
    return f"{_key(key)} >= {lowest} AND {_key(key)} < {above} AND "


def _compared(key: PartitionedBy) -> str:
    return f"rtrim({_key(key)})" if _is_padded(key) else _key(key)


def _tuples(rows: ListRows, zone: str) -> tuple[str, list[str]]:
    """The keys as one value, and the listed values in the same form: for each key whether it is NULL, and its value,
    or one of the list where it is NULL. So no comparison meets a NULL, and numbers have one type."""
    columns: list[tuple[str, list[str]]] = []
    for place, key in enumerate(rows.keys):
        texts = [values[place] for values in rows.values]
        bounds = [None if text is None else _of_one_type(key, _bound(key, text, zone)) for text in texts]
        columns.append((f"{_key(key)} IS NULL", ["true" if bound is None else "false" for bound in bounds]))
        some = next((bound for bound in bounds if bound is not None), None)
        if some is not None:
            value = f"coalesce({_of_one_type(key, _compared(key))}, {some})"
            columns.append((value, [bound or some for bound in bounds]))
    listed = zip(*(bounds for _, bounds in columns), strict=True)
    return _struct([expression for expression, _ in columns]), [_struct(bounds) for bounds in listed]


def _of_one_type(key: PartitionedBy, expression: str) -> str:
    """A bound may be outside of an integer column's range, so integers are compared as numbers that hold both."""
    is_typed = isinstance(key, PartitionKey) and key.function is None and key.column.type.kind not in _WHOLE_KINDS
    return expression if is_typed else f"CAST({expression} AS decimal(38,0))"


def _struct(fields: Iterable[str]) -> str:
    named = (f"'f{number}', {field}" for number, field in enumerate(fields))
    return f"named_struct({', '.join(named)})"


def _is(key: PartitionedBy, text: str | None, zone: str) -> str:
    """Whether a key is this value, None for NULL; never NULL itself."""
    expression = _key(key)
    if text is None:
        return f"{expression} IS NULL"
    limit = _bound(key, text, zone)
    if not _is_padded(key):
        return f"{expression} <=> {limit}"
    # Bounds first, so that Iceberg skips files by their bounds. Texts that begin with the value and blanks are smaller
    # than the value with "!", the character after the blank.
    within = f"{expression} >= {limit} AND {expression} < {literal(text + '!', pa.string())}"
    return f"({expression} IS NOT NULL AND {within} AND rtrim({expression}) = {limit})"


def _is_padded(key: PartitionedBy) -> bool:
    """Whether trailing blanks of the key do not count; the texts to compare have none."""
    return isinstance(key, PartitionKey) and is_padded(key.column)


def _key(key: PartitionedBy) -> str:
    if isinstance(key, ComputedKey):
        return whole_number(key.expression)
    column = quote(column_name(key.column.name))
    match key.function:
        case None:
            return column
        case "YEAR" | "MONTH":
            return f"{key.function.lower()}({column})"
        case "TO_DAYS":
            return f"(datediff(CAST({column} AS date), DATE'0001-01-01') + 366)"
        case _:
            return f"unix_seconds({column})"


def _bound(key: PartitionedBy, text: str, zone: str) -> str:
    if isinstance(key, ComputedKey):
        return f"CAST('{int(text)}' AS decimal(38,0))"
    if key.function is None and key.column.type.kind in _WHOLE_KINDS:
        return str(int(text))  # a bound may be outside of the column's range
    if key.function is None:
        return literal(typed_literal(key.column.name, key.column.type, text, zone), arrow_type(key.column.type))
    try:
        if key.function == "UNIX_TIMESTAMP" and "-" in text.lstrip("-"):
            wall = datetime.fromisoformat(text).replace(tzinfo=time_zone(zone))
            return str(int(wall.astimezone(UTC).timestamp()))
        return str(int(text))
    except (ValueError, OverflowError):
        expected = "a partition bound that is a number or time"
        raise SchemaError(f"column {key.column.name}", expected, "another text", Advice.LOAD_AGAIN) from None


# The rows of HASH and KEY partitions, and partition expressions, as SQL over a mirror.
#
# Numbers are decimal(38,0): unsigned 64-bit ones fit, and so does each intermediate result that TiDB accepts.


def is_padded(column: Column) -> bool:
    """Whether blanks at the end of the column's text count for nothing."""
    return column.text_order is TextOrder.PADDED and column.type.kind in CHARACTER_KINDS


# -- HASH -------------------------------------------------------------------------------------------------------------


def hash_condition(rows: HashRows) -> str:
    """Whether a row is in the partition."""
    value = whole_number(rows.expression)
    # TiDB reads the 64 bits of an unsigned number as a signed one. This is not written as CASE: for a number that
    # cannot be that large, Spark would make a condition of it that it cannot pass to Iceberg.
    signed = f"pmod({value} + {_number(1 << 63)}, {_number(1 << 64)}) - {_number(1 << 63)}"
    return f"coalesce(abs(({signed}) % {_number(rows.count)}), {_number(0)}) = {_number(rows.place)}"


def whole_number(expression: Expression) -> str:
    """The value of a partition expression."""
    if isinstance(expression, Number):
        return _number(expression.value)
    if isinstance(expression, ColumnValue):
        return f"CAST({_column(expression.column)} AS {_WHOLE})"
    return f"CAST({_called(expression)} AS {_WHOLE})"


def _called(call: Call) -> str:
    function, arguments = call.function, call.arguments
    if function in ("+", "-", "*"):
        return f"({whole_number(arguments[0])} {function} {whole_number(arguments[1])})"
    if function in ("DIV", "%"):
        divisor = f"nullif({whole_number(arguments[1])}, {_number(0)})"
        return f"({whole_number(arguments[0])} {function.lower()} {divisor})"
    if function in ("NEGATIVE", "ABS"):
        return f"{function.lower()}({whole_number(arguments[0])})"
    dates = [_column(column) for argument in arguments for column in columns_in(argument)]
    if function == "DATEDIFF":
        return f"datediff(CAST({dates[0]} AS date), CAST({dates[1]} AS date))"
    if function == "TO_DAYS":
        return f"(datediff(CAST({dates[0]} AS date), DATE'0001-01-01') + 366)"
    if function == "UNIX_TIMESTAMP":
        return f"unix_seconds({dates[0]})"
    return f"{function.lower()}({dates[0]})"


def _column(column: Column) -> str:
    return quote(column_name(column.name))


def _number(value: int) -> str:
    return f"CAST('{value}' AS {_WHOLE})"


# -- KEY --------------------------------------------------------------------------------------------------------------


def key_condition(rows: KeyRows) -> str:
    """Whether a row is in the partition."""
    texts = ", ".join(f"coalesce({_bytes(column)}, X'00')" for column in rows.columns)
    return f"crc32(concat({texts})) % {rows.count} = {rows.place}"


def _bytes(column: Column) -> str:
    """The column's text as TiDB prints it, NULL for NULL."""
    value, kind = _column(column), column.type.kind
    if kind is Kind.VARBINARY:
        return value
    if kind is Kind.DATETIME:
        digits = column.type.length or 0
        pattern = "yyyy-MM-dd HH:mm:ss" + ("." + "S" * digits if digits else "")
        return f"CAST(date_format({value}, '{pattern}') AS binary)"
    text = f"rtrim({value})" if is_padded(column) else value
    return f"CAST(CAST({text} AS string) AS binary)"


# -- dates that no calendar has ---------------------------------------------------------------------------------------


def doubtful_dates(computed: Iterable[HashRows | KeyRows | ComputedKey]) -> Iterable[Column]:
    """The columns whose NULL may stand for a date that does not exist, and is then in another place than NULL.

    A function whose value for 0000-00-00 is 0 or NULL puts both into the same HASH partition.
    """
    for rows in computed:
        if isinstance(rows, KeyRows):
            yield from (column for column in rows.columns if column.type.kind in DATE_KINDS)
        elif not (isinstance(rows, HashRows) and _same_for_zero(rows.expression)):
            yield from (column for column in columns_in(rows.expression) if column.type.kind in DATE_KINDS)


def _same_for_zero(expression: Expression) -> bool:
    return isinstance(expression, Call) and expression.function in _ZERO_OF_ZERO_DATE | _NULL_OF_ZERO_DATE
