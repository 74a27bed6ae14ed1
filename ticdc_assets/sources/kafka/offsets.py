"""Requests for the offsets of partitions: one for all of them, and one for each for which that fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException, TopicPartition

from ticdc_assets.errors import TopicError
from ticdc_assets.sources.kafka.ranges import KafkaPartition, Offsets
from ticdc_assets.sources.kafka.requests import Requests

_AT_ONCE_TIMEOUT_S: Final = 10.0


class OffsetRequests:
    """The requests of one consumer."""

    def __init__(self, consumer: Any, requests: Requests) -> None:
        self._consumer = consumer
        self._requests = requests

    def of(self, partitions: Sequence[KafkaPartition]) -> tuple[dict[KafkaPartition, Offsets], dict[str, TopicError]]:
        """The first offset that each partition holds, and the one after its last; by topic, the error of each that
        cannot be asked.

        Raises:
            SourceError: the cluster cannot be read.
        """
        # `get_watermark_offsets` makes two requests. After one error and one answer it returns the answer for both.
        lows, ends = (self._at_once(partitions, place) for place in (OFFSET_BEGINNING, OFFSET_END))
        found: dict[KafkaPartition, Offsets] = {}
        faults: dict[str, TopicError] = {}
        for partition in partitions:
            try:
                low = lows[partition] if partition in lows else self.at_time(partition, OFFSET_BEGINNING)
                end = ends[partition] if partition in ends else self.at_time(partition, OFFSET_END)
            except TopicError as error:
                faults.setdefault(partition.topic, error)
            else:
                found[partition] = Offsets(low, end)
        return found, faults

    def at_time(self, partition: KafkaPartition, timestamp_ms: int) -> int:
        """The offset that Kafka gives for a timestamp, or for OFFSET_BEGINNING or OFFSET_END in its place."""

        def request(timeout_s: float) -> int:
            (found,) = self._consumer.offsets_for_times([_at(partition, timestamp_ms)], timeout=timeout_s)
            if found.error is not None:
                raise KafkaException(found.error)
            return int(found.offset)

        return self._requests.answer(f"the offsets of {partition}", request, partition)

    def _at_once(self, partitions: Sequence[KafkaPartition], timestamp_ms: int) -> dict[KafkaPartition, int]:
        """The same of many partitions, without those for which the request fails. It is not made again: a request for
        one partition tells what is wrong."""
        if len(partitions) < 2:
            return {}
        wanted = [_at(partition, timestamp_ms) for partition in partitions]
        try:
            answers = self._consumer.offsets_for_times(wanted, timeout=_AT_ONCE_TIMEOUT_S)
        except KafkaException:
            return {}
        return {KafkaPartition(of.topic, of.partition): int(of.offset) for of in answers if of.error is None}


def _at(partition: KafkaPartition, timestamp_ms: int) -> TopicPartition:
    return TopicPartition(partition.topic, partition.number, timestamp_ms)
