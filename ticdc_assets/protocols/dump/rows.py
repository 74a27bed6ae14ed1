"""Reads the data files of a Dumpling export: CSV, and INSERT statements.

Every row is exact or an error: nothing is skipped. A table's rows have its stored columns; Dumpling leaves generated
columns out, so the rows of a table with stored generated columns are refused.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from ticdc_assets.errors import DecodeError
from ticdc_assets.names.folding import fold
from ticdc_assets.protocols.columnar.raw_rows import RawRows, ops_of
from ticdc_assets.protocols.dump.form import DumpForm
from ticdc_assets.protocols.dump.scanner import BARE, FULL, HEX, NO_QUOTE, OTHER_FORM, QUOTED, scan_csv, scan_inserts
from ticdc_assets.protocols.formats.limits import BATCH_BYTES, CSV_HEADER_BYTES_MAX, RECORD_BYTES_MAX
from ticdc_assets.protocols.formats.lines_and_frames import line_bounds
from ticdc_assets.protocols.formats.span_columns import MYSQL_ESCAPES, Escapes, columns_of
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints, Places
from ticdc_assets.schema.arrow_types import is_binary
from ticdc_assets.schema.model import Column, Kind, TableSchema

OP: Final = "R"
"""The operation of a row that was loaded."""

_FIELDS_MAX: Final = 1 << 20
"""The maximum number of fields per scan, at 8 bytes of offsets each."""
_NAME: Final = rb"`(?:[^`]|``)++`"
_INSERT: Final = re.compile(
    rb"INSERT INTO (?:"
    + _NAME
    + rb"\.)?"
    + _NAME
    + rb"\s*+(?:\(("
    + _NAME
    + rb"(?:,\s*+"
    + _NAME
    + rb")*+)\)\s*+)?VALUES\s*+"
)
_HEAD: Final = re.compile(rb"(?:/\*(?:[^*]|\*(?!/))*+\*/|SET [^;\n]*+|--[^\n]*+|[;\s]++)*+")
"""What may be before the first INSERT: comments and SET statements."""
_ZONE: Final = re.compile(rb"SET\s+(?:SESSION\s+)?TIME_ZONE\s*=\s*'([^']+)'", re.IGNORECASE)

_Scan = Callable[[Bytes, int], "tuple[int, Places, Ints, int]"]


class Stream(Protocol):
    """An open file of bytes."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer as far as there are bytes; 0 at the end."""


