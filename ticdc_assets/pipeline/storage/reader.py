"""Reads a storage sink's files as batches of text columns: in bulk where that is exact, else one record at a time.

The file must have its listed size before and after it is read: else it is being written, and its table waits. Both
decoders refuse columns that no schema has.

A changefeed that flushes every few seconds writes thousands of files of a few rows. Most of the time is then the fixed
cost of a file (casts of its columns, a part of a Parquet file), so it is spent once for a group.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa

from ticdc_assets.advice import Advice
from ticdc_assets.errors import DecodeError, NotYetError, SourceError
from ticdc_assets.names.folding import fold
from ticdc_assets.pipeline.rows.fit import ColumnRules
from ticdc_assets.pipeline.rows.place import Ints
from ticdc_assets.pipeline.storage.reference import joined_records, record_by_record
from ticdc_assets.pipeline.tasks import DecodeTask, FileDecoding, QuarantineEntry, TaskFile
from ticdc_assets.protocols.canal_json import decoder as canal_json
from ticdc_assets.protocols.columnar.raw_rows import JoinedRows, RawRows
from ticdc_assets.protocols.csv import decoder as csv
from ticdc_assets.protocols.csv import records as csv_records
from ticdc_assets.protocols.csv.options import CsvOptions
from ticdc_assets.protocols.formats.limits import BATCH_BYTES
from ticdc_assets.schema.history.source_table import SchemaPeriod, Version
from ticdc_assets.sources.filesystem import Root, open_root

SMALL_BYTES: Final = 1 << 17
"""Larger files are decoded alone: their rows take longer than the fixed cost of a file."""
GROUP_BYTES_MAX: Final = 2 << 20
"""Groups of more bytes are no faster; a group in which a file is damaged is decoded twice."""
SMALL_JSON_BYTES: Final = 1 << 17
"""Canal-JSON files up to this size are read record by record, which is faster than the setup of the bulk decoder. The
bulk decoder of CSV needs no setup."""
MANY_JSON_BYTES: Final = 4 << 20
"""From this total per task on, small files are read in bulk too: the setup is done once per task."""


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
        if len(self.files) == 1 and not self.first.first_line:
            return np.full(len(line), self.first.ordinal, np.int64), line
        numbers = self.numbers(line)
        begins = np.concatenate(([0], self.line_ends[:-1])) - [file.first_line for file in self.files]
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


class FileReader:
    """Reads the files of one task. Opens the root with the first file."""

    def __init__(self, task: DecodeTask) -> None:
        self._task = task
        self._csv = task.decoding.csv
        self._many = sum(file.size_bytes for file in task.files) > MANY_JSON_BYTES
        self._root: Root | None = None

    def is_read_in_bulk(self, size_bytes: int) -> bool:
        """Whether the bulk decoder is worth its setup for so many bytes."""
        return self._csv is not None or self._many or size_bytes > SMALL_JSON_BYTES

    def raw_rows(self, file: TaskFile, careful: bool, bad: list[QuarantineEntry]) -> Iterator[RawRows]:
        """The changes of a file in order. `careful` reads record by record and adds bad records to `bad`.

        Raises:
            BulkUnsupported: only the careful decoder can read the file.
            NotYetError: the file is not complete yet.
        """
        with self._opened(file) as stream:
            columns, name = columns_to_read(self._task, file, stream), (file.schema, file.table)
            # The import of a bulk decoder costs as much as reading hundreds of rows, and a task needs one of them.
            if careful:
                yield from record_by_record(self._task, file, stream.read(), columns, bad)
            elif self._csv is not None:
                from ticdc_assets.protocols.csv import bulk as csv_bulk

                yield from csv_bulk.read_stream(stream, columns, file.path, name, self._csv)
            else:
                from ticdc_assets.protocols.canal_json import bulk as json_bulk

                batch_bytes = min(BATCH_BYTES, file.size_bytes)
                yield from json_bulk.read_stream(stream, columns, file.path, name, batch_bytes)

    def joined(self, files: tuple[TaskFile, ...]) -> JoinedRows:
        """The changes of small files of one folder, read as one.

        Raises an error where a file is not complete or has anything but sound records: it must be read alone.
        """
        self._root = self._root or open_root(self._task.root_uri)
        blobs = self._root.read_small([file.path for file in files], max(file.size_bytes for file in files))
        for file, blob in zip(files, blobs, strict=True):
            _check_size(file, len(blob))
        first, name = files[0], (files[0].schema, files[0].table)
        columns = columns_to_read(self._task, first, BytesIO(blobs[0]))  # of CSV all files must have as many fields
        if self._csv is not None:
            from ticdc_assets.protocols.csv import bulk as csv_bulk

            return csv_bulk.read_joined(blobs, columns, first.path, name, self._csv)
        if not self.is_read_in_bulk(sum(map(len, blobs))):
            return joined_records(self._task, files, blobs, columns)
        from ticdc_assets.protocols.canal_json import bulk as json_bulk

        return json_bulk.read_joined(blobs, columns, first.path, name)

    def record_bytes(self, file: TaskFile, lines: Collection[int]) -> dict[int, bytes]:
        """The raw records with these ordinals."""
        with self._opened(file) as stream:
            data = stream.read()
        return (
            canal_json.record_bytes(data, lines)
            if self._csv is None
            else csv_records.record_bytes(data, self._csv, lines)
        )

    @contextmanager
    def _opened(self, file: TaskFile) -> Iterator[BufferedReader]:
        """The file, fetched where it is not local. Raises where it does not have its listed size, at the start or at
        the end."""
        try:
            with ExitStack() as stack:
                self._root = self._root or open_root(self._task.root_uri)
                local = self._root.local_path(file.path)
                if local is None:
                    local = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "file"
                    self._root.fetch_to(file.path, local)
                stream = stack.enter_context(local.open("rb"))
                _check_size(file, os.fstat(stream.fileno()).st_size)
                yield stream
                _check_size(file, os.fstat(stream.fileno()).st_size)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise NotYetError(file.path, "the file that was listed", "none", Advice.RESTORE_FILE) from None
        except OSError as error:
            found = error.strerror or type(error).__name__
            raise SourceError(file.path, "a file that can be read", found, Advice.READ_AGAIN) from None


def _check_size(file: TaskFile, size_bytes: int) -> None:
    if size_bytes != file.size_bytes:
        expected = f"{file.size_bytes} bytes, as it was listed"
        raise NotYetError(file.path, expected, f"{size_bytes}", Advice.AWAIT_WHOLE_FILE)


# -- columns ----------------------------------------------------------------------------------------------------------


def columns_to_read(task: DecodeTask, file: TaskFile, stream: BinaryIO) -> tuple[str, ...]:
    """The columns to read: CSV fields are positional in the folder's version, JSON members are by name in any
    version."""
    periods = [period for period in task.timelines[file.name] if isinstance(period, SchemaPeriod)]
    if task.decoding.csv is None:
        names: dict[str, str] = {}
        for name in (*(c.name for period in periods for c in period.version.table.columns), *file.listed_columns):
            names.setdefault(fold(name), name)
        return tuple(names.values())
    begun = [period for period in periods if period.after_ts <= file.folder_version]
    if not begun:
        raise DecodeError(
            file.path, f"a schema of {file.schema}.{file.table} for its folder", "none", Advice.RESTORE_SCHEMAS
        )
    columns = file.listed_columns or tuple(c.name for c in begun[-1].version.table.stored_columns)
    if not task.decoding.selectors.selectors:
        return columns
    return _fields_of(task.decoding, task.decoding.csv, file, stream, columns)


def _fields_of(
    decoding: FileDecoding, options: CsvOptions, file: TaskFile, stream: BinaryIO, columns: tuple[str, ...]
) -> tuple[str, ...]:
    """The columns that a CSV file has fields for. Only newer servers leave columns out of files, and only the number of
    fields shows it."""
    left = tuple(name for name in columns if not _is_left_out(decoding, file, name))
    if len(left) == len(columns):
        return columns
    fields = csv_records.first_fields(stream.read(BATCH_BYTES), options) or ()
    stream.seek(0)
    has_all = csv.leading_fields(len(fields), options, len(columns)) is not None
    return columns if has_all or csv.leading_fields(len(fields), options, len(left)) is None else left


def _is_left_out(decoding: FileDecoding, file: TaskFile, column: str) -> bool:
    return decoding.selectors.leaves_out(file.schema, file.table, column)


def aligned(decoding: FileDecoding, file: TaskFile, version: Version, rows: RawRows) -> RawRows:
    """The rows, of CSV with the column names of the version. CSV fields are positional: TiCDC writes rows of another
    version into a folder only where both have the same columns, possibly in another order.

    Raises DecodeError where they have other columns, or lack one."""
    rules = ColumnRules(version.table, partial(decoding.selectors.leaves_out, file.schema, file.table))
    if decoding.csv is not None:
        if not rules.fit(rows.columns):
            raise _other_columns(file, "the columns of another version than its folder's")
        there = {fold(name) for name in rows.columns}
        return replace(rows, columns=tuple(c.name for c in version.table.stored_columns if fold(c.name) in there))
    images = zip(rows.columns, rows.wire, *([rows.before] if rows.before else []), strict=True)
    unknown = rules.unknown(name for name, *texts in images if any(text.null_count < len(text) for text in texts))
    if unknown is not None:
        raise _other_columns(file, f"a column {unknown!r} that its version does not have")
    lacking = rules.lacking_in(rows)
    if lacking is not None:
        raise _other_columns(file, f"rows without {lacking!r}", Advice.LEFT_OUT_OF_FILE)
    return rows


def _other_columns(file: TaskFile, found: str, advice: Advice = Advice.RESTORE_SCHEMAS) -> DecodeError:
    return DecodeError(
        file.path,
        f"rows with the columns that {file.schema}.{file.table} had at their commit_ts",
        found,
        advice,
    )
