"""The reference decoder of the Avro protocol: key and value are `0x00 + 4-byte schema id + Avro`.

Limits of the stream:
- Without the TiDB extension, rows have no commit_ts, and INSERT and UPDATE are the same: `upsert` is set.
- A DELETE is a key without a value: `wire` has only the key columns (`handle_only`). It has no commit_ts even with the
  extension, so only its offset orders it.
- A DELETE from a table without a key has neither key nor value. If `DecoderOptions.table` is set, it is an event with
  an empty `wire` and key (), which no mirror can apply; else it is a DecodeError, and the message is quarantined.
- Schema and table come from the sanitised namespace and name of the Avro schema, or from `DecoderOptions.table`: TiCDC
  writes one table per topic, and the topic may have the true names. A row's `schema_version` is the schema id of its
  value; `schema_event` returns that schema.

TiCDC's test-only watermark mode is also read. Its values begin with 1 (DDL), 2 (watermark) or, with a key, 3 (DELETE
with commit_ts).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import orjson

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.protocols.avro import table_schema as fields
from ticdc_assets.protocols.avro.table_schema import Writer, table_schema, writer
from ticdc_assets.protocols.events import Event, Op, RowEvent, RowHints, RowTime, WatermarkEvent
from ticdc_assets.protocols.formats.avro.reader import read_whole
from ticdc_assets.protocols.formats.bodies import json_object
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.values import native as native_values
from ticdc_assets.protocols.values.checksum import Checksum, ToPlain, check, resolved, with_checksum
from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints
from ticdc_assets.schema.model import Column, TableSchema

"""(schema id) to the text of the schema. Raises LookupError if there is none."""

HEAD_BYTES: Final = 5
_ROW, _DDL, _WATERMARK, _DELETE = 0, 1, 2, 3
TS_MAX: Final = (1 << 63) - 1
MS_MAX: Final = TS_MAX >> 18
"""The largest Unix time in milliseconds of a TSO."""
OPS: Final = {"c": Op.INSERT, "u": Op.UPDATE, "d": Op.DELETE, "": Op.DELETE}
"""For a delete with values, newer encoders write "d" and older ones an empty text."""
_ADVICE: Final = "Check that the topic is written by TiCDC with protocol=avro; the message stays quarantined."
_ADVICE_EXTENSION: Final = (
    "Set enable-tidb-extension for the changefeed: otherwise a DELETE cannot be distinguished from an UPDATE."
)
_ADVICE_SCHEMA: Final = "Check that the schema registry is the one that TiCDC registers at."
_ADVICE_FILE: Final = "Export the registry again as a list of {id, subject, version, schema}."


def registry_from_json(data: bytes, where: str) -> dict[int, str]:
    """The schemas of a registry by id, from the content of file `where`: a JSON list of {id, schema, ...}.

    Raises:
        DecodeError: the content has another form.
    """
    try:
        entries = orjson.loads(data)
        return {_id(entry["id"]): _text(entry["schema"]) for entry in entries}
    except (ValueError, TypeError, KeyError) as error:
        found = "a text that is not JSON" if isinstance(error, ValueError) else "another JSON value"
        raise DecodeError(where, "a JSON list of {id, schema}", found, _ADVICE_FILE) from None


def _id(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def decode(key: bytes | None, value: bytes | None, where: str, options: DecoderOptions) -> Iterator[Event]:
    """The event of a message. Raises DecodeError."""
    return iter((_event(key, value, where, options),))


def schema_event(key: bytes | None, value: bytes | None, where: str, options: DecoderOptions) -> DdlEvent | None:
    """The schema of the row in a message, as a bootstrap whose `version` is the schema id of the value.

    None for messages without row values. The result is the same for all messages with the same `schema_ids`.

    Raises:
        DecodeError: the two schemas are not those of a row and its key.
    """
    key_id, value_id = schema_ids(key, value, where)
    if value_id is None:
        return None
    key_text = None if key_id is None else _lookup(key_id, where, options)
    value_text = _lookup(value_id, where, options)
    try:
        table = table_schema(value_text, key_text, f"schema {value_id}", options.table)
    except SchemaError as error:
        raise DecodeError(where, error.expected, error.found, error.advice) from None
    return DdlEvent(0, table.schema, table.name, "", table, hints=DdlHints(version=value_id), where=where)


def schema_ids(key: bytes | None, value: bytes | None, where: str) -> tuple[int | None, int | None]:
    """The schema ids of a message's key and value; None if absent."""
    has_row = bool(value) and value is not None and value[0] == _ROW
    return (_framed_id(key, where) if key else None), (_framed_id(value, where) if value and has_row else None)


def verify(event: RowEvent, table: TableSchema, zone: str = "UTC") -> str | None:
    """Why a row does not match its checksum; None if it matches or has none.

    `table` is the `table_schema` of the row's schema id; with checksums, TiCDC sorts its columns by column id.
    """
    return check(event, table, _plain(zone))


def with_resolved_times(event: RowEvent, table: TableSchema, zone: str = "UTC") -> RowEvent:
    """The row with its ambiguous TIMESTAMPs resolved, if its checksum resolves them."""
    return resolved(event, table, _plain(zone))


def _plain(zone: str) -> ToPlain:
    return lambda column, wire, fold: native_values.plain(column, wire, zone, True, fold)


