"""Statements and rows of workloads in Simple with JSON, as new TiCDC sends them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, ClassVar

from ticdc_assets.schema.arrow_types import BINARY_KINDS
from ticdc_assets.schema.model import Kind, MySqlType
from ticdc_assets_tests.deliveries.wires import SimpleJson
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import TOPIC, SmallStream
from ticdc_assets_tests.tidb.streamed import Image, label_number
from ticdc_assets_tests.tidb.workloads.canal_json import kind_of, text
from ticdc_assets_tests.tidb.workloads.stream import RowChange, Statement
from ticdc_assets_tests.tidb.workloads.table_info import TableInfo


class SimpleMessages:
    """A bootstrap goes before a table's first row; statements have no schema from before them."""

    wire: ClassVar[type[SimpleJson]] = SimpleJson

    def __init__(self, folder: Any, zone: str) -> None:
        self.stream = SmallStream(folder, self.wire())
        self._zone = zone
        self._begun: set[tuple[str, int]] = set()

    def statement(self, statement: Statement) -> None:
        if statement.sql:
            said = {"type": kind_of(statement), "sql": statement.sql, "commitTs": statement.ts, "buildTs": 0}
            info = statement.info
            self._say(said | ({} if info is None else {"tableSchema": info.in_simple(statement.database)}))

    def rows(self, info: TableInfo, changes: Sequence[RowChange]) -> None:
        schema = changes[0].name[0]
        if (schema, info.id) not in self._begun:
            self._begun.add((schema, info.id))
            self._say({"type": "BOOTSTRAP", "commitTs": 0, "buildTs": 0, "tableSchema": info.in_simple(schema)})
        for change in changes:
            new, old = (None, change.row) if change.op == "DELETE" else (change.row, change.old)
            images = {"data": self._image(change, new), "old": self._image(change, old)}
            head = {"database": schema, "table": info.name, "tableID": info.id, "type": change.op}
            head |= {"commitTs": change.ts, "buildTs": 0, "schemaVersion": info.version}
            self._say(head | {name: image for name, image in images.items() if image is not None})

    def reach(self, ts: int) -> None:
        self._say({"type": "WATERMARK", "commitTs": ts, "buildTs": 0})

    def lake(self, **settings: Any) -> FeedLake:
        return self.stream.lake(**settings)

    def _say(self, said: dict[str, Any]) -> None:
        self.stream.send(TOPIC, 0, (None, text({"version": 1, **said})))

    def _image(self, change: RowChange, row: Image | None) -> dict[str, Any] | None:
        types = change.state.types
        return None if row is None else {name: self._value(types[name], cell) for name, cell in row.items()}

    def _value(self, of: MySqlType, cell: str | None) -> Any:
        if cell is None:
            return None
        if of.kind in BINARY_KINDS:
            return b64encode(bytes.fromhex(cell)).decode()
        if of.kind is Kind.TIMESTAMP:
            return {"location": self._zone, "value": cell}
        if of.kind in (Kind.FLOAT, Kind.DOUBLE):
            return f"{Decimal(cell):f}"
        return label_number(of, cell) if of.kind in (Kind.ENUM, Kind.SET) else cell
