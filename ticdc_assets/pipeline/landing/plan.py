"""Which offsets one landing reads, and how they are cut into tasks. All of it is fixed before the first task starts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ticdc_assets.errors import TopicError
from ticdc_assets.sources.kafka.ranges import KafkaPartition, OffsetRange, bounded, pending_range, require_all
from ticdc_assets.sources.kafka.same_topic import ReadPartition, created_again, require_same_topic

if TYPE_CHECKING:
    from ticdc_assets.config import KafkaSource, OffsetRule
    from ticdc_assets.sources.kafka.client import KafkaClient
    from ticdc_assets.tables.messages import LandedOffsets

TASK_OFFSETS_MIN: Final = 20_000
"""With fewer offsets, starting a task and connecting take longer than reading."""


@dataclass(frozen=True, slots=True)
class PendingOffsets:
    """The offsets to land of each partition, an empty range where there are none, and the ids of the topics.

    `faults` has, by topic, the error of each that cannot be landed; `ranges` and `topic_ids` have the others only.
    """

    ranges: tuple[OffsetRange, ...]
    topic_ids: Mapping[str, str]
    faults: Mapping[str, TopicError] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(wanted) for wanted in self.ranges)


def pending_offsets(
    client: KafkaClient, source: KafkaSource, landed: LandedOffsets, skip_offsets: Sequence[OffsetRule]
) -> PendingOffsets:
    """The offsets that are in the topics and not in the table. A topic with a fault leaves the others as they are.

    Args:
        landed: the offsets of earlier landings.
        skip_offsets: offsets that may be missing.

    Raises:
        SourceError: the cluster cannot be read, or a topic has a fault and nothing was landed before: a start that the
            config asks for is then not forgotten.
    """
    partitions, topic_ids = client.partitions_found(), client.topic_ids()
    names = {*source.topics, *(p.topic for p in partitions), *(topic for topic, _ in landed.partitions)}
    ranges: list[OffsetRange] = []
    faults: dict[str, TopicError] = {}
    for topic in sorted(names):
        found = [partition for partition in partitions if partition.topic == topic]
        try:
            if not found and topic in source.topics:
                raise client.missing(topic)
            ranges += _of_topic(client, source, topic, found, landed, topic_ids.get(topic), skip_offsets)
        except TopicError as error:
            if not landed.partitions:
                raise
            faults[topic] = error
    sound_ids = {topic: topic_id for topic, topic_id in topic_ids.items() if topic not in faults}
    return PendingOffsets(tuple(ranges), sound_ids, faults)


def _of_topic(
    client: KafkaClient,
    source: KafkaSource,
    topic: str,
    partitions: Sequence[KafkaPartition],
    landed: LandedOffsets,
    topic_id: str | None,
    skip_offsets: Sequence[OffsetRule],
) -> list[OffsetRange]:
    """The ranges of one topic. Raises TopicError if a partition does not hold the expected offsets or messages."""
    next_offsets = {KafkaPartition(*partition): offset for partition, offset in landed.next_offsets.items()}
    require_all(partitions, [partition for partition in next_offsets if partition.topic == topic])
    ranges = [pending_range(client, source.start, p, next_offsets, skip_offsets) for p in partitions]
    for read in _read_before(landed, [wanted.partition for wanted in ranges], landed.topic_ids):
        require_same_topic(client, read, topic_id)
    return ranges


def created_again_since(
    client: KafkaClient, landed: LandedOffsets, pending: PendingOffsets, topics: Collection[str]
) -> dict[str, TopicError]:
    """By topic, the error of each of `topics` that was created again since its pending offsets were fixed."""
    partitions = [wanted.partition for wanted in pending.ranges if wanted.partition.topic in topics]
    known = _read_before(landed, partitions, pending.topic_ids)
    fresh = [
        ReadPartition(wanted, 0, "", pending.topic_ids.get(wanted.topic))
        for wanted in partitions
        if wanted not in landed.partitions
    ]
    return created_again(client, [*known, *fresh])


def _read_before(
    landed: LandedOffsets, partitions: Sequence[KafkaPartition], topic_ids: Mapping[str, str]
) -> list[ReadPartition]:
    """What is known of those partitions that earlier landings have read."""
    known = [(partition, landed.partitions[partition]) for partition in partitions if partition in landed.partitions]
    return [ReadPartition(p, of.next_offset, of.last_mark, topic_ids.get(p.topic)) for p, of in known]


def taken(ranges: Sequence[OffsetRange], messages_max: int) -> list[OffsetRange]:
    """The ranges in order, cut to at most this many offsets in total."""
    return sorted(bounded(list(ranges), messages_max), key=lambda wanted: wanted.partition)


def pieces(ranges: Sequence[OffsetRange], tasks: int) -> Iterator[OffsetRange]:
    """The ranges cut into about `tasks` pieces where they are long; no piece is empty."""
    total = sum(len(wanted) for wanted in ranges)
    step = max(TASK_OFFSETS_MIN, -(-total // tasks))
    for wanted in ranges:
        for begin in range(wanted.begin, wanted.end, step):
            yield OffsetRange(wanted.partition, begin, min(begin + step, wanted.end))
