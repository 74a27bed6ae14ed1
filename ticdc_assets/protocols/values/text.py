"""Converts a single wire text to the canonical Python value of its column type: the reference implementation.

The result is an int, float, Decimal, str, bytes, date, datetime or list, or None for NULL and zero dates. A text that
does not fit the type is a DecodeError, which never quotes the text. `values.text_columns` is the bulk form.
"""

from __future__ import annotations

import binascii
import json
import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache
from operator import methodcaller
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import orjson

from ticdc_assets.errors import ConfigError, DecodeError
from ticdc_assets.schema.arrow_types import DECIMAL_DIGITS_MAX, UINT64_MAX, decimal_shape, integer_range, is_binary
from ticdc_assets.schema.model import Kind, MySqlType


@dataclass(frozen=True, slots=True)
class TextForms:
    """How a protocol writes values whose form does not follow from the MySQL type.

    binary: bytes as base64 (standard or URL-safe), as hex, as Latin-1 text, or as raw bytes.
    enum: ENUM and SET as label or number.
    zone: the time zone of TIMESTAMP texts, an IANA name or +hh:mm.
    null: the text that reads as NULL, where a text may have it; so a NOT NULL column has the text.
    """

    binary: Literal["base64", "base64-url-safe", "hex", "latin1", "raw"]
    enum: Literal["label", "number"]
    zone: str = "UTC"
    null: str | None = None


YEAR_MIN: Final = 1901
DATE_KINDS: Final = frozenset({Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP})
TIME_PATTERN: Final = r"-?[0-9]{2,3}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
FLOAT_PATTERN: Final = r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
DECIMAL_PATTERN: Final = r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"

NUMBER: Final = re.compile(r"[+-]?(?:[0-9]|\.[0-9])[0-9.eE+-]*")
"""The form of a number of any type."""

