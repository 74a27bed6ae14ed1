"""Reads columns of landed messages from the files of a partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from ticdc_assets.errors import SourceError
from ticdc_assets.sources.message_block import Ints

if TYPE_CHECKING:
    from ticdc_assets.tables.landings import LandedSegment, SegmentFile

BODIES: Final = ["key", "value"]
SIZE: Final = "size"
"""The mean size of the bodies in a row group, for each of its messages."""


class SegmentRows:
    """These columns of the rows of a segment, read in order from the row `first`. It opens no file before the first row
    is taken.

    Raises:
        SourceError: a file cannot be read.
    """

    def __init__(self, io: FileIO, segment: LandedSegment, first: int, columns: list[str]) -> None:
        self._groups = _row_groups(io, segment.files, first, columns)
        self._held: list[pa.Table] = []

    def take(self, count: int) -> pa.Table:
        """The next rows."""
        found = self._held
        while sum(map(len, found)) < count:
            found.append(next(self._groups))
        rows = pa.concat_tables(found)
        self._held = [rows.slice(count)]
        return rows.slice(0, count)


def times_ms(io: FileIO, segment: LandedSegment) -> Ints:
    """The timestamps of all rows of a segment. Raises SourceError where a file cannot be read."""
    found = []
    for file in segment.files:
        with _opened(io, file) as parquet:
            found.append(milliseconds(parquet.read(columns=["timestamp"], use_threads=False)))
    return np.concatenate(found)


def milliseconds(rows: pa.Table) -> Ints:
    """The timestamps of rows, 0 where they have none."""
    times = rows.column("timestamp").cast(pa.int64()).fill_null(0)
    return np.asarray(times.to_numpy(), np.int64) // 1000


def _row_groups(io: FileIO, files: Sequence[SegmentFile], first: int, columns: list[str]) -> Iterator[pa.Table]:
    """These columns of the files, one row group at a time, without the first rows."""
    for file in files:
        if first >= file.rows:
            first -= file.rows
            continue
        with _opened(io, file) as parquet:
            for number in range(parquet.num_row_groups):
                rows = parquet.metadata.row_group(number).num_rows
                if first < rows:
                    yield _row_group(parquet, number, columns).slice(first)
                first = max(0, first - rows)


@contextmanager
def _opened(io: FileIO, file: SegmentFile) -> Iterator[pq.ParquetFile]:
    try:
        with io.new_input(file.uri).open() as stream:
            yield pq.ParquetFile(stream)
    except OSError as error:
        name, found = PurePosixPath(file.uri).name, error.strerror or type(error).__name__
        advice = "Restore it: it has messages that Kafka may no longer have."
        raise SourceError(f"messages, file {name}", "a file that can be read", found, advice) from None


def _row_group(file: pq.ParquetFile, number: int, columns: list[str]) -> pa.Table:
    """These columns of a row group, among which may be the size."""
    rows = file.read_row_group(number, columns=[name for name in columns if name != SIZE])
    if SIZE not in columns:
        return rows
    group = file.metadata.row_group(number)
    sizes = (
        group.column(i).total_uncompressed_size
        for i in range(group.num_columns)
        if group.column(i).path_in_schema in BODIES
    )
    mean = sum(sizes) // max(1, len(rows))
    return rows.append_column(SIZE, pa.array(np.full(len(rows), mean)))
