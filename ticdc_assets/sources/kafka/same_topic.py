"""Detects that a topic was created again, by the last message that was read of each partition and the topic's id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ticdc_assets.errors import TopicError
from ticdc_assets.sources.capture import Message, digest_of
from ticdc_assets.sources.kafka.ranges import CREATED_AGAIN, KafkaPartition, OffsetRange

if TYPE_CHECKING:
    from ticdc_assets.sources.kafka.client import KafkaClient


def mark_of(message: Message) -> str:
    """A mark that differs from that of another message at this offset, as after the topic was created again."""
    return f"{message.ts_ms}-{digest_of(message)}"


@dataclass(frozen=True, slots=True)
class ReadPartition:
    """What is known of a partition that was read: the offset to read next, the mark of the last message ("" where no
    message was read), and the id that its topic had, None where it is unknown."""

    partition: KafkaPartition
    next_offset: int
    last_mark: str
    topic_id: str | None


def require_same_topic(client: KafkaClient, read: ReadPartition, topic_id: str | None) -> None:
    """Raise TopicError if the partition is one of another topic, whose id is `topic_id`.

    A copy of a cluster has other ids and the same messages, so the last message counts more than the id. Where there is
    no such message, and the topic may have others before the offset to read next, the ids are compared.
    """
    low = client.offsets(read.partition).low
    if _has_last_message(client, read, low) or (not read.last_mark and low >= read.next_offset):
        return
    if read.topic_id not in (None, topic_id):
        raise _other_id(read.partition.topic, topic_id)


def _has_last_message(client: KafkaClient, read: ReadPartition, low: int) -> bool:
    """Whether the last message that was read is still there. TopicError if another one is at its offset."""
    last = OffsetRange(read.partition, read.next_offset - 1, read.next_offset)
    if not read.last_mark or last.begin < low:
        return False
    messages = list(client.messages(last))  # empty if compaction has removed it
    if messages and mark_of(messages[0]) != read.last_mark:
        expected = f"at offset {last.begin} the message that was read before"
        raise TopicError(str(read.partition), expected, "another", CREATED_AGAIN)
    return bool(messages)


def created_again(client: KafkaClient, read: Sequence[ReadPartition]) -> dict[str, TopicError]:
    """By topic, the error of each that was created again since the ids in `read` were asked for.

    After reading, this shows whether all messages are of one topic: offsets of a topic that is created again while it
    is read continue with other messages.
    """
    now, found = client.topic_ids(), set(client.partitions_found())
    faults: dict[str, TopicError] = {}
    for each in read:
        topic = each.partition.topic
        try:
            if each.topic_id is None or topic not in now:
                if each.partition in found:
                    require_same_topic(client, replace(each, topic_id=None), None)
            elif now[topic] != each.topic_id:
                raise _other_id(topic, now[topic])
        except TopicError as error:
            faults.setdefault(topic, error)
    return faults


def _other_id(topic: str, topic_id: str | None) -> TopicError:
    if topic_id is None:
        advice = "Allow this user to DESCRIBE the topic, and try again. Nothing is lost."
        return TopicError(topic, "its id, since the last message that was read is gone", "no id", advice)
    return TopicError(topic, "the topic that was read before", "another topic of this name", CREATED_AGAIN)