_INTEGER: Final = re.compile(r"(-?)0*([0-9]{1,20})")
_FLOAT: Final = re.compile(FLOAT_PATTERN)
_DECIMAL: Final = re.compile(DECIMAL_PATTERN)
_TIME: Final = re.compile(TIME_PATTERN)
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DATETIME: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2}) ([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?")
_ZERO_DATE: Final = re.compile(r"[0-9]{4}-(?:00-[0-9]{2}|[0-9]{2}-00)(?: [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)?")
_OFFSET: Final = re.compile(r"([+-])([0-9]{1,2}):([0-9]{2})")
_EXACT: Final = Context(prec=DECIMAL_DIGITS_MAX, traps=[Inexact, InvalidOperation])


def value(column_type: MySqlType, text: str | bytes | None, forms: TextForms) -> Any:
    """The canonical value of a wire text. Raises DecodeError if the text does not fit the type."""
    if text is None:
        return None
    if is_binary(column_type):
        return _bytes(column_type, text, forms)
    if isinstance(text, bytes):
        raise _refused(column_type, "bytes")
    reader = _READERS.get(column_type.kind)
    return text if reader is None else reader(column_type, text, forms)


def is_zero_date(column_type: MySqlType, text: str | None) -> bool:
    """Whether a DATE, DATETIME or TIMESTAMP text has a zero month or day and so is no calendar date."""
    return text is not None and column_type.kind in DATE_KINDS and _ZERO_DATE.fullmatch(text) is not None


@lru_cache(maxsize=64)
def time_zone(name: str) -> tzinfo:
    """The time zone of an IANA name or fixed offset (+08:00). Raises ConfigError if there is none."""
    if name.upper() == "UTC":
        return UTC
    offset = _OFFSET.fullmatch(name)
    try:
        if offset is None:
            return ZoneInfo(name)
        shift = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(-shift if offset[1] == "-" else shift)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        advice = "Give the zone that TiCDC runs in, as an IANA name or +hh:mm."
        raise ConfigError("time_zone", "a known time zone", f"{name!r}", advice) from error


def _bytes(column_type: MySqlType, text: str | bytes, forms: TextForms) -> bytes:
    if forms.binary == "raw":
        return text if isinstance(text, bytes) else text.encode()
    if isinstance(text, bytes):
        raise _refused(column_type, "bytes")
    try:
        return _BINARY_FORMS[forms.binary](text)
    except (binascii.Error, ValueError) as error:
        raise _refused(column_type, f"text that is not {forms.binary}") from error


def _from_base64(text: str) -> bytes:
    if len(text) % 4:
        raise ValueError
    return binascii.a2b_base64(text, strict_mode=True) if text else b""


_STANDARD: Final = str.maketrans("-_+/", "+/--")
"""Maps the URL-safe base64 alphabet to the standard one, and `+` and `/` to characters that base64 refuses."""


def _from_url_safe(text: str) -> bytes:
    return _from_base64(text.translate(_STANDARD))


_BINARY_FORMS: Final[dict[str, Callable[[str], bytes]]] = {
    "base64": _from_base64,
    "base64-url-safe": _from_url_safe,
    "hex": binascii.unhexlify,
    "latin1": methodcaller("encode", "latin-1"),
}


def _integer(column_type: MySqlType, text: str, forms: TextForms) -> int:
    number = _whole(column_type, text)
    low, high = integer_range(column_type)
    if high == UINT64_MAX and -(1 << 63) <= number < 0:
        return number + (1 << 64)
    if not low <= number <= high or (column_type.kind is Kind.YEAR and 0 < number < YEAR_MIN):
        raise _refused(column_type, "a number out of its range")
    return number


def _whole(column_type: MySqlType, text: str) -> int:
    parts = _INTEGER.fullmatch(text)
    if parts is None:
        raise _refused(column_type, "text that is no whole number")
    return int(parts[1] + parts[2])


def _float(column_type: MySqlType, text: str, forms: TextForms) -> float:
    if _FLOAT.fullmatch(text) is None:
        raise _refused(column_type, "text that is no number")
    number = float(text)
    if column_type.kind is Kind.FLOAT:
        return to_float32(column_type, number)
    if not math.isfinite(number):
        raise _refused(column_type, "a number out of its range")
    return number


def to_float32(column_type: MySqlType, number: float) -> float:
    """The nearest float32, the precision of FLOAT columns."""
    if not math.isfinite(number):
        raise _refused(column_type, "a number out of its range")
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError as error:
        raise _refused(column_type, "a number out of its range") from error


def _decimal(column_type: MySqlType, text: str, forms: TextForms) -> Decimal | str:
    if _DECIMAL.fullmatch(text) is None:
        raise _refused(column_type, "text that is no decimal number")
    digits, scale = decimal_shape(column_type)
    if digits > DECIMAL_DIGITS_MAX:
        return text
    try:
        number = Decimal(text).quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    except (Inexact, InvalidOperation) as error:
        raise _refused(column_type, "more digits than it holds") from error
    if number.adjusted() >= digits - scale and number:
        raise _refused(column_type, "more digits than it holds")
    return number if number else abs(number)


def _date(column_type: MySqlType, text: str, forms: TextForms) -> date | None:
    if _ZERO_DATE.fullmatch(text):
        return None
    parts = _DATE.fullmatch(text)
    if parts is None:
        raise _refused(column_type, "text that is no date")
    try:
        return date(int(parts[1]), int(parts[2]), int(parts[3]))
    except ValueError as error:
        raise _refused(column_type, _no_time(parts, "a day")) from error


def _datetime(column_type: MySqlType, text: str, forms: TextForms) -> datetime | None:
    if _ZERO_DATE.fullmatch(text):
        return None
    parts = _DATETIME.fullmatch(text)
    if parts is None:
        raise _refused(column_type, "text that is no date and time")
    year, month, day, hour, minute, second = (int(part) for part in parts.groups()[:6])
    microsecond = int((parts[7] or "").ljust(6, "0"))
    try:
        return datetime(year, month, day, hour, minute, second, microsecond)
    except ValueError as error:
        raise _refused(column_type, _no_time(parts, "a time")) from error


def _no_time(parts: re.Match[str], kind: str) -> str:
    return (
        f"{kind} of year 0, which no column of the lake holds" if parts[1] == "0000" else f"{kind} that does not exist"
    )


def _timestamp(column_type: MySqlType, text: str, forms: TextForms) -> datetime | None:
    """The time in UTC. A wall time that occurs twice is the first; a skipped one has the offset before the change."""
    wall = _datetime(column_type, text, forms)
    if wall is None:
        return None
    try:
        return wall.replace(tzinfo=time_zone(forms.zone)).astimezone(UTC)
    except OverflowError as error:
        raise _refused(column_type, "a time that does not exist") from error


def _time(column_type: MySqlType, text: str, forms: TextForms) -> str:
    if _TIME.fullmatch(text) is None:
        raise _refused(column_type, "text that is no time")
    return text


def _enum(column_type: MySqlType, text: str, forms: TextForms) -> str:
    if forms.enum == "label":
        return text
    number = _whole(column_type, text)
    if column_type.elements is None:
        return str(number)
    if not 0 <= number <= len(column_type.elements):
        raise _refused(column_type, "a number beyond its labels")
    return column_type.elements[number - 1] if number else ""


def _set(column_type: MySqlType, text: str, forms: TextForms) -> str:
    if forms.enum == "label":
        return text
    number = _whole(column_type, text)
    if not -(1 << 63) <= number < 1 << 64:
        raise _refused(column_type, "a number beyond its labels")
    mask = number % (1 << 64)
    if column_type.elements is None:
        return str(mask)
    if mask >> len(column_type.elements):
        raise _refused(column_type, "a number beyond its labels")
    return ",".join(label for bit, label in enumerate(column_type.elements) if mask >> bit & 1)


def vector_numbers(text: str) -> Any:
    """What the text of a VECTOR has, which is a list of numbers if it is sound. Raises ValueError if it is no JSON."""
    numbers = orjson.loads(text)
    # -0 is an integer for orjson, and loses its sign.
    return json.loads(text, parse_int=float) if "-0" in text else numbers


def _vector(column_type: MySqlType, text: str, forms: TextForms) -> list[float]:
    try:
        numbers = vector_numbers(text)
    except ValueError as error:
        raise _refused(column_type, "text that is no vector") from error
    if not isinstance(numbers, list) or not all(type(number) in (int, float) for number in numbers):
        raise _refused(column_type, "text that is no vector")
    return [to_float32(column_type, float(number)) for number in numbers]


_READERS: Final[dict[Kind, Callable[[MySqlType, str, TextForms], Any]]] = {
    Kind.TINYINT: _integer,
    Kind.SMALLINT: _integer,
    Kind.MEDIUMINT: _integer,
    Kind.INT: _integer,
    Kind.BIGINT: _integer,
    Kind.BIT: _integer,
    Kind.YEAR: _integer,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _float,
    Kind.DECIMAL: _decimal,
    Kind.DATE: _date,
    Kind.DATETIME: _datetime,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIME: _time,
    Kind.ENUM: _enum,
    Kind.SET: _set,
    Kind.VECTOR: _vector,
}


def _refused(column_type: MySqlType, found: str) -> DecodeError:
    unsigned = " UNSIGNED" if column_type.unsigned else ""
    advice = "Check that the table's schema at this commit is the one the row was written with."
    return DecodeError("a column value", f"a value of type {column_type.kind}{unsigned}", found, advice)
