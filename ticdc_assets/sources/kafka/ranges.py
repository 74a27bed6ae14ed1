"""Which offsets to read next: from the end of earlier reading to the current end of the partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from ticdc_assets.config import KafkaStart, OffsetRule
from ticdc_assets.errors import TopicError

CREATED_AGAIN: Final = (
    "The topic was created again. Read the new one in a changefeed of another name, with another `target` "
    "(`ticdc-assets capture`: into a new folder)."
)
"""What to do if a topic was created again under the name of one that was read before."""


_GONE: Final = (
    "If source.kafka names other topics now, name this one again. If the topic was deleted, a new one of its name is "
    "read in a changefeed of another name, with another `target` (`ticdc-assets capture`: into a new folder)."
)


class KafkaPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


class Offsets(NamedTuple):
    """The offsets of a partition: from `low`, inclusive, to `end`, exclusive."""

    low: int
    end: int


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition: from `begin`, inclusive, to `end`, exclusive."""

    partition: KafkaPartition
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin


class OffsetsOfCluster(Protocol):
    """The requests to a cluster that planning needs."""

    def partitions(self) -> list[KafkaPartition]:
        """The partitions of all configured topics, sorted. Raises TopicError if a topic does not exist."""
        ...

    def offsets_of(self, partitions: Sequence[KafkaPartition]) -> Mapping[KafkaPartition, Offsets]:
        """The offsets that the brokers have of partitions now."""
        ...

    def first_offset_since(self, partition: KafkaPartition, timestamp_ms: int) -> int:
        """The offset of the first message with that timestamp or a later one, else the partition's end."""
        ...


def pending_ranges(
    cluster: OffsetsOfCluster,
    start: KafkaStart,
    next_offsets: Mapping[KafkaPartition, int],
    skip_offsets: Sequence[OffsetRule] = (),
) -> list[OffsetRange]:
    """The unread range of each partition; empty if nothing is new.

    Args:
        next_offsets: the offset after the last one read, by partition.
        skip_offsets: offsets that may be missing.

    Raises:
        TopicError: a partition no longer holds the next offset or ends before it, or a partition that was read or that
            `start` names is not there.
    """
    partitions = cluster.partitions()
    require_all(partitions, next_offsets)
    if not next_offsets:
        require_starts(partitions, start)
    held = cluster.offsets_of(partitions)
    return [pending_range(cluster, start, p, held[p], next_offsets, skip_offsets) for p in partitions]


def require_all(partitions: Sequence[KafkaPartition], next_offsets: Iterable[KafkaPartition]) -> None:
    """Raises TopicError if a partition that was read is gone."""
    gone = sorted(set(next_offsets) - set(partitions))
    if not gone:
        return
    expected = "a partition that was read before"
    if gone[0].topic in {partition.topic for partition in partitions}:
        raise TopicError(str(gone[0]), expected, "a topic with fewer partitions", CREATED_AGAIN)
    raise TopicError(str(gone[0]), expected, "no such topic among those that source.kafka names", _GONE)


def require_starts(partitions: Sequence[KafkaPartition], start: KafkaStart) -> None:
    """Raises TopicError if the config names the first offset of a partition that is not there."""
    for topic, offsets in start.offsets.items():
        numbers = sorted(partition.number for partition in partitions if partition.topic == topic)
        for number in sorted(offsets.keys() - set(numbers)):
            expected = "a partition to start at, as source.kafka.starting names it"
            found = f"partitions 0 to {numbers[-1]}" if numbers else "no such topic"
            raise TopicError(f"{topic}[{number}]", expected, found, "Correct source.kafka.starting.")


def pending_range(
    cluster: OffsetsOfCluster,
    start: KafkaStart,
    partition: KafkaPartition,
    held: Offsets,
    next_offsets: Mapping[KafkaPartition, int],
    skip_offsets: Sequence[OffsetRule],
) -> OffsetRange:
    """The unread range of one partition, of which the brokers have the offsets `held`; see `pending_ranges`."""
    begin = next_offsets.get(partition)
    if begin is None:
        return OffsetRange(partition, _first(cluster, start, partition, held, bool(next_offsets)), held.end)
    if begin < held.low and _may_be_lost(partition, begin, held.low, skip_offsets):
        return OffsetRange(partition, held.low, held.end)
    if begin < held.low:
        found = f"offsets from {held.low} on: retention has removed {held.low - begin} offsets that were not read"
        advice = (
            "Start a changefeed of another name, with another `target`, and read it more often than retention removes; "
            f'or, where they may be lost, write skip_offsets: ["{partition}@{begin}-{held.low - 1}"].'
        )
        raise TopicError(str(partition), f"offset {begin}", found, advice)
    if begin > held.end:
        found = f"an end at offset {held.end}"
        raise TopicError(str(partition), f"offset {begin}, where reading ended before", found, CREATED_AGAIN)
    return OffsetRange(partition, begin, held.end)


def _may_be_lost(partition: KafkaPartition, begin: int, end: int, rules: Sequence[OffsetRule]) -> bool:
    """Whether the rules allow all offsets from `begin`, inclusive, to `end`, exclusive, to be missing."""
    for first, last in sorted(rule.range for rule in rules if rule.is_of(partition)):
        begin = max(begin, last) if first <= begin else begin
    return begin >= end


def _first(
    cluster: OffsetsOfCluster, start: KafkaStart, partition: KafkaPartition, held: Offsets, is_added: bool
) -> int:
    """The start of a partition that was never read. A partition that was added later is read from its first message."""
    if is_added:
        return held.low
    if start.timestamp_ms is not None:
        return cluster.first_offset_since(partition, start.timestamp_ms)
    if partition.topic in start.offsets:
        wanted = start.offsets[partition.topic].get(partition.number, held.low)
        if not held.low <= wanted <= held.end:
            advice = "Name an offset that the partition holds in source.kafka.starting."
            raise TopicError(str(partition), f"offset {wanted}", f"offsets {held.low} to {held.end}", advice)
        return wanted
    return held.end if start.position == "latest" else held.low


def bounded(ranges: list[OffsetRange], messages_max: int | None) -> Iterator[OffsetRange]:
    """The ranges, cut to at most `messages_max` offsets together and divided fairly among partitions."""
    if messages_max is None:
        yield from ranges
        return
    left, waiting = messages_max, sorted(ranges, key=lambda found: found.end - found.begin)
    for number, found in enumerate(waiting):
        taken = min(found.end - found.begin, left // (len(waiting) - number))
        left -= taken
        yield OffsetRange(found.partition, found.begin, found.begin + taken)
