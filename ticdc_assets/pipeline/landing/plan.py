"""Which offsets one landing reads, and which of them each task. All of it is fixed before the first task starts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ticdc_assets.errors import TopicError
from ticdc_assets.sources.kafka.ranges import (
    KafkaPartition,
    OffsetRange,
    bounded,
    pending_range,
    require_all,
    require_starts,
)
from ticdc_assets.sources.kafka.same_topic import ReadPartition, created_again, created_again_meanwhile

if TYPE_CHECKING:
    from ticdc_assets.config import KafkaSource, OffsetRule
    from ticdc_assets.sources.kafka.client import KafkaClient
    from ticdc_assets.sources.kafka.ranges import Offsets
    from ticdc_assets.tables.messages import LandedOffsets

TASK_OFFSETS_MIN: Final = 20_000
"""With fewer offsets, starting a task and connecting take longer than reading."""
TASK_RANGES_MAX: Final = 128
"""A task has an open file for each range; many systems allow a process 1,024 or 256."""


@dataclass(frozen=True, slots=True)
class PendingOffsets:
    """The offsets to land of each partition, an empty range where there are none, and the ids of the topics.

    `faults` has, by topic, the error of each that cannot be landed; `ranges` and `topic_ids` have the others only.
    `held` has the offsets that the brokers have of each partition.
    """

    ranges: tuple[OffsetRange, ...]
    topic_ids: Mapping[str, str]
    faults: Mapping[str, TopicError] = field(default_factory=dict)
    held: Mapping[KafkaPartition, Offsets] = field(default_factory=dict)

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
    if not landed.partitions:
        require_starts(partitions, source.start)
    held, faults = client.offsets_of_sound_topics(partitions)
    ranges: list[OffsetRange] = []
    names = {*source.topics, *(p.topic for p in partitions), *(topic for topic, _ in landed.partitions)}
    for topic in sorted(names - faults.keys()):
        found = [partition for partition in partitions if partition.topic == topic]
        try:
            if not found and topic in source.topics:
                raise client.missing(topic)
            ranges += _of_topic(client, source, topic, {p: held[p] for p in found}, landed, skip_offsets)
        except TopicError as error:
            faults[topic] = error
    faults |= created_again(client, _read_before(landed, [r.partition for r in ranges], landed.topic_ids), topic_ids)
    if faults and not landed.partitions:
        raise faults[min(faults)]
    sound = tuple(wanted for wanted in ranges if wanted.partition.topic not in faults)
    return PendingOffsets(sound, {topic: i for topic, i in topic_ids.items() if topic not in faults}, faults, held)


def _of_topic(
    client: KafkaClient,
    source: KafkaSource,
    topic: str,
    held: Mapping[KafkaPartition, Offsets],
    landed: LandedOffsets,
    skip_offsets: Sequence[OffsetRule],
) -> list[OffsetRange]:
    """The ranges of one topic, of whose partitions the brokers have the offsets `held`. Raises TopicError if one does
    not hold the expected offsets."""
    next_offsets = {KafkaPartition(*partition): offset for partition, offset in landed.next_offsets.items()}
    require_all(list(held), [partition for partition in next_offsets if partition.topic == topic])
    return [pending_range(client, source.start, p, offsets, next_offsets, skip_offsets) for p, offsets in held.items()]


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
    return created_again_meanwhile(client, [*known, *fresh])


def _read_before(
    landed: LandedOffsets, partitions: Sequence[KafkaPartition], topic_ids: Mapping[str, str]
) -> list[ReadPartition]:
    """What is known of those partitions that earlier landings have read."""
    known = [(partition, landed.partitions[partition]) for partition in partitions if partition in landed.partitions]
    return [ReadPartition(p, of.next_offset, of.last_mark, topic_ids.get(p.topic)) for p, of in known]


def taken(ranges: Sequence[OffsetRange], messages_max: int) -> list[OffsetRange]:
    """The ranges in order, cut to at most this many offsets in total."""
    return sorted(bounded(list(ranges), messages_max), key=lambda wanted: wanted.partition)


def ranges_of_tasks(ranges: Sequence[OffsetRange], tasks: int) -> Iterator[tuple[OffsetRange, ...]]:
    """The offsets of each of about `tasks` tasks: long ranges are cut, and short ones are read together. No range is
    empty, a task has one range of a partition and at most `TASK_RANGES_MAX`, and those of a partition come in order."""
    total = sum(len(wanted) for wanted in ranges)
    step = max(TASK_OFFSETS_MIN, -(-total // tasks))
    short: list[OffsetRange] = []
    for wanted in ranges:
        for begin in range(wanted.begin, wanted.end, step):
            cut = OffsetRange(wanted.partition, begin, min(begin + step, wanted.end))
            if len(cut) >= TASK_OFFSETS_MIN:
                yield (cut,)
            else:
                short.append(cut)
    group: list[OffsetRange] = []
    for cut in short:
        if sum(map(len, group)) + len(cut) > TASK_OFFSETS_MIN or len(group) == TASK_RANGES_MAX:
            yield tuple(group)
            group = []
        group.append(cut)
    if group:
        yield tuple(group)
