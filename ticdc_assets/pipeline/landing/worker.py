"""The worker's part of landing: read a range of offsets from Kafka and write the messages as Parquet files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, OutputStream, load_file_io

from ticdc_assets.errors import TopicError
from ticdc_assets.pipeline.landing.message_heads import message_heads
from ticdc_assets.pipeline.landing.records import PartitionRecords, row_groups
from ticdc_assets.protocols.columnar.message_rows import Messages
from ticdc_assets.sources.kafka.client import KafkaClient
from ticdc_assets.sources.kafka.same_topic import mark_of
from ticdc_assets.tables.iceberg.written_file import WrittenFile

if TYPE_CHECKING:
    from ticdc_assets.config import KafkaSource
    from ticdc_assets.sources.kafka.ranges import OffsetRange

_DAY_MS: Final = 86_400_000
_NO_DAY: Final = -1
_REPEATED_COLUMNS: Final = ["topic", "partition", "kind", "schema", "table", "schema_version"]
"""The columns with few values. A dictionary of the others grows to its limit and is then given up."""


@dataclass(frozen=True, slots=True)
class LandingTask:
    """A range of offsets to write below `data_uri` as files of a schema; it ends early after `bytes_max` bytes of keys
    and values."""

    run_id: str
    number: int
    source: KafkaSource
    wanted: OffsetRange
    bytes_max: int
    protocol: str
    options: Any = field(repr=False)
    schema: pa.Schema
    data_uri: str
    io_properties: dict[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class LandedRange:
    """What a task wrote: the range as far as it was read, the files, the number of messages, the bytes of their keys
    and values, and the mark of the last one.

    With a `fault` of its topic it wrote nothing that counts, and `done` is empty.
    """

    done: OffsetRange
    files: tuple[WrittenFile, ...]
    messages: int
    size_bytes: int
    last_mark: str
    fault: TopicError | None = None


def land_range(task: LandingTask) -> LandedRange:
    """Write the messages of a task. Raises SourceError where the cluster cannot be read."""
    try:
        return _landed(task)
    except TopicError as error:
        return LandedRange(replace(task.wanted, end=task.wanted.begin), (), 0, 0, "", error)


def _landed(task: LandingTask) -> LandedRange:
    writer = _FileWriter(load_file_io(dict(task.io_properties), location=task.data_uri), task)
    count, size_bytes, last, done = 0, 0, None, task.wanted
    with KafkaClient(task.source) as client:
        for records, group_bytes in row_groups(task.wanted.partition, client.batches(task.wanted)):
            writer.write(records)
            count, last = count + len(records), records.message(-1)
            size_bytes += group_bytes
            if size_bytes >= task.bytes_max:
                done = replace(task.wanted, end=last.offset + 1)
                break
    return LandedRange(done, writer.finished(), count, size_bytes, mark_of(last) if last is not None else "")


class _FileWriter:
    """Writes a new file at every change of the UTC day, so that each file holds one day and one range of offsets."""

    def __init__(self, io: FileIO, task: LandingTask) -> None:
        self._io = io
        self._task = task
        self._day = _NO_DAY
        self._open: tuple[str, OutputStream, pq.ParquetWriter] | None = None
        self._files: list[WrittenFile] = []

    def write(self, records: PartitionRecords) -> None:
        """Write records, one row group for each run of records of one day."""
        rows = _rows(self._task, records)
        days = records.times_ms // _DAY_MS
        days[~records.is_timed] = _NO_DAY
        bounds = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(records)]
        for begin, end in pairwise(bounds):
            if self._open is None or days[begin] != self._day:
                self._close()
                self._begin(int(days[begin]))
            assert self._open is not None
            self._open[2].write_table(rows.slice(begin, end - begin))

    def finished(self) -> tuple[WrittenFile, ...]:
        """Close the files and return them."""
        self._close()
        return tuple(self._files)

    def _begin(self, day: int) -> None:
        name = f"{self._task.run_id}-{self._task.number:05d}-{len(self._files):05d}.parquet"
        uri = f"{self._task.data_uri}/{name}"
        stream = self._io.new_output(uri).create(overwrite=True)
        writer = pq.ParquetWriter(
            stream,
            self._task.schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=_REPEATED_COLUMNS,
            store_schema=False,
        )
        self._day, self._open = day, (uri, stream, writer)

    def _close(self) -> None:
        if self._open is not None:
            uri, stream, writer = self._open
            writer.close()
            size_bytes = stream.tell()
            stream.close()
            self._files.append(WrittenFile(uri, size_bytes, writer.writer.metadata))
            self._open = None


def _rows(task: LandingTask, records: PartitionRecords) -> pa.Table:
    count, partition = len(records), task.wanted.partition
    heads = message_heads(task.protocol, task.options, Messages(records.keys, records.values), records.message)
    columns = {
        "topic": pa.repeat(pa.scalar(partition.topic), count),
        "partition": pa.repeat(pa.scalar(partition.number, pa.int32()), count),
        "offset": pa.array(records.offsets),
        "timestamp": pa.array(records.times_ms * 1000, mask=~records.is_timed),
        "key": records.keys,
        "value": records.values,
        "headers": records.headers(task.schema.field("headers").type),
        "kind": heads.kinds,
        "schema": heads.schemas,
        "table": heads.tables,
        "commit_ts": heads.commit_ts,
        "min_commit_ts": heads.min_commit_ts,
        "schema_version": heads.schema_versions,
    }
    arrays = [columns[field.name].cast(field.type) for field in task.schema]
    return pa.Table.from_arrays(arrays, schema=task.schema)
