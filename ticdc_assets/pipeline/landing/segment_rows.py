"""Reads columns of landed messages from the files of a partition, one row group at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
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


WHOLE_BYTES_MAX: Final = 64 << 10
"""A file of up to this size is read at once, which takes one request instead of three."""


class MessageFile:
    """A data file of `messages`. A small one is read at once. A larger one stays open as long as it is referred to;
    with `reopens`, it is open only while it is read, so that a process can read more files at once than it may have
    open.

    Raises:
        SourceError: the file cannot be read.
    """

    def __init__(self, io: FileIO, of: SegmentFile, *, reopens: bool = False) -> None:
        self._io = io
        self._of = of
        with _named_in_errors(of):
            parquet = self._open()
        self._metadata = parquet.metadata
        self._parquet = None if reopens and not self._is_small else parquet
        if self._parquet is None:
            parquet.close(force=True)

    @property
    def row_groups(self) -> int:
        """The number of row groups."""
        return int(self._metadata.num_row_groups)

    def row_count(self, row_group: int) -> int:
        """The number of rows of a row group."""
        return int(self._metadata.row_group(row_group).num_rows)

    def mean_bytes(self, row_group: int, columns: list[str]) -> int:
        """The mean size of these columns of a row, not compressed."""
        group = self._metadata.row_group(row_group)
        found = map(group.column, range(group.num_columns))
        size_bytes = sum(of.total_uncompressed_size for of in found if of.path_in_schema in columns)
        return int(size_bytes // max(1, group.num_rows))

    def read_row_group(self, row_group: int, columns: list[str]) -> pa.Table:
        """These columns of a row group."""
        with _named_in_errors(self._of), self._opened() as parquet:
            return parquet.read_row_group(row_group, columns=columns, use_threads=False)

    def read(self, columns: list[str]) -> pa.Table:
        """These columns of all rows."""
        with _named_in_errors(self._of), self._opened() as parquet:
            return parquet.read(columns=columns, use_threads=False)

    @property
    def _is_small(self) -> bool:
        return self._of.size_bytes <= WHOLE_BYTES_MAX

    @contextmanager
    def _opened(self) -> Iterator[pq.ParquetFile]:
        if self._parquet is not None:
            yield self._parquet
            return
        parquet = self._open()
        try:
            yield parquet
        finally:
            # A thread that has read ahead may hold the last reference for a moment longer.
            parquet.close(force=True)

    def _open(self) -> pq.ParquetFile:
        file = self._io.new_input(self._of.uri)
        if self._is_small:
            with file.open() as stream:
                return pq.ParquetFile(pa.BufferReader(stream.read()))
        # Nothing else refers to the stream, so it is closed with the last reference to what is returned. Columns that
        # lie next to each other are read with one request.
        return pq.ParquetFile(file.open(), pre_buffer=True)


@contextmanager
def _named_in_errors(file: SegmentFile) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:  # the second, where the file is damaged
        found = getattr(error, "strerror", None) or type(error).__name__
        name = PurePosixPath(file.uri).name
        advice = "Restore it: it has messages that Kafka may no longer have."
        raise SourceError(f"messages, file {name}", "a file that can be read", found, advice) from None


BODIES: Final = ["key", "value"]


class SegmentRows:
    """These columns of the rows of a segment, read in order from the row `first`. It opens no file before the first row
    is asked for, and reads no row group before one of its rows is taken. With `reopens`, no file stays open.

    Raises:
        SourceError: a file cannot be read.
    """

    def __init__(
        self, io: FileIO, segment: LandedSegment, first: int, columns: list[str], *, reopens: bool = False
    ) -> None:
        self._columns = columns
        self._groups = _row_groups(_files(io, segment, first, reopens=reopens))
        self._unread: deque[_RowGroup] = deque()
        self._held: list[pa.Table] = []
        self._held_sizes = np.empty(0, np.int64)

    def sizes(self, count: int) -> Ints:
        """The bytes of the bodies of the next rows: for each row, the mean of its row group."""
        while len(self._held_sizes) < count:
            group = next(self._groups)
            self._unread.append(group)
            self._held_sizes = np.append(self._held_sizes, np.full(len(group), group.mean_bytes))
        return self._held_sizes[:count]

    def take(self, count: int) -> pa.Table:
        """The next rows."""
        self.sizes(count)
        found = self._held
        while sum(map(len, found)) < count:
            found.append(self._unread.popleft().read(self._columns))
        rows = pa.concat_tables(found)
        self._held, self._held_sizes = [rows.slice(count)], self._held_sizes[count:]
        return rows.slice(0, count)


def times_ms(io: FileIO, segment: LandedSegment) -> Ints:
    """The timestamps of all rows of a segment. Raises SourceError where a file cannot be read."""
    return np.concatenate([milliseconds(MessageFile(io, file).read(["timestamp"])) for file in segment.files])


def milliseconds(rows: pa.Table) -> Ints:
    """The timestamps of rows, 0 where they have none."""
    times = rows.column("timestamp").cast(pa.int64()).fill_null(0)
    return np.asarray(times.to_numpy(), np.int64) // 1000


@dataclass(frozen=True, slots=True)
class _RowGroup:
    """A row group of a file without its first rows."""

    file: MessageFile
    number: int
    first: int = 0

    def __len__(self) -> int:
        return self.file.row_count(self.number) - self.first

    @property
    def mean_bytes(self) -> int:
        return self.file.mean_bytes(self.number, BODIES)

    def read(self, columns: list[str]) -> pa.Table:
        return self.file.read_row_group(self.number, columns).slice(self.first)


def _files(io: FileIO, segment: LandedSegment, first: int, *, reopens: bool) -> Iterator[tuple[MessageFile, int]]:
    """The files of a segment from a row on, each with the first row to read."""
    for file in segment.files:
        if first < file.rows:
            yield MessageFile(io, file, reopens=reopens), first
        first = max(0, first - file.rows)


def _row_groups(files: Iterable[tuple[MessageFile, int]]) -> Iterator[_RowGroup]:
    for file, first in files:
        for number in range(file.row_groups):
            group = _RowGroup(file, number)
            if first < len(group):
                yield replace(group, first=first)
            first = max(0, first - len(group))
