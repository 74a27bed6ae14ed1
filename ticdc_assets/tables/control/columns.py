"""The columns of the control tables, as Arrow schemas. `tables.control.records` has their rows."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_TIME: Final = pa.timestamp("us", tz="UTC")
_NAMES: Final = pa.list_(pa.field("element", pa.string()))
_NOTE: Final = pa.struct([pa.field("code", pa.string()), pa.field("text", pa.string())])
TABLE_FIELDS: Final = [
    pa.field("source_table", pa.string()), pa.field("schema", pa.string()), pa.field("table", pa.string()),
    pa.field("state", pa.string()), pa.field("note", pa.string()), pa.field("key", _NAMES),
    pa.field("watermark", pa.int64()), pa.field("mirror", _NAMES), pa.field("mirror_snapshot_id", pa.int64()),
    pa.field("changelog", _NAMES), pa.field("changelog_snapshot_id", pa.int64()), pa.field("rows", pa.int64()),
    pa.field("history", pa.string()), pa.field("history_table", _NAMES), pa.field("history_snapshot_id", pa.int64()),
    pa.field("notes", pa.list_(pa.field("element", _NOTE))), pa.field("settings", pa.string()),
    pa.field("complete", pa.bool_()), pa.field("quarantined", pa.int64()), pa.field("quarantined_since", pa.int64()),
    pa.field("discarded", pa.int64()),
]  # fmt: skip
WATERMARKS: Final = pa.schema([
    pa.field("recorded_at", _TIME), pa.field("run_id", pa.string()), pa.field("tso", pa.int64()),
    pa.field("complete", pa.bool_()), pa.field("cursor", pa.string()),
    pa.field("tables", pa.list_(pa.field("element", pa.struct(TABLE_FIELDS)))),
    pa.field("settled", pa.bool_()),
    pa.field("control_snapshots", pa.list_(pa.field("element", pa.struct([
        pa.field("name", pa.string()), pa.field("snapshot_id", pa.int64())
    ])))),
])  # fmt: skip
SCHEMAS: Final = pa.schema([
    pa.field("commit_ts", pa.int64()), pa.field("schema", pa.string()), pa.field("table", pa.string()),
    pa.field("query", pa.string()), pa.field("event", pa.string()), pa.field("where", pa.string()),
])  # fmt: skip
REGISTRY: Final = pa.schema([
    pa.field("url", pa.string()), pa.field("id", pa.int64()), pa.field("schema", pa.string()),
])  # fmt: skip
QUARANTINE: Final = pa.schema([
    pa.field("recorded_at", _TIME), pa.field("run_id", pa.string()), pa.field("schema", pa.string()),
    pa.field("table", pa.string()), pa.field("path", pa.string()), pa.field("line", pa.int64()),
    pa.field("reason", pa.string()), pa.field("raw", pa.binary()), pa.field("version", pa.int64()),
    pa.field("ordinal", pa.int64()), pa.field("resolution", pa.string()), pa.field("resolved_at", _TIME),
    pa.field("resolved_by", pa.string()), pa.field("since_tso", pa.int64()),
])  # fmt: skip
VIEWS: Final = pa.schema([
    pa.field("source_table", pa.string()), pa.field("view", _NAMES), pa.field("mirror", _NAMES),
    pa.field("mirror_snapshot_id", pa.int64()), pa.field("tso", pa.int64()), pa.field("metadata", pa.string()),
    pa.field("replaced", pa.list_(pa.field("element", pa.struct([
        pa.field("at", _TIME), pa.field("uri", pa.string())
    ])))),
])  # fmt: skip
CLOSED_IDENTITY: Final = ("folder", "version", "place", "dispatcher", "recorded_at")
CLOSED_FOLDERS: Final = pa.schema([
    pa.field("recorded_at", _TIME), pa.field("folder", pa.string()), pa.field("version", pa.int64()),
    pa.field("place", pa.string()), pa.field("dispatcher", pa.string()), pa.field("last", pa.int64()),
    pa.field("size_bytes", pa.int64()),
])  # fmt: skip
