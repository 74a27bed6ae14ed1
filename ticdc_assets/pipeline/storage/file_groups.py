"""Groups the small files of a table, whose rows are decoded together.

A changefeed that flushes every few seconds writes thousands of files of a few rows. Most of the time is then the fixed
cost of a file (casts of its columns, a part of a Parquet file), so it is spent once for a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ticdc_assets.pipeline.tasks import TaskFile
from ticdc_assets.protocols.columnar.raw_rows import RawRows

SMALL_BYTES: Final = 1 << 17
"""Larger files are decoded alone: their rows take longer than the fixed cost of a file."""
GROUP_BYTES_MAX: Final = 2 << 20
"""Groups of more bytes are no faster; a group in which a file is damaged is decoded twice."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files whose records are counted on from file to file: those of file n end before record `line_ends[n]`."""

    files: tuple[TaskFile, ...]
    line_ends: Ints

    @classmethod
    def of_one(cls, file: TaskFile) -> FileGroup:
        """A file alone, with any number of records."""
        return cls((file,), np.array([np.iinfo(np.int64).max]))

    @property
    def first(self) -> TaskFile:
        """The first file. All others are of the same folder."""
        return self.files[0]

    def numbers(self, line: pa.Array) -> Ints:
        """For each record, the index of its file."""
        return np.asarray(np.searchsorted(self.line_ends, line.to_numpy(), side="right"), np.int64)

    def counts(self, line: pa.Array) -> Ints:
        """For each file, how many of these records it has."""
        return np.bincount(self.numbers(line), minlength=len(self.files))

    def is_in_order(self, batches: Sequence[RawRows]) -> bool:
        """Whether commit_ts never goes back from file to file. Where it does, the rows are of two deliveries."""
        commit_ts = np.concatenate([raw.commit_ts.to_numpy() for raw in batches])
        numbers = np.concatenate([self.numbers(raw.line) for raw in batches])
        begins = np.flatnonzero(np.diff(numbers, prepend=-1))
        oldest, newest = np.minimum.reduceat(commit_ts, begins), np.maximum.reduceat(commit_ts, begins)
        return not (oldest[1:] < np.maximum.accumulate(newest)[:-1]).any()

    def places(self, line: pa.Array) -> tuple[Ints, pa.Array]:
        """For each record, the ordinal of its file, and its line in that file."""
        if len(self.files) == 1:
            return np.full(len(line), self.first.ordinal, np.int64), line
        numbers = self.numbers(line)
        begins = np.concatenate(([0], self.line_ends[:-1]))
        ordinals = np.array([file.ordinal for file in self.files], np.int64)
        return ordinals[numbers], pa.array(line.to_numpy() - begins[numbers])


def grouped(files: Sequence[TaskFile]) -> Iterator[tuple[TaskFile, ...]]:
    """The files of one name in their order, small ones of one folder together."""
    group: list[TaskFile] = []
    size_bytes = 0
    for file in files:
        if group and (size_bytes + file.size_bytes > GROUP_BYTES_MAX or _kind(group[-1]) != _kind(file)):
            yield tuple(group)
            group, size_bytes = [], 0
        group.append(file)
        size_bytes += file.size_bytes
    if group:
        yield tuple(group)


def _kind(file: TaskFile) -> tuple[object, ...]:
    """Equal for files that can be decoded together."""
    if file.size_bytes > SMALL_BYTES or file.listed_columns:
        return (file.path,)
    folder = file.path.rpartition("/")[0]
    return (folder, file.schema, file.table, file.folder_version, file.is_seen)
