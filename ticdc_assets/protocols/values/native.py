"""Converts single values of Simple and Avro, whose encodings have native numbers and bytes.

`value` returns the canonical value, `as_text` the wire text, `plain` the form that checksums cover. All forms that any
TiCDC version writes are accepted: integers as numbers, as decimal text, wrapped in {value}, or as negative numbers
after overflow; binary as bytes or base64; TIMESTAMP as text or {location, value}; ENUM and SET as numbers or, with
`labels`, as labels. Any other form is a DecodeError that names the column but not the value.
"""

from __future__ import annotations

import re
from datetime import UTC
from typing import Any, Final

from ticdc_assets.errors import ConfigError, DecodeError
from ticdc_assets.protocols.formats.bodies import NegativeZero
from ticdc_assets.protocols.values import text as text_values
from ticdc_assets.protocols.values.text import TextForms, time_zone
from ticdc_assets.schema.arrow_types import INTEGER_BITS, is_binary
from ticdc_assets.schema.model import Column, Kind, MySqlType

Plain = int | float | bytes | str

_INTEGERS: Final = frozenset({*INTEGER_BITS, Kind.BIT, Kind.YEAR})
_REALS: Final = frozenset({Kind.FLOAT, Kind.DOUBLE})
_LABELLED: Final = frozenset({Kind.ENUM, Kind.SET})
_SERVER_ZONES: Final = ("", "Local")
"""Go's names for the zone of the TiCDC server; the changefeed's time zone is used instead."""
LOCATION: Final = "location"
"""The member of a TIMESTAMP that names its zone."""
_WALL_TIME: Final = MySqlType(Kind.DATETIME)
_BIT_BYTES_MAX: Final = 8
_WHOLE: Final = re.compile(r"-?[0-9]{1,20}")
_ADVICE: Final = "Check the table's schema and the changefeed's protocol and options; the message stays quarantined."


def value(column: Column, wire: Any, zone: str, labels: bool = False) -> Any:
    """The canonical value of a wire value; None for NULL and zero dates.

    Args:
        zone: the time zone of a TIMESTAMP that names none.
        labels: whether ENUM and SET are sent as labels.

    Raises:
        DecodeError: the value does not fit the column.
    """
    if wire is None:
        return None
    if column.type.kind is Kind.TIMESTAMP:
        zone = zone_of(column, wire, zone)
    return text_values.value(column.type, as_text(column, wire), _forms(wire, zone, labels))


def as_text(column: Column, wire: Any) -> str | bytes:
    """The text form of a wire value that is not NULL; values of binary columns stay bytes or base64, as sent."""
    kind = column.type.kind
    if type(wire) is str:
        return wire
    if type(wire) is int and (kind in _INTEGERS or kind in _LABELLED or kind in _REALS):
        return str(wire)
    if type(wire) is float and kind in _REALS:
        return repr(wire)
    if type(wire) is bytes:
        return _bytes(column, wire)
    if isinstance(wire, dict):
        return _unwrapped(column, wire)
    if type(wire) is NegativeZero:
        return as_text(column, wire.in_column(column.type))
    raise _bad_value(column, wire)


def zone_of(column: Column, wire: Any, zone: str) -> str:
    """The time zone of a TIMESTAMP: the one it names, else `zone`."""
    location = wire.get(LOCATION) if isinstance(wire, dict) else None
    if location is None or location in _SERVER_ZONES:
        return zone
    try:
        time_zone(location)
    except (ConfigError, AttributeError, TypeError):
        raise _bad_value(column, wire) from None
    return str(location)


def plain(column: Column, wire: Any, zone: str, labels: bool = False, fold: int = 0) -> Plain:
    """The form of a value that a checksum covers: TIMESTAMP as text in UTC, ENUM and SET as numbers.

    `fold` 1 reads a wall time that occurs twice as the second of the two times.
    """
    kind = column.type.kind
    if kind in _INTEGERS or kind in _REALS or is_binary(column.type):
        found: Plain = value(column, wire, zone)
        return found
    text = as_text(column, wire)
    if isinstance(text, bytes):
        raise _bad_value(column, wire)
    if kind is Kind.TIMESTAMP:
        return _utc_text(column, text, zone_of(column, wire, zone), fold)
    if kind in _LABELLED:
        return _number_of(column, text) if labels else _number(column, text)
    return text


def _bytes(column: Column, wire: bytes) -> str | bytes:
    if is_binary(column.type):
        return wire
    if column.type.kind is Kind.BIT and len(wire) <= _BIT_BYTES_MAX:
        return str(int.from_bytes(wire, "big"))
    raise _bad_value(column, wire)


def _unwrapped(column: Column, wire: dict[str, Any]) -> str | bytes:
    inner = wire.get("value")
    if wire.keys() == {"value"} and type(inner) in (int, NegativeZero) and column.type.kind in _INTEGERS:
        return str(inner)
    if wire.keys() == {"value", LOCATION} and isinstance(inner, str) and column.type.kind is Kind.TIMESTAMP:
        return inner
    raise _bad_value(column, wire)


def _utc_text(column: Column, text: str, zone: str, fold: int) -> str:
    wall = text_values.value(_WALL_TIME, text, TextForms("raw", "label"))
    # TiDB does not convert zero dates between time zones.
    if wall is None or zone == "UTC":
        return text
    _, dot, fraction = text.partition(".")
    try:
        utc = wall.replace(tzinfo=time_zone(zone), fold=fold, microsecond=0).astimezone(UTC)
    except OverflowError:
        raise _bad_value(column, text) from None
    return str(utc.replace(tzinfo=None).isoformat(" ")) + dot + fraction


def _number(column: Column, text: str) -> int:
    if _WHOLE.fullmatch(text) is None:
        raise _bad_value(column, text)
    return int(text)


def _number_of(column: Column, label: str) -> int:
    elements = column.type.elements or ()
    try:
        if column.type.kind is Kind.ENUM:
            return elements.index(label) + 1 if label else 0
        return sum(1 << elements.index(one) for one in label.split(",")) if label else 0
    except ValueError:
        raise _bad_value(column, label) from None


def _forms(wire: Any, zone: str, labels: bool) -> TextForms:
    return TextForms("raw" if isinstance(wire, bytes) else "base64", "label" if labels else "number", zone)


def _bad_value(column: Column, wire: Any) -> DecodeError:
    expected = f"a value of a {column.type.kind} column"
    return DecodeError(f"column `{column.name}`", expected, f"a {type(wire).__name__} that is none", _ADVICE)
