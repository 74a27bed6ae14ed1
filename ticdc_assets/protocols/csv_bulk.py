"""CSV files of the storage sink, a whole block of records at a time, as columns of text.

Enters a file, leave its row changes in batches of bounded size and in file order, exactly as the reference
(`protocols.csv`) tells them. A file that holds anything the reference would report as broken, or that this form
cannot read exactly, raises BulkUnsupported; a file without its end raises NotYetError. What was yielded before the
raise must then be dropped.

How it is exact: Arrow's CSV reader and substring kernels accept more than the format allows, so each block is first
matched as a whole against the format's grammar (RE2: one pass, no backtracking), and only then cut into columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from ticdc_assets.errors import NotYetError
from ticdc_assets.protocols.csv import COMMIT_TS_MAX, HEADER_START, CsvOptions, leading_fields
from ticdc_assets.protocols.limits import BATCH_BYTES, RECORD_BYTES_MAX
from ticdc_assets.protocols.raw_rows import BulkUnsupported, RawRows, concat

_CONTROL_BYTES: Final = tuple(bytes([code]) for code in range(1, 32) if code not in b"\t\n\r")


def read_file(
    path: str, options: CsvOptions, columns: tuple[str, ...], where: str, batch_bytes: int = BATCH_BYTES
) -> Iterator[RawRows]:
    """The row changes of a file; `columns` are the table's stored columns in order."""
    with Path(path).open("rb") as stream:
        yield from read_stream(stream, options, columns, where, batch_bytes)


def read_stream(
    stream: BinaryIO, options: CsvOptions, columns: tuple[str, ...], where: str, batch_bytes: int = BATCH_BYTES
) -> Iterator[RawRows]:
    """The row changes of an opened file, whose bytes are read once from the start to the end."""
    reader = _Reader(options, columns, where)
    lines = 0
    waiting: RawRows | None = None
    for block in reader.blocks(stream, batch_bytes):
        halves = reader.halves(block, lines)
        lines += len(halves.op)
        rows, waiting = _paired(halves, waiting) if options.output_old_value else (halves.rows(), None)
        if len(rows):
            yield rows
    if waiting is not None:
        yield waiting


@dataclass(frozen=True, slots=True)
class _Halves:
    """Records before updates are put together again."""

    op: pa.Array
    commit_ts: pa.Array
    is_update: pa.Array | None
    line: pa.Array
    columns: tuple[str, ...]
    wire: tuple[pa.Array, ...]

    def rows(self) -> RawRows:
        unknown = pa.nulls(len(self.op), pa.int64())
        return RawRows(self.op, self.commit_ts, unknown, self.line, self.columns, self.wire)
