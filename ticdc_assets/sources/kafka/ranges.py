"""Which offsets to read next: from where earlier reading ended to where the partition ends now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ticdc_assets.config import KafkaStart
from ticdc_assets.errors import SourceError


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


class Offsets(NamedTuple):
    """What a partition holds: offsets from `low` up to, but without, `end`."""

    low: int
    end: int


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets from `begin` up to, but without, `end` of one partition."""

    partition: Partition
    begin: int
    end: int


class OffsetsOfCluster(Protocol):
    """What planning asks a cluster."""

    def partitions(self) -> list[Partition]: ...

    def offsets(self, partition: Partition) -> Offsets: ...

    def first_offset_since(self, partition: Partition, timestamp_ms: int) -> int: ...


def pending_ranges(
    cluster: OffsetsOfCluster, start: KafkaStart, next_offsets: Mapping[Partition, int]
) -> list[OffsetRange]:
    """What is to be read of each partition; an empty range where nothing is new.

    `next_offsets` has where earlier reading ended. Raises SourceError where a partition does not hold that offset any
    more, where it ends before it, or where a partition that was read is gone.
    """
    partitions = cluster.partitions()
    _require_all(partitions, next_offsets)
    return [_range(cluster, start, partition, next_offsets) for partition in partitions]


def _require_all(partitions: list[Partition], next_offsets: Mapping[Partition, int]) -> None:
    gone = sorted(set(next_offsets) - set(partitions))
    if gone:
        topics = {partition.topic for partition in partitions}
        found = "a topic with fewer partitions" if gone[0].topic in topics else "no such topic"
        todo = "The topic was removed or made anew. Read the new one with a new changefeed."
        raise SourceError(str(gone[0]), "a partition that was read before", found, todo)


def _range(
    cluster: OffsetsOfCluster, start: KafkaStart, partition: Partition, next_offsets: Mapping[Partition, int]
) -> OffsetRange:
    held = cluster.offsets(partition)
    begin = next_offsets.get(partition)
    if begin is None:
        return OffsetRange(partition, _first(cluster, start, partition, held, bool(next_offsets)), held.end)
    if begin < held.low:
        found = f"offsets from {held.low} on: retention has removed {held.low - begin} offsets that were not read"
        todo = "Start a new changefeed, or load the tables anew from a snapshot; then read more often than retention."
        raise SourceError(str(partition), f"offset {begin}", found, todo)
    if begin > held.end:
        found = f"an end at offset {held.end}"
        todo = "The topic was made anew. Read the new one with a new changefeed."
        raise SourceError(str(partition), f"offset {begin}, where reading ended before", found, todo)
    return OffsetRange(partition, begin, held.end)


def _first(cluster: OffsetsOfCluster, start: KafkaStart, partition: Partition, held: Offsets, is_added: bool) -> int:
    """Where a partition that was never read begins. One that is added later is read from its first message."""
    if is_added:
        return held.low
    if start.timestamp_ms is not None:
        return cluster.first_offset_since(partition, start.timestamp_ms)
    if partition.topic in start.offsets:
        wanted = start.offsets[partition.topic].get(partition.number, held.low)
        if not held.low <= wanted <= held.end:
            todo = "Name an offset that the partition holds in source.kafka.starting."
            raise SourceError(str(partition), f"offset {wanted}", f"offsets {held.low} to {held.end}", todo)
        return wanted
    return held.end if start.position == "latest" else held.low


def bounded(ranges: list[OffsetRange], messages_max: int | None) -> Iterator[OffsetRange]:
    """The ranges, cut so that they hold no more offsets than `messages_max` together, each partition its share."""
    if messages_max is None:
        yield from ranges
        return
    left, waiting = messages_max, sorted(ranges, key=lambda found: found.end - found.begin)
    for number, found in enumerate(waiting):
        taken = min(found.end - found.begin, left // (len(waiting) - number))
        left -= taken
        yield OffsetRange(found.partition, found.begin, found.begin + taken)
