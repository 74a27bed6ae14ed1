"""Requests to a Kafka cluster, made again while the cluster answers with errors that pass by themselves.

After a broker restarts, its partitions have no leader for some seconds, or requests go to a broker that no longer leads
them. librdkafka waits when it reads messages, but its requests for topics, offsets and times fail at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from ticdc_assets.sources.kafka.faults import Causes, fault_of
from ticdc_assets.sources.kafka.ranges import KafkaPartition

REACH_TIMEOUT_S: Final = 20.0
"""How long a cluster that has not answered yet is tried."""
RETRY_TIMEOUT_S: Final = 60.0
"""How long one connection waits, over all its requests, for errors to pass."""
_ATTEMPT_MIN_S: Final = 2.0
"""The first attempt is short: it logs in, and a refused login is seen only when it ends."""
_ATTEMPT_MAX_S: Final = 16.0
_PAUSE_MIN_S: Final = 0.1
_PAUSE_MAX_S: Final = 2.0

_PASSING: Final = frozenset({
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._DESTROY_BROKER,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._TRANSPORT,
    KafkaError._UNKNOWN_BROKER,
    KafkaError._WAIT_CACHE,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.FETCH_SESSION_ID_NOT_FOUND,
    KafkaError.INVALID_FETCH_SESSION_EPOCH,
    KafkaError.INVALID_MSG,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.LISTENER_NOT_FOUND,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
    KafkaError.UNKNOWN_LEADER_EPOCH,
})  # fmt: skip
_PASSING_OF_A_PARTITION: Final = frozenset({
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.INCONSISTENT_TOPIC_ID,
})  # fmt: skip
"""The errors of requests for a partition without a leader, or one that the broker does not know yet."""

Answer = TypeVar("Answer")


def passes(error: KafkaError) -> bool:
    """Whether the error may pass by itself; `KafkaError.retriable` is false for all errors of requests."""
    return error.code() in _PASSING


class Requests:
    """The requests of one consumer. It must have no partitions assigned while a request is made."""

    def __init__(self, consumer: Any, where: str, causes: Causes, retry_timeout_s: float) -> None:
        self._consumer = consumer
        self._where = where
        self._causes = causes
        self._retry_timeout_s = retry_timeout_s
        self._is_answered = False
        self._waited_s = 0.0

    def answer(self, what: str, request: Callable[[float], Answer], partition: KafkaPartition | None = None) -> Answer:
        """The answer to a request, which is called with the time limit of an attempt in seconds.

        Args:
            what: what is requested, for the error.
            partition: the partition that is asked for, where it is one.

        Raises:
            SourceError: an error that does not pass, or that has not passed when the time is over.
        """
        for attempt_s, pause_s in _attempts():
            began = time.monotonic()
            try:
                found = request(max(1.0, min(attempt_s, self._left_s)))
            except KafkaException as error:
                self._causes.gather(self._consumer)
                cause, may_pass = self._cause(error.args[0], partition)
                self._waited_s += time.monotonic() - began
                if not may_pass or self._causes.is_final or self._left_s <= 0:
                    raise fault_of(KafkaException(cause), self._where, what, self._causes) from None
                time.sleep(pause_s)
                self._waited_s += pause_s
            else:
                self._is_answered = True
                return found
        raise AssertionError("attempts do not end")

    @property
    def _left_s(self) -> float:
        """How long the connection may still wait."""
        limit_s = self._retry_timeout_s if self._is_answered else min(REACH_TIMEOUT_S, self._retry_timeout_s)
        return limit_s - self._waited_s

    def _cause(self, error: KafkaError, partition: KafkaPartition | None) -> tuple[KafkaError, bool]:
        """The error, or the one that the cluster now reports for the partition, and whether it may pass."""
        if partition is None or not _may_pass_of_a_partition(error):
            return error, passes(error)
        cause = self._asked(partition) or error
        return cause, _may_pass_of_a_partition(cause)

    def _asked(self, partition: KafkaPartition) -> KafkaError | None:
        """What is wrong with a partition by the newest metadata; None if that is not known.

        librdkafka caches the metadata of a topic for minutes, also that a partition has no leader. This request
        refreshes it.
        """
        try:
            topic = self._consumer.list_topics(partition.topic, timeout=_ATTEMPT_MIN_S).topics[partition.topic]
        except KafkaException:
            return None
        found = topic.partitions.get(partition.number)
        is_without_leader = found is not None and found.leader < 0
        return topic.error or (KafkaError(KafkaError.LEADER_NOT_AVAILABLE) if is_without_leader else None)


def _may_pass_of_a_partition(error: KafkaError) -> bool:
    return passes(error) or error.code() in _PASSING_OF_A_PARTITION


def _attempts() -> Iterator[tuple[float, float]]:
    """The time limit of each attempt, and the pause after it."""
    attempt_s, pause_s = _ATTEMPT_MIN_S, _PAUSE_MIN_S
    while True:
        yield attempt_s, pause_s
        attempt_s, pause_s = min(2 * attempt_s, _ATTEMPT_MAX_S), min(2 * pause_s, _PAUSE_MAX_S)
