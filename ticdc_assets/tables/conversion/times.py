"""Conversions to DATE, DATETIME, TIMESTAMP and TIME: see `conversion.convert` for what is promised.

Conversions between TIMESTAMP and the others depend on the time zone of the DDL session, which no stream sends.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from ticdc_assets.schema.arrow_types import CHARACTER_KINDS
from ticdc_assets.schema.model import Kind, MySqlType
from ticdc_assets.tables.mirror.sql import literal, matches

_DAY: Final = r"^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MOMENT: Final = _DAY + r"( [0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?)?"


def to_date(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """DATE. The last half second of a day is the next day to MySQL and the same day to TiDB: refused."""
    if old.kind is Kind.DATETIME:
        day = f"CAST({column} AS date)"
        return f"CASE WHEN CAST({_rounded_time(column, 0)} AS date) = {day} THEN {day} END"
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
    if old.kind is Kind.DATETIME and (new.length or 0) >= (old.length or 0):
        return printed_moment(column, "HH:mm:ss", new.length or 0)
    return None


def printed_moment(column: str, pattern: str, digits: int) -> str:
    """A DATETIME as text with `digits` fraction digits, which must be enough for its value."""
    fraction = f".{'S' * digits}" if digits else ""
    text = f"date_format({column}, {literal(pattern + fraction, pa.string())})"
    return f"CASE WHEN {_rounded_time(column, digits)} = {column} THEN {text} END"


def _rounded_time(column: str, digits: int) -> str:
    return f"CAST({_rounded_instant(f'CAST({column} AS timestamp)', digits)} AS timestamp_ntz)"


def _rounded_instant(instant: str, digits: int) -> str:
    # The session's zone is UTC, so a wall time is unchanged when it is converted to an instant and back. MySQL rounds
    # half up, also before 1970.
    unit = 10 ** (6 - digits)
    micros = f"unix_micros({instant})"
    return f"timestamp_micros({micros} + {unit // 2} - pmod({micros} + {unit // 2}, {unit}))"


def _rounded_clock(column: str, digits: int) -> str:
    """A TIME's text with fewer digits. A negative half goes down in MySQL and up in TiDB: refused."""
    unit = 10 ** (6 - digits)
    positive = f"ltrim('-', {column})"
    clock = f"split_part({positive}, '.', 1)"
    hours, minutes, seconds = (f"CAST(split_part({clock}, ':', {place}) AS bigint)" for place in (1, 2, 3))
    fraction = f"CAST(rpad(concat(split_part({positive}, '.', 2), '0'), 6, '0') AS bigint)"
    micros = f"((({hours} * 60 + {minutes}) * 60 + {seconds}) * 1000000 + {fraction})"
    rounded = f"(({micros} + {unit // 2}) div {unit} * {unit})"
    sign = f"CASE WHEN {column} LIKE '-%' AND {rounded} > 0 THEN '-' ELSE '' END"
    whole = f"({rounded} div 1000000)"
    fields = [f"lpad(CAST({field} AS string), 2, '0')" for field in (f"({whole} div 60 % 60)", f"({whole} % 60)")]
    hours_text = f"CASE WHEN {whole} < 360000 THEN lpad(CAST({whole} div 3600 AS string), 2, '0') ELSE "
    hours_text += f"CAST({whole} div 3600 AS string) END"
    parts = [sign, hours_text, "':'", fields[0], "':'", fields[1]]
    if digits:
        parts += ["'.'", f"left(lpad(CAST({rounded} % 1000000 AS string), 6, '0'), {digits})"]
    text = f"concat({', '.join(parts)})"
    if unit == 1:
        return text
    return f"CASE WHEN {column} NOT LIKE '-%' OR {micros} % {unit} <> {unit // 2} THEN {text} END"
