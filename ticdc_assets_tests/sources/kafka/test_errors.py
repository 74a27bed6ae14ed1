"""Errors of a Kafka cluster that pass by themselves, as after a broker restarts: what waits, how long, and what not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError

from ticdc_assets.config import KafkaSource
from ticdc_assets.errors import SourceError, TopicError
from ticdc_assets.sources.kafka import client, faults
from ticdc_assets.sources.kafka.client import KafkaClient
from ticdc_assets.sources.kafka.ranges import KafkaPartition, OffsetRange, Offsets
from ticdc_assets_tests.services.mock_cluster import (
    FETCH,
    LIST_OFFSETS,
    METADATA,
    NO_BROKER,
    MockCluster,
    library,
    mock_cluster,
)

pytestmark = pytest.mark.skipif(library() is None, reason="librdkafka is not part of its Python package here")
PARTITION = KafkaPartition(MockCluster.TOPIC, 0)
ALL = OffsetRange(PARTITION, 0, 5)
PASSING = [
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._TRANSPORT,
]


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_POLL_S", 0.01)


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    """A cluster with five messages."""
    with mock_cluster() as made:
        made.send(5)
        yield made


@pytest.fixture
def connect(cluster: MockCluster) -> Callable[..., KafkaClient]:
    source = KafkaSource(brokers=(cluster.brokers,), topics=(MockCluster.TOPIC,))
    return lambda *arguments: KafkaClient(source, *arguments)


def named(code: int) -> str:
    return str(KafkaError(code).name())


def soon(act: Callable[[], object], after_s: float = 1.0) -> None:
    threading.Timer(after_s, act).start()


def test_messages_that_are_left_after_the_connection_is_closed_end_without_an_error(connect):
    """So ends a reader that is interrupted; Python would print the error with its traceback."""
    with connect() as connection:
        messages = connection.messages(ALL)
        next(messages)

    messages.close()


# -- what waits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", PASSING, ids=named)
def test_offsets_are_asked_for_again_until_the_error_has_passed(cluster, connect, code):
    with connect() as connection:
        cluster.answer(LIST_OFFSETS, *[code] * 3)

        assert connection.offsets_of([PARTITION]) == {PARTITION: Offsets(0, 5)}


def test_an_error_for_one_of_two_offsets_is_not_hidden_by_the_other(cluster, connect):
    """librdkafka's own request for both gave (5, 5) in half of the cases, so that no message was to be read."""
    for _ in range(8):
        with connect() as connection:
            connection.partitions()
            cluster.answer(LIST_OFFSETS, KafkaError.NOT_LEADER_FOR_PARTITION)

            assert connection.offsets_of([PARTITION]) == {PARTITION: Offsets(0, 5)}


@pytest.mark.parametrize("code", PASSING, ids=named)
def test_the_offset_of_a_time_is_asked_for_again_until_the_error_has_passed(cluster, connect, code):
    with connect() as connection:
        cluster.answer(LIST_OFFSETS, *[code] * 3)

        assert connection.first_offset_since(PARTITION, 1) == 5  # the mock broker knows no times


@pytest.mark.parametrize("was_known", [True, False], ids=["known before", "new connection"])
def test_a_partition_without_a_leader_is_waited_for(cluster, connect, was_known):
    with connect() as connection:
        if was_known:
            assert connection.offsets_of([PARTITION])[PARTITION].end == 5
        cluster.lead(NO_BROKER)
        soon(lambda: cluster.lead(1))

        assert connection.offsets_of([PARTITION])[PARTITION].end == 5
        assert connection.ends() == {PARTITION: 5}


@pytest.mark.parametrize("code", [KafkaError.LEADER_NOT_AVAILABLE, KafkaError._TRANSPORT], ids=named)
def test_topics_are_asked_for_again_until_the_error_has_passed(cluster, connect, code):
    with connect() as connection:
        cluster.answer(METADATA, *[code] * 3)

        assert connection.partitions() == [PARTITION]


@pytest.mark.parametrize("code", [KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART], ids=named)
def test_a_topic_that_a_broker_does_not_know_yet_is_waited_for(cluster, connect, code):
    cluster.describe_topic_with(code)
    soon(lambda: cluster.describe_topic_with(0))
    with connect() as connection:
        assert connection.offsets_of([PARTITION])[PARTITION].end == 5


@pytest.mark.parametrize("code", [*PASSING, KafkaError.INVALID_MSG], ids=named)
def test_messages_are_read_on_after_an_error_that_passes(cluster, connect, code):
    cluster.answer(FETCH, *[code] * 3)
    with connect() as connection:
        assert [message.offset for message in connection.messages(ALL)] == [0, 1, 2, 3, 4]


def test_messages_of_a_partition_without_a_leader_are_waited_for(cluster, connect):
    cluster.lead(NO_BROKER)
    soon(lambda: cluster.lead(1))
    with connect() as connection:
        assert len(list(connection.messages(ALL))) == 5


# -- how long ----------------------------------------------------------------------------------------------------------


def test_a_partition_that_stays_without_a_leader_is_an_error_of_its_topic(cluster, connect):
    with connect(2.0) as connection:
        assert connection.partitions() == [PARTITION]
        cluster.lead(NO_BROKER)
        with pytest.raises(TopicError, match=r"the offsets of t\[0\], found LEADER_NOT_AVAILABLE.* Nothing is lost"):
            connection.offsets_of([PARTITION])[PARTITION]


def test_all_requests_of_a_connection_wait_no_longer_than_one(cluster, connect):
    with connect(2.0) as connection:
        connection.partitions()
        cluster.lead(NO_BROKER)
        began = time.monotonic()
        for _ in range(4):
            with pytest.raises(TopicError):
                connection.offsets_of([PARTITION])[PARTITION]

        assert time.monotonic() - began < 6


def test_reading_ends_where_errors_do_not_pass(cluster, connect, monkeypatch):
    monkeypatch.setattr(client, "SILENCE_TIMEOUT_S", 2.0)
    cluster.answer(FETCH, *[KafkaError.REQUEST_TIMED_OUT] * 1000)
    with connect() as connection, pytest.raises(SourceError, match=r"messages 0 to 4 of t\[0\], found REQUEST_TIMED"):
        list(connection.messages(ALL))


# -- what does not wait ------------------------------------------------------------------------------------------------


def test_a_topic_that_may_not_be_described_is_refused_at_once(cluster, connect):
    with connect() as connection:
        connection.partitions()
        cluster.answer(LIST_OFFSETS, KafkaError.TOPIC_AUTHORIZATION_FAILED)
        began = time.monotonic()
        with pytest.raises(TopicError, match="Let this user READ and DESCRIBE the topic"):
            connection.offsets_of([PARTITION])[PARTITION]

        assert time.monotonic() - began < 5


def test_a_topic_that_may_not_be_read_is_refused_at_once(cluster, connect):
    cluster.answer(FETCH, *[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 3)
    with connect() as connection, pytest.raises(TopicError, match="Let this user READ"):
        list(connection.messages(ALL))
