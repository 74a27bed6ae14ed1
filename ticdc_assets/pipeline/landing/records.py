"""Messages of a partition as columns, built from the objects of librdkafka with few calls for each message."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import add, itemgetter, methodcaller
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.kafka.ranges import KafkaPartition

Ints = npt.NDArray[np.int64]

ROW_GROUP_MESSAGES: Final = 4096
ROW_GROUP_BYTES: Final = 4 << 20
"""A row group ends with the message that reaches either limit."""
_ROW_GROUP_BYTES_LEAST: Final = 128 << 10
"""Smaller row groups would take several times as long to write and to read."""
_READ_BYTES: Final = 64 << 20
"""A reader holds a row group of each partition: these bytes, where row groups have not the least size."""
HELD_BYTES_MAX: Final = 64 << 20
"""The bytes of messages of all partitions that a task holds at most until it writes them."""
_TIMESTAMP_MS_END: Final = 253_402_300_800_000
"""The year 10000: a later timestamp was not set by a producer or a broker."""
_KEY, _VALUE, _OFFSET, _TIMESTAMP, _HEADERS = map(methodcaller, ("key", "value", "offset", "timestamp", "headers"))
_MILLISECONDS: Final = itemgetter(1)


@dataclass(frozen=True, slots=True)
class PartitionRecords:
    """Messages of a partition in the order of their offsets, with their headers.

    offsets, times_ms: int64; `is_timed` is true if a producer or the broker set a timestamp.
    keys, values: `binary` arrays, null where absent.
    found: librdkafka's messages.
    """

    partition: KafkaPartition
    offsets: Ints
    times_ms: Ints
    keys: pa.Array
    values: pa.Array
    found: Sequence[Any]

    def __len__(self) -> int:
        return len(self.found)

    @classmethod
    def of(cls, partition: KafkaPartition, found: Sequence[Any]) -> PartitionRecords:
        """The records of librdkafka's messages, which are of this partition."""
        return cls(
            partition,
            np.fromiter(map(_OFFSET, found), np.int64, len(found)),
            np.fromiter(map(_MILLISECONDS, map(_TIMESTAMP, found)), np.int64, len(found)),
            pa.array(list(map(_KEY, found)), pa.binary()),
            pa.array(list(map(_VALUE, found)), pa.binary()),
            found,
        )

    @property
    def is_timed(self) -> npt.NDArray[np.bool_]:
        return np.asarray((self.times_ms >= 0) & (self.times_ms < _TIMESTAMP_MS_END))

    def headers(self, of_type: pa.DataType) -> pa.Array:
        """The headers of each message; null where it has none, or where the name of one is not UTF-8."""
        headers: list[Any] = []
        left = map(_HEADERS, self.found)
        while len(headers) < len(self.found):
            try:
                headers.extend(left)  # where it fails, the headers before are in the list
            except (SystemError, UnicodeDecodeError):
                # The library cannot name such a header. It must not be asked again: it would return a damaged list.
                headers.append(None)
        if not any(headers):
            return pa.nulls(len(headers), of_type)
        return pa.array(
            [None if each is None else [{"key": key, "value": value} for key, value in each] for each in headers],
            of_type,
        )

    def message(self, index: int) -> Message:
        """One message."""
        found = self.found[index]
        topic, number = self.partition
        return Message(topic, number, found.offset(), found.key(), found.value(), int(self.times_ms[index]))


RowGroup = tuple[PartitionRecords, int]
"""Messages of a partition, and the bytes of their keys and values."""


def row_group_bytes(partitions: int) -> int:
    """The bytes of a row group where a landing has messages of so many partitions."""
    return max(_ROW_GROUP_BYTES_LEAST, min(ROW_GROUP_BYTES, _READ_BYTES // max(1, partitions)))


class RowGroups:
    """Gathers messages of partitions into row groups of about `group_bytes`, each of one partition, in order of
    offsets. Once `bytes_max` bytes of keys and values are in no row group, all of them become row groups."""

    def __init__(self, partitions: Collection[KafkaPartition], group_bytes: int, bytes_max: int) -> None:
        self._held = {partition: _Held() for partition in partitions}
        self._group_bytes = group_bytes
        self._bytes_max = min(bytes_max, HELD_BYTES_MAX)

    def add(self, batch: Sequence[Any]) -> Iterator[RowGroup]:
        """Add messages. Returns the row groups that are full."""
        for partition, found in self._by_partition(batch):
            yield from self._full(partition, found)
        if sum(held.size_bytes for held in self._held.values()) >= self._bytes_max:
            yield from self.rest()

    def rest(self) -> Iterator[RowGroup]:
        """The messages that are in no row group yet."""
        for partition, held in self._held.items():
            if held.messages:
                yield PartitionRecords.of(partition, held.messages), held.size_bytes
                self._held[partition] = _Held()

    def _by_partition(self, batch: Sequence[Any]) -> Iterable[tuple[KafkaPartition, Sequence[Any]]]:
        if len(self._held) == 1:
            return [(next(iter(self._held)), batch)]
        found: dict[KafkaPartition, list[Any]] = {}
        for message in batch:
            found.setdefault(KafkaPartition(message.topic(), message.partition()), []).append(message)
        return found.items()

    def _full(self, partition: KafkaPartition, batch: Sequence[Any]) -> Iterator[RowGroup]:
        held = self._held[partition]
        ends = np.cumsum(_sizes_bytes(batch))
        begin = 0
        while begin < len(batch):
            before = int(ends[begin - 1]) if begin else 0
            full = int(np.searchsorted(ends, self._group_bytes - held.size_bytes + before)) + 1
            end = min(len(batch), full, begin + ROW_GROUP_MESSAGES - len(held.messages))
            held.messages += batch[begin:end]
            held.size_bytes += int(ends[end - 1]) - before
            begin = end
            if len(held.messages) == ROW_GROUP_MESSAGES or held.size_bytes >= self._group_bytes:
                yield PartitionRecords.of(partition, held.messages), held.size_bytes
                held = self._held[partition] = _Held()


@dataclass(slots=True)
class _Held:
    """Messages of a partition, and the bytes of their keys and values."""

    messages: list[Any] = field(default_factory=list)
    size_bytes: int = 0


def _sizes_bytes(batch: Sequence[Any]) -> Ints:
    """The bytes of the key and the value of each message."""
    keys, values = (map(_length, map(body, batch)) for body in (_KEY, _VALUE))
    return np.fromiter(map(add, keys, values), np.int64, len(batch))


def _length(body: bytes | None) -> int:
    return len(body) if body else 0
