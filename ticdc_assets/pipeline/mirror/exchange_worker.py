"""Writes the changes of an EXCHANGE PARTITION as changelog files, in Spark's Python workers, with bounded memory."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyiceberg.io import load_file_io
from pyspark import TaskContext

from ticdc_assets.changes import layout
from ticdc_assets.tables.iceberg.parquet import DataFileWriter
from ticdc_assets.tso import physical_ms

ANSWER: Final = "file binary"
"""The columns that `write_moved` returns, as a Spark schema."""


@dataclass(frozen=True, slots=True)
class MovedRows:
    """Where the changes of one table go. `schema` is that of the changelog's data file, with field ids."""

    prefix: str
    schema: pa.Schema
    ts: int
    version_ts: int
    io_properties: Mapping[str, str]


def write_moved(task: MovedRows, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows `op, seq, values ...` of one Spark partition as one file. No rows, no file."""
    full = (batch for batch in batches if batch.num_rows)
    first = next(full, None)
    if first is None:
        return
    context = TaskContext.get()
    assert context is not None
    uri = f"{task.prefix}-{context.partitionId():05d}-{context.taskAttemptId()}.parquet"
    io = load_file_io(dict(task.io_properties), location=uri)
    with DataFileWriter(io, uri, task.schema) as file:
        file.write(_changes(task, first))
        for batch in full:
            file.write(_changes(task, batch))
        answer = pickle.dumps(file.close())
    yield pa.RecordBatch.from_arrays([pa.array([answer], pa.binary())], names=["file"])


def _changes(task: MovedRows, batch: pa.RecordBatch) -> pa.Table:
    count = batch.num_rows
    time = pa.array(np.full(count, physical_ms(task.ts) * 1000, np.int64)).cast(pa.timestamp("us"))
    system = [
        batch.column(0),
        pa.array(np.full(count, task.ts, np.int64)),
        time.cast(pa.timestamp("us", tz="UTC")),
        batch.column(1),
        pa.array(np.full(count, task.version_ts, np.int64)),
        pa.nulls(count, task.schema.field(layout.BEFORE).type),
    ]
    arrays = [*system, *batch.columns[2:]]
    cast = [array.cast(field.type) for array, field in zip(arrays, task.schema, strict=True)]
    return pa.Table.from_arrays(cast, schema=task.schema)
