"""The Avro protocol: key and value as `0x00 + 4-byte schema id + Avro`, in; row changes, out.

What the stream does not say, the events do not claim:
- Without the TiDB extension there is no commit_ts, and INSERT and UPDATE look alike: `upsert` is set.
- A DELETE is a key without a value: `wire` holds the key columns only (`handle_only`), and no commit_ts even with the
  extension. Its place in the partition is all the order there is.
- A DELETE from a table without a key is neither key nor value. Where the caller knows the topic's table it is an event
  with an empty `wire` and key (), which no mirror can apply; else it is a DecodeError, so that the message is kept.
- Schema and table are those of the schema's namespace and name, sanitised, or `Options.table` where the caller knows
  better: TiCDC writes one table per topic, and the topic may have the true names.
`schema_version` of a row is its value's schema id; `schema_event` gives the schema that goes with it.

TiCDC's test-only watermark mode (keyless values that begin with 1, DDL; 2, watermark; and 3 after a key, delete with
its commit_ts) is read too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.protocols import avro_schema as fields
from ticdc_assets.protocols import native_values
from ticdc_assets.protocols.avro_reader import read_whole
from ticdc_assets.protocols.avro_schema import Writer, table_schema, writer
from ticdc_assets.protocols.checksum import Checksum, check, with_checksum
from ticdc_assets.protocols.events import DdlEvent, Event, Op, RowEvent, WatermarkEvent
from ticdc_assets.protocols.frame import json_object
from ticdc_assets.schema.model import Column, TableSchema

SchemaLookup = Callable[[int], str]
"""The schema registered under an id; LookupError where there is none."""

HEAD_BYTES: Final = 5
_ROW, _DDL, _WATERMARK, _DELETE = 0, 1, 2, 3
TS_MAX: Final = (1 << 63) - 1
MS_MAX: Final = TS_MAX >> 18
"""The milliseconds that a TSO can hold."""
OPS: Final = {"c": Op.INSERT, "u": Op.UPDATE, "d": Op.DELETE, "": Op.DELETE}
"""Newer encoders give a delete that carries values "d", those before them nothing."""
_TODO: Final = "Check that the topic is written by TiCDC with protocol=avro; the message stays quarantined."
_TODO_SCHEMA: Final = "Check that the schema registry is the one that TiCDC registers at."


def registry_from_json(data: bytes) -> dict[int, str]:
    """A registry's schemas by id, from a JSON list of {id, schema, ...}."""
    try:
        entries = orjson.loads(data)
        return {_id(entry["id"]): _text(entry["schema"]) for entry in entries}
    except (ValueError, TypeError, KeyError):
        raise DecodeError(
            "schema registry file", "a JSON list of {id, schema}", "something else", _TODO_SCHEMA
        ) from None


