"""An encoder of Avro for the few types that the model's tables have; the registry is a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ticdc_assets_tests.deliveries.database import Column, RowChange, Shape, Statement
from ticdc_assets_tests.deliveries.wires import LOGICAL_BITS, Message
from ticdc_assets_tests.protocols.avro.registered_schemas import EXTENSION, column, encoded, record


class Avro:
    """Rows with the TiDB extension, each with the id of its schema; `told` where the stream has statements too."""

    name = "avro"
    statements_to_all = False
    has_bootstraps = False

    def __init__(self, folder: Path, told: bool) -> None:
        self.registry = folder / "registry.json"
        self.sink_uri = f"kafka://host/feed?protocol=avro&enable-tidb-extension=true&avro-enable-watermark={told}"
        self.sink_uri = self.sink_uri.lower()
        self._told = told
        self.ids: dict[str, int] = {}

    def rows(self, changes: Sequence[RowChange]) -> list[Message]:
        return [self._row(change) for change in changes]

    def _row(self, change: RowChange) -> Message:
        shape = change.shape
        fields = [_field(each) for each in shape.columns]
        space = {"name": shape.name, "namespace": f"default.{shape.schema}"}
        key = record(*(field for field in fields if field["name"] == shape.key), **space)
        value = record(*fields, *EXTENSION, **space)
        op = {"I": "c", "U": "u"}[change.op]
        sent = {"_tidb_op": op, "_tidb_commit_ts": change.commit_ts}
        sent["_tidb_commit_physical_time"] = change.commit_ts >> LOGICAL_BITS
        return self._encoded(key, dict(change.row)), self._encoded(value, {**change.row, **sent})

    def _encoded(self, schema: dict[str, Any], row: dict[str, Any]) -> bytes:
        text = json.dumps(schema)
        number = self.ids.setdefault(text, len(self.ids) + 1)
        entries = [{"id": i, "subject": "s", "version": i, "schema": t} for t, i in self.ids.items()]
        self.registry.write_text(json.dumps(entries))
        return encoded(number, schema, row)

    def statement(self, statement: Statement) -> Message | None:
        shape = statement.after or statement.before
        assert shape is not None
        body = {"query": statement.query, "type": 0, "schema": shape.schema, "table": shape.name}
        return (None, b"\1" + json.dumps({**body, "commitTs": statement.commit_ts}).encode()) if self._told else None

    def watermark(self, ts: int) -> Message | None:
        return (None, b"\2" + ts.to_bytes(8, "big")) if self._told else None

    def bootstrap(self, shape: Shape) -> Message | None:
        return None


_KINDS = {"INT": ("INT", "int"), "FLOAT": ("FLOAT", "float"), "DOUBLE": ("DOUBLE", "double")}


def _field(of: Column) -> dict[str, Any]:
    kind = column(*_KINDS.get(of.type, ("TEXT", "string")))
    return (
        {"name": of.name, "type": ["null", kind], "default": None} if of.nullable else {"name": of.name, "type": kind}
    )
