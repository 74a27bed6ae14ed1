"""Reads columns of landed messages from the files of a partition, one row group at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO

from ticdc_assets.pipeline.landing.message_file import MessageFile
from ticdc_assets.sources.message_block import Ints

if TYPE_CHECKING:
    from ticdc_assets.tables.landings import LandedSegment

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
