"""What a MODIFY does to existing values, as Spark SQL.

TiCDC sends no rows for a MODIFY, so the mirror repeats it. The result is one expression over the column, or None if the
result is not known to the last digit for this pair of types. The expression itself is NULL for each value whose result
is not known (`is_refused` finds those rows): values that differ between MySQL and TiDB, and those that a strict server
would not have let through (a value cut or clamped by a server that is not strict is so refused, not guessed). If the
lake's column stays the same, converting twice has the same result as converting once, since a killed run repeats it. A
zero date, which the lake holds as NULL, stays NULL whatever it becomes; it is known to be one, and refused, where the
column was NOT NULL.

Columns may have their new lake type already where Iceberg promotes it (int to bigint, wider decimals).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ticdc_assets.names import quote
from ticdc_assets.schema.arrow_types import BINARY_KINDS, CHARACTER_KINDS, INTEGER_BITS
from ticdc_assets.schema.ddl.mysql_types import binary_form
from ticdc_assets.schema.evolution.promotion import preserves
from ticdc_assets.schema.evolution.schema_state import ConvertColumn
from ticdc_assets.schema.model import Kind, MySqlType
from ticdc_assets.tables.conversion import labels, numbers, texts, times


def converted_value(name: str, old: MySqlType, new: MySqlType) -> str | None:
    """The new value of the column `name` as an expression, the bare column where it stays; None where it is unknown."""
    column, old, new = quote(name), _in_one_form(old), _in_one_form(new)
    if old.kind in (Kind.ENUM, Kind.SET) and old.elements is None:
        return None  # the lake may hold numbers in place of labels
    if preserves(old, new):
        return column
    rule = _RULES.get(new.kind)
    return None if rule is None else rule(column, old, new)


def is_refused(name: str, expression: str, effect: ConvertColumn) -> str:
    """The condition for rows whose value has no known result."""
    if effect.zero_dates:
        return f"(({expression}) IS NULL)"
    return f"({quote(name)} IS NOT NULL AND ({expression}) IS NULL)"


def _in_one_form(of: MySqlType) -> MySqlType:
    """The type with one form for equal types: CHAR in the character set binary is BINARY, and so on."""
    return binary_form(of) if (of.charset or "").lower() == "binary" else of


_Rule = Callable[[str, MySqlType, MySqlType], str | None]

_RULES: Final[dict[Kind, _Rule]] = {
    **dict.fromkeys(INTEGER_BITS, numbers.to_integer),
    Kind.BIT: numbers.to_bit,
    Kind.YEAR: numbers.to_year,
    Kind.DECIMAL: numbers.to_decimal,
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), numbers.to_float),
    **dict.fromkeys(CHARACTER_KINDS, texts.to_text),
    **dict.fromkeys(BINARY_KINDS, texts.to_binary),
    Kind.JSON: texts.to_json,
    Kind.ENUM: labels.to_enum,
    Kind.SET: labels.to_set,
    Kind.DATE: times.to_date,
    Kind.DATETIME: times.to_datetime,
    Kind.TIMESTAMP: times.to_timestamp,
    Kind.TIME: times.to_time,
}
"""The conversions by the new type. A VECTOR has none, as in TiDB."""
