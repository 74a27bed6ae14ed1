"""A model of TiCDC's storage sink: the tree it writes, one write after the other, and where it goes on after a restart.

A data file's index is written before the file, a schema file before the first rows of its version, `metadata` after
all files up to its checkpoint. After a restart numbers go on behind the index of each folder, a file that was indexed
and never written gets its number again, and rows go to the latest version of their table that has their columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ticdc_assets.protocols.storage.schema_file import checksums
from ticdc_assets_tests.deliveries.database import Column, Database, Name, RowChange, Shape, Statement
from ticdc_assets_tests.deliveries.sending import Queues
from ticdc_assets_tests.sources.storage.bucket import schema_document

_PRECISIONS = {"INT": "11", "BIGINT": "20"}
_TYPES = {
    "create table": 3, "drop table": 4, "add column": 5, "drop column": 6, "add index": 7, "truncate table": 11,
    "modify column": 12, "rename column": 12, "rename table": 14,
}  # fmt: skip


@dataclass
class StorageSink:
    """TiCDC as it is now, what it has still to write, and the folder that it writes to."""

    database: Database
    folder: Path
    extension: str
    encode: Callable[[RowChange], bytes]
    since: int
    by_day: bool
    day: int = 1
    checkpoint: int = 0
    """What `metadata` says."""
    _writes: list[tuple[str, bytes]] = field(default_factory=list)
    _versions: dict[Name, dict[int, int]] = field(default_factory=dict)
    _last_of: dict[str, int] = field(default_factory=dict)
    _queues: Queues = field(init=False)
    _written_checkpoint: int = 0
    _restarted: bool = False

    def __post_init__(self) -> None:
        self._queues = Queues(self.database, self.since)
        self._metadata(self.since)
        self.write(1)

    # -- what it decides ----------------------------------------------------------------------------------------------

    def send(self, choice: int, size: int) -> None:
        """Do one of the things that TiCDC could do now; they are written later."""
        pending = self._queues.pending()
        options: list[int | None] = [*self._queues.options(pending)]
        resolved = self._queues.resolved(pending)
        if resolved > self._written_checkpoint:
            options.append(None)
        if not options:
            return
        chosen = options[choice % len(options)]
        if chosen is None:
            self._metadata(resolved)
        elif isinstance(statement := pending[chosen][0], Statement):
            self._queues.statement(statement)
            self._statement(statement)
        else:
            self._rows(self._queues.rows(chosen, pending[chosen], size % 5 + 1))

    def send_all(self) -> None:
        while self._queues.pending() or self._written_checkpoint < self.database.now:
            self.send(0, 4)
        self.write(len(self._writes))

    def _rows(self, changes: list[RowChange]) -> None:
        """One file for each version; a flush of a table never mixes them."""
        shapes = list(dict.fromkeys(change.shape for change in changes))
        for shape in shapes:
            lines = b"".join(self.encode(change) for change in changes if change.shape == shape)
            version = self._version(shape)
            day = f"/2025-08-{self.day:02d}" if self.by_day else ""
            self._file(f"{shape.schema}/{shape.name}/{version}{day}", lines)

    def _version(self, shape: Shape) -> int:
        """The latest version of the folder that has the row's columns; one is made where none has."""
        known = self._versions.setdefault((shape.schema, shape.name), {})
        crc = _checksum(shape)
        same = [version for version, found in known.items() if found == crc]
        exact = shape.version + 3  # TiDB's statement is committed a little after the version it made
        if exact in same and not self._restarted:
            return exact
        if same:
            return max(same)
        self._schema(shape, self.since, "", 0)
        return self.since

    def _statement(self, statement: Statement) -> None:
        shape = statement.after or statement.before
        assert shape is not None
        self._schema(shape, statement.commit_ts, statement.query, _TYPES[statement.kind])

    def _schema(self, shape: Shape, version: int, query: str, type_: int) -> None:
        self._versions.setdefault((shape.schema, shape.name), {})[version] = _checksum(shape)
        document = schema_document(shape.schema, shape.name, version, _columns(shape), query, type_)
        path = f"{shape.schema}/{shape.name}/meta/schema_{version}_{_checksum(shape):010d}.json"
        self._writes.append((path, document))

    def _file(self, folder: str, lines: bytes) -> None:
        number = self._last_of.get(folder, 0) + 1
        self._last_of[folder] = number
        name = f"CDC{number:020d}.{self.extension}"
        self._writes.append((f"{folder}/meta/CDC.index", f"{name}\n".encode()))
        self._writes.append((f"{folder}/{name}", lines))

    def _metadata(self, ts: int) -> None:
        self._written_checkpoint = ts
        self._writes.append(("metadata", json.dumps({"checkpoint-ts": ts}).encode()))

    # -- what is written ----------------------------------------------------------------------------------------------

    def write(self, count: int) -> None:
        for path, content in self._writes[:count]:
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            if path == "metadata":
                self.checkpoint = json.loads(content)["checkpoint-ts"]
        del self._writes[:count]

    @property
    def absent(self) -> list[Path]:
        """The files that are indexed and not there."""
        indexes = self.folder.glob("**/CDC.index")
        named = [index.parents[1] / index.read_text().strip() for index in indexes]
        return [path.relative_to(self.folder) for path in named if not path.exists()]

    @property
    def missing(self) -> set[Name]:
        """The tables of which a file is indexed and not there."""
        return {(path.parts[0], path.parts[1]) for path in self.absent}

    # -- mishaps ------------------------------------------------------------------------------------------------------

    def restart(self, checkpoint: int) -> None:
        """Stop, lose what is not written, and continue from a checkpoint at or before the one in `metadata`."""
        self._writes.clear()
        self._restarted = True
        self._queues.restart(checkpoint)
        self._written_checkpoint = checkpoint - 1
        self._read_again()

    def _read_again(self) -> None:
        """What TiCDC reads of its own tree after a restart."""
        self._versions.clear()
        for path in self.folder.glob("*/*/meta/schema_*.json"):
            version, crc = path.stem.split("_")[1:]
            schema, table = path.relative_to(self.folder).parts[:2]
            self._versions.setdefault((schema, table), {})[int(version)] = int(crc)
        self._last_of.clear()
        for index in self.folder.glob("**/CDC.index"):
            name = index.read_text().strip()
            written = (index.parents[1] / name).exists()
            number = int(name.removeprefix("CDC").partition(".")[0])
            self._last_of[str(index.parents[1].relative_to(self.folder))] = number if written else number - 1

    def move_table(self, choice: int) -> None:
        self._queues.move_table(choice, self._written_checkpoint)


def _columns(shape: Shape) -> list[dict[str, Any]]:
    return [_column(shape, column) for column in shape.columns]


def _column(shape: Shape, column: Column) -> dict[str, Any]:
    kind, _, length = column.type.rstrip(")").partition("(")
    described: dict[str, Any] = {"ColumnName": column.name, "ColumnType": kind}
    described |= {} if column.default is None else {"ColumnDefault": str(column.default)}
    described |= {"ColumnPrecision": length or _PRECISIONS[kind]}
    described |= {} if column.nullable else {"ColumnNullable": "false"}
    return described | ({"ColumnIsPk": "true"} if column.name == shape.key else {})


def _checksum(shape: Shape) -> int:
    return next(checksums(shape.schema, shape.name, _columns(shape)))


def csv_line(change: RowChange) -> bytes:
    """A row as the CSV sink writes it with its commit-ts and without old values."""
    cells = [change.row[name] for name in change.shape.names]
    texts = ["\\N" if c is None else str(c) if isinstance(c, int) else f'"{c}"' for c in cells]
    shape = change.shape
    head = [f'"{change.op}"', f'"{shape.name}"', f'"{shape.schema}"', str(change.commit_ts)]
    return ",".join([*head, *texts]).encode() + b"\r\n"