@dataclass(slots=True)
class DumpFile:
    """A data file of one table. `zone` is set where the file names the time zone of its TIMESTAMPs.

    `ts` is the dump's TSO, the commit_ts of its rows.
    """

    where: str
    table: TableSchema
    form: DumpForm
    ts: int
    is_csv: bool
    zone: str | None = None
    _line: int = 0
    _columns: tuple[Column, ...] = field(default=())

    def read(self, stream: Stream, batch_bytes: int = BATCH_BYTES) -> Iterator[RawRows]:
        """The rows in file order. Raises DecodeError where the file has another form; no row is skipped."""
        buffer = _Buffer(stream, batch_bytes)
        buffer.fill()
        scan = self._csv_scan(buffer) if self.is_csv else self._insert_scan(buffer)
        if scan is None:
            return
        while True:
            why = FULL
            while why == FULL:
                data = buffer.data()
                count, places, bounds, why = scan(data, buffer.begin)
                if count:
                    yield self._rows(data[buffer.begin : int(bounds[count])], data, places[:count])
                    buffer.begin = int(bounds[count])
            if why == OTHER_FORM:
                raise self._fault(f"row {self._line}", "a row that Dumpling wrote", "another form")
            if buffer.is_last and (buffer.rest if self.is_csv else buffer.has_text):
                raise self._fault(f"row {self._line}", "a whole row", "the beginning of one")
            if buffer.is_last:
                return
            buffer.fill()
            if buffer.rest > RECORD_BYTES_MAX:
                raise self._fault(f"row {self._line}", "the end of the row", f"none in {RECORD_BYTES_MAX} bytes")

    def check_columns(self, stream: Stream) -> None:
        """Read the beginning of the file. Raises DecodeError if the rows lack stored columns, or if the first row has
        another form."""
        buffer = _Buffer(stream, CSV_HEADER_BYTES_MAX)
        buffer.fill()
        scan = self._csv_scan(buffer) if self.is_csv else self._insert_scan(buffer)
        if scan is not None and buffer.rest and scan(buffer.data(), buffer.begin)[-1] == OTHER_FORM:
            raise self._fault(
                "row 0", f"{len(self._columns)} values, of all stored columns", "another form", _GENERATED
            )

    # -- CSV ----------------------------------------------------------------------------------------------------------

    def _csv_scan(self, buffer: _Buffer) -> _Scan:
        end = self.form.terminator or self._terminator(buffer)
        self._columns = self._named(self._header(buffer, end)) if self.form.has_header else self.table.stored_columns
        return self._scan_to(end)

    def _terminator(self, buffer: _Buffer) -> str:
        """The end of the first line: CR LF or LF."""
        if self.form.has_header:
            line, _, _ = bytes(buffer.data()[:CSV_HEADER_BYTES_MAX]).partition(b"\n")
            return "\r\n" if line.endswith(b"\r") else "\n"
        self._columns = self.table.stored_columns
        *_, why = self._scan_to("\r\n")(buffer.data(), buffer.begin)
        return "\n" if why == OTHER_FORM else "\r\n"

    def _scan_to(self, end: str) -> _Scan:
        """A scan of rows that end with `end`."""
        form, width = self.form, len(self._columns)
        separator, terminator, null = (
            np.frombuffer(text.encode(), np.uint8) for text in (form.separator, end, form.null)
        )
        quote = ord(form.delimiter) if form.delimiter else NO_QUOTE

        def scan(data: Bytes, begin: int) -> tuple[int, Places, Ints, int]:
            places, bounds = _room(data, begin, width)
            count, why = scan_csv(
                data, begin, quote, form.escapes_backslash, separator, terminator, null, places, bounds
            )
            return count, places, bounds, why

        return scan

    def _header(self, buffer: _Buffer, terminator: str) -> list[str]:
        """The names in the header line, which is passed."""
        first = bytes(buffer.data()[:CSV_HEADER_BYTES_MAX])
        line, end, _ = first.partition(terminator.encode())
        if not end:
            raise self._fault("header", f"a line that ends with {terminator!r}", "none", _FLAGS)
        buffer.begin = len(line) + len(end)
        text = line.decode(errors="replace")
        quote = self.form.delimiter
        if quote and not (len(text) >= 2 and text.startswith(quote) and text.endswith(quote)):
            raise self._fault("header", f"names between {quote}", "others", _FLAGS)
        names = (text[1:-1] if quote else text).split(f"{quote}{self.form.separator}{quote}")
        if self.form.escapes_backslash:
            return [re.sub(r"\\(.)", r"\1", name) for name in names]
        return [name.replace(quote * 2, quote) if quote else name for name in names]

    # -- INSERT -------------------------------------------------------------------------------------------------------

    def _insert_scan(self, buffer: _Buffer) -> _Scan | None:
        first = bytes(buffer.data())
        found = _INSERT.search(first)
        head = first[: found.start()] if found else first
        if not _HEAD.fullmatch(head):
            expected = "comments, then INSERT INTO `table` VALUES and rows"
            raise self._fault("beginning", expected, "another text")
        zone = _ZONE.search(head)
        self.zone = zone[1].decode() if zone else None
        if found is None:
            return None
        prefix = np.frombuffer(found[0], np.uint8)
        named = re.findall(_NAME, found[1]) if found[1] else None
        self._columns = (
            self._named([name[1:-1].replace(b"``", b"`").decode() for name in named])
            if named is not None
            else self.table.stored_columns
        )
        buffer.begin = found.start()
        width, has_backslashes = len(self._columns), self.form.escapes_backslash
        forms = np.zeros(width, np.uint8)

        def scan(data: Bytes, begin: int) -> tuple[int, Places, Ints, int]:
            places, bounds = _room(data, begin, width)
            count, why = scan_inserts(data, begin, has_backslashes, prefix, places, bounds, forms)
            self._check_forms(forms)
            return count, places, bounds, why

        return scan

    def _check_forms(self, forms: Bytes) -> None:
        for column, found in zip(self._columns, forms.tolist(), strict=True):
            if found & (QUOTED | BARE if _is_bytes(column) else HEX):
                expected = "x'..' for binary columns and BIT only"
                raise self._fault(f"column {column.name!r}", expected, "another form")

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _named(self, names: Sequence[str]) -> tuple[Column, ...]:
        """The columns of these names. Raises DecodeError unless they are the stored columns."""
        stored = {fold(column.name): column for column in self.table.stored_columns}
        lowered = [fold(name) for name in names]
        unknown = [name for name in names if fold(name) not in stored]
        if unknown or len(set(lowered)) < len(lowered):
            expected = f"the columns of {self.table.schema}.{self.table.name}, each once"
            raise self._fault("columns", expected, "others" if unknown else "one twice", _FLAGS)
        lacking = [column.name for name, column in stored.items() if name not in lowered]
        if lacking:
            raise self._fault("columns", "values of all stored columns", f"none of {', '.join(lacking)}", _GENERATED)
        return tuple(stored[name] for name in lowered)

    def _rows(self, block: Bytes, data: Bytes, places: Places) -> RawRows:
        count = len(places)
        quote = self.form.delimiter if self.is_csv else "'"
        escapes = MYSQL_ESCAPES if self.form.escapes_backslash else Escapes.doubled(ord(quote))
        texts = columns_of(data, places, places, np.ones(count, np.bool_), escapes)
        has_bytes = self._is_raw and any(_is_bytes(column) for column in self._columns)
        if has_bytes or line_bounds(block) is None:
            self._prove_utf8(texts)
        line = self._line
        self._line += count
        return RawRows(
            op=ops_of(np.full(count, ord(OP), np.uint8)),
            commit_ts=pa.array(np.full(count, self.ts, np.int64)),
            commit_ms=pa.nulls(count, pa.int64()),
            line=pa.array(np.arange(line, line + count)),
            columns=tuple(column.name for column in self._columns),
            wire=tuple(self._wire(column, array) for column, array in zip(self._columns, texts, strict=True)),
        )

    def _wire(self, column: Column, texts: pa.Array) -> pa.Array:
        if column.type.kind is not Kind.BIT:
            return texts.cast(pa.binary()) if is_binary(column.type) and self._is_raw else texts
        coded = (texts.cast(pa.binary()) if self._is_raw else texts).dictionary_encode()
        numbers = [str(self._number(column, one)) for one in coded.dictionary.to_pylist()]
        return pa.array(numbers, pa.string()).take(coded.indices)

    @property
    def _is_raw(self) -> bool:
        return self.is_csv and self.form.binary == "raw"

    def _number(self, column: Column, written: str | bytes) -> int:
        """The number of a BIT value, which Dumpling writes as bytes."""
        if isinstance(written, bytes):
            return int.from_bytes(written)
        is_base64 = self.is_csv and self.form.binary == "base64"
        try:
            return int.from_bytes(b64decode(written, validate=True) if is_base64 else bytes.fromhex(written))
        except ValueError:
            expected = f"bytes in {'base64' if is_base64 else 'hex'}"
            raise self._fault(f"column {column.name!r}", expected, "another text", _FLAGS) from None

    def _prove_utf8(self, texts: Sequence[pa.Array]) -> None:
        for column, array in zip(self._columns, texts, strict=True):
            if _is_bytes(column) and self._is_raw:
                continue
            try:
                array.validate(full=True)
            except pa.ArrowInvalid:  # its text would quote the row
                raise self._fault(f"column {column.name!r}", "text in UTF-8", "other bytes") from None

    def _fault(self, place: str, expected: str, found: str, advice: str = "") -> DecodeError:
        advice = advice or "Export the table again with Dumpling, or give the flags that it was exported with."
        return DecodeError(f"{self.where}, {place}", expected, found, advice)


