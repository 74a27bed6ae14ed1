"""Detects that a topic was created again, by the last message that was read of each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ticdc_assets.errors import TopicError
from ticdc_assets.sources.capture import Message, digest_of
from ticdc_assets.sources.kafka.ranges import CREATED_AGAIN, KafkaPartition, OffsetRange

if TYPE_CHECKING:
    from ticdc_assets.sources.kafka.client import KafkaClient


def mark_of(message: Message) -> str:
    """A mark that differs from that of another message at this offset, as after the topic was created again."""
    return f"{message.ts_ms}-{digest_of(message)}"


def require_same_topic(client: KafkaClient, partition: KafkaPartition, next_offset: int, last_mark: str) -> bool:
    """Whether the message before `next_offset` still exists; it then has this mark.

    Raises:
        TopicError: it is another message, so the topic was created again.
    """
    if not last_mark or next_offset == 0:
        return False
    last = OffsetRange(partition, next_offset - 1, next_offset)
    if client.offsets(partition).low > last.begin:
        return False
    messages = list(client.messages(last))  # empty if compaction has removed it
    if messages and mark_of(messages[0]) != last_mark:
        raise TopicError(
            str(partition), f"at offset {last.begin} the message that was read before", "another", CREATED_AGAIN
        )
    return bool(messages)
