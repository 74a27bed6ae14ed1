"""Decodes Canal-JSON messages on Kafka: compression, claim checks and schemas inferred from rows.

The whole value may be compressed; a row that was too large names a claim-check file. The schema of a table without a
statement is inferred from `mysqlType`, which has lengths and labels only with content-compatible.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.protocols.canal_json import decoder as canal_json
from ticdc_assets.protocols.canal_json.decoder import Hint
from ticdc_assets.protocols.events import Event, RowEvent
from ticdc_assets.protocols.formats.bodies import decompress, json_object
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.values import text_columns
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.model import Column, Index, Kind, MySqlType, TableSchema

_ADVICE: Final = "Check that the topic is written by TiCDC with protocol=canal-json and the configured compression."
_TYPE_CHARS_MAX: Final = 64
_DECIMAL_DIGITS: Final = 65  # TiDB's maximum; `mysqlType` without content-compatible has no precision


def decode(key: bytes | None, value: bytes | None, where: str, options: DecoderOptions) -> Iterator[Event]:
    """The events of a message: none where it is empty, as old TiCDC sends it at its checkpoints. Raises DecodeError."""
    if not value and not key:
        return iter(())
    if not value:
        raise DecodeError(where, "a message with a value", "none", _ADVICE)
    return canal_json.decode(decompress(value, options.compression, where), where, options.has_commit_ts)


def open_claim(data: bytes, where: str, options: DecoderOptions) -> Iterator[Event]:
    """The row of a claim-check file: `{"key": null, "value": base64}` with a whole message, or only its value."""
    events = list(decode(None, data if options.claim_check_raw_value else _claimed(data, where), where, options))
    if any(not isinstance(event, RowEvent) or event.claim or event.handle_only for event in events):
        raise DecodeError(where, "a whole row in the claim-check file", "another message", _ADVICE)
    return iter(events)


def _claimed(data: bytes, where: str) -> bytes:
    try:
        return b64decode(json_object(data, where)["value"], validate=True)
    except (KeyError, TypeError, ValueError):
        raise DecodeError(where, "`value` as base64 in the claim-check file", "none", _ADVICE) from None


def column(column: Column, array: pa.Array, zone: str) -> pa.Array:
    """The typed values of a column of texts. Raises DecodeError if one does not fit the type."""
    return text_columns.column(column.type, array, canal_json.forms(zone))


def infer_table(schema: str, table: str, hints: Mapping[str, Any], key: tuple[str, ...] = ()) -> TableSchema:
    """The schema of a table, inferred from a row; without pkNames it has no key. Raises SchemaError."""
    columns = tuple(_column(name, hint, key) for name, hint in hints.items())
    index = (Index("PRIMARY", key, unique=True, primary=True),) if key else ()
    return TableSchema(schema, table, columns, index, inferred=True)


def _column(name: str, hint: Hint, key: tuple[str, ...]) -> Column:
    if hint.mysql_type is None:
        raise SchemaError(f"column {name}", "its mysqlType", "none", "Give its CREATE TABLE in `schema_files`.")
    try:
        declared = parse_type(hint.mysql_type)
    except SchemaError:
        advice = "Give its CREATE TABLE in `schema_files`."
        raise SchemaError(f"column {name}", "a type that is known", hint.mysql_type[:_TYPE_CHARS_MAX], advice) from None
    return Column(name, _widest(declared), nullable=name not in key)


def _widest(declared: MySqlType) -> MySqlType:
    """The declared type; if it has no length, the widest type of its kind."""
    if declared.kind is Kind.DECIMAL and declared.length is None:
        return MySqlType(Kind.DECIMAL, length=_DECIMAL_DIGITS, scale=30, unsigned=declared.unsigned)
    if declared.kind is Kind.BIT and declared.length is None:
        return MySqlType(Kind.BIT, length=64)
    return declared
