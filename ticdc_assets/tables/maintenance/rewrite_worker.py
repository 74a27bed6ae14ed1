"""The worker's part of a compaction: the rows of several small data files in one new file. The driver commits it.

Columns are found by their field ids and get the types that the table has now. A row of format 3 keeps its id and the
sequence number of its last change, which old files only imply.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io

from ticdc_assets.tables.iceberg.deletion_vectors import positions_of
from ticdc_assets.tables.iceberg.parquet import DataFileWriter, gathered
from ticdc_assets.tables.iceberg.types import field_id, id_of
from ticdc_assets.tables.iceberg.written_file import WrittenFile

ROW_ID: Final = pa.field("_row_id", pa.int64(), metadata=field_id(2147483540))
LAST_CHANGE: Final = pa.field("_last_updated_sequence_number", pa.int64(), metadata=field_id(2147483539))
"""The columns of Iceberg's format 3 that are in no schema."""


@dataclass(frozen=True, slots=True)
class OldFile:
    """A data file to rewrite, with the place of its deletion vector, if any. `first_row_id` is None in format 2."""

    uri: str
    sequence_number: int
    first_row_id: int | None = None
    vector_uri: str = ""
    vector_offset_bytes: int = 0
    vector_size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """The files whose rows become one file at `uri`, in the columns of `schema`."""

    files: tuple[OldFile, ...]
    schema: pa.Schema
    uri: str
    io_properties: dict[str, str] = field(default_factory=dict)


def rewrite(task: RewriteTask) -> WrittenFile | None:
    """Write the rows of all files; None where none is left. After an error there is no new file."""
    io = load_file_io(dict(task.io_properties), location=task.uri)
    has_ids = any(file.first_row_id is not None for file in task.files)
    schema = pa.schema([*task.schema, ROW_ID, LAST_CHANGE]) if has_ids else task.schema
    tables = gathered(table for file in task.files if len(table := _rows(io, file, schema)))
    first = next(tables, None)
    if first is None:
        return None
    try:
        with DataFileWriter(io, task.uri, schema) as file:
            file.write(first)
            for table in tables:
                file.write(table)
            return file.close()
    except BaseException:
        io.delete(task.uri)
        raise


def _rows(io: FileIO, old: OldFile, schema: pa.Schema) -> pa.Table:
    with io.new_input(old.uri).open() as stream:
        found = pq.ParquetFile(stream).read(use_threads=False)
    table = _with_ids(_in_schema(found, schema), old)
    if not old.vector_uri:
        return table
    kept = np.ones(len(table), bool)
    kept[np.fromiter(positions_of(_vector(io, old)), np.int64)] = False
    return table.filter(pa.array(kept))


def _with_ids(table: pa.Table, old: OldFile) -> pa.Table:
    """The rows with the ids and sequence numbers that the file has, and that it implies where it has none."""
    if old.first_row_id is None:
        return table
    implied = {
        ROW_ID.name: pa.array(np.arange(old.first_row_id, old.first_row_id + len(table), dtype=np.int64)),
        LAST_CHANGE.name: pa.array(np.full(len(table), old.sequence_number, np.int64)),
    }
    for name, values in implied.items():
        number = table.schema.get_field_index(name)
        column = table.column(number).combine_chunks()
        table = table.set_column(number, table.schema.field(number), pa.compute.coalesce(column, values))
    return table


def _vector(io: FileIO, old: OldFile) -> bytes:
    with io.new_input(old.vector_uri).open() as stream:
        stream.seek(old.vector_offset_bytes)
        return stream.read(old.vector_size_bytes)


def _in_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    there = {id_of(f): table.column(n).combine_chunks() for n, f in enumerate(table.schema)}
    columns = [_column(there.get(id_of(wanted)), wanted.type, len(table)) for wanted in schema]
    return pa.table(columns, schema=schema)


def _column(found: pa.Array | None, wanted: pa.DataType, rows: int) -> pa.Array:
    if found is None:
        return pa.nulls(rows, wanted)
    if isinstance(found, pa.ChunkedArray):  # without rows it has no chunk
        found = pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], found.type)
    if not pa.types.is_struct(wanted):
        return found if found.type == wanted else found.cast(wanted)
    there = {id_of(found.type.field(n)): found.field(n) for n in range(found.type.num_fields)}
    columns = [_column(there.get(id_of(f)), f.type, rows) for f in wanted]
    return pa.StructArray.from_arrays(columns, fields=[*wanted], mask=found.is_null())
