"""A bucket that tests write like TiCDC, the result of its scan, and a root that counts requests."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from ticdc_assets.protocols.storage.schema_file import checksums
from ticdc_assets.sources.filesystem import Entry, Root, open_root
from ticdc_assets.sources.storage.paths import Layout
from ticdc_assets.sources.storage.scan import Cursor, Scan, scan

ID = {"ColumnName": "id", "ColumnType": "INT", "ColumnPrecision": "11", "ColumnNullable": "false", "ColumnIsPk": "true"}
NAME = {"ColumnName": "name", "ColumnType": "VARCHAR", "ColumnPrecision": "200"}
NONE = Layout(date_separator="none")
T1 = "shop/t1"
PHYSICAL_DAY = 86_400_000 << 18
JULY_31 = 459802240407830531  # a TSO of 2025-07-31


class Bucket:
    """A folder that is written file by file."""

    def __init__(self, base: Path, layout: Layout = NONE, checkpoint: int = 1000) -> None:
        self.base = base
        self.layout = layout
        self.checkpoint(checkpoint)

    def checkpoint(self, ts: int) -> None:
        self.write("metadata", json.dumps({"checkpoint-ts": ts}).encode())

    def write(self, path: str, content: bytes) -> str:
        target = self.base / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return path

    def remove(self, path: str) -> None:
        (self.base / path).unlink()

    def schema(
        self,
        schema: str,
        table: str,
        version: int,
        columns: list[dict] | None = None,
        query: str = "CREATE TABLE ...",
        type_: int = 3,
        folder: str | None = None,
    ) -> str:
        columns = [ID, NAME] if columns is None and table else columns
        folder = "/".join(filter(None, (schema, table))) if folder is None else folder
        document = schema_document(schema, table, version, columns, query, type_)
        checksum = next(checksums(schema, table, columns))
        return self.write(f"{folder}/meta/schema_{version}_{checksum:010d}.json", document)

    def index(self, folder: str, number: int, dispatcher: str | None = None, digits: int | None = None) -> str:
        name = self.layout.data_name(dispatcher, number, digits or self.layout.index_digits)
        index = f"CDC_{dispatcher}.index" if dispatcher else "CDC.index"
        return self.write(f"{folder}/meta/{index}", f"{name}\n".encode())

    def data(
        self,
        folder: str,
        number: int,
        content: bytes = b"row",
        dispatcher: str | None = None,
        digits: int | None = None,
    ) -> str:
        name = self.layout.data_name(dispatcher, number, digits or self.layout.index_digits)
        return self.write(f"{folder}/{name}", content)

    def files(self, folder: str, *numbers: int, **options: object) -> list[str]:
        """Data files and the index that names the last of them."""
        self.index(folder, numbers[-1], options.get("dispatcher"), options.get("digits"))  # type: ignore[arg-type]
        return [self.data(folder, number, **options) for number in numbers]  # type: ignore[arg-type]

    @property
    def root(self) -> Root:
        return open_root(str(self.base))

    def scan(self, cursor: Cursor | None = None, **options: object) -> Scan:
        return scan(self.root, self.layout, cursor or Cursor.empty(), **options)  # type: ignore[arg-type]


def schema_document(
    schema: str, table: str, version: int, columns: list[dict] | None, query: str = "", type_: int = 0
) -> bytes:
    document = {
        "Table": table,
        "Schema": schema,
        "Version": 1,
        "TableVersion": version,
        "Query": query,
        "Type": type_,
        "TableColumns": columns,
        "TableColumnsTotal": len(columns or ()),
    }
    return json.dumps(document, indent=4).encode()


def dated(base: Path, separator: str = "day") -> Bucket:
    return Bucket(base, Layout(separator), JULY_31 + PHYSICAL_DAY)


def paths(found: Scan) -> list[str]:
    return [file.path for file in found.data]


def kinds(found: Scan) -> list[tuple[str, str]]:
    return [(problem.kind.value, problem.table) for problem in found.problems]


def after(found: Scan, cursor: Cursor | None = None) -> Cursor:
    """The cursor when everything offered was consumed, through its text."""
    return Cursor.from_json((cursor or Cursor.empty()).advance(found, found.data).to_json())


class CountingRoot(Root):
    """Counts requests by the folder or file that they ask for; a measured file counts as one."""

    remote = False

    def __init__(self, inner: Root) -> None:
        self.inner = inner
        self.name = inner.name
        self.reads: Counter[str] = Counter()
        self.lists: Counter[str] = Counter()
        self.measured: Counter[str] = Counter()

    def read_bytes(self, path: str, limit: int | None = None) -> bytes:
        self.reads[path] += 1
        return self.inner.read_bytes(path, limit)

    def list_dir(self, path: str) -> list[Entry]:
        self.lists[path] += 1
        return self.inner.list_dir(path)

    def sizes(self, paths: list[str]) -> dict[str, int | None]:
        self.measured.update(paths)
        return self.inner.sizes(paths)

    def local_path(self, path: str) -> Path | None:
        return self.inner.local_path(path)

    def fetch_to(self, path: str, target: Path) -> None:
        self.inner.fetch_to(path, target)

    def requests_below(self, folder: str) -> int:
        every = self.reads + self.lists + self.measured
        return sum(count for path, count in every.items() if path == folder or path.startswith(f"{folder}/"))
