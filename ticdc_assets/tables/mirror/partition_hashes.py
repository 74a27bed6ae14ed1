"""The rows of HASH and KEY partitions, and partition expressions, as SQL over a mirror.

Numbers are decimal(38,0): unsigned 64-bit ones fit, and so does each intermediate result that TiDB accepts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ticdc_assets.names import column_name, quote
from ticdc_assets.schema.arrow_types import CHARACTER_KINDS
from ticdc_assets.schema.collations import TextOrder
from ticdc_assets.schema.model import Column, Kind
from ticdc_assets.schema.partitions.expressions import DATE_KINDS, Call, ColumnValue, Expression, Number, columns_in
from ticdc_assets.schema.partitions.hashes import HashRows, KeyRows
from ticdc_assets.schema.partitions.rows import ComputedKey

_WHOLE: Final = "decimal(38,0)"
_ZERO_OF_ZERO_DATE: Final = frozenset({"YEAR", "MONTH", "QUARTER", "DAYOFMONTH", "HOUR", "MINUTE", "SECOND"})
_NULL_OF_ZERO_DATE: Final = frozenset({"TO_DAYS", "DAYOFYEAR", "DAYOFWEEK", "WEEKDAY"})


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
