"""Writes data files, and says which of their row groups have to be read. No other module opens a Parquet writer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from ticdc_assets.tables.iceberg.written_file import WrittenFile

_GATHERED_BYTES: Final = 12 << 20
"""The least size of a row group, but for the last of a file."""


class DataFileWriter:
    """A data file that is being written, in row groups. It exists as soon as the writer is made.

    As a context manager it is closed at the end, also after an error; the caller then removes the file.
    """

    def __init__(
        self,
        io: FileIO,
        uri: str,
        schema: pa.Schema,
        *,
        is_small: bool = False,
        use_dictionary: bool | Sequence[str] = True,
    ) -> None:
        """`is_small` chooses Snappy: zstd compresses a few rows no better, and its setup per column dominates the
        time. `use_dictionary` names the columns whose values repeat; true is Parquet's own choice."""
        self._uri = uri
        self._stream = io.new_output(uri).create(overwrite=True)
        self._writer = pq.ParquetWriter(
            self._stream,
            schema,
            compression="snappy" if is_small else "zstd",
            compression_level=None if is_small else 1,
            use_dictionary=use_dictionary,
            store_schema=False,
        )

    def write(self, rows: pa.Table) -> None:
        """Write the rows as a row group."""
        self._writer.write_table(rows)

    @property
    def size_bytes(self) -> int:
        """The bytes written so far."""
        return int(self._stream.tell())

    def close(self) -> WrittenFile:
        """Write the footer. Returns what a commit needs to know of the file."""
        self._writer.close()
        size_bytes = self.size_bytes
        self._stream.close()
        return WrittenFile(self._uri, size_bytes, self._writer.writer.metadata)

    def __enter__(self) -> DataFileWriter:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._writer.close()
        finally:
            self._stream.close()


def gathered(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables that each make a row group."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(part.nbytes for part in held) >= _GATHERED_BYTES:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def row_groups(
    footer: pq.FileMetaData, name: str | None = None, least: int | None = None, most: int | None = None
) -> Iterator[tuple[int, int]]:
    """The row groups, with the position of their first row, that may hold a value of `name` from `least` to `most`."""
    column = next((n for n in range(footer.num_columns) if footer.schema.column(n).path == name), None)
    first = 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        if column is None or _can_have(group.column(column).statistics, least, most):
            yield number, first
        first += group.num_rows


def _can_have(statistics: pq.Statistics | None, least: int | None, most: int | None) -> bool:
    if least is None or most is None or statistics is None or not statistics.has_min_max:
        return True
    return not isinstance(statistics.min, int) or (statistics.min <= most and statistics.max >= least)
