"""The reference decoder of Debezium JSON as TiCDC writes it, with or without its schema block.

Values are exact except where TiCDC itself loses information: it sends DECIMAL as a JSON float unless text is
configured, a NULL as the column's default if there is one, and a zero date in a NOT NULL column as 1970. There are no
delete tombstones.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from functools import partial
from typing import Any, Final, Literal

import orjson

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.events import Event, Op, RowEvent, RowHints, WatermarkEvent
from ticdc_assets.protocols.formats.bodies import NegativeZero, decompress, json_object, json_row
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.values import text as text_values
from ticdc_assets.protocols.values.text import TextForms
from ticdc_assets.schema.arrow_types import bit_width, decimal_shape
from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints
from ticdc_assets.schema.model import Column, Kind, MySqlType

_OPS: Final = {"c": Op.INSERT, "u": Op.UPDATE, "d": Op.DELETE}
_MAX_TS: Final = 1 << 63
_WITH_IMAGES: Final = ("payload", "before", "after")
"""The members that images are in, with a schema block and without."""
_BINARY: Final[dict[str, Literal["base64", "base64-url-safe", "hex"]]] = {
    "bytes": "base64",  # another type in the schema block, the same text
    "base64": "base64",
    "base64-url-safe": "base64-url-safe",
    "hex": "hex",
}
_SUSPECT: Final = "Check the table's schema and that the topic carries TiCDC's Debezium protocol; else quarantine it."


def decode(key: bytes | None, value: bytes | None, where: str, options: DecoderOptions) -> Iterator[Event]:
    """The event of a message. Raises DecodeError."""
    if not value:
        raise _bad(where, "a JSON value", "none")
    payload = _payload(json_row(decompress(value, options.compression, where), where, _WITH_IMAGES), where)
    return iter((_event(key, payload, where),))


def _event(key: bytes | None, payload: dict[str, Any], where: str) -> Event:
    source = payload.get("source")
    if not isinstance(source, dict):
        raise _bad(where, "a `source` with the commit timestamp", "none")
    op = payload.get("op")
    if op == "m":
        return WatermarkEvent(_commit_ts(source, where))
    if op is None:
        return _ddl(payload, source, where)
    if not isinstance(op, str) or op not in _OPS:
        raise _bad(where, "`op` c, u, d or m", "another")
    return _row(_OPS[op], _key(key, where), payload, source, where)


def _payload(found: dict[str, Any], where: str) -> dict[str, Any]:
    payload = found.get("payload", found)
    if isinstance(payload, dict):
        return payload
    raise _bad(where, "a `payload` object", f"a {type(payload).__name__}")


def _commit_ts(source: dict[str, Any], where: str) -> int:
    found = source.get("commit_ts")
    if type(found) is int and 0 < found < _MAX_TS:
        return found
    raise _bad(where, "`source.commit_ts`", "none")


def _key(key: bytes | None, where: str) -> tuple[str, ...] | None:
    return tuple(_payload(json_object(key, where), where)) or None if key else None


def _row(op: Op, key: tuple[str, ...] | None, payload: dict[str, Any], source: dict[str, Any], where: str) -> RowEvent:
    before, after = _image(payload, "before", where), _image(payload, "after", where)
    wire, gone = (before, after) if op is Op.DELETE else (after, None)
    if wire is None or gone is not None or (op is Op.INSERT and before is not None):
        raise _bad(where, f"the images of `op` {op}", "others")
    return RowEvent(
        schema=_name(source, "db", where),
        table=_name(source, "table", where),
        op=op,
        commit_ts=_commit_ts(source, where),
        wire=wire,
        before=before if op is Op.UPDATE else None,
        hints=RowHints(key),
    )


def _image(payload: dict[str, Any], name: str, where: str) -> dict[str, Any] | None:
    found = payload.get(name)
    if found is None or (isinstance(found, dict) and found):
        return found
    raise _bad(where, f"`{name}` as an object of columns", "none in it" if found == {} else "another type")


def _name(source: dict[str, Any], name: str, where: str) -> str:
    found = source.get(name)
    if isinstance(found, str) and found:
        return found
    raise _bad(where, f"a name in `source.{name}`", "none")


def _ddl(payload: dict[str, Any], source: dict[str, Any], where: str) -> DdlEvent:
    query = payload.get("ddl")
    if not isinstance(query, str) or not query:
        raise _bad(where, "an `op` or a `ddl`", "neither")
    schema = payload.get("databaseName") or source.get("db") or ""
    table = source.get("table") or ""
    if not isinstance(schema, str) or not isinstance(table, str):
        raise _bad(where, "the names of the database and the table", "another type")
    return DdlEvent(
        commit_ts=_commit_ts(source, where),
        schema=schema,
        table=table,
        query=query,
        hints=DdlHints(old_name=_old_name(payload.get("tableChanges"), schema, table)),
        where=where,
    )


def _old_name(changes: Any, schema: str, table: str) -> tuple[str, str] | None:
    """The name before a RENAME, from an id such as `"s"."old","s"."new"`; None if the id is ambiguous."""
    change = changes[0] if isinstance(changes, list) and changes else None
    found = change.get("id") if isinstance(change, dict) else None
    now = f',"{schema}"."{table}"'
    if not isinstance(found, str) or not found.endswith(now):
        return None
    parts = found.removesuffix(now)[1:-1].split('"."')
    return (parts[0], parts[1]) if len(parts) == 2 else None


def values(options: DecoderOptions) -> Callable[[Column, Any, str], Any]:
    """The `value` function for a stream with these options."""
    return partial(_value_in, TextForms(_BINARY[options.binary_handling_mode], "label"))


def value(column: Column, wire: Any, zone: str) -> Any:
    """The canonical value of a wire value; None for NULL. `zone` is ignored, since TIMESTAMPs are in UTC."""
    return _value_in(_FORMS, column, wire, zone)


def _value_in(forms: TextForms, column: Column, wire: Any, zone: str) -> Any:
    if wire is None:
        return None
    if type(wire) is NegativeZero:
        wire = wire.in_column(column.type)
    try:
        return _value(column.type, wire, forms)
    except DecodeError as error:
        raise DecodeError(f"column `{column.name}`", error.expected, error.found, error.advice) from error


_NUMBERS: Final = frozenset(
    {Kind.TINYINT, Kind.SMALLINT, Kind.MEDIUMINT, Kind.INT, Kind.BIGINT, Kind.YEAR, Kind.FLOAT, Kind.DOUBLE}
)
_FORMS: Final = TextForms("base64", "label")


def _value(column_type: MySqlType, wire: Any, forms: TextForms) -> Any:
    if own := _OWN.get(column_type.kind):
        return own(column_type, wire)
    if type(wire) not in _sent_as(column_type):
        raise _bad_value(column_type, f"a {type(wire).__name__}")
    return text_values.value(column_type, wire if isinstance(wire, str) else repr(wire), forms)


def _sent_as(column_type: MySqlType) -> tuple[type, ...]:
    if column_type.kind not in _NUMBERS:
        return (str,)
    is_big = column_type.kind is Kind.BIGINT and column_type.unsigned  # TiCDC can be configured to send these as text
    return (int, float, str) if is_big else (int, float)


def _bit(column_type: MySqlType, wire: Any) -> int:
    number = int(wire) if isinstance(wire, bool) else int.from_bytes(_base64(column_type, wire), "little")
    if number >> bit_width(column_type):
        raise _bad_value(column_type, "more bits than it has")
    return number


def _base64(column_type: MySqlType, wire: Any) -> bytes:
    try:
        return b64decode(wire, validate=True)
    except (TypeError, ValueError):
        raise _bad_value(column_type, "no base64") from None


def _decimal(column_type: MySqlType, wire: Any) -> Decimal | str:
    """The sent text, or the shortest decimal that is read as the same float, at the column's scale."""
    if isinstance(wire, str):
        sent: Decimal | str = text_values.value(column_type, wire, _FORMS)
        return sent
    if type(wire) not in (int, float):
        raise _bad_value(column_type, f"a {type(wire).__name__}")
    scale = decimal_shape(column_type)[1]
    text = f"{Decimal(repr(wire)).quantize(Decimal(1).scaleb(-scale), context=_WIDE):f}"
    found: Decimal | str = text_values.value(column_type, text, _FORMS)
    return found


