"""One Parquet file of landed messages, read by row groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from ticdc_assets.errors import SourceError

if TYPE_CHECKING:
    from ticdc_assets.tables.landings import SegmentFile

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
