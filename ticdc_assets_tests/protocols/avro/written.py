"""Messages of the Avro protocol, written by another library."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any

import fastavro

from ticdc_assets.protocols.avro.decoder import decode
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets_tests.protocols.avro.registered_schemas import (
    EXTENDED,
    KEY,
    SCHEMAS,
)

TS = 459802238374641668

OPTIONS = DecoderOptions(schemas=SCHEMAS.__getitem__)


def framed(number: int, schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\0" + struct.pack(">I", number) + out.getvalue()


def key(of: int = 7) -> bytes:
    return framed(1, KEY, {"id": of})


def extended(op: str, commit_ts: int = TS) -> bytes:
    value = {"id": 7, "name": "x", "_tidb_op": op, "_tidb_commit_ts": commit_ts, "_tidb_commit_physical_time": 5}
    return framed(3, EXTENDED, value)


def of(key_bytes: bytes | None, value_bytes: bytes | None, options: DecoderOptions = OPTIONS) -> Any:
    (event,) = decode(key_bytes, value_bytes, "t[0]@1", options)
    return event
