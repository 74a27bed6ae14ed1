"""The worker's part of a merge: finds the newest change of every key in a segment of the changelog, writes the
resulting rows as Parquet, and returns which rows of the mirror they replace.

Of all changes only key and order columns are read, once for each bucket of keys; the other columns only for rows that
are written. The driver commits. A segment that a worker cannot merge (a file lacks a key column, a value does not fit
its column) is no error: the worker reports that, and Spark merges the segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io

from ticdc_assets.changes import layout
from ticdc_assets.changes.rows_by_key import Ints, in_bucket, newest_of_each, rows_with
from ticdc_assets.pipeline.mirror.merge.task import (
    DeletedRows,
    LiveFile,
    MergeReport,
    MergeTask,
    MirrorColumn,
)
from ticdc_assets.tables.iceberg.deletion_vectors import blob_of, positions_of
from ticdc_assets.tables.iceberg.parquet import DataFileWriter, gathered, row_groups
from ticdc_assets.tables.iceberg.types import id_of
from ticdc_assets.tables.iceberg.written_file import WrittenFile

FILE_BYTES: Final = 512 << 20
"""About the size of a data file, Iceberg's default `write.target-file-size-bytes`."""
_Indices = npt.NDArray[np.int32]


class UnfitError(Exception):
    """Spark must merge this segment."""


