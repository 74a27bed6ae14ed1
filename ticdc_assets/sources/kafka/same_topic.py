"""Detects that a topic was created again, by the last message that was read of each partition and the topic's id.

Messages of several topics are read also where some of them have a fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from ticdc_assets.errors import TopicError
from ticdc_assets.sources.capture import Message, digest_of
from ticdc_assets.sources.kafka.ranges import CREATED_AGAIN, KafkaPartition, OffsetRange, Offsets

if TYPE_CHECKING:
    from ticdc_assets.sources.kafka.client import KafkaClient

Read = dict[KafkaPartition, list["Message"]]


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


def created_again(
    client: KafkaClient, read: Sequence[ReadPartition], topic_ids: Mapping[str, str]
) -> dict[str, TopicError]:
    """By topic, the error of each that is not the one that was read. Topics have the ids `topic_ids` now.

    A copy of a cluster has other ids and the same messages, so the last message counts more than the id. Where there is
    no such message, and the topic may have others before the offset to read next, the ids are compared.
    """
    held, faults = client.offsets_of_sound_topics([each.partition for each in read])
    sound = [each for each in read if each.partition in held]
    last, unreadable = _last_messages(client, sound, held)
    faults |= unreadable
    for each in sound:
        try:
            _require_same_topic(
                each, held[each.partition].low, last.get(each.partition), topic_ids.get(each.partition.topic)
            )
        except TopicError as error:
            faults.setdefault(each.partition.topic, error)
    return faults


def _last_messages(
    client: KafkaClient, read: Sequence[ReadPartition], held: Mapping[KafkaPartition, Offsets]
) -> tuple[dict[KafkaPartition, Message], dict[str, TopicError]]:
    """The last message that was read of each partition, where it is still there, and by topic the error of each that
    cannot be read."""
    ranges = [
        OffsetRange(each.partition, each.next_offset - 1, each.next_offset)
        for each in read
        if each.last_mark and held[each.partition].low < each.next_offset
    ]
    found, faults = messages_of_sound_topics(client, ranges)
    return {partition: messages[-1] for partition, messages in found.items()}, faults


def _require_same_topic(read: ReadPartition, low: int, last: Message | None, topic_id: str | None) -> None:
    """Raise TopicError if the partition is one of another topic. It holds offsets from `low` on, and the message `last`
    at the offset of the last one that was read."""
    if last is not None and mark_of(last) != read.last_mark:
        expected = f"at offset {last.offset} the message that was read before"
        raise TopicError(str(read.partition), expected, "another", CREATED_AGAIN)
    if last is not None or (not read.last_mark and low >= read.next_offset):
        return
    if read.topic_id not in (None, topic_id):
        raise _other_id(read.partition.topic, topic_id)


def created_again_meanwhile(client: KafkaClient, read: Sequence[ReadPartition]) -> dict[str, TopicError]:
    """By topic, the error of each that was created again since the ids in `read` were asked for.

    After reading, this shows whether all messages are of one topic: offsets of a topic that is created again while it
    is read continue with other messages.
    """
    now, found = client.topic_ids(), set(client.partitions_found())
    faults: dict[str, TopicError] = {}
    unidentified = []
    for each in read:
        topic = each.partition.topic
        if each.topic_id is None or topic not in now:
            unidentified += [replace(each, topic_id=None)] if each.partition in found else []
        elif now[topic] != each.topic_id:
            faults.setdefault(topic, _other_id(topic, now[topic]))
    return {**created_again(client, unidentified, {}), **faults}


def _other_id(topic: str, topic_id: str | None) -> TopicError:
    if topic_id is None:
        advice = "Allow this user to DESCRIBE the topic, and try again. Nothing is lost."
        return TopicError(topic, "its id, since the last message that was read is gone", "no id", advice)
    return TopicError(topic, "the topic that was read before", "another topic of this name", CREATED_AGAIN)


# -- messages of several topics ----------------------------------------------------------------------------------------


def messages_of_sound_topics(
    client: KafkaClient, ranges: Sequence[OffsetRange], each_max: int | None = None
) -> tuple[Read, dict[str, TopicError]]:
    """By partition, the messages of the ranges; by topic, the error of each that cannot be read.

    Args:
        each_max: how many messages of each partition are read at most.
    """
    try:
        return _read(client, ranges, each_max), {}
    except TopicError:  # it may not say which of the topics has the fault
        found: Read = {}
        faults: dict[str, TopicError] = {}
    for topic, own in groupby(sorted(ranges, key=_topic), key=_topic):
        try:
            found |= _read(client, list(own), each_max)
        except TopicError as error:
            faults[topic] = error
    return found, faults


def _read(client: KafkaClient, ranges: Sequence[OffsetRange], each_max: int | None) -> Read:
    found: Read = {}
    for message in client.messages_of_all(ranges, each_max):
        found.setdefault(KafkaPartition(message.topic, message.partition), []).append(message)
    return found


def _topic(wanted: OffsetRange) -> str:
    return wanted.partition.topic
