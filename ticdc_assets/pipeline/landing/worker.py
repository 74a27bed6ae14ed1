"""The worker's part of landing: read a range of offsets from Kafka and write the messages as Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, OutputStream, load_file_io

from ticdc_assets.errors import TopicError
from ticdc_assets.pipeline.landing.message_heads import message_heads
from ticdc_assets.sources.kafka.client import KafkaClient, Record
from ticdc_assets.sources.kafka.same_topic import mark_of
from ticdc_assets.tables.changelog import WrittenFile
from ticdc_assets.tables.messages import FILE_SCHEMA

if TYPE_CHECKING:
    from ticdc_assets.config import KafkaSource
    from ticdc_assets.sources.kafka.ranges import OffsetRange

ROW_GROUP_MESSAGES: Final = 4096
ROW_GROUP_BYTES: Final = 4 << 20
"""A row group ends with the message that reaches either limit; a reader holds one row group of each partition."""
_DAY_MS: Final = 86_400_000
_TIMESTAMP_MS_END: Final = 253_402_300_800_000
"""The year 10000: a later timestamp was not set by a producer or a broker."""


@dataclass(frozen=True, slots=True)
class LandingTask:
    """A range of offsets to write below `data_uri`; it ends early after `bytes_max` bytes of keys and values."""

    run_id: str
    number: int
    source: KafkaSource
    wanted: OffsetRange
    bytes_max: int
    protocol: str
    options: Any = field(repr=False)
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
        for records, group_bytes in _row_groups(client.records(task.wanted)):
            writer.write(records)
            count, last = count + len(records), records[-1].message
            size_bytes += group_bytes
            if size_bytes >= task.bytes_max:
                done = replace(task.wanted, end=last.offset + 1)
                break
    return LandedRange(done, writer.finished(), count, size_bytes, mark_of(last) if last is not None else "")


def _row_groups(records: Iterator[Record]) -> Iterator[tuple[list[Record], int]]:
    """The records of each row group, and the bytes of their keys and values."""
    held: list[Record] = []
    size_bytes = 0
    for record in records:
        held.append(record)
        size_bytes += record.size_bytes
        if len(held) == ROW_GROUP_MESSAGES or size_bytes >= ROW_GROUP_BYTES:
            yield held, size_bytes
            held, size_bytes = [], 0
    if held:
        yield held, size_bytes


class _FileWriter:
    """Writes a new file at every change of the UTC day, so that each file holds one day and one range of offsets."""

    def __init__(self, io: FileIO, task: LandingTask) -> None:
        self._io = io
        self._task = task
        self._day: int | None = None
        self._open: tuple[str, OutputStream, pq.ParquetWriter] | None = None
        self._files: list[WrittenFile] = []

    def write(self, records: Sequence[Record]) -> None:
        """Write records, one row group for each run of records of one day."""
        for day, of_day in groupby(records, key=_day):
            if self._open is None or day != self._day:
                self._close()
                self._begin(day)
            assert self._open is not None
            self._open[2].write_table(_rows(self._task, list(of_day)))

    def finished(self) -> tuple[WrittenFile, ...]:
        """Close the files and return them."""
        self._close()
        return tuple(self._files)

    def _begin(self, day: int | None) -> None:
        name = f"{self._task.run_id}-{self._task.number:05d}-{len(self._files):05d}.parquet"
        uri = f"{self._task.data_uri}/{name}"
        stream = self._io.new_output(uri).create(overwrite=True)
        writer = pq.ParquetWriter(stream, FILE_SCHEMA, compression="zstd", compression_level=1, store_schema=False)
        self._day, self._open = day, (uri, stream, writer)

    def _close(self) -> None:
        if self._open is not None:
            uri, stream, writer = self._open
            writer.close()
            size_bytes = stream.tell()
            stream.close()
            self._files.append(WrittenFile(uri, size_bytes, writer.writer.metadata))
            self._open = None


def _day(record: Record) -> int | None:
    ts_ms = _timestamp_ms(record)
    return None if ts_ms is None else ts_ms // _DAY_MS


def _timestamp_ms(record: Record) -> int | None:
    ts_ms = record.message.ts_ms
    return ts_ms if 0 <= ts_ms < _TIMESTAMP_MS_END else None


def _rows(task: LandingTask, records: list[Record]) -> pa.Table:
    messages = [record.message for record in records]
    heads = message_heads(task.protocol, task.options, messages)
    times = [_timestamp_ms(record) for record in records]
    columns = [
        [m.topic for m in messages],
        [m.partition for m in messages],
        [m.offset for m in messages],
        pa.array([None if ms is None else ms * 1000 for ms in times], pa.int64()),
        [m.key for m in messages],
        [m.value for m in messages],
        [None if r.headers is None else [{"key": k, "value": v} for k, v in r.headers] for r in records],
        [head.kind for head in heads],
        [head.schema for head in heads],
        [head.table for head in heads],
        [head.commit_ts for head in heads],
    ]
    arrays = [
        column.cast(field.type) if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, FILE_SCHEMA, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=FILE_SCHEMA)