def merge(task: MergeTask) -> MergeReport:
    """Merge one share of a segment. A worker that cannot merge leaves no file."""
    io = load_file_io(dict(task.io_properties), location=task.prefix_uri)
    begun: list[str] = []
    try:
        chosen = _chosen(io, task)
        gone = [found for live in task.live if (found := _gone(io, live, chosen.replaced.get(live.uri, [])))]
        written = _write(io, task, chosen.rows, begun)
    except (UnfitError, pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        for uri in begun:
            io.delete(uri)
        return MergeReport(task.source_table_id, unfit=type(error).__name__)
    return MergeReport(task.source_table_id, written, tuple(gone))


@dataclass(frozen=True, slots=True)
class _Chosen:
    """This worker's rows: those to write, by the number of their file of the changelog, ascending; and those of the
    mirror that the segment replaces, by the URI of their data file."""

    rows: dict[int, _Indices]
    replaced: dict[str, list[Ints]]


def _chosen(io: FileIO, task: MergeTask) -> _Chosen:
    rows: dict[int, list[_Indices]] = {}
    replaced: dict[str, list[Ints]] = {}
    for bucket in range(task.buckets):
        newest = _newest(io, task, bucket)
        pa.default_memory_pool().release_unused()  # frees the identities; what follows needs the memory
        own = ~newest.is_delete & (newest.files % task.shares == task.share)
        for number in np.unique(newest.files[own]).tolist():
            rows.setdefault(number, []).append(newest.rows[own & (newest.files == number)])
        for live in task.live if len(newest.rows) else ():
            replaced.setdefault(live.uri, []).extend(_replaced(io, task, live, newest))
    return _Chosen({number: np.sort(np.concatenate(found)) for number, found in sorted(rows.items())}, replaced)


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest change of every key of a bucket: the key, the number of its file, its row there, and whether it is a
    delete."""

    keys: list[pa.ChunkedArray]
    files: _Indices
    rows: _Indices
    is_delete: np.ndarray


# -- the changelog -----------------------------------------------------------------------------------------------------


def _newest(io: FileIO, task: MergeTask, bucket: int) -> _Newest:
    keys = _key_columns(task)
    found = [_identities(io, task, number, keys, bucket) for number in range(len(task.changes.files))]
    table = pa.concat_tables(found)
    columns = [table.column(f"k{number}") for number in range(len(keys))]
    if any(column.null_count for column in columns):
        raise UnfitError
    rows = newest_of_each(
        columns, [table.column(name) for name in (["seq"] if task.changes.by_arrival else ["ts", "seq"])]
    )
    table = table.drop_columns(["ts", "seq"])
    kept = table.take(pa.array(rows))
    return _Newest(
        [kept.column(f"k{number}") for number in range(len(keys))],
        kept.column("file").to_numpy(),
        kept.column("row").to_numpy(),
        kept.column("gone").to_numpy(),
    )


def _key_columns(task: MergeTask) -> list[MirrorColumn]:
    return [column for column in task.columns if column.field.name in task.key]


def _identities(io: FileIO, task: MergeTask, number: int, keys: Sequence[MirrorColumn], bucket: int) -> pa.Table:
    """Key, order and kind of the changes of one file that are in the segment and in the bucket."""
    bound = layout.SEQ if task.changes.by_arrival else layout.COMMIT_TS
    system = [layout.OP, layout.COMMIT_TS, layout.SEQ, *([layout.TABLE_VERSION] if task.changes.by_arrival else [])]
    with ExitStack() as stack:
        file = _open(io, task.changes.files[number], stack)
        names = [_name_of(file, column.changelog_id) for column in keys]
        found = []
        for group, first in row_groups(file.metadata, bound, task.changes.low + 1, task.changes.high):
            table = file.read_row_group(group, columns=[*system, *names], use_threads=False)
            rows = np.arange(first, first + len(table), dtype=np.int32)
            values = table.column(bound)
            wanted = pc.and_(pc.greater(values, task.changes.low), pc.less_equal(values, task.changes.high))
            if task.changes.by_arrival:
                wanted = pc.and_(wanted, pc.equal(table.column(layout.TABLE_VERSION), task.changes.version_ts))
            values_of_keys = [_as(table.column(name), key.field.type) for name, key in zip(names, keys, strict=True)]
            if task.buckets > 1:
                wanted = pc.and_(wanted, pa.array(in_bucket(values_of_keys, bucket, task.buckets)))
            columns = {f"k{n}": values for n, values in enumerate(values_of_keys)}
            columns |= {
                "seq": table.column(layout.SEQ),
                "ts": pc.fill_null(table.column(layout.COMMIT_TS), 0),
                "gone": pc.equal(table.column(layout.OP), "D"),
                "file": pa.array(np.full(len(table), number, np.int32)),
                "row": pa.array(rows),
            }
            is_whole = not wanted.null_count and pc.all(wanted).as_py()
            every = pa.table(columns)
            found.append(every if is_whole else every.filter(pc.fill_null(wanted, False)))
    return pa.concat_tables(found) if found else _no_identities(keys)


def _no_identities(keys: Sequence[MirrorColumn]) -> pa.Table:
    fields = [(f"k{n}", column.field.type) for n, column in enumerate(keys)]
    order = [(name, pa.int64()) for name in ("seq", "ts")]
    return pa.schema([*fields, *order, ("gone", pa.bool_()), ("file", pa.int32()), ("row", pa.int32())]).empty_table()


# -- the mirror as it is -----------------------------------------------------------------------------------------------


def _replaced(io: FileIO, task: MergeTask, live: LiveFile, newest: _Newest) -> Iterator[Ints]:
    """The rows of a data file that have one of the keys."""
    keys = _key_columns(task)
    with ExitStack() as stack:
        file = _open(io, live.uri, stack)
        names = [_name_of(file, id_of(column.field)) for column in keys]
        least, most = _bounds(newest.keys[0])
        for group, first in row_groups(file.metadata, names[0], least, most):
            table = file.read_row_group(group, columns=names, use_threads=False)
            columns = [_as(table.column(name), key.field.type) for name, key in zip(names, keys, strict=True)]
            yield first + rows_with(columns, newest.keys)


def _gone(io: FileIO, live: LiveFile, found: Sequence[Ints]) -> DeletedRows | None:
    """The deleted rows of a data file, by this segment or before it; None where this segment deletes none."""
    positions = np.concatenate(found) if found else np.empty(0, np.int64)
    if not len(positions):
        return None
    before = positions_of(_vector(io, live)) if live.vector is not None else positions_of(blob_of(()))
    now = before | positions_of(blob_of(positions.tolist()))
    return DeletedRows(live.uri, blob_of(now), len(now)) if len(now) > len(before) else None


def _vector(io: FileIO, live: LiveFile) -> bytes:
    assert live.vector is not None
    with io.new_input(live.vector.uri).open() as stream:
        stream.seek(live.vector.offset_bytes)
        return stream.read(live.vector.size_bytes)


def _bounds(keys: pa.ChunkedArray) -> tuple[int | None, int | None]:
    """The smallest and the largest key, where the key is an integer: they select the row groups that may hold it."""
    if not pa.types.is_integer(keys.type):
        return None, None
    bounds = pc.min_max(keys)
    return bounds["min"].as_py(), bounds["max"].as_py()


# -- new rows ----------------------------------------------------------------------------------------------------------


def _write(io: FileIO, task: MergeTask, chosen: Mapping[int, _Indices], begun: list[str]) -> tuple[WrittenFile, ...]:
    """Write the chosen rows as data files of about FILE_BYTES, one row group at a time; none without rows. The URI of a
    file is in `begun` as soon as it exists."""
    schema = pa.schema([column.field for column in task.columns])
    tables = gathered(_rows(io, task, chosen, schema))
    written: list[WrittenFile] = []
    while (first := next(tables, None)) is not None:
        uri = f"{task.prefix_uri}-{task.share:03d}-{len(written):03d}.parquet"
        with DataFileWriter(io, uri, first.schema) as file:
            begun.append(uri)
            file.write(first)
            while file.size_bytes < FILE_BYTES and (table := next(tables, None)) is not None:
                file.write(table)
            written.append(file.close())
    return tuple(written)


def _rows(io: FileIO, task: MergeTask, chosen: Mapping[int, _Indices], schema: pa.Schema) -> Iterator[pa.Table]:
    for number, wanted in chosen.items():
        with ExitStack() as stack:
            file = _open(io, task.changes.files[number], stack)
            names = {column.field.name: _name_or_none(file, column.changelog_id) for column in task.columns}
            read = [name for name in names.values() if name is not None]
            for group, first in row_groups(file.metadata):
                begin, end = np.searchsorted(wanted, (first, first + file.metadata.row_group(group).num_rows))
                if begin == end:
                    continue
                table = file.read_row_group(group, columns=read, use_threads=False)
                table = table.take(pa.array(wanted[begin:end] - first)) if end - begin < len(table) else table
                columns = [
                    pa.chunked_array([pa.nulls(len(table), field.type)])
                    if (name := names[field.name]) is None
                    else _as(table.column(name), field.type)
                    for field in schema
                ]
                yield pa.table(columns, schema=schema)


# -- files -------------------------------------------------------------------------------------------------------------


def _open(io: FileIO, uri: str, stack: ExitStack) -> pq.ParquetFile:
    return pq.ParquetFile(stack.enter_context(io.new_input(uri).open()))


def _name_or_none(file: pq.ParquetFile, field_id: int | None) -> str | None:
    return next((field.name for field in file.schema_arrow if id_of(field) == field_id), None)


def _name_of(file: pq.ParquetFile, field_id: int | None) -> str:
    name = _name_or_none(file, field_id)
    if name is None:
        raise UnfitError
    return name


def _as(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == wanted else column.cast(wanted)