_FLAGS: Final = "Give the flags that Dumpling was started with, such as --no-header or --csv-separator."
_GENERATED: Final = (
    "Dumpling leaves generated columns out, and their values cannot be computed here. Leave the table out of the load "
    "with --without SCHEMA.TABLE; its mirror then has the rows that the stream sends."
)


def _is_bytes(column: Column) -> bool:
    return is_binary(column.type) or column.type.kind is Kind.BIT


def _room(data: Bytes, begin: int, width: int) -> tuple[Places, Ints]:
    """Empty arrays that are large enough for the rows of a block: each field takes at least the byte of its
    separator."""
    rows_max = max(1, min(_FIELDS_MAX // width, (len(data) - begin) // width + 1))
    return np.empty((rows_max, width, 2), np.int32), np.empty(rows_max + 1, np.int64)


class _Buffer:
    """The bytes of a stream that are read but not processed yet."""

    def __init__(self, stream: Stream, size: int) -> None:
        self._stream = stream
        self._bytes = bytearray(size)
        self._held = 0
        self.begin = 0
        self.is_last = False

    @property
    def rest(self) -> int:
        return self._held - self.begin

    @property
    def has_text(self) -> bool:
        """Whether the rest is more than white space."""
        return bool(bytes(self._bytes[self.begin : self._held]).strip())

    def data(self) -> Bytes:
        return np.frombuffer(self._bytes, np.uint8, self._held)

    def fill(self) -> None:
        """Keep the rest and read more, until the buffer is full or the stream ends."""
        rest = self._bytes[self.begin : self._held]
        if 2 * len(rest) > len(self._bytes):
            self._bytes = bytearray(2 * len(self._bytes))
        self._bytes[: len(rest)] = rest
        self.begin, self._held = 0, len(rest)
        while self._held < len(self._bytes):
            more = self._stream.readinto(memoryview(self._bytes)[self._held :])
            if not more:
                self.is_last = True
                return
            self._held += more
