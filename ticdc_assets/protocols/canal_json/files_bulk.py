"""The bulk decoder of Canal-JSON files of the storage sink.

It yields the row changes of a file in batches of bounded size, in file order, equal to those of the reference decoder
(`canal_json.decoder`). A file with anything but row changes of one table in TiCDC's form and with the given columns
raises BulkUnsupported, an incomplete file NotYetError. The caller then drops the batches yielded before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BufferedIOBase
from typing import Final

import numpy as np

from ticdc_assets.errors import NotYetError
from ticdc_assets.protocols.canal_json.grammar import row_form
from ticdc_assets.protocols.columnar.raw_rows import BulkUnsupported, JoinedRows, RawRows
from ticdc_assets.protocols.columnar.scanned_rows import raw_rows, table_names
from ticdc_assets.protocols.formats.json.template import literal, maybe
from ticdc_assets.protocols.formats.json.texts import JsonColumnNames, scan_texts
from ticdc_assets.protocols.formats.limits import BATCH_BYTES, RECORD_BYTES_MAX
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints
from ticdc_assets.protocols.formats.utf8_lines import line_bounds

_FORM: Final = row_form((*maybe(b"\r", ()), *literal(b"\n")))
_CELLS_MAX: Final = 1 << 20
"""The maximum number of values per scan, at 16 bytes of offsets each; it bounds the memory for wide tables."""


def read_stream(
    stream: BufferedIOBase,
    columns: tuple[str, ...],
    where: str,
    name: tuple[str, str],
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[RawRows]:
    """The row changes of an open file of the table `name`, which is read once, in blocks of `batch_bytes` bytes."""
    reader = _Reader(columns, where, name)
    line = 0
    for block in _blocks(stream, where, batch_bytes):
        for rows in reader.rows(np.frombuffer(block, np.uint8), line):
            yield rows
            line += len(rows)


def read_joined(blobs: Sequence[bytes], columns: tuple[str, ...], where: str, name: tuple[str, str]) -> JoinedRows:
    """The row changes of several whole files of the table `name`, read as one. `where` names them in errors."""
    ends = np.cumsum([len(blob) for blob in blobs])
    reader, block = _Reader(columns, where, name), np.frombuffer(b"".join(blobs), np.uint8)
    bounds = reader.bounds(block)
    line_ends = np.searchsorted(bounds, ends)
    if line_ends[-1] >= len(bounds) or (bounds[line_ends] != ends).any():
        raise _unsupported(where, "a file that ends inside a line")
    return JoinedRows(tuple(reader.rows_between(block, bounds, 0)), line_ends)


def _blocks(stream: BufferedIOBase, where: str, batch_bytes: int) -> Iterator[memoryview]:
    """Blocks of whole lines in one reused buffer; a block is valid until the next one is requested."""
    # With a new buffer per block, the system would spend more time clearing pages than reading.
    buffer, held = bytearray(batch_bytes), 0
    while more := stream.readinto(memoryview(buffer)[held:]):
        end = buffer.rfind(b"\n", held, held + more) + 1
        if end:
            yield memoryview(buffer)[:end]
        held += more - end
        rest = buffer[end : end + held]
        if held > RECORD_BYTES_MAX:
            raise _unsupported(where, "a line without an end")
        if 2 * held > len(buffer):
            buffer = bytearray(2 * len(buffer))
        buffer[:held] = rest
    if held:
        raise NotYetError(where, "a file that ends with a whole line", "the start of one", "Wait for the writer.")


class _Reader:
    """Reads blocks of one file."""

    def __init__(self, columns: tuple[str, ...], where: str, source: tuple[str, str]) -> None:
        self._columns = columns
        self._where = where
        self._source = source
        self._names = JsonColumnNames.of(columns)

    def rows(self, block: Bytes, line: int) -> Iterator[RawRows]:
        """The row changes of a block of lines; `line` is the ordinal of the first one in the file."""
        return self.rows_between(block, self.bounds(block), line)

    def bounds(self, block: Bytes) -> Ints:
        """The offset of each line of a block, and the end of the last."""
        bounds = line_bounds(block)
        if bounds is None:
            raise _unsupported(self._where, "bytes that are not UTF-8")
        return bounds

    def rows_between(self, block: Bytes, bounds: Ints, line: int) -> Iterator[RawRows]:
        """The row changes of the lines with these bounds; `line` is the ordinal of the first one."""
        lines_max = max(1, _CELLS_MAX // max(1, len(self._columns)))
        for first in range(0, len(bounds) - 1, lines_max):
            yield self._rows(block, bounds[first : first + lines_max + 1], line + first)

    def _rows(self, block: Bytes, bounds: Ints, line: int) -> RawRows:
        found, self._names = scan_texts(block, bounds[:-1], bounds[1:], _FORM, self._names)
        if len(found) < len(bounds) - 1:
            raise _unsupported(self._where, "lines of another form, or columns that the schema does not have")
        if table_names(block, found.strings)[0] != (self._source,):
            raise _unsupported(self._where, "rows of another table")
        return raw_rows(block, found, self._columns, np.arange(line, line + len(found)))


def _unsupported(where: str, found: str) -> BulkUnsupported:
    wanted = "a file that the bulk decoder reads exactly"
    return BulkUnsupported(where, wanted, found, "Read it with the reference decoder.")
