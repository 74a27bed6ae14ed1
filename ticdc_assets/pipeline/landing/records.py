"""Messages of one partition as columns, built from the objects of librdkafka with few calls for each message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
"""A row group ends with the message that reaches either limit; a reader holds one row group of each partition."""
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
        """The headers of each message, null where it has none."""
        headers = list(map(_HEADERS, self.found))
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


def row_groups(partition: KafkaPartition, batches: Iterable[Sequence[Any]]) -> Iterator[tuple[PartitionRecords, int]]:
    """The records of each row group, and the bytes of their keys and values."""
    held: list[Any] = []
    size_bytes = 0
    for batch in batches:
        ends = np.cumsum(_sizes_bytes(batch))
        begin = 0
        while begin < len(batch):
            before = int(ends[begin - 1]) if begin else 0
            full = int(np.searchsorted(ends, ROW_GROUP_BYTES - size_bytes + before)) + 1
            end = min(len(batch), full, begin + ROW_GROUP_MESSAGES - len(held))
            held += batch[begin:end]
            size_bytes += int(ends[end - 1]) - before
            begin = end
            if len(held) == ROW_GROUP_MESSAGES or size_bytes >= ROW_GROUP_BYTES:
                yield PartitionRecords.of(partition, held), size_bytes
                held, size_bytes = [], 0
    if held:
        yield PartitionRecords.of(partition, held), size_bytes


def _sizes_bytes(batch: Sequence[Any]) -> Ints:
    """The bytes of the key and the value of each message."""
    keys, values = (map(_length, map(body, batch)) for body in (_KEY, _VALUE))
    return np.fromiter(map(add, keys, values), np.int64, len(batch))


def _length(body: bytes | None) -> int:
    return len(body) if body else 0