def value(column: Column, wire: Any, zone: str) -> Any:
    """The canonical value of a wire value; a TIMESTAMP is in `zone`."""
    return native_values.value(column, wire, zone, labels=True)


def _event(key: bytes | None, value: bytes | None, where: str, options: DecoderOptions) -> Event:
    if key:
        return _keyed(key, value, where, options)
    if not value or value[0] == _DELETE:
        return _keyless_delete(value, where, options)
    if value[0] == _DDL:
        return _ddl(value, where)
    if value[0] == _WATERMARK:
        return WatermarkEvent(_tso(value, where))
    return _row(value, None, where, options)


def _keyed(key: bytes, value: bytes | None, where: str, options: DecoderOptions) -> RowEvent:
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
        handle_only=True,
        hints=RowHints(names),
    )


def _keyless_delete(value: bytes | None, where: str, options: DecoderOptions) -> RowEvent:
    if options.table is None:
        raise _bad(where, "a key or a value", "neither: a row was deleted from a table without a key")
    commit_ts = _tso(value, where) if value else None
    return RowEvent(*options.table, op=Op.DELETE, commit_ts=commit_ts, wire={}, handle_only=True, hints=RowHints(()))


def _row(value: bytes, key: tuple[str, ...] | None, where: str, options: DecoderOptions) -> RowEvent:
    row_writer, record = _record(value, where, options)
    if key is not None and not set(key) <= set(row_writer.columns):
        raise _bad(where, "a key made of the row's columns", "other fields")
    extension = {name: record[name] for name in row_writer.extension}
    columns = {name: record[name] for name in row_writer.columns}
    before = extension.get(fields.BEFORE)
    if row_writer.hides_deletes and before is not None:
        raise DecodeError(where, f"{fields.OP} next to {fields.BEFORE}", "none", _ADVICE_EXTENSION)
    op = _op(extension, where)
    schema, name = options.table or (row_writer.schema, row_writer.table)
    row = RowEvent(
        schema=schema,
        table=name,
        op=op,
        commit_ts=_positive(extension, fields.COMMIT_TS, where),
        wire=(before or columns) if op is Op.DELETE else columns,
        before=before if op is Op.UPDATE else None,
        handle_only=op is Op.DELETE and not before and columns.keys() == set(key or ()),
        upsert=fields.OP not in extension,
        hints=RowHints(key, _framed_id(value, where)),
        time=RowTime(_positive(extension, fields.COMMIT_MS, where, MS_MAX)),
    )
    return with_checksum(row, _checksum(extension, where)) if fields.CHECKSUM in extension else row


def _op(extension: dict[str, Any], where: str) -> Op:
    written = extension.get(fields.OP, "c")
    if written not in OPS:
        raise _bad(where, f"c, u or d in {fields.OP}", "another text")
    return OPS[written]


def _positive(extension: dict[str, Any], name: str, where: str, most: int = TS_MAX) -> int | None:
    found: int = extension.get(name, 0)
    if not 0 <= found <= most:
        raise _bad(where, f"a number from 0 to {most} in {name}", str(found))
    return found or None


def _checksum(extension: dict[str, Any], where: str) -> Checksum:
    written: str = extension[fields.CHECKSUM] or "0"
    if not (written.isascii() and written.isdigit() and len(written) <= 10):
        raise _bad(where, f"a checksum of 32 bits in {fields.CHECKSUM}", "another value")
    corrupted = extension.get(fields.CORRUPTED) is True
    return Checksum(int(written), 0, corrupted, extension.get(fields.CHECKSUM_VERSION) or 0)


def _record(data: bytes, where: str, options: DecoderOptions) -> tuple[Writer, dict[str, Any]]:
    schema_id = _framed_id(data, where)
    found = writer(_lookup(schema_id, where, options), f"schema {schema_id}")
    record: dict[str, Any] = read_whole(found.reader, data, where, start=HEAD_BYTES)
    return found, record


def _framed_id(data: bytes, where: str) -> int:
    if len(data) < HEAD_BYTES or data[0] != _ROW:
        raise _bad(where, "a zero byte and a 4-byte schema id", "another start")
    schema_id: int = struct.unpack_from(">I", data, 1)[0]
    return schema_id


def _lookup(schema_id: int, where: str, options: DecoderOptions) -> str:
    try:
        return options.schemas(schema_id)
    except LookupError:
        found = f"schema id {schema_id}, which is not"
        raise DecodeError(where, "a registered schema", found, _ADVICE_SCHEMA) from None


def _tso(value: bytes, where: str) -> int:
    if len(value) == 9:
        ts = int.from_bytes(value[1:], "big")
        if 0 < ts <= TS_MAX:
            return ts
    raise _bad(where, "one byte and a timestamp of 8", f"{len(value)} bytes")


def _ddl(value: bytes, where: str) -> DdlEvent:
    document = json_object(value[1:], where)
    query, schema, table = (document.get(name) for name in ("query", "schema", "table"))
    commit_ts = document.get("commitTs")
    if not (isinstance(query, str) and isinstance(schema, str) and isinstance(table, str)):
        raise _bad(where, "a DDL with query, schema, table and commitTs", "another object")
    if type(commit_ts) is not int or not 0 < commit_ts <= TS_MAX:
        raise _bad(where, "a timestamp in commitTs", "none")
    return DdlEvent(commit_ts, schema, table, query, where=where)


def _bad(where: str, expected: str, found: str) -> DecodeError:
    return DecodeError(where, expected, found, _ADVICE)
