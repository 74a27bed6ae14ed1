"""The reference decoder of the TiCDC Open Protocol.

Key: 8-byte version 1, then `(8-byte length + JSON)*`; value: `(length + JSON)*`, where each body may be compressed. The
n-th key belongs to the n-th value. An error in any part of a message is a DecodeError before its first event. The bulk
decoder must give the same results.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.protocols.events import Event, Op, RowEvent, RowHints, WatermarkEvent
from ticdc_assets.protocols.formats.bodies import (
    MAX_BODY_BYTES,
    NegativeZero,
    decompress,
    frames,
    json_object,
    json_row,
)
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.values import text as text_values
from ticdc_assets.protocols.values.text import TextForms
from ticdc_assets.schema.arrow_types import is_binary
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.model import Column, Index, Kind, MySqlType, TableSchema

_VERSION: Final = (1).to_bytes(8, "big")
_ROW, _DDL, _RESOLVED = 1, 2, 3
_MAX_TS: Final = 1 << 63
_IMAGES: Final = ("u", "p", "d")
_BINARY_FLAG, _PRIMARY_FLAG, _NULLABLE_FLAG, _UNSIGNED_FLAG = 0x01, 0x08, 0x40, 0x80
_SUSPECT: Final = "Check that the topic carries the Open Protocol with the configured options; else quarantine it."


@dataclass(frozen=True, slots=True)
class ColumnHint:
    """The type information of a column in a message: MySQL's type code, TiCDC's flags, membership in the handle key."""

    type_code: int
    flags: int
    handle: bool


def decode(key: bytes | None, value: bytes | None, where: str, options: DecoderOptions) -> Iterator[Event]:
    """The events of one message in order; all but resolved events have a value. Raises DecodeError."""
    return iter(_events(key, value, where, options))


def open_claim(data: bytes, where: str, options: DecoderOptions) -> Iterator[Event]:
    """The events of a claim-check file: `{"key": base64, "value": base64}` with a whole message."""
    claim = json_object(data, where)
    events = _events(_claimed(claim, "key", where), _claimed(claim, "value", where), where, options)
    if any(isinstance(event, RowEvent) and event.claim for event in events):
        raise _bad(where, "a whole message in the claim-check file", "another claim")
    return iter(events)


def _claimed(claim: Mapping[str, Any], name: str, where: str) -> bytes:
    try:
        return b64decode(claim[name], validate=True)
    except (KeyError, TypeError, ValueError):
        raise _bad(where, f"`{name}` as base64 in the claim-check file", "none") from None


def _events(key: bytes | None, value: bytes | None, where: str, options: DecoderOptions) -> list[Event]:
    if key is None or key[:8] != _VERSION:
        raise _bad(where, "a key that starts with version 1", "none" if key is None else "another start")
    heads = [json_object(body, where) for body in frames(key[8:], where)]
    bodies = list(frames(value or b"", where))
    if not bodies:
        bodies = [b""] * len(heads)
    if not heads or len(heads) != len(bodies):
        raise _bad(where, "one value for each of at least one key", f"{len(heads)} keys and {len(bodies)} values")
    return list(_paired(heads, bodies, where, options))


def _paired(heads: list[dict[str, Any]], bodies: list[bytes], where: str, options: DecoderOptions) -> Iterator[Event]:
    left = MAX_BODY_BYTES
    for head, body in zip(heads, bodies, strict=True):
        kind, ts = _whole(head, "t", where), _ts(head, where)
        if kind == _RESOLVED:
            yield _resolved(ts, body, where)
            continue
        if kind not in (_ROW, _DDL):
            raise _bad(where, "event type 1 (row), 2 (DDL) or 3 (resolved)", f"type {kind}")
        plain = decompress(body, options.compression, where, left)
        left -= len(plain)
        content = json_row(plain, where, _IMAGES)
        yield _row(head, ts, content, where, options) if kind == _ROW else _ddl(head, ts, content, where)


def _resolved(ts: int, body: bytes, where: str) -> WatermarkEvent:
    if body:
        raise _bad(where, "a resolved event without value", f"{len(body)} bytes")
    return WatermarkEvent(ts)


def _ddl(head: dict[str, Any], ts: int, content: dict[str, Any], where: str) -> DdlEvent:
    query = content.get("q")
    if not isinstance(query, str) or not query:
        raise _bad(where, "a DDL with its text in `q`", "none")
    schema, table = _name(head, "scm", where), _name(head, "tbl", where)
    return DdlEvent(commit_ts=ts, schema=schema, table=table, query=query, where=where)


def _row(head: dict[str, Any], ts: int, content: dict[str, Any], where: str, options: DecoderOptions) -> RowEvent:
    new, old, gone = (_columns(content, name, where) for name in _IMAGES)
    if (new is None) == (gone is None) or (gone is not None and old is not None):
        raise _bad(where, "new values `u`, perhaps with old ones `p`, or else deleted ones `d`", "another combination")
    image = gone if new is None else new
    assert image is not None
    hints = {name: _hint(column, where) for name, column in image.items()}
    claim = _claim(head, where)
    handle_only = _handle_only(head, where) or claim is not None
    return RowEvent(
        schema=_name(head, "scm", where, required=True),
        table=_name(head, "tbl", where, required=True),
        op=Op.DELETE if new is None else Op.INSERT if old is None else Op.UPDATE,
        commit_ts=ts,
        wire=_values(image, where),
        before=None if old is None else _values(old, where),
        before_is_partial=old is not None and not old.keys() >= image.keys(),
        handle_only=handle_only,
        claim=claim,
        upsert=new is not None and old is None and _ambiguous(handle_only, options),
        hints=RowHints(
            key=tuple(name for name, hint in hints.items() if hint.handle) or None,
            partition_id=_whole(head, "ptn", where),
            row_id=_whole(head, "rid", where),
            columns=hints,
        ),
    )


def _ambiguous(handle_only: bool, options: DecoderOptions) -> bool:
    return not options.output_old_value or (options.only_output_updated_columns and handle_only)


def _columns(content: dict[str, Any], name: str, where: str) -> dict[str, Any] | None:
    found = content.get(name)
    if found is None or (isinstance(found, dict) and found):
        return found
    raise _bad(where, f"`{name}` as an object of columns", "none in it" if found == {} else "another type")


def _values(columns: dict[str, Any], where: str) -> dict[str, Any]:
    return {name: _scalar(column, where) for name, column in columns.items()}


def _scalar(column: Any, where: str) -> Any:
    if isinstance(column, dict) and "v" in column and not isinstance(found := column["v"], dict | list):
        return found
    raise _bad(where, 'columns as {"t", "h", "f", "v"} with a plain value', "another form")


def _hint(column: Any, where: str) -> ColumnHint:
    if isinstance(column, dict):
        code, flags, handle = column.get("t"), column.get("f", _NULLABLE_FLAG), column.get("h", False)
        if type(code) is int and type(flags) is int and type(handle) is bool:
            return _shared_hint(code, flags, handle)
    raise _bad(where, 'columns as {"t", "h", "f", "v"} with numbers in t and f', "another form")


@lru_cache(maxsize=4096)
def _shared_hint(code: int, flags: int, handle: bool) -> ColumnHint:
    return ColumnHint(code, flags, handle)


def _ts(head: dict[str, Any], where: str) -> int:
    ts = head.get("ts")
    if type(ts) is int and 0 < ts < _MAX_TS:
        return ts
    raise _bad(where, "a commit timestamp in `ts`", "none")


def _name(head: dict[str, Any], name: str, where: str, required: bool = False) -> str:
    found = head.get(name, "")
    if isinstance(found, str) and (found or not required):
        return found
    raise _bad(where, f"a name in `{name}`", "none")


def _whole(head: dict[str, Any], name: str, where: str) -> int | None:
    found = head.get(name)
    if found is None or (type(found) is int and -_MAX_TS <= found < _MAX_TS):
        return found
    raise _bad(where, f"`{name}` as a whole number of 64 bits", f"a {type(found).__name__}")


def _handle_only(head: dict[str, Any], where: str) -> bool:
    found = head.get("ohk", False)
    if isinstance(found, bool):
        return found
    raise _bad(where, "`ohk` as true or false", f"a {type(found).__name__}")


def _claim(head: dict[str, Any], where: str) -> str | None:
    location = head.get("ccl")
    if not location and location in (None, ""):
        return None
    name = location.replace("\\", "/").rpartition("/")[2] if isinstance(location, str) else ""
    if name in ("", ".", ".."):
        raise _bad(where, "`ccl` as the place of a file", "none")
    return str(name)


def value(column: Column, wire: Any, zone: str) -> Any:
    """The canonical value of a wire value; None for NULL and zero dates. TIMESTAMP texts are in `zone`."""
    if wire is None:
        return None
    if type(wire) is NegativeZero:
        wire = wire.in_column(column.type)
    try:
        return _value(column.type, wire, TextForms("base64", "number", zone))
    except DecodeError as error:
        raise DecodeError(f"column `{column.name}`", error.expected, error.found, error.advice) from error


NUMBERS: Final = frozenset(
    {Kind.TINYINT, Kind.SMALLINT, Kind.MEDIUMINT, Kind.INT, Kind.BIGINT, Kind.BIT, Kind.YEAR}
    | {Kind.FLOAT, Kind.DOUBLE, Kind.ENUM, Kind.SET}
)
QUOTED: Final = frozenset({Kind.CHAR, Kind.VARCHAR, Kind.BINARY, Kind.VARBINARY})
TEXTS: Final = frozenset({Kind.TINYTEXT, Kind.TEXT, Kind.MEDIUMTEXT, Kind.LONGTEXT})


def _value(column_type: MySqlType, wire: Any, forms: TextForms) -> Any:
    kind, binary = column_type.kind, is_binary(column_type)
    if type(wire) not in ((int, float) if kind in NUMBERS else (str,)):
        raise _bad("a column value", f"a JSON value of type {kind}", f"a {type(wire).__name__}")
    if binary and kind in QUOTED:
        return unquote(wire, "a column value")
    if kind in TEXTS and not binary:
        return _base64_text(wire)
    return text_values.value(column_type, wire if isinstance(wire, str) else repr(wire), forms)


def _base64_text(wire: str) -> str:
    try:
        return b64decode(wire, validate=True).decode()
    except ValueError:
        raise _bad("a column value", "UTF-8 in base64", "other text") from None


_WIDE_DECIMAL: Final = MySqlType(Kind.DECIMAL, length=65, scale=30)
"""The type of a DECIMAL with unknown precision; its values are kept as text."""

_CODES: Final[Mapping[int, MySqlType]] = {
    1: MySqlType(Kind.TINYINT),
    2: MySqlType(Kind.SMALLINT),
    3: MySqlType(Kind.INT),
    4: MySqlType(Kind.FLOAT),
    5: MySqlType(Kind.DOUBLE),
    7: MySqlType(Kind.TIMESTAMP, length=6),
    8: MySqlType(Kind.BIGINT),
    9: MySqlType(Kind.MEDIUMINT),
    10: MySqlType(Kind.DATE),
    11: MySqlType(Kind.TIME, length=6),
    12: MySqlType(Kind.DATETIME, length=6),
    13: MySqlType(Kind.YEAR),
    14: MySqlType(Kind.DATE),
    15: MySqlType(Kind.VARCHAR),
    16: MySqlType(Kind.BIT, length=64),
    225: MySqlType(Kind.VECTOR),
    245: MySqlType(Kind.JSON),
    246: _WIDE_DECIMAL,
    247: MySqlType(Kind.ENUM),
    248: MySqlType(Kind.SET),
    249: MySqlType(Kind.TINYTEXT),
    250: MySqlType(Kind.MEDIUMTEXT),
    251: MySqlType(Kind.LONGTEXT),
    252: MySqlType(Kind.TEXT),
    253: MySqlType(Kind.VARCHAR),
    254: MySqlType(Kind.CHAR),
}
_BINARY_KINDS: Final = {
    Kind.VARCHAR: Kind.VARBINARY,
    Kind.CHAR: Kind.BINARY,
    Kind.TINYTEXT: Kind.TINYBLOB,
    Kind.TEXT: Kind.BLOB,
    Kind.MEDIUMTEXT: Kind.MEDIUMBLOB,
    Kind.LONGTEXT: Kind.LONGBLOB,
}
_SIGNED_KINDS: Final = (
    *(Kind.TINYINT, Kind.SMALLINT, Kind.MEDIUMINT, Kind.INT, Kind.BIGINT),
    *(Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL),
)


def infer_column(name: str, hint: ColumnHint) -> Column:
    """The column, inferred from a row; unknown lengths and precisions are the maximum, labels are None."""
    found = _CODES.get(hint.type_code)
    if found is None:
        raise SchemaError(
            f"column `{name}`",
            "a type that the Open Protocol carries",
            f"type code {hint.type_code}",
            "Give the table's CREATE TABLE in `schema_files`.",
        )
    kind = _BINARY_KINDS.get(found.kind, found.kind) if hint.flags & _BINARY_FLAG else found.kind
    unsigned = kind in _SIGNED_KINDS and bool(hint.flags & _UNSIGNED_FLAG)
    inferred = MySqlType(kind, length=found.length, scale=found.scale, unsigned=unsigned)
    nullable = bool(hint.flags & _NULLABLE_FLAG) and not hint.handle and not hint.flags & _PRIMARY_FLAG
    return Column(name, inferred, nullable=nullable)


def infer_table(schema: str, table: str, hints: Mapping[str, ColumnHint]) -> TableSchema:
    """The schema of a table, inferred from a row: the sent columns and the handle key, both in wire order."""
    handle = tuple(name for name, hint in hints.items() if hint.handle)
    primary = all(hints[name].flags & _PRIMARY_FLAG for name in handle)
    index = Index("PRIMARY" if primary else "handle", handle, unique=True, primary=primary)
    columns = tuple(infer_column(name, hint) for name, hint in hints.items())
    return TableSchema(schema, table, columns, (index,) if handle else (), inferred=True)


def _bad(where: str, expected: str, found: str) -> DecodeError:
    return DecodeError(where, expected, found, _SUSPECT)


_SIMPLE: Final = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b"\\": b"\\",
    b'"': b'"',
    b"'": b"'",
}
_ESCAPE: Final = re.compile(
    rb"\\(?:([abfnrtv\\\"'])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|)"
)


def unquote(text: str, where: str) -> bytes:
    """The bytes of a BINARY or VARBINARY, which are the text that Go's `strconv.Quote` writes between its quotes.
    Characters outside escapes become their UTF-8 bytes."""
    try:
        raw = text.encode()
        return _ESCAPE.sub(_escape, raw) if b"\\" in raw else raw
    except ValueError as error:
        raise DecodeError(
            where,
            "the body of a Go string literal",
            "an escape or a character that Go does not write",
            "The column's schema and the row disagree about binary: check the schema, or quarantine the message.",
        ) from error


def _escape(found: re.Match[bytes]) -> bytes:
    simple, byte, short, long, octal = found.groups()
    if simple:
        return _SIMPLE[simple]
    if byte:
        return bytes.fromhex(byte.decode())
    if octal:
        return bytes((int(octal, 8),))
    if not (point := short or long):
        raise ValueError("unknown escape")
    return chr(int(point, 16)).encode()
