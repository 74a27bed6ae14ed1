"""How much one landing may still read: `max_messages` and `max_bytes` of `source.kafka` bound a whole run.

Offsets are known before they are read, bytes are not. So the size of a message is estimated, from the first messages
of each partition and then from what was read, and the tasks get offsets for a part of the remaining bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ticdc_assets.errors import TopicError

if TYPE_CHECKING:
    from ticdc_assets.config import KafkaSource
    from ticdc_assets.sources.capture import Message
    from ticdc_assets.sources.kafka.client import KafkaClient
    from ticdc_assets.sources.kafka.ranges import OffsetRange

SAMPLED_FROM_OFFSETS: Final = 20_000
"""With fewer offsets, sizes are not estimated before the first round."""
_SAMPLE_MESSAGES: Final = 50
_SHARE: Final = 0.9
"""Offsets are chosen for this share of the bytes left, so that few tasks reach their limit; below the rest, it ends."""


@dataclass(frozen=True, slots=True)
class LandingBudget:
    """What is left of the limits of a run. `bytes_per_offset` is None while it is not known."""

    bytes_max: int
    offsets_left: int
    bytes_left: int
    bytes_per_offset: float | None = None

    @classmethod
    def of(cls, client: KafkaClient, source: KafkaSource, ranges: Sequence[OffsetRange]) -> LandingBudget:
        """The limits of the source, before anything is read. Raises SourceError where the cluster cannot be read."""
        whole = cls(source.bytes_max, source.messages_max, source.bytes_max)
        if sum(map(len, ranges)) < SAMPLED_FROM_OFFSETS:
            return whole
        try:
            sizes = [_size_bytes(message) for message in client.messages_of_all(ranges, each_max=_SAMPLE_MESSAGES)]
        except TopicError:
            return whole  # the task that reads the topic reports its fault
        return replace(whole, bytes_per_offset=sum(sizes) / len(sizes)) if sizes else whole

    @property
    def offsets(self) -> int:
        """How many offsets the next round may take; 0 where the limits are reached."""
        if self.bytes_left <= (1 - _SHARE) * self.bytes_max:
            return 0
        if not self.bytes_per_offset:
            return self.offsets_left
        return min(self.offsets_left, max(1, int(_SHARE * self.bytes_left / self.bytes_per_offset)))

    def after(self, offsets: int, size_bytes: int) -> LandingBudget:
        """The budget after a round that read this many offsets and bytes. After a round without offsets, nothing more
        is read."""
        if not offsets:
            return replace(self, offsets_left=0)
        return replace(
            self,
            offsets_left=self.offsets_left - offsets,
            bytes_left=max(0, self.bytes_left - size_bytes),
            bytes_per_offset=size_bytes / offsets or self.bytes_per_offset,
        )


def _size_bytes(message: Message) -> int:
    """The bytes of key and value."""
    return len(message.key or b"") + len(message.value or b"")
