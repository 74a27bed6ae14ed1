"""Conversions to DATE, DATETIME, TIMESTAMP and TIME: see `conversion.convert` for what is promised.

Conversions between TIMESTAMP and the others depend on the time zone of the DDL session, which no stream sends.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from ticdc_assets.schema.arrow_types import CHARACTER_KINDS, INTEGER_BITS
from ticdc_assets.schema.model import Kind, MySqlType
from ticdc_assets.tables.conversion.literals import literal, matches

TIMES: Final = frozenset({Kind.DATE, Kind.DATETIME, Kind.TIME})
_DAY: Final = r"^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MOMENT: Final = _DAY + r"( [0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?)?"


def to_date(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """DATE. The last half second of a day is the next day to MySQL and the same day to TiDB: refused."""
    if old.kind is Kind.DATETIME:
        day = f"CAST({column} AS date)"
        return f"CASE WHEN CAST({_rounded_time(column, 0)} AS date) = {day} THEN {day} END"
    if old.kind in INTEGER_BITS:
        return f"CAST({_moment_of_digits(column)} AS date)"
    if old.kind in CHARACTER_KINDS:
        return f"CASE WHEN {matches(column, _DAY)} THEN TRY_CAST({column} AS date) END"
    return None


def to_datetime(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """DATETIME, its fraction rounded half up."""
    digits = new.length or 0
    if old.kind is Kind.DATE:
        return f"CAST({column} AS timestamp_ntz)"
    if old.kind is Kind.DATETIME:
        return _rounded_time(column, digits)
    if old.kind in INTEGER_BITS:
        return _moment_of_digits(column)
    if old.kind in CHARACTER_KINDS:
        moment = f"TRY_CAST({column} AS timestamp_ntz)"
        return f"CASE WHEN {matches(column, _MOMENT)} THEN {_rounded_time(moment, digits)} END"
    return None


def to_timestamp(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """TIMESTAMP with fewer digits, rounded half up."""
    return _rounded_instant(column, new.length or 0) if old.kind is Kind.TIMESTAMP else None


def to_time(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """TIME: text with as many fraction digits as the type has."""
    if old.kind is Kind.TIME:
        return _rounded_clock(column, new.length or 0)
    if old.kind is Kind.DATETIME:
        clock_digits = max(old.length or 0, new.length or 0)
        return _rounded_clock(printed_moment(column, "HH:mm:ss", clock_digits), new.length or 0)
    return None


def digits_of_time(column: str, old: MySqlType) -> str:
    """The digits of a DATE, DATETIME or TIME as a number, rounded to seconds."""
    if old.kind is Kind.TIME:
        return f"TRY_CAST(replace({_rounded_clock(column, 0)}, ':', '') AS bigint)"
    pattern = literal("yyyyMMdd" if old.kind is Kind.DATE else "yyyyMMddHHmmss", pa.string())
    moment = column if old.kind is Kind.DATE else _rounded_time(column, 0)
    return f"CASE WHEN year({moment}) <= 9999 THEN CAST(date_format({moment}, {pattern}) AS bigint) END"


def printed_moment(column: str, pattern: str, digits: int) -> str:
    """A DATETIME as text with `digits` fraction digits, which must be enough for its value."""
    fraction = f".{'S' * digits}" if digits else ""
    text = f"date_format({column}, {literal(pattern + fraction, pa.string())})"
    return f"CASE WHEN {_rounded_time(column, digits)} = {column} THEN {text} END"


def _moment_of_digits(column: str) -> str:
    """The DATETIME that a number's digits are: YYYYMMDD, YYMMDD, or these with hhmmss; NULL for other numbers."""
    number = f"CAST({column} AS decimal(20,0))"
    second = (
        f"CASE WHEN {number} BETWEEN 101 AND 99991231 THEN {number} * 1000000 "
        f"WHEN {number} BETWEEN 101000000 AND 99991231235959 THEN {number} END"
    )
    text = (
        f"CASE WHEN {second} BETWEEN 101000000 AND 691231235959 THEN {second} + 20000000000000 "
        f"WHEN {second} BETWEEN 700101000000 AND 991231235959 THEN {second} + 19000000000000 "
        f"WHEN {second} >= 10000101000000 THEN {second} END"
    )
    digits = f"CAST(CAST({text} AS decimal(20,0)) AS string)"
    pattern, form = literal("^(....)(..)(..)(..)(..)(..)$", pa.string()), literal("$1-$2-$3 $4:$5:$6", pa.string())
    return f"TRY_CAST(regexp_replace({digits}, {pattern}, {form}) AS timestamp_ntz)"


def _rounded_time(column: str, digits: int) -> str:
    return f"CAST({_rounded_instant(f'CAST({column} AS timestamp)', digits)} AS timestamp_ntz)"


def _rounded_instant(instant: str, digits: int) -> str:
    # The session's zone is UTC, so a wall time is unchanged when it is converted to an instant and back. MySQL rounds
    # half up, also before 1970.
    unit = 10 ** (6 - digits)
    micros = f"unix_micros({instant})"
    return f"timestamp_micros({micros} + {unit // 2} - pmod({micros} + {unit // 2}, {unit}))"


def _rounded_clock(column: str, digits: int) -> str:
    """A TIME's text with fewer digits. TiDB rounds halves up, also negative ones."""
    unit = 10 ** (6 - digits)
    positive = f"ltrim('-', {column})"
    clock = f"split_part({positive}, '.', 1)"
    hours, minutes, seconds = (f"CAST(split_part({clock}, ':', {place}) AS bigint)" for place in (1, 2, 3))
    fraction = f"CAST(rpad(concat(split_part({positive}, '.', 2), '0'), 6, '0') AS bigint)"
    micros = f"((({hours} * 60 + {minutes}) * 60 + {seconds}) * 1000000 + {fraction})"
    half = f"CASE WHEN {column} LIKE '-%' THEN {max(unit // 2 - 1, 0)} ELSE {unit // 2} END"
    rounded = f"(({micros} + {half}) div {unit} * {unit})"
    sign = f"CASE WHEN {column} LIKE '-%' AND {rounded} > 0 THEN '-' ELSE '' END"
    whole = f"({rounded} div 1000000)"
    fields = [f"lpad(CAST({field} AS string), 2, '0')" for field in (f"({whole} div 60 % 60)", f"({whole} % 60)")]
    hours_text = f"CASE WHEN {whole} < 360000 THEN lpad(CAST({whole} div 3600 AS string), 2, '0') ELSE "
    hours_text += f"CAST({whole} div 3600 AS string) END"
    parts = [sign, hours_text, "':'", fields[0], "':'", fields[1]]
    if digits:
        parts += ["'.'", f"left(lpad(CAST({rounded} % 1000000 AS string), 6, '0'), {digits})"]
    return f"concat({', '.join(parts)})"
