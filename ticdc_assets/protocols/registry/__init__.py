"""The message protocols by their name in TiCDC. A new protocol needs one package and one entry here.

A bulk decoder with compiled code is named by its module, which the first large batch loads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ticdc_assets.protocols import debezium
from ticdc_assets.protocols.avro import bulk as avro_bulk
from ticdc_assets.protocols.avro import decoder as avro
from ticdc_assets.protocols.canal_json import decoder as canal_json
from ticdc_assets.protocols.canal_json import messages as canal_json_messages
from ticdc_assets.protocols.columnar.message_rows import compiled_bulk, in_turn
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.open_protocol import columns as open_protocol_columns
from ticdc_assets.protocols.open_protocol import decoder as open_protocol
from ticdc_assets.protocols.protocol import CONTENT_COMPATIBLE, EXTENSION, SCHEMA_BLOCK, MessageProtocol
from ticdc_assets.protocols.simple import decoder as simple
from ticdc_assets.protocols.values import native_columns
from ticdc_assets.schema.model import TableSchema

# -- Open Protocol ----------------------------------------------------------------------------------------------------


def _open_table(row: RowEvent) -> TableSchema:
    return open_protocol.infer_table(row.schema, row.table, row.hints.columns)


_OPEN_PROTOCOL: Final = MessageProtocol(
    name="open-protocol",
    title="Open Protocol",
    decode=open_protocol.decode,
    value=open_protocol.value,
    open_claim=open_protocol.open_claim,
    infer=_open_table,
    bulk=compiled_bulk("ticdc_assets.protocols.open_protocol.bulk", open_protocol_columns.column),
)


# -- Simple -----------------------------------------------------------------------------------------------------------


_ROWS: Final = ("INSERT", "UPDATE", "DELETE")
_SCHEMAS: Final = ("BOOTSTRAP", "CREATE", "RENAME", "CINDEX", "DINDEX", "ERASE", "TRUNCATE", "ALTER", "QUERY")
_SIMPLE_TYPES: Final = frozenset({*_ROWS, *_SCHEMAS, "WATERMARK"})


def _simple_marks(message: Mapping[str, Any]) -> frozenset[str] | None:
    kind = message.get("type")
    return frozenset() if message.get("version") == 1 and isinstance(kind, str) and kind in _SIMPLE_TYPES else None


_SIMPLE: Final = MessageProtocol(
    name="simple",
    title="Simple",
    decode=simple.decode,
    value=simple.value,
    open_claim=simple.open_claim,
    bulk=in_turn(
        compiled_bulk("ticdc_assets.protocols.simple.json_bulk", native_columns.column),
        compiled_bulk("ticdc_assets.protocols.simple.avro.bulk", native_columns.column),
        native_columns.column,
    ),
    recognise=_simple_marks,
    has_one_commit=True,
)


# -- Canal-JSON messages; files of the storage sink are read by `canal_json.bulk` and `canal_json.decoder` -------------


def _canal_table(row: RowEvent) -> TableSchema:
    return canal_json_messages.infer_table(row.schema, row.table, row.hints.columns, row.hints.key or ())


def _canal_marks(message: Mapping[str, Any]) -> frozenset[str] | None:
    if "isDdl" in message and isinstance(message.get("type"), str):
        return frozenset(_canal_extensions(message))
    return None


def _canal_extensions(message: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(message.get("_tidb"), dict):
        yield EXTENSION
    types = message.get("mysqlType")
    if isinstance(types, dict) and any(isinstance(text, str) and "(" in text for text in types.values()):
        yield CONTENT_COMPATIBLE


_CANAL_JSON: Final = MessageProtocol(
    name="canal-json",
    title="Canal-JSON",
    decode=canal_json_messages.decode,
    value=canal_json.value,
    open_claim=canal_json_messages.open_claim,
    infer=_canal_table,
    bulk=compiled_bulk("ticdc_assets.protocols.canal_json.bulk", canal_json_messages.column),
    recognise=_canal_marks,
    has_one_commit=True,
)


# -- Avro -------------------------------------------------------------------------------------------------------------


_AVRO: Final = MessageProtocol(
    name="avro",
    title="Avro",
    decode=avro.decode,
    value=avro.value,
    bulk=avro_bulk.BULK,
    has_one_commit=True,
)


# -- Debezium JSON as TiCDC writes it ---------------------------------------------------------------------------------


def _debezium_marks(message: Mapping[str, Any]) -> frozenset[str] | None:
    payload = message.get("payload", message)
    if not isinstance(payload, dict) or not isinstance(payload.get("source"), dict):
        return None
    marks = [EXTENSION] if payload.get("op") == "m" else []
    return frozenset([*marks, *([SCHEMA_BLOCK] if "schema" in message else [])])


_DEBEZIUM: Final = MessageProtocol(
    name="debezium",
    title="Debezium",
    decode=debezium.decode,
    value=debezium.value,
    values=debezium.values,
    recognise=_debezium_marks,
    has_utc_times=True,
    has_one_commit=True,
)

REGISTRY: Final[dict[str, MessageProtocol]] = {
    protocol.name: protocol for protocol in (_OPEN_PROTOCOL, _SIMPLE, _CANAL_JSON, _AVRO, _DEBEZIUM)
}
