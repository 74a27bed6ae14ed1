"""Decodes the Simple protocol, in JSON or Avro: each Kafka message has one event.

A row names its schema version. Schemas come in DDL messages and in bootstraps, which become a DdlEvent without a query.
A schema is identified by (database, table, version), not by the version alone, since RENAME keeps the version. The
`table_id` of a row is the physical one: if it is not that of the schema, it is the id of a partition. Only schemas have
keys.

The whole value may be compressed. A row that was too large has a `claim` (the base name of the claim-check file, for
`open_claim`) or only its handle key.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.events import Event, Op, RowEvent, RowHints, WatermarkEvent
from ticdc_assets.protocols.formats.bodies import decompress, json_object, json_row
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.simple import avro_message as simple_avro
from ticdc_assets.protocols.simple.table_schema import is_view, table_name, table_schema
from ticdc_assets.protocols.values import native as native_values
from ticdc_assets.protocols.values.checksum import Checksum, ToPlain, check, resolved, with_checksum
from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints
from ticdc_assets.schema.model import Column, TableSchema

_VERSION: Final = 1
_ROWS: Final = {"INSERT": Op.INSERT, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
_DDLS: Final = frozenset({"CREATE", "RENAME", "CINDEX", "DINDEX", "ERASE", "TRUNCATE", "ALTER", "QUERY"})
_TYPES: Final = ", ".join((*_ROWS, "WATERMARK", "BOOTSTRAP", *sorted(_DDLS)))
_TS_MAX: Final = 1 << 63
_IMAGES: Final = ("data", "old")
_ADVICE: Final = "Check that the topic is written by TiCDC with protocol=simple and the configured compression."


def decode(key: bytes | None, value: bytes | None, where: str, options: DecoderOptions) -> Iterator[Event]:
    """The event of a message, in JSON or Avro, which differ in the first byte. Raises DecodeError."""
    return iter((_decoded(value, where, options),))


def open_claim(data: bytes, where: str, options: DecoderOptions) -> Iterator[Event]:
    """The row of a claim-check file: `{"key": null, "value": base64}` with a whole message, or only its value."""
    event = _decoded(data if options.claim_check_raw_value else _claimed(data, where), where, options)
    if not isinstance(event, RowEvent) or event.claim or event.handle_only:
        raise _bad(where, "a whole row in the claim-check file", "another message")
    return iter((event,))


def _claimed(data: bytes, where: str) -> bytes:
    try:
        return b64decode(json_object(data, where)["value"], validate=True)
    except (KeyError, TypeError, ValueError):
        raise _bad(where, "`value` as base64 in the claim-check file", "none") from None


def _decoded(value: bytes | None, where: str, options: DecoderOptions) -> Event:
    if not value:
        raise _bad(where, "a message with a value", "none")
    body = decompress(value, options.compression, where)
    fields = simple_avro.message(body, where) if simple_avro.looks_like(body) else json_row(body, where, _IMAGES)
    return _event(fields, where)


def value(column: Column, wire: Any, zone: str) -> Any:
    """The canonical value of a wire value; `zone` is the time zone of a TIMESTAMP that names none."""
    return native_values.value(column, wire, zone)


def verify(event: RowEvent, table: TableSchema, zone: str = "UTC") -> str | None:
    """Why a row does not match its checksum; None if it matches or has none.

    `table` is the schema that the stream sent for the row's version, with its columns in that order.
    """
    return check(event, table, _plain(zone))


def with_resolved_times(event: RowEvent, table: TableSchema, zone: str = "UTC") -> RowEvent:
    """The row with its ambiguous TIMESTAMPs resolved, if its checksum resolves them."""
    return resolved(event, table, _plain(zone))


def _plain(zone: str) -> ToPlain:
    return lambda column, wire, fold: native_values.plain(column, wire, zone, fold=fold)


def _event(fields: Mapping[str, Any], where: str) -> Event:
    version = fields.get("version")
    if version != _VERSION:
        found = f"version {version}" if type(version) is int else "none"
        raise _bad(where, f"version {_VERSION} of the protocol", found)
    kind = fields.get("type")
    if not isinstance(kind, str):
        raise _bad(where, "a message with a type", "none")
    if kind in _ROWS:
        return _row(fields, _ROWS[kind], where)
    if kind == "WATERMARK":
        return WatermarkEvent(_ts(fields, "commitTs", where))
    if kind == "BOOTSTRAP":
        return _schema(fields, 0, "", where)
    if kind in _DDLS:
        return _schema(fields, _ts(fields, "commitTs", where), _query(fields, where), where)
    raise _bad(where, f"one of the types {_TYPES}", "another type")


def _row(fields: Mapping[str, Any], op: Op, where: str) -> RowEvent:
    new, old = _image(fields, "data", where), _image(fields, "old", where)
    claim = _claim(fields, where)
    handle_only = claim is not None or _flag(fields, "handleKeyOnly", where)
    wire = old if op is Op.DELETE else new
    if wire is None:
        if not handle_only:
            raise _bad(where, "the row's values", "none")
        # A large row of a table without a key has no handle key to send.
        wire = {}
    before = old if op is Op.UPDATE else None
    checksum = _checksum(fields, where)
    row = RowEvent(
        schema=_name(fields, "database", where),
        table=_name(fields, "table", where),
        op=op,
        commit_ts=_ts(fields, "commitTs", where),
        wire=wire,
        before=before,
        before_is_partial=before is not None and not before.keys() >= wire.keys(),
        handle_only=handle_only,
        claim=claim,
        hints=RowHints(schema_version=_ts(fields, "schemaVersion", where), table_id=_id(fields, "tableID", where)),
    )
    return row if checksum is None else with_checksum(row, checksum)


def _schema(fields: Mapping[str, Any], commit_ts: int, query: str, where: str) -> DdlEvent:
    after, before = _object(fields, "tableSchema", where), _object(fields, "preTableSchema", where)
    if after is None and not query:
        raise _bad(where, "a bootstrap with a tableSchema", "none")
    if any(is_view(schema) for schema in (after, before) if schema is not None):
        return DdlEvent(commit_ts, *table_name(after or before or {}, where), query, where=where)
    new = None if after is None else table_schema(after, where)
    old = None if before is None else table_schema(before, where)
    named = new or old
    old_name = None if old is None or new is None else (old.schema, old.name)
    return DdlEvent(
        commit_ts=commit_ts,
        schema=named.schema if named else "",
        table=named.name if named else "",
        query=query,
        after=new,
        before=old,
        hints=DdlHints(
            old_name=old_name if new is not None and old_name != (new.schema, new.name) else None,
            version=None if after is None else _ts(after, "version", where),
            before_version=None if before is None else _ts(before, "version", where),
            table_id=None if after is None else _id(after, "tableID", where),
        ),
        where=where,
    )


def _query(fields: Mapping[str, Any], where: str) -> str:
    query = fields.get("sql")
    if isinstance(query, str) and query:
        return query
    raise _bad(where, "a DDL with its text in `sql`", "none")


def _image(fields: Mapping[str, Any], name: str, where: str) -> dict[str, Any] | None:
    image = _object(fields, name, where)
    if image is not None and any(isinstance(wire, list) for wire in image.values()):
        raise _bad(where, f"values of columns in `{name}`", "a list")
    return image or None


def _object(fields: Mapping[str, Any], name: str, where: str) -> dict[str, Any] | None:
    found = fields.get(name)
    if found is None or isinstance(found, dict):
        return found
    raise _bad(where, f"`{name}` as an object", f"a {type(found).__name__}")


def _name(fields: Mapping[str, Any], name: str, where: str) -> str:
    found = fields.get(name)
    if isinstance(found, str) and found:
        return found
    raise _bad(where, f"a name in `{name}`", "none")


def _ts(fields: Mapping[str, Any], name: str, where: str) -> int:
    found = fields.get(name)
    if type(found) is int and 0 < found < _TS_MAX:
        return found
    raise _bad(where, f"a timestamp in `{name}`", "none")


def _id(fields: Mapping[str, Any], name: str, where: str) -> int | None:
    found = fields.get(name)
    if found is None or (type(found) is int and -_TS_MAX <= found < _TS_MAX):
        return found
    raise _bad(where, f"`{name}` as a whole number of 64 bits", f"a {type(found).__name__}")


def _flag(fields: Mapping[str, Any], name: str, where: str) -> bool:
    found = fields.get(name)
    if found is None or isinstance(found, bool):
        return bool(found)
    raise _bad(where, f"`{name}` as true or false", f"a {type(found).__name__}")


def _claim(fields: Mapping[str, Any], where: str) -> str | None:
    location = fields.get("claimCheckLocation")
    if location is None or location == "":
        return None
    name = location.replace("\\", "/").rpartition("/")[2] if isinstance(location, str) else ""
    if name in ("", ".", ".."):
        raise _bad(where, "`claimCheckLocation` as the place of a file", "none")
    return str(name)


def _checksum(fields: Mapping[str, Any], where: str) -> Checksum | None:
    found = _object(fields, "checksum", where)
    if found is None:
        return None
    current, previous = (_crc(found, name, where) for name in ("current", "previous"))
    return Checksum(current, previous, _flag(found, "corrupted", where), _id(found, "version", where) or 0)


def _crc(fields: Mapping[str, Any], name: str, where: str) -> int:
    found = fields.get(name, 0)
    if type(found) is int and 0 <= found < 1 << 32:
        return found
    raise _bad(where, f"`{name}` as a checksum of 32 bits", "another value")


def _bad(where: str, expected: str, found: str) -> DecodeError:
    return DecodeError(where, expected, found, _ADVICE)
