"""Storage sink trees made from the recorded one: more events, more tables. All are trees that TiCDC could have written.

Rows, `es`, `metadata`, the index files and the schema files (with their checksums) all say the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ticdc_assets.protocols.storage.schema_file import checksums
from ticdc_assets_tests.bench.streams.recorded import SCHEMA, TABLE
from ticdc_assets_tests.bench.streams.templates import Shift, Template, marked

ROWS: Final = {
    "json": re.compile(
        rb'"table":"(?P<table>[^"]+)"|"es":(?P<ms>\d+)|"(?:old|data)":\[\{"id":"(?P<key>\d+)"|"commitTs":(?P<tso>\d+)'
    ),
    "csv": re.compile(rb'(?m)^"[IUD]","(?P<table>[^"]+)","[^"]+",(?P<tso>\d+),(?P<key>\d+),'),
}
"""Where keys and times stand in rows of the recorded table: its key `id` is the first column."""

_DATA: Final = re.compile(r"CDC(\d+)\.(csv|json)")


@dataclass(frozen=True)
class Bucket:
    """A recorded bucket of one table."""

    root: Path

    @property
    def data_files(self) -> list[Path]:
        return sorted(path for path in self.root.rglob("CDC*") if _DATA.fullmatch(path.name))

    @property
    def extension(self) -> str:
        return self.data_files[0].suffix[1:]

    @property
    def checkpoint(self) -> int:
        return int(json.loads((self.root / "metadata").read_text())["checkpoint-ts"])

    @property
    def schema_file(self) -> Path:
        return next((self.root / SCHEMA / TABLE / "meta").glob("schema_*.json"))

    def templates(self) -> list[Template]:
        """The rows of each data file."""
        return [rows(path.read_bytes(), self.extension) for path in self.data_files]


def rows(data: bytes, extension: str) -> Template:
    """Rows of the table in the sink's encoding, ready to be shifted."""
    return Template(data, marked(data, ROWS[extension]))


class Tree:
    """A bucket that is being written."""

    def __init__(self, root: Path, like: Bucket) -> None:
        self._root = root
        self._like = like
        self._date = like.data_files[0].parent.name
        self._digits = len(_DATA.fullmatch(like.data_files[0].name)[1])  # type: ignore[index]
        root.mkdir(parents=True)
        for path in (like.root / SCHEMA / "meta").glob("schema_*.json"):
            self._write(path.relative_to(like.root), path.read_bytes())

    def add_table(self, table: str, files: Sequence[bytes]) -> None:
        """A table of the recorded one's columns, with these data files."""
        meta, version = self._schema_of(table)
        self._write(Path(SCHEMA, table, "meta", meta[0]), meta[1])
        folder = Path(SCHEMA, table, version, self._date)
        for number, data in enumerate(files, start=1):
            self._write(folder / self._name(number), data)
        self.index(table, len(files))

    def add_file(self, table: str, number: int, data: bytes) -> None:
        """One more data file of a table whose schema file is there; `index` must follow."""
        self._write(Path(SCHEMA, table, self._schema_of(table)[1], self._date, self._name(number)), data)

    def index(self, table: str, newest: int) -> None:
        """Write an index with the table's newest data file, number `newest`."""
        folder = Path(SCHEMA, table, self._schema_of(table)[1], self._date)
        self._write(folder / "meta" / "CDC.index", f"{self._name(newest)}\n".encode())

    def checkpoint(self, tso: int) -> None:
        """Write `metadata` with the checkpoint `tso`."""
        self._write(Path("metadata"), json.dumps({"checkpoint-ts": tso}, separators=(",", ":")).encode())

    def _name(self, number: int) -> str:
        return f"CDC{number:0{self._digits}}.{self._like.extension}"

    def _schema_of(self, table: str) -> tuple[tuple[str, bytes], str]:
        schema: dict[str, Any] = json.loads(self._like.schema_file.read_text())
        version = str(schema["TableVersion"])
        if table == TABLE:
            return (self._like.schema_file.name, self._like.schema_file.read_bytes()), version
        schema = schema | {"Table": table, "Query": schema["Query"].replace(f"`{TABLE}`", f"`{table}`", 1)}
        checksum = next(checksums(schema["Schema"], table, schema["TableColumns"]))
        return (f"schema_{version}_{checksum:010}.json", json.dumps(schema, indent=4).encode()), version

    def _write(self, path: Path, data: bytes) -> None:
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def multiply(like: Bucket, root: Path, shifts: Sequence[Shift]) -> None:
    """A bucket with one copy of the recorded rows at each distance, in that order."""
    tree = Tree(root, like)
    tree.add_table(TABLE, [])
    templates = like.templates()
    for copy, shift in enumerate(shifts):
        for number, template in enumerate(templates, start=1):
            tree.add_file(TABLE, copy * len(templates) + number, template.shifted(shift))
    tree.index(TABLE, len(shifts) * len(templates))
    tree.checkpoint(like.checkpoint + shifts[-1].tso)
