"""The worker's part of landing: read ranges of offsets from Kafka and write the messages as Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO, load_file_io

from ticdc_assets.config import KafkaSource
from ticdc_assets.errors import TopicError
from ticdc_assets.pipeline.landing.message_heads import message_heads
from ticdc_assets.pipeline.landing.records import PartitionRecords, RowGroup, RowGroups
from ticdc_assets.protocols.columnar.message_rows import Messages
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.kafka.client import KafkaClient
from ticdc_assets.sources.kafka.ranges import KafkaPartition, OffsetRange
from ticdc_assets.sources.kafka.same_topic import mark_of
from ticdc_assets.sources.message_block import MessageHeads
from ticdc_assets.tables.iceberg.parquet import DataFileWriter
from ticdc_assets.tables.iceberg.written_file import WrittenFile

_DAY_MS: Final = 86_400_000
_NO_DAY: Final = -1
_REPEATED_COLUMNS: Final = ["topic", "partition", "kind", "schema", "table", "schema_version"]
"""The columns with few values. A dictionary of the others grows to its limit and is then given up."""


@dataclass(frozen=True, slots=True)
class LandingTask:
    """Ranges of offsets of different partitions, to write below `data_uri` as files of a schema, in row groups of about
    `row_group_bytes`. They end early after `bytes_max` bytes of keys and values."""

    run_id: str
    number: int
    source: KafkaSource
    wanted: tuple[OffsetRange, ...]
    bytes_max: int
    row_group_bytes: int
    protocol: str
    options: Any = field(repr=False)
    schema: pa.Schema
    data_uri: str
    io_properties: dict[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class LandedRange:
    """What a task wrote of a range: the range as far as it was read, the files, the number of messages, the bytes of
    their keys and values, and the mark of the last one.

    With a `fault` of its topic it wrote nothing that counts, and `done` is empty.
    """

    done: OffsetRange
    files: tuple[WrittenFile, ...]
    messages: int
    size_bytes: int
    last_mark: str
    fault: TopicError | None = None


def land_ranges(task: LandingTask) -> list[LandedRange]:
    """Write the messages of a task. Raises SourceError where the cluster cannot be read."""
    io, names = load_file_io(dict(task.io_properties), location=task.data_uri), count()
    if len(task.wanted) > 1:
        with suppress(TopicError):  # the error may not say which of the topics has the fault
            return _landed(task, task.wanted, io, names)
    return [_landed_alone(task, wanted, io, names) for wanted in task.wanted]


def _landed_alone(task: LandingTask, wanted: OffsetRange, io: FileIO, names: Iterator[int]) -> LandedRange:
    try:
        [landed] = _landed(task, [wanted], io, names)
    except TopicError as error:
        return LandedRange(replace(wanted, end=wanted.begin), (), 0, 0, "", error)
    return landed


def _landed(task: LandingTask, ranges: Sequence[OffsetRange], io: FileIO, names: Iterator[int]) -> list[LandedRange]:
    writers = {wanted.partition: _RangeWriter(io, task, names) for wanted in ranges}
    groups, left = RowGroups(writers, task.row_group_bytes, task.bytes_max), task.bytes_max
    with KafkaClient(task.source) as client:
        for batch in client.batches(ranges):
            full = list(_up_to(groups.add(batch), left))
            left -= sum(size_bytes for _, size_bytes in full)
            _write(task, full, writers)
            if left <= 0:
                return [writers[wanted.partition].landed(wanted, ends_early=True) for wanted in ranges]
    _write(task, list(groups.rest()), writers)
    return [writers[wanted.partition].landed(wanted) for wanted in ranges]


def _up_to(groups: Iterator[RowGroup], bytes_max: int) -> Iterator[RowGroup]:
    """The row groups up to the one with which they have so many bytes."""
    for records, size_bytes in groups:
        yield records, size_bytes
        bytes_max -= size_bytes
        if bytes_max <= 0:
            return


def _write(task: LandingTask, groups: Sequence[RowGroup], writers: Mapping[KafkaPartition, _RangeWriter]) -> None:
    """Write row groups. Their heads are read together, since a bulk decoder reads no small batch."""
    if not groups:
        return
    every = [records for records, _ in groups]
    messages = Messages(_joined([of.keys for of in every]), _joined([of.values for of in every]))
    starts = np.cumsum([0, *map(len, every)])

    def message_at(index: int) -> Message:
        number = int(np.searchsorted(starts, index, "right")) - 1
        return every[number].message(index - int(starts[number]))

    heads = message_heads(task.protocol, task.options, messages, message_at)
    for start, (records, size_bytes) in zip(starts.tolist(), groups, strict=False):
        writers[records.partition].write(records, heads.slice(start, len(records)), size_bytes)


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


class _RangeWriter:
    """Writes the messages of one range. A new file begins at every change of the UTC day, so that each file holds one
    day and one range of offsets. `names` are the numbers of the task's files."""

    def __init__(self, io: FileIO, task: LandingTask, names: Iterator[int]) -> None:
        self._io = io
        self._task = task
        self._names = names
        self._day = _NO_DAY
        self._open: DataFileWriter | None = None
        self._files: list[WrittenFile] = []
        self._messages = self._size_bytes = 0
        self._last: Message | None = None

    def write(self, records: PartitionRecords, heads: MessageHeads, size_bytes: int) -> None:
        """Write records with their heads, one row group for each run of records of one day."""
        self._messages, self._size_bytes = self._messages + len(records), self._size_bytes + size_bytes
        self._last = records.message(-1)
        rows = _rows(self._task.schema, records, heads)
        days = records.times_ms // _DAY_MS
        days[~records.is_timed] = _NO_DAY
        bounds = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(records)]
        for begin, end in pairwise(bounds):
            if self._open is None or days[begin] != self._day:
                self._close()
                self._begin(int(days[begin]))
            assert self._open is not None
            self._open.write(rows.slice(begin, end - begin))

    def landed(self, wanted: OffsetRange, *, ends_early: bool = False) -> LandedRange:
        """Close the files. Returns what was written of the range."""
        self._close()
        last = self._last
        done = wanted
        if ends_early:
            done = replace(wanted, end=wanted.begin if last is None else last.offset + 1)
        mark = mark_of(last) if last is not None else ""
        return LandedRange(done, tuple(self._files), self._messages, self._size_bytes, mark)

    def _begin(self, day: int) -> None:
        name = f"{self._task.run_id}-{self._task.number:05d}-{next(self._names):05d}.parquet"
        uri, schema = f"{self._task.data_uri}/{name}", self._task.schema
        self._day, self._open = day, DataFileWriter(self._io, uri, schema, use_dictionary=_REPEATED_COLUMNS)

    def _close(self) -> None:
        if self._open is not None:
            self._files.append(self._open.close())
            self._open = None


def _rows(schema: pa.Schema, records: PartitionRecords, heads: MessageHeads) -> pa.Table:
    size, partition = len(records), records.partition
    columns = {
        "topic": pa.repeat(pa.scalar(partition.topic), size),
        "partition": pa.repeat(pa.scalar(partition.number, pa.int32()), size),
        "offset": pa.array(records.offsets),
        "timestamp": pa.array(records.times_ms * 1000, mask=~records.is_timed),
        "key": records.keys,
        "value": records.values,
        "headers": records.headers(schema.field("headers").type),
        "kind": heads.kinds,
        "schema": heads.schemas,
        "table": heads.tables,
        "commit_ts": heads.commit_ts,
        "min_commit_ts": heads.min_commit_ts,
        "schema_version": heads.schema_versions,
    }
    arrays = [columns[field.name].cast(field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