_WIDE: Final = Context(prec=400)
"""Holds every float (309 digits before the point) at every scale (30 after it)."""
_EPOCH: Final = datetime(1970, 1, 1)
_DAY_MICROS: Final = 86_400 * 10**6


def _date(column_type: MySqlType, wire: Any) -> date:
    return _moment(column_type, _whole(column_type, wire) * _DAY_MICROS).date()


def _datetime(column_type: MySqlType, wire: Any) -> datetime:
    return _moment(column_type, _whole(column_type, wire) * (1000 if (column_type.length or 0) <= 3 else 1))


def _moment(column_type: MySqlType, micros: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise _bad_value(column_type, "a time before year 1 or after 9999") from None


def _timestamp(column_type: MySqlType, wire: Any) -> datetime:
    if not isinstance(wire, str) or not _INSTANT.fullmatch(wire):
        raise _bad_value(column_type, "no ISO 8601 time in UTC")
    found: datetime = text_values.value(column_type, wire[:-1].replace("T", " "), _FORMS)
    return found


_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", re.ASCII)


def _time(column_type: MySqlType, wire: Any) -> str:
    micros = _whole(column_type, wire)
    seconds, fraction = divmod(abs(micros), 10**6)
    digits = column_type.length or 0
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    shown = f"{text}.{fraction:06}"[: len(text) + 1 + digits] if digits else text
    found: str = text_values.value(column_type, f"-{shown}" if micros < 0 else shown, _FORMS)
    return found


def _whole(column_type: MySqlType, wire: Any) -> int:
    if type(wire) is int and -1 << 63 <= wire < 1 << 63:
        return wire
    raise _bad_value(column_type, "no integer of at most 64 bits")


def _vector(column_type: MySqlType, wire: Any) -> list[float]:
    """Text as MySQL prints it, or a JSON array."""
    if isinstance(wire, list):
        wire = [-0.0 if type(number) is NegativeZero else number for number in wire]
    text = wire if isinstance(wire, str) else orjson.dumps(wire).decode()
    found: list[float] = text_values.value(column_type, text, _FORMS)
    return found


_OWN: Final[Mapping[Kind, Callable[[MySqlType, Any], Any]]] = {
    Kind.BIT: _bit,
    Kind.DECIMAL: _decimal,
    Kind.DATE: _date,
    Kind.DATETIME: _datetime,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIME: _time,
    Kind.VECTOR: _vector,
}


def _bad_value(column_type: MySqlType, found: str) -> DecodeError:
    return _bad("a column value", f"the Debezium form of {column_type.kind}", found)


def _bad(where: str, expected: str, found: str) -> DecodeError:
    return DecodeError(where, expected, found, _SUSPECT)