def _id(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


@dataclass(frozen=True, slots=True)
class Options:
    """Where schemas are found, and which table the messages are of where the topic tells (database, name)."""

    schemas: SchemaLookup
    table: tuple[str, str] | None = None


def decode(key: bytes | None, value: bytes | None, where: str, options: Options) -> Iterator[Event]:
    """The one event of a message."""
    return iter((_event(key, value, where, options),))


def schema_event(key: bytes | None, value: bytes | None, where: str, options: Options) -> DdlEvent | None:
    """The schema of the row a message carries, as a bootstrap whose `version` is the value's schema id.

    None for messages without a row's values. The same for every message with the same pair of `schema_ids`.
    DecodeError where the two are no row and its key.
    """
    key_id, value_id = schema_ids(key, value, where)
    if value_id is None:
        return None
    key_text = None if key_id is None else _lookup(key_id, where, options)
    value_text = _lookup(value_id, where, options)
    try:
        told = table_schema(value_text, key_text, f"schema {value_id}", options.table)
    except SchemaError as error:
        raise DecodeError(where, error.expected, error.found, error.todo) from None
    return DdlEvent(0, told.schema, told.name, "", told, version=value_id, where=where)


def schema_ids(key: bytes | None, value: bytes | None, where: str) -> tuple[int | None, int | None]:
    """The schema ids that a message's key and value name."""
    has_row = bool(value) and value is not None and value[0] == _ROW
    return (_framed_id(key, where) if key else None), (_framed_id(value, where) if value and has_row else None)


def verify(event: RowEvent, table: TableSchema, zone: str = "UTC") -> str | None:
    """Why a row does not have the checksum it came with, None where it has or where it came with none.

    `table` is what `table_schema` gives for the row's schema id: TiCDC orders its columns by id when checksums are on.
    """
    return check(event, table, lambda column, wire, fold: native_values.plain(column, wire, zone, True, fold))


def value(column: Column, wire: Any, zone: str) -> Any:
    """The canonical value of a wire value; a TIMESTAMP is in `zone`."""
    return native_values.value(column, wire, zone, labels=True)


def _event(key: bytes | None, value: bytes | None, where: str, options: Options) -> Event:
    if key:
        return _keyed(key, value, where, options)
    if not value or value[0] == _DELETE:
        return _keyless_delete(value, where, options)
    if value[0] == _DDL:
        return _ddl(value, where)
    if value[0] == _WATERMARK:
        return WatermarkEvent(_tso(value, where))
    return _row(value, None, where, options)


def _keyed(key: bytes, value: bytes | None, where: str, options: Options) -> RowEvent:
    key_writer, key_wire = _record(key, where, options)
    names = tuple(key_wire)
    if value and value[0] != _DELETE:
        return _row(value, names, where, options)
    schema, name = options.table or (key_writer.schema, key_writer.table)
    return RowEvent(
        schema=schema,
        table=name,
        op=Op.DELETE,
        commit_ts=_tso(value, where) if value else None,
        wire=key_wire,
        key=names,
        handle_only=True,
    )


def _keyless_delete(value: bytes | None, where: str, options: Options) -> RowEvent:
    if options.table is None:
        raise _bad(where, "a key or a value", "neither: a row was deleted from a table without a key")
    commit_ts = _tso(value, where) if value else None
    return RowEvent(*options.table, op=Op.DELETE, commit_ts=commit_ts, wire={}, key=(), handle_only=True)


def _row(value: bytes, key: tuple[str, ...] | None, where: str, options: Options) -> RowEvent:
    row_writer, record = _record(value, where, options)
    if key is not None and not set(key) <= set(row_writer.columns):
        raise _bad(where, "a key made of the row's columns", "other fields")
    told = {name: record[name] for name in row_writer.extension}
    columns = {name: record[name] for name in row_writer.columns}
    before = told.get(fields.BEFORE)
    op = _op(told, where)
    schema, name = options.table or (row_writer.schema, row_writer.table)
    row = RowEvent(
        schema=schema,
        table=name,
        op=op,
        commit_ts=_positive(told, fields.COMMIT_TS, where),
        wire=(before or columns) if op is Op.DELETE else columns,
        before=before if op is Op.UPDATE else None,
        commit_ms=_positive(told, fields.COMMIT_MS, where, MS_MAX),
        schema_version=_framed_id(value, where),
        key=key,
        handle_only=op is Op.DELETE and not before and columns.keys() == set(key or ()),
        upsert=fields.OP not in told,
    )
    return with_checksum(row, _checksum(told, where)) if fields.CHECKSUM in told else row


def _op(told: dict[str, Any], where: str) -> Op:
    written = told.get(fields.OP, "c")
    if written not in OPS:
        raise _bad(where, f"c, u or d in {fields.OP}", "another")
    return OPS[written]


def _positive(told: dict[str, Any], name: str, where: str, most: int = TS_MAX) -> int | None:
    found: int = told.get(name, 0)
    if not 0 <= found <= most:
        raise _bad(where, f"a time in {name}", "another number")
    return found or None


def _checksum(told: dict[str, Any], where: str) -> Checksum:
    written: str = told[fields.CHECKSUM] or "0"
    if not (written.isascii() and written.isdigit() and len(written) <= 10):
        raise _bad(where, f"a checksum of 32 bits in {fields.CHECKSUM}", "another value")
    corrupted = told.get(fields.CORRUPTED) is True
    return Checksum(int(written), 0, corrupted, told.get(fields.CHECKSUM_VERSION) or 0)


def _record(data: bytes, where: str, options: Options) -> tuple[Writer, dict[str, Any]]:
    schema_id = _framed_id(data, where)
    found = writer(_lookup(schema_id, where, options), f"schema {schema_id}")
    record: dict[str, Any] = read_whole(found.reader, data, where, start=HEAD_BYTES)
    return found, record


def _framed_id(data: bytes, where: str) -> int:
    if len(data) < HEAD_BYTES or data[0] != _ROW:
        raise _bad(where, "a zero byte and a 4-byte schema id", "another start")
    schema_id: int = struct.unpack_from(">I", data, 1)[0]
    return schema_id


def _lookup(schema_id: int, where: str, options: Options) -> str:
    try:
        return options.schemas(schema_id)
    except LookupError:
        raise DecodeError(where, "a registered schema", f"schema id {schema_id}, which is not", _TODO_SCHEMA) from None


def _tso(value: bytes, where: str) -> int:
    if len(value) == 9:
        ts = int.from_bytes(value[1:], "big")
        if 0 < ts <= TS_MAX:
            return ts
    raise _bad(where, "one byte and a timestamp of 8", f"{len(value)} bytes")


def _ddl(value: bytes, where: str) -> DdlEvent:
    told = json_object(value[1:], where)
    query, schema, table = (told.get(name) for name in ("query", "schema", "table"))
    commit_ts = told.get("commitTs")
    if not (isinstance(query, str) and isinstance(schema, str) and isinstance(table, str)):
        raise _bad(where, "a DDL with query, schema, table and commitTs", "another object")
    if type(commit_ts) is not int or not 0 < commit_ts <= TS_MAX:
        raise _bad(where, "a timestamp in commitTs", "none")
    return DdlEvent(commit_ts, schema, table, query, where=where)


def _bad(where: str, expected: str, found: str) -> DecodeError:
    return DecodeError(where, expected, found, _TODO)
