"""Avro schemas as TiCDC registers them: of a key, of rows without and with the TiDB extension."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro


def column(tidb_type: str, avro_type: str, **parameters: str) -> dict[str, Any]:
    return {"type": avro_type, "connect.parameters": {"tidb_type": tidb_type, **parameters}}


ID = {"name": "id", "type": column("BIGINT", "long")}
NAME = {"name": "name", "type": ["null", column("TEXT", "string")], "default": None}
EXTENSION = [
    {"name": "_tidb_op", "type": "string", "default": ""},
    {"name": "_tidb_commit_ts", "type": "long", "default": 0},
    {"name": "_tidb_commit_physical_time", "type": "long", "default": 0},
]


def record(*fields: Any, name: str = "t", namespace: str = "default.shop") -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": namespace, "fields": list(fields)}


KEY = record(ID)
ROW = record(ID, NAME)
EXTENDED = record(ID, NAME, *EXTENSION)
SCHEMAS = {1: json.dumps(KEY), 2: json.dumps(ROW), 3: json.dumps(EXTENDED)}


def encoded(schema_id: int, schema: dict[str, Any], row: dict[str, Any]) -> bytes:
    """A row or key as in a message: a zero byte, the id of its schema, and its values."""
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()
