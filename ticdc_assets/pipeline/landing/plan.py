"""Which offsets one landing reads, and how they are cut into tasks. All of it is fixed before the first task starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ticdc_assets.errors import SourceError
from ticdc_assets.sources.kafka.ranges import CREATED_AGAIN, OffsetRange, Partition, bounded, pending_ranges
from ticdc_assets.sources.kafka.same_topic import require_same_topic

if TYPE_CHECKING:
    from ticdc_assets.config import KafkaSource, OffsetRule
    from ticdc_assets.sources.kafka.client import KafkaClient
    from ticdc_assets.tables.messages import LandedOffsets

TASK_OFFSETS_MIN: Final = 20_000
"""With fewer offsets, starting a task and connecting take longer than reading."""


@dataclass(frozen=True, slots=True)
class PendingOffsets:
    """The offsets to land of each partition, an empty range where there are none, and the ids of the topics."""

    ranges: tuple[OffsetRange, ...]
    topic_ids: Mapping[str, str]

    def __len__(self) -> int:
        return sum(len(wanted) for wanted in self.ranges)


def pending_offsets(
    client: KafkaClient, source: KafkaSource, landed: LandedOffsets, skip_offsets: Sequence[OffsetRule]
) -> PendingOffsets:
    """The offsets that are in the topics and not in the table.

    Raises:
        SourceError: a partition does not hold the expected offsets or messages.
    """
    next_offsets = {Partition(*partition): offset for partition, offset in landed.next_offsets.items()}
    ranges, topic_ids = pending_ranges(client, source.start, next_offsets, skip_offsets), client.topic_ids()
    for wanted in ranges:
        known, topic = landed.partitions.get(wanted.partition), wanted.partition.topic
        if known is None or require_same_topic(client, wanted.partition, known.next_offset, known.last_mark):
            continue
        # The last landed message is not there to compare; a copy of the cluster has other ids and the same messages.
        if known.last_mark and landed.topic_ids.get(topic) not in (None, topic_ids.get(topic)):
            raise SourceError(topic, "the topic that was landed before", "another of its name", CREATED_AGAIN)
    return PendingOffsets(tuple(ranges), topic_ids)


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
