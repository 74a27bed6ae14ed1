"""Statements and rows of workloads as new TiCDC's storage sink writes them: schema files, rows in CSV or Canal-JSON.

A statement's file is in the folder of the table's final name; the last file of one version replaces those before.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from ticdc_assets.protocols.storage.schema_file import checksums
from ticdc_assets.schema.arrow_types import BINARY_KINDS, INTEGER_BITS
from ticdc_assets.schema.model import Kind, MySqlType
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.sources.storage.bucket import schema_document
from ticdc_assets_tests.tidb.workloads.canal_json import row, text
from ticdc_assets_tests.tidb.workloads.stream import Name, RowChange, Statement
from ticdc_assets_tests.tidb.workloads.table_info import TableInfo

_CSV = {"binary-encoding-method": "base64", "delimiter": ",", "include-commit-ts": True, "null": "\\N", "quote": '"'}
_URIS = {"csv": "protocol=csv", "json": "protocol=canal-json&enable-tidb-extension=true"}
_BARE = {*INTEGER_BITS, Kind.BIT, Kind.YEAR}


@dataclass
class StorageSink:
    """A bucket. A partitioned table's rows are in one folder (`enable-partition-separator = false`)."""

    folder: Path
    extension: Literal["csv", "json"]
    with_ids: bool = False
    """`output-column-id`."""
    _versions: dict[Name, int] = field(default_factory=dict)
    _lines: dict[tuple[Name, int], list[bytes]] = field(default_factory=dict)
    _numbers: dict[Path, int] = field(default_factory=dict)
    _begins_at: int = 0

    @property
    def bucket(self) -> Path:
        return self.folder / "bucket"

    def statement(self, statement: Statement) -> None:
        info, database = statement.info, statement.database
        if info is None:
            document = schema_document(database, "", statement.ts, None, statement.sql, statement.type)
            self._schema_file(database, document)
            return
        self._versions[database, info.name] = statement.ts
        document = info.schema_file(database, statement.ts, statement.sql, statement.type, with_ids=self.with_ids)
        self._schema_file(f"{database}/{info.name}", document)

    def _schema_file(self, folder: str, document: bytes) -> None:
        said = json.loads(document)
        checksum = next(checksums(said["Schema"], said["Table"], said["TableColumns"]))
        path = self.bucket / folder / "meta" / f"schema_{said['TableVersion']}_{checksum:010d}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(document)

    def rows(self, info: TableInfo, changes: Sequence[RowChange]) -> None:
        name = changes[0].name
        if name not in self._versions:  # a table from before the changefeed
            self.statement(Statement(self._begins_at, name[0], "", 0, info))
        encode = _csv_line if self.extension == "csv" else _json_line
        self._lines.setdefault((name, self._versions[name]), []).extend(map(encode, changes))

    def reach(self, ts: int) -> None:
        day = f"{datetime.fromtimestamp((ts >> 18) / 1000, UTC):%Y-%m-%d}"
        for ((schema, table), version), lines in self._lines.items():
            folder = self.bucket / schema / table / str(version) / day
            self._numbers[folder] = number = self._numbers.get(folder, 0) + 1
            (folder / "meta").mkdir(parents=True, exist_ok=True)
            name = f"CDC{number:020d}.{self.extension}"
            (folder / "meta" / "CDC.index").write_text(f"{name}\n")
            (folder / name).write_bytes(b"".join(lines))
        self._lines.clear()
        self._begins_at = ts
        (self.bucket / "metadata").write_text(json.dumps({"checkpoint-ts": ts}))

    def lake(self, **settings: Any) -> FeedLake:
        self.bucket.mkdir(parents=True, exist_ok=True)
        sink = {"csv": _CSV} if self.extension == "csv" else {}
        layout = {"date-separator": "day", "enable-partition-separator": False}
        layout |= {"cloud-storage-config": {"output-column-id": True}} if self.with_ids else {}
        variant = {"sink_uri": f"file:///x?{_URIS[self.extension]}", "config": {"sink": sink | layout}}
        workload: Any = SimpleNamespace(variant=variant, events=[], time_zone="UTC", root=self.folder)
        return FeedLake(workload, self.folder / "lake", self.bucket, **settings)


def _json_line(change: RowChange) -> bytes:
    return text(row(change)) + b"\r\n"


def _csv_line(change: RowChange) -> bytes:
    schema, table = (_quoted(name) for name in change.name)
    types = change.state.types
    cells = [_cell(types[name], cell) for name, cell in change.row.items()]
    return ",".join([f'"{change.op[0]}"', table, schema, str(change.ts), *cells]).encode() + b"\r\n"


def _cell(of: MySqlType, cell: str | None) -> str:
    if cell is None:
        return "\\N"
    if of.kind in BINARY_KINDS:
        return _quoted(b64encode(bytes.fromhex(cell)).decode())
    if of.kind in (Kind.FLOAT, Kind.DOUBLE):
        return f"{float(cell):.17g}" if of.kind is Kind.DOUBLE else f"{float(cell):.9g}"
    return str(int(cell)) if of.kind in _BARE else _quoted(cell)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
