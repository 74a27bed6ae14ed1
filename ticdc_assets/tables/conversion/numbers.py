"""Conversions to numbers: see `conversion.convert` for what is promised.

To whole numbers, DECIMAL and text round half away from zero, FLOAT and DOUBLE half to even.
"""

from __future__ import annotations

from typing import Final

from ticdc_assets.schema.arrow_types import (
    CHARACTER_KINDS,
    DECIMAL_DIGITS_MAX,
    INTEGER_BITS,
    arrow_type,
    bit_width,
    decimal_shape,
)
from ticdc_assets.schema.model import Kind, MySqlType
from ticdc_assets.tables.conversion.functions import PRINTED_DOUBLE, ROUNDED_DECIMAL
from ticdc_assets.tables.conversion.labels import number_of_labels
from ticdc_assets.tables.conversion.literals import matches, spark_type
from ticdc_assets.tables.conversion.times import TIMES, digits_of_time

INTEGERS: Final = frozenset(INTEGER_BITS)
NUMBERED: Final = INTEGERS | {Kind.BIT, Kind.YEAR}
"""Types whose values are whole numbers in the lake."""

_FLOATS: Final = frozenset({Kind.FLOAT, Kind.DOUBLE})
_TEXT_DIGITS: Final = (20, 18)
"""Digits of a number in text that a decimal(38,18) holds, before and after the point."""
_WHOLE_BELOW: Final = "9223372036854775808D"
_FLOAT_MAX: Final = "3.4028234663852886E38D"
_DOUBLE_MAX: Final = "1.7976931348623157E308D"


def to_integer(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """TINYINT to BIGINT: a value out of the range is refused."""
    whole = _whole(column, old)
    return None if whole is None else _in_range(whole, *_range(new), new)


def to_bit(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """To BIT, only from whole numbers; a negative one would wrap and is refused."""
    if old.kind not in INTEGERS and old.kind is not Kind.BIT:
        return None
    return _in_range(column, 0, (1 << bit_width(new)) - 1, new)


def to_year(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """To YEAR, from integers: two digits are years from 1970 to 2069, zero stays zero."""
    if old.kind not in INTEGERS:
        return None
    return (
        f"CASE WHEN {column} BETWEEN 1 AND 69 THEN CAST({column} + 2000 AS int) "
        f"WHEN {column} BETWEEN 70 AND 99 THEN CAST({column} + 1900 AS int) "
        f"WHEN {column} = 0 OR {column} BETWEEN 1901 AND 2155 THEN CAST({column} AS int) END"
    )


def to_decimal(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """DECIMAL, rounded half away from zero; one that is too wide for the lake is text."""
    digits, scale = decimal_shape(new)
    number: str | None = None
    if digits <= DECIMAL_DIGITS_MAX and old.kind in NUMBERED:
        number = column
    elif digits <= DECIMAL_DIGITS_MAX and _is_narrow_decimal(old):
        number = f"round({column}, {scale})" if scale < decimal_shape(old)[1] else column
    elif digits <= DECIMAL_DIGITS_MAX and old.kind in CHARACTER_KINDS:
        number = f"round({_number_in_text(column)}, {scale})" if scale < _TEXT_DIGITS[1] else _number_in_text(column)
    elif old.kind in _FLOATS:
        number = f"{ROUNDED_DECIMAL}({PRINTED_DOUBLE}(CAST({column} AS double)), {digits}, {scale})"
    elif old.kind in NUMBERED or old.kind is Kind.DECIMAL:
        number = f"{ROUNDED_DECIMAL}(CAST({column} AS string), {digits}, {scale})"
    if number is None or digits > DECIMAL_DIGITS_MAX:
        return f"CASE WHEN {number} NOT LIKE '-%' THEN {number} END" if number and new.unsigned else number
    return _unsigned(f"TRY_CAST({number} AS {spark_type(arrow_type(new))})", new)


def to_float(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """To FLOAT and DOUBLE. Types with digits, such as FLOAT(7,2), round in their own way."""
    if new.scale is not None and (old.length, old.scale) != (new.length, new.scale):
        return None
    if old.kind in NUMBERED or old.kind in _FLOATS or old.kind is Kind.DECIMAL:
        number = f"CAST({column} AS double)"
    elif old.kind in CHARACTER_KINDS:
        number = f"CASE WHEN {matches(column, _FLOAT_TEXT)} THEN TRY_CAST(trim({column}) AS double) END"
    else:
        return None
    # Through DOUBLE, as the server does: rounding directly to FLOAT may give the neighbouring value.
    largest = _FLOAT_MAX if new.kind is Kind.FLOAT else _DOUBLE_MAX
    real = spark_type(arrow_type(new))
    # The sum is 0 for a negative zero, which TiDB does not store.
    number = f"CASE WHEN abs({number}) <= {largest} THEN CAST({number} AS {real}) + CAST(0 AS {real}) END"
    return _unsigned(number, new)


def _whole(column: str, old: MySqlType) -> str | None:
    if old.kind in NUMBERED:
        return column
    if _is_narrow_decimal(old):
        return f"round({column}, 0)"
    if old.kind is Kind.DECIMAL:
        return f"TRY_CAST({ROUNDED_DECIMAL}({column}, {DECIMAL_DIGITS_MAX}, 0) AS decimal({DECIMAL_DIGITS_MAX},0))"
    if old.kind in TIMES:
        return digits_of_time(column, old)
    if old.kind in _FLOATS:
        fits = f"{column} >= -{_WHOLE_BELOW} AND {column} < {_WHOLE_BELOW}"
        return f"CASE WHEN {fits} THEN CAST(rint({column}) AS bigint) END"
    if old.kind in CHARACTER_KINDS:
        return f"round({_number_in_text(column)}, 0)"
    return number_of_labels(column, old)


def _range(of: MySqlType) -> tuple[int, int]:
    bits = INTEGER_BITS[of.kind]
    return (0, (1 << bits) - 1) if of.unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _in_range(number: str, low: int, high: int, new: MySqlType) -> str:
    return f"CASE WHEN {number} BETWEEN {low} AND {high} THEN TRY_CAST({number} AS {spark_type(arrow_type(new))}) END"


def _unsigned(number: str, new: MySqlType) -> str:
    return f"CASE WHEN {number} >= 0 THEN {number} END" if new.unsigned else number


def _is_narrow_decimal(of: MySqlType) -> bool:
    """Whether values are decimals in the lake; wider ones are text there."""
    return of.kind is Kind.DECIMAL and decimal_shape(of)[0] <= DECIMAL_DIGITS_MAX


def _number_in_text(column: str) -> str:
    before, after = _TEXT_DIGITS
    pattern = rf"^ *[+-]?[0-9]{{1,{before}}}([.][0-9]{{0,{after}}})? *"
    return f"CASE WHEN {matches(column, pattern)} THEN CAST(trim({column}) AS decimal(38,18)) END"


_FLOAT_TEXT: Final = r"^ *[+-]?[0-9]{1,310}([.][0-9]{0,310})?([eE][+-]?[0-9]{1,3})? *"
