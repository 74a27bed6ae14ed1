"""Canal-JSON files of the storage sink, a whole block of lines at a time, as columns of text.

Enters a file, leave its row changes in batches of bounded size and in file order, exactly as the reference
(`protocols.canal_json`) tells them. A file that holds anything else than TiCDC's own form of row changes of the one
table, with no columns but those given, raises BulkUnsupported; a file without its end raises NotYetError. What was
yielded before the raise must then be dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from ticdc_assets.errors import NotYetError
from ticdc_assets.protocols.canal_json_rows import COMMIT_MS, COMMIT_TS, HAS_OLD, NEW, OLD, OP, row_form
from ticdc_assets.protocols.joined_texts import Bytes, Ints
from ticdc_assets.protocols.json_forms import literal, maybe
from ticdc_assets.protocols.json_scan import Names, Noted, noted
from ticdc_assets.protocols.limits import BATCH_BYTES, RECORD_BYTES_MAX
from ticdc_assets.protocols.noted_columns import columns_of
from ticdc_assets.protocols.raw_rows import BulkUnsupported, RawRows, ops_of
from ticdc_assets.protocols.utf8_lines import line_bounds

_FORM: Final = row_form((*maybe(b"\r", ()), *literal(b"\n")))
_CELLS_MAX: Final = 1 << 20
"""Of so many values places are noted at a time, 16 bytes for each: a short line may be of a table of many columns."""


def read_file(
    path: str, columns: tuple[str, ...], where: str, schema: str, table: str, batch_bytes: int = BATCH_BYTES
) -> Iterator[RawRows]:
    """The row changes of a file of `schema`.`table`; `columns` are the table's stored columns."""
    with Path(path).open("rb") as stream:
        yield from read_stream(stream, columns, where, schema, table, batch_bytes)


def read_stream(
    stream: BufferedIOBase,
    columns: tuple[str, ...],
    where: str,
    schema: str,
    table: str,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[RawRows]:
    """The row changes of an opened file, which is read once from its start to its end, so many bytes at a time."""
    reader = _Reader(columns, where, (schema, table))
    line = 0
    for block in _blocks(stream, where, batch_bytes):
        for rows in reader.rows(np.frombuffer(block, np.uint8), line):
            yield rows
            line += len(rows)


def _blocks(stream: BufferedIOBase, where: str, batch_bytes: int) -> Iterator[memoryview]:
    """Whole lines, in one buffer: a block is there until the next is asked for."""
    # A fresh buffer for every block would cost more in pages that the system clears than in the reading.
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
        self._names = Names.of(columns)

    def rows(self, block: Bytes, line: int) -> Iterator[RawRows]:
        """The row changes of a block of lines, the first being the file's line `line`."""
        bounds = line_bounds(block)
        if bounds is None:
            raise _unsupported(self._where, "bytes that are not UTF-8")
        lines_max = max(1, _CELLS_MAX // max(1, len(self._columns)))
        for first in range(0, len(bounds) - 1, lines_max):
            yield self._rows(block, bounds[first : first + lines_max + 1], line + first)

    def _rows(self, block: Bytes, bounds: Ints, line: int) -> RawRows:
        found = self._noted(block, bounds)
        count = found.count
        every = np.ones(count, np.bool_)
        op, commit_ts, commit_ms = (found.numbers[:, slot] for slot in (OP, COMMIT_TS, COMMIT_MS))
        has_before = (found.numbers[:, HAS_OLD] == 1) & (op == ord("U"))
        new, old = found.images[NEW], found.images[OLD]
        return RawRows(
            op=ops_of(op.astype(np.uint8)),
            commit_ts=pa.array(commit_ts, mask=commit_ts < 0),
            commit_ms=pa.array(commit_ms),
            line=pa.array(np.arange(line, line + count)),
            columns=self._columns,
            wire=columns_of(block, new, new, every),
            before=columns_of(block, old, new, has_before),
            has_before=pa.array(has_before),
        )

    def _noted(self, block: Bytes, bounds: Ints) -> Noted:
        found, self._names = noted(block, bounds, _FORM, self._names)
        if found.count < len(bounds) - 1:
            raise _unsupported(self._where, "lines of another form, or columns that the schema does not have")
        every = np.ones(found.count, np.bool_)
        source = [names.unique().to_pylist() for names in columns_of(block, found.strings, found.strings, every)]
        if source != [[name] for name in self._source]:
            raise _unsupported(self._where, "rows of another table")
        return found


def _unsupported(where: str, found: str) -> BulkUnsupported:
    return BulkUnsupported(where, "a file that the bulk form reads exactly", found, "Read it with the reference form.")
