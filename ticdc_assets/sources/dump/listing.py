"""Lists a Dumpling export (its TSO, its tables with their CREATE TABLE, and their data files), and opens its files.

The names are those of Dumpling's default `--output-filename-template`; in them, special characters are `%XX`.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Final
from urllib.parse import unquote

import pyarrow as pa

from ticdc_assets.errors import NotYetError, SourceError
from ticdc_assets.schema.history.source_table import SourceName
from ticdc_assets.sources.filesystem import Root

SUFFIXES: Final[dict[str, str | None]] = {"": None, ".gz": "gzip", ".zst": "zstd", ".snappy": "snappy"}
"""The codec by the end of a file's name."""
_STREAM_IDENTIFIER, _COMPRESSED, _UNCOMPRESSED, _FIRST_SKIPPABLE = 0xFF, 0x00, 0x01, 0x80
_CHECKSUM_BYTES: Final = 4

METADATA: Final = "metadata"
_TEXT_BYTES_MAX: Final = 16 << 20
_PACKED: Final = "|".join(re.escape(suffix) for suffix in SUFFIXES if suffix)
_DATABASE: Final = re.compile(rf"(?P<schema>[^.]+)-schema-create\.sql(?:{_PACKED})?")
_TABLE: Final = re.compile(rf"(?P<schema>[^.]+)\.(?P<table>[^.]+)-schema\.sql(?:{_PACKED})?")
_VIEW: Final = re.compile(rf"(?P<schema>[^.]+)\.(?P<table>[^.]+)-schema-(?:view|sequence)\.sql(?:{_PACKED})?")
_DATA: Final = re.compile(rf"(?P<schema>[^.]+)\.(?P<table>[^.]+)\.(?P<number>\d+)\.(?P<kind>sql|csv)(?:{_PACKED})?")
_OTHER: Final = re.compile(
    rf"[^.]+(?:\.[^.]+)?-(?:schema-(?:post|triggers)|placement-policy-create)\.sql(?:{_PACKED})?"
)
_LIKE_DATA: Final = re.compile(r"\.(?:sql|csv|parquet)(?:\.|$)", re.IGNORECASE)
_POSITION: Final = re.compile(r"^\s*Pos:\s*(\d+)\s*$", re.MULTILINE)
_FINISHED: Final = re.compile(r"^Finished dump at:", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A data file; `number` is its place among the files of its table, from 0."""

    path: str
    size_bytes: int
    number: int


@dataclass(frozen=True, slots=True)
class DumpedTable:
    """A table of a dump: its name, the text of its schema file, and its data files."""

    name: SourceName
    where: str
    definition: str
    chunks: tuple[Chunk, ...]

    @property
    def size_bytes(self) -> int:
        return sum(chunk.size_bytes for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class Dump:
    """A finished export. `tso` is None where its `metadata` names no single TSO; `databases` are their CREATE texts."""

    tables: tuple[DumpedTable, ...]
    databases: Mapping[str, str]
    tso: int | None


def read_dump(root: Root) -> Dump:
    """The export in this folder.

    Raises:
        SourceError: it is not finished, or has files that are not named as Dumpling names them by default.
    """
    tso = _tso_of(root)
    names = {entry.name: entry.size for entry in root.list_dir("") if not entry.is_dir}
    definitions, databases, no_tables = {}, {}, set()
    chunks: dict[SourceName, list[tuple[int, str]]] = {}
    for path in sorted(names):
        if match := _TABLE.fullmatch(path):
            definitions[_name(match)] = path
        elif match := _VIEW.fullmatch(path):
            no_tables.add(_name(match))
        elif match := _DATABASE.fullmatch(path):
            databases[unquote(match["schema"])] = path
        elif match := _DATA.fullmatch(path):
            chunks.setdefault(_name(match), []).append((int(match["number"]), path))
        elif _LIKE_DATA.search(path) and not _OTHER.fullmatch(path):
            raise _unknown(root, path)
    for name in chunks.keys() - definitions.keys():
        raise SourceError(
            root.where(chunks[name][0][1]),
            f"the schema file of {'.'.join(name)}",
            "none",
            "Export without --no-schemas.",
        )
    tables = tuple(
        DumpedTable(name, root.where(path), _text(root, path), _numbered(chunks.get(name, ()), names))
        for name, path in definitions.items()
        if name not in no_tables
    )
    return Dump(tables, {schema: _text(root, path) for schema, path in databases.items()}, tso)


def is_csv_file(path: str) -> bool:
    """Whether a data file of a dump is CSV; else it has INSERT statements."""
    match = _DATA.fullmatch(path)
    return match is not None and match["kind"] == "csv"


def _numbered(found: Sequence[tuple[int, str]], sizes: Mapping[str, int]) -> tuple[Chunk, ...]:
    return tuple(Chunk(path, sizes[path], n) for n, (_, path) in enumerate(sorted(found)))


def _name(match: re.Match[str]) -> SourceName:
    return unquote(match["schema"]), unquote(match["table"])


def _tso_of(root: Root) -> int | None:
    """The TSO of `metadata`; None where it names none, or several. Dumpling writes the file when it has finished."""
    expected, advice = "the `metadata` of a finished export", "Wait until Dumpling has finished, or export again."
    try:
        text = root.read_bytes(METADATA, _TEXT_BYTES_MAX).decode(errors="replace")
    except NotYetError:
        raise SourceError(root.where(METADATA), expected, "no such file", advice) from None
    if not _FINISHED.search(text):
        raise SourceError(root.where(METADATA), expected, 'no line "Finished dump at"', advice)
    positions = {int(position) for position in _POSITION.findall(text)}
    return positions.pop() if len(positions) == 1 else None


def _text(root: Root, path: str) -> str:
    packed = root.read_bytes(path, _TEXT_BYTES_MAX)
    try:
        with opened(io.BytesIO(packed), path) as stream:
            return bytes(stream.read()).decode()
    except (UnicodeDecodeError, OSError, pa.ArrowException):
        advice = "Export the table again."
        raise SourceError(root.where(path), "a statement in UTF-8", "other bytes", advice) from None


def _unknown(root: Root, path: str) -> SourceError:
    return SourceError(
        root.where(path),
        "files named as Dumpling names them by default, such as shop.users.000000000.sql, packed as gz, zst or snappy",
        "another name",
        "Export without --output-filename-template and --sql, or move the file away.",
    )


def opened(file: BinaryIO, path: str) -> Any:
    """The uncompressed bytes of an open file, whose name gives the codec; a context manager with `read` and `readinto`.

    Reading raises OSError or ArrowException where the bytes are damaged.
    """
    codec = SUFFIXES.get(PurePath(path).suffix)
    if codec == "snappy":
        return io.BufferedReader(_SnappyFrames(file))
    return file if codec is None else pa.CompressedInputStream(pa.PythonFile(file, "r"), codec)


@contextmanager
def opened_in(root: Root, path: str, size_bytes: int) -> Iterator[Any]:
    """The uncompressed content of a file, fetched where it is not local. Raises SourceError where it is damaged, or has
    another size than when it was listed."""
    with ExitStack() as stack:
        local = root.local_path(path)
        if local is None:
            local = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "file"
            root.fetch_to(path, local)
        try:
            stream = stack.enter_context(local.open("rb"))
            if local.stat().st_size != size_bytes:
                raise SourceError(path, f"{size_bytes} bytes, as it was listed", "another size", "Load again.")
            yield stack.enter_context(opened(stream, path))
        except (OSError, EOFError, pa.ArrowException) as error:
            advice = "Export the table again."
            raise SourceError(path, "a file that can be read", type(error).__name__, advice) from None


class _SnappyFrames(io.RawIOBase):
    """The content of Snappy's framing format (google/snappy, framing_format.txt). Checksums are not compared: the
    blocks are checked by their own form and length."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._codec = pa.Codec("snappy")
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer from the current block; 0 at the end of the file."""
        while not len(self._rest):
            block = self._block()
            if block is None:
                return 0
            self._rest = memoryview(block)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def _block(self) -> bytes | None:
        head = self._file.read(4)
        if not head:
            return None
        kind, size = head[0], int.from_bytes(head[1:], "little")
        body = self._file.read(size)
        if len(head) < 4 or len(body) < size:
            raise OSError("a block that is cut off")
        if kind == _COMPRESSED:
            packed = body[_CHECKSUM_BYTES:]
            return bytes(self._codec.decompress(packed, decompressed_size=_length(packed)))
        if kind == _UNCOMPRESSED:
            return body[_CHECKSUM_BYTES:]
        if kind == _STREAM_IDENTIFIER or kind >= _FIRST_SKIPPABLE:
            return b""
        raise OSError("a block of an unknown kind")


def _length(packed: bytes) -> int:
    """The uncompressed length at the beginning of a block, as a varint."""
    length = 0
    for place, byte in enumerate(packed[:5]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return length
    raise OSError("a block without a length")
