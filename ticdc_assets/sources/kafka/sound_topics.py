"""Reads messages of several topics, of which some may have a fault."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ticdc_assets.errors import TopicError
from ticdc_assets.sources.kafka.ranges import KafkaPartition, OffsetRange

if TYPE_CHECKING:
    from ticdc_assets.sources.capture import Message
    from ticdc_assets.sources.kafka.client import KafkaClient

Read = dict[KafkaPartition, list["Message"]]


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
