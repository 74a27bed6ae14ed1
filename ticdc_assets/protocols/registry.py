"""The message protocols by TiCDC's names: what a new protocol has to bring, and where it is entered.

A protocol is one module with `decode`, `value` and perhaps `open_claim`, and one line in `REGISTRY`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ticdc_assets.protocols import (
    canal_json,
    canal_json_messages,
    canal_json_messages_bulk,
    confluent_avro,
    confluent_avro_bulk,
    debezium,
    native_columns,
    open_protocol,
    open_protocol_bulk,
    simple,
    simple_avro_bulk,
    simple_bulk,
)
from ticdc_assets.protocols.events import Event, RowEvent
from ticdc_assets.protocols.message_rows import Bulk, in_turn
from ticdc_assets.schema.model import Column, TableSchema

Decode = Callable[[bytes | None, bytes | None, str, Any], Iterator[Event]]
OpenClaim = Callable[[bytes, str, Any], Iterator[Event]]
Value = Callable[[Column, Any, str], Any]
Infer = Callable[[RowEvent], TableSchema]


@dataclass(frozen=True, slots=True)
class MessageProtocol:
    """One protocol.

    `decode(key, value, where, options)` gives a message's events, `value(column, wire, zone)` the lake's value of a
    wire value; `values(options)` makes another where options say how values are written. `open_claim(data, where,
    options)` reads a claim-check file; `infer(row)` the schema of a row's table as far as the row tells it; None where
    the protocol cannot. `has_ddl` tells whether statements or schemas are in the stream. `by_arrival` where some
    changes have no commit_ts whatever the configuration. `bulk` is the same for whole batches of messages, None where
    the protocol has only the reference.
    """

    decode: Decode
    value: Value
    open_claim: OpenClaim | None = None
    infer: Infer | None = None
    has_ddl: bool = True
    by_arrival: bool = False
    bulk: Bulk | None = None
    values: Callable[[Any], Value] | None = None

    def value_under(self, options: Any) -> Value:
        """What reads the wire values of a stream of these options."""
        return self.values(options) if self.values is not None else self.value


def _infer_open(row: RowEvent) -> TableSchema:
    return open_protocol.infer_table(row.schema, row.table, row.column_hints)


def _infer_canal(row: RowEvent) -> TableSchema:
    return canal_json_messages.infer_table(row.schema, row.table, row.column_hints, row.key or ())


REGISTRY: Final[dict[str, MessageProtocol]] = {
    "open-protocol": MessageProtocol(
        open_protocol.decode,
        open_protocol.value,
        open_protocol.open_claim,
        _infer_open,
        bulk=open_protocol_bulk.BULK,
    ),
    "simple": MessageProtocol(
        simple.decode,
        simple.value,
        simple.open_claim,
        bulk=in_turn(simple_bulk.BULK, simple_avro_bulk.BULK, native_columns.column),
    ),
    "canal-json": MessageProtocol(
        canal_json_messages.decode,
        canal_json.value,
        canal_json_messages.open_claim,
        _infer_canal,
        bulk=canal_json_messages_bulk.BULK,
    ),
    "avro": MessageProtocol(
        confluent_avro.decode, confluent_avro.value, has_ddl=False, by_arrival=True, bulk=confluent_avro_bulk.BULK
    ),
    "debezium": MessageProtocol(debezium.decode, debezium.value, values=debezium.values),
}
