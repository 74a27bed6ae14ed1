"""Statements and rows of workloads in Simple with Avro, as new TiCDC sends them."""

from __future__ import annotations

import json
from importlib.resources import files
from io import BytesIO
from typing import Any, Final

import fastavro

from ticdc_assets.protocols import simple as simple_package
from ticdc_assets.protocols.simple.avro_message import SCHEMA_FILE
from ticdc_assets.schema.arrow_types import BINARY_KINDS
from ticdc_assets.schema.model import Kind, MySqlType
from ticdc_assets_tests.deliveries.wires import SimpleJson
from ticdc_assets_tests.pipeline.small_streams import TOPIC
from ticdc_assets_tests.tidb.streamed import label_number
from ticdc_assets_tests.tidb.workloads.simple import SimpleMessages

_SPACE: Final = "com.pingcap.simple.avro"
_SCHEMA: Final = fastavro.parse_schema(json.loads(files(simple_package).joinpath(SCHEMA_FILE).read_bytes()))
_ROWS: Final = ("INSERT", "UPDATE", "DELETE")
_INTEGERS: Final = (Kind.TINYINT, Kind.SMALLINT, Kind.MEDIUMINT, Kind.INT, Kind.BIGINT, Kind.YEAR)


class _SimpleAvro(SimpleJson):
    sink_uri = "kafka://host/feed?protocol=simple&encoding-format=avro"


class SimpleAvroMessages(SimpleMessages):
    """The same messages as in JSON, with integers as numbers and binary values as bytes."""

    wire = _SimpleAvro

    def _say(self, said: dict[str, Any]) -> None:
        kind = said["type"]
        outer = "DML" if kind in _ROWS else kind if kind in ("WATERMARK", "BOOTSTRAP") else "DDL"
        record = outer if outer in ("DML", "DDL") else outer.capitalize()
        payload = {"version": 1, **said, **{name: _table(said[name]) for name in ("tableSchema",) if name in said}}
        out = BytesIO()
        message = {"type": outer, "payload": (f"{_SPACE}.{record}", payload)}
        fastavro.schemaless_writer(out, _SCHEMA, (f"{_SPACE}.Message", message))
        self.stream.send(TOPIC, 0, (None, out.getvalue()))

    def _value(self, of: MySqlType, cell: str | None) -> Any:
        if cell is None:
            return None
        if of.kind in BINARY_KINDS:
            return bytes.fromhex(cell)
        if of.kind is Kind.TIMESTAMP:
            return (f"{_SPACE}.Timestamp", {"location": self._zone, "value": cell})
        if of.kind is Kind.BIGINT and of.unsigned:
            return (
                f"{_SPACE}.UnsignedBigint",
                {"value": int.from_bytes(int(cell).to_bytes(8, "big"), "big", signed=True)},
            )
        if of.kind in (Kind.FLOAT, Kind.DOUBLE):
            return (of.kind.value.lower(), float(cell))
        if of.kind in (Kind.ENUM, Kind.SET):
            return int(label_number(of, cell))
        return int(cell) if of.kind in _INTEGERS else cell


def _table(schema: dict[str, Any]) -> dict[str, Any]:
    """A tableSchema, with all members that Avro has."""
    columns = [
        {**column, "dataType": {"length": 0, **column["dataType"]}, "default": _default(column["default"])}
        for column in schema["columns"]
    ]
    return {**schema, "database": schema["schema"], "columns": columns}


def _default(default: Any) -> str | None:
    return None if default is None else str(default)
