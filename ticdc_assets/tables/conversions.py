"""What MySQL's MODIFY does to values that are there, as Spark SQL.

TiCDC sends no rows for a MODIFY, so the mirror redoes it. Only conversions whose result is known to the last digit are
here; the others are refused by their caller. The server is taken to be strict (its default): a value that would be
cut or clamped made the statement fail, so it never reached the stream.
"""

from __future__ import annotations

import pyarrow as pa

from ticdc_assets.names import quote
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.model import Kind, MySqlType
from ticdc_assets.tables.mirror_sql import spark_type


def conversion(name: str, old: MySqlType, new: MySqlType) -> str | None:
    """The new value of the column `name` as an expression, the bare column where it stays; None where it is unknown."""
    column = quote(name)
    before, after = arrow_type(old), arrow_type(new)
    if before == after:
        return _same_lake_type(column, old, new)
    if pa.types.is_string(after):
        return _to_text(column, old, new)
    if pa.types.is_binary(after) and pa.types.is_string(before) and old.kind not in _PRINTED:
        return f"encode({column}, 'UTF-8')"
    if _is_number(after):
        return _to_number(column, before, after)
    if pa.types.is_date(before) and after == pa.timestamp("us"):
        return f"CAST({column} AS timestamp_ntz)"
    if before == pa.timestamp("us") and pa.types.is_date(after):
        return f"CAST({_rounded_time(column, 0)} AS date)"
    return None


_PRINTED = frozenset({Kind.ENUM, Kind.SET, Kind.DECIMAL, Kind.TIME})


def _same_lake_type(column: str, old: MySqlType, new: MySqlType) -> str | None:
    if new.kind is Kind.TIME:
        return _time_digits(column, old, new)
    if new.kind is Kind.DATETIME and (new.length or 0) < (old.length or 0):
        return _rounded_time(column, new.length or 0)
    if new.kind is Kind.TIMESTAMP and (new.length or 0) < (old.length or 0):
        return _rounded_instant(column, new.length or 0)
    if new.kind is Kind.DECIMAL and old.kind is Kind.DECIMAL and (old.scale or 0) != (new.scale or 0):
        return None  # beyond 38 digits these are texts, which SQL here cannot round
    if new.kind is Kind.YEAR and old.kind is not Kind.YEAR:
        return None
    return column


def _time_digits(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """TIME is text with its fraction digits: more digits are zeros; fewer would have to round."""
    more = (new.length or 0) - (old.length or 0)
    if old.kind is not Kind.TIME or more < 0:
        return None
    if more == 0:
        return column
    return f"concat({column}, '{'' if old.length else '.'}{'0' * more}')"


def _rounded_time(column: str, digits: int) -> str:
    return f"CAST({_rounded_instant(f'CAST({column} AS timestamp)', digits)} AS timestamp_ntz)"


def _rounded_instant(instant: str, digits: int) -> str:
    # The session's zone is UTC, so wall times survive the way over instants. MySQL rounds half up, also before 1970.
    unit = 10 ** (6 - digits)
    return f"timestamp_micros(CAST(floor((unix_micros({instant}) + {unit // 2}) / {unit}.0) AS bigint) * {unit})"


def _to_text(column: str, old: MySqlType, new: MySqlType) -> str | None:
    before = arrow_type(old)
    if new.kind in (Kind.ENUM, Kind.SET, Kind.JSON, Kind.TIME, Kind.DECIMAL):
        return None
    if pa.types.is_integer(before) or pa.types.is_decimal(before):
        return None if old.kind is Kind.BIT else f"CAST({column} AS string)"
    if pa.types.is_date(before):
        return f"CAST({column} AS string)"
    if before == pa.timestamp("us"):
        fraction = f".{'S' * old.length}" if old.length else ""
        return f"date_format({column}, 'yyyy-MM-dd HH:mm:ss{fraction}')"
    if pa.types.is_binary(before):
        return f"decode({column}, 'UTF-8')"
    return None  # floats print in their own way, TIMESTAMP in the session's zone


def _is_number(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow) or pa.types.is_decimal(arrow) or pa.types.is_floating(arrow))


def _to_number(column: str, before: pa.DataType, after: pa.DataType) -> str | None:
    if pa.types.is_decimal(before) and pa.types.is_integer(after):
        return f"CAST(round({column}, 0) AS {spark_type(after)})"  # Spark's cast would cut the fraction off
    if pa.types.is_integer(before) or pa.types.is_decimal(before):
        return f"CAST({column} AS {spark_type(after)})"
    if pa.types.is_floating(before) and pa.types.is_floating(after):
        return f"CAST({column} AS {spark_type(after)})"
    if pa.types.is_string(before) and not pa.types.is_floating(after):
        return f"CAST(round(CAST(trim({column}) AS decimal(38,10)), {_scale(after)}) AS {spark_type(after)})"
    return None


def _scale(arrow: pa.DataType) -> int:
    return arrow.scale if pa.types.is_decimal(arrow) else 0
