"""Consecutive messages of a log as columns, so that reading them does no work for each message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ticdc_assets.errors import SourceError
from ticdc_assets.protocols.formats.limits import BATCH_BYTES
from ticdc_assets.sources.capture import Message, MessagePosition, topic_and_partition
from ticdc_assets.sources.capture_records import record_columns

Ints = npt.NDArray[np.int64]
TopicPartition = tuple[str, int]

BLOCK_MESSAGES: Final = 8192
"""The maximum number of messages that are decoded together. A batch costs a few milliseconds whatever its size."""


class Bodies:
    """The keys and values of messages: `binary` arrays, null where absent. They are read when they are first needed.

    `keys` are the keys, where they were read before.
    """

    __slots__ = ("_found", "_keys", "_read")

    def __init__(self, read: Callable[[], tuple[pa.Array, pa.Array]], keys: pa.Array | None = None) -> None:
        self._read = read
        self._keys = keys
        self._found: tuple[pa.Array, pa.Array] | None = None

    @classmethod
    def of(cls, keys: pa.Array, values: pa.Array) -> Self:
        """These keys and values."""
        return cls(lambda: (keys, values))

    @property
    def keys(self) -> pa.Array:
        return self._both()[0] if self._keys is None else self._keys

    @property
    def values(self) -> pa.Array:
        return self._both()[1]

    def filter(self, mask: pa.Array) -> Bodies:
        """Those that the mask selects."""
        keys = None if self._keys is None else self._keys.filter(mask)
        return Bodies(lambda: (self.keys.filter(mask), self.values.filter(mask)), keys)

    def _both(self) -> tuple[pa.Array, pa.Array]:
        if self._found is None:
            self._found = self._read()
        return self._found


@dataclass(frozen=True, slots=True)
class MessageHeads:
    """What a log tells of messages without their bodies, one entry for each message, null where it is not known.

    kinds: row, ddl, bootstrap or watermark. schemas, tables: text. commit_ts: int64.
    min_commit_ts: int64, the smallest commit_ts, if all events of the message are rows of one table, or a watermark.
    schema_versions: int64, the version of the schema that a row names.
    The last two are None where no message has them, since the log is of an older version.
    """

    kinds: pa.Array
    schemas: pa.Array
    tables: pa.Array
    commit_ts: pa.Array
    min_commit_ts: pa.Array | None = None
    schema_versions: pa.Array | None = None

    def filter(self, mask: pa.Array) -> Self:
        """Those that the mask selects."""
        return self._each(lambda column: column.filter(mask))

    def slice(self, first: int, length: int) -> Self:
        """Those from `first` on, without a copy."""
        return self._each(lambda column: column.slice(first, length))

    def _each(self, change: Callable[[pa.Array], pa.Array]) -> Self:
        columns = (getattr(self, of.name) for of in fields(self))
        return type(self)(*(None if column is None else change(column) for column in columns))


@dataclass(frozen=True, slots=True)
class MessageBlock:
    """Messages in the order of their log.

    partitions: the distinct partitions of the messages; `owners` is the index of each message's partition in it.
    offsets, times_ms: int64.
    files, bytes, records: int64, the positions of the messages (`MessagePosition`).
    heads: None where the log has none, or only bodies are read.
    """

    partitions: tuple[TopicPartition, ...]
    owners: Ints
    offsets: Ints
    times_ms: Ints
    bodies: Bodies
    files: Ints
    bytes: Ints
    records: Ints
    heads: MessageHeads | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @classmethod
    def of(cls, placed: Sequence[tuple[MessagePosition, Message]]) -> Self:
        """The block of these messages."""
        numbers: dict[TopicPartition, int] = {}
        owners = [numbers.setdefault((m.topic, m.partition), len(numbers)) for _, m in placed]
        return cls(
            tuple(numbers),
            np.array(owners, np.int64),
            np.array([message.offset for _, message in placed], np.int64),
            np.array([message.ts_ms for _, message in placed], np.int64),
            Bodies.of(
                pa.array([message.key for _, message in placed], pa.binary()),
                pa.array([message.value for _, message in placed], pa.binary()),
            ),
            np.array([position.file for position, _ in placed], np.int64),
            np.array([position.byte for position, _ in placed], np.int64),
            np.array([position.record for position, _ in placed], np.int64),
        )

    @property
    def keys(self) -> pa.Array:
        return self.bodies.keys

    @property
    def values(self) -> pa.Array:
        return self.bodies.values

    @property
    def is_fixed(self) -> bool:
        """Whether the log never has other messages at these places: one with heads."""
        return self.heads is not None

    def message(self, index: int) -> Message:
        """One message."""
        topic, partition = self.partitions[self.owners[index]]
        key, value = self.keys[index].as_py(), self.values[index].as_py()
        return Message(topic, partition, int(self.offsets[index]), key, value, int(self.times_ms[index]))

    def position(self, index: int) -> MessagePosition:
        """Where a message begins."""
        return MessagePosition(int(self.files[index]), int(self.bytes[index]), int(self.records[index]))

    def messages(self) -> Iterator[tuple[MessagePosition, Message]]:
        """All messages with their positions."""
        columns = (self.owners, self.offsets, self.times_ms, self.files, self.bytes, self.records)
        numbers = zip(*(column.tolist() for column in columns), strict=True)
        bodies = zip(self.keys.to_pylist(), self.values.to_pylist(), strict=True)
        for (owner, offset, ts_ms, file, byte, record), (key, value) in zip(numbers, bodies, strict=True):
            topic, partition = self.partitions[owner]
            yield MessagePosition(file, byte, record), Message(topic, partition, offset, key, value, ts_ms)

    def take(self, wanted: npt.NDArray[np.bool_]) -> Self:
        """The messages that the mask selects."""
        if wanted.all():
            return self
        mask = pa.array(wanted)
        return type(self)(
            self.partitions,
            self.owners[wanted],
            self.offsets[wanted],
            self.times_ms[wanted],
            self.bodies.filter(mask),
            self.files[wanted],
            self.bytes[wanted],
            self.records[wanted],
            None if self.heads is None else self.heads.filter(mask),
        )

    def of_partitions(self) -> Iterator[tuple[TopicPartition, Ints]]:
        """Each partition that has messages here, with the indices of these messages in ascending order."""
        order = np.argsort(self.owners, kind="stable")
        owners, begins = np.unique(self.owners[order], return_index=True)
        for owner, indices in zip(owners.tolist(), np.split(order, begins[1:]), strict=False):
            yield self.partitions[owner], indices


def blocks_of_records(file: Path, begin: MessagePosition) -> Iterator[MessageBlock]:
    """The messages of a binary file in blocks."""
    partition = topic_and_partition(file)
    for columns in record_columns(file, begin, BLOCK_MESSAGES, BATCH_BYTES):
        yield MessageBlock(
            (partition,),
            np.zeros(len(columns.records), np.int64),
            columns.records,
            columns.times_ms,
            Bodies.of(columns.keys, columns.values),
            np.full(len(columns.records), begin.file, np.int64),
            columns.bytes,
            columns.records,
        )


def blocks_of(placed: Iterable[tuple[MessagePosition, Message]]) -> Iterator[MessageBlock]:
    """Cut messages into blocks of bounded number and size. Where reading one raises, those before it come first."""
    pending: list[tuple[MessagePosition, Message]] = []
    size_bytes = 0
    try:
        for position, message in placed:
            pending.append((position, message))
            size_bytes += len(message.key or b"") + len(message.value or b"")
            if len(pending) >= BLOCK_MESSAGES or size_bytes >= BATCH_BYTES:
                yield MessageBlock.of(pending)
                pending, size_bytes = [], 0
    except SourceError:
        if pending:
            yield MessageBlock.of(pending)
        raise
    if pending:
        yield MessageBlock.of(pending)
