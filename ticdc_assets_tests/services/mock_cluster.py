"""The Kafka cluster inside librdkafka, which answers real requests with the errors that a test asks for."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import confluent_kafka
from confluent_kafka import Producer

METADATA, FETCH, LIST_OFFSETS = 3, 1, 2
"""Kafka's numbers of requests."""
NO_BROKER = -1
_PRODUCER = 0
_POINTER, _STRING, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int


def library() -> Path | None:
    """librdkafka as it is installed with its Python package; None where it lies elsewhere."""
    package = Path(confluent_kafka.__file__).parent
    folders = (package.parent / "confluent_kafka.libs", package / ".dylibs")
    return next((file for folder in folders for file in sorted(folder.glob("librdkafka*"))), None)


class MockCluster:
    """One broker with one topic of one partition."""

    TOPIC = "t"

    def __init__(self, handle: int) -> None:
        self._library = _loaded()
        self._cluster = self._library.rd_kafka_mock_cluster_new(handle, 1)
        self._library.rd_kafka_mock_topic_create(self._cluster, self._topic, 1, 1)

    def close(self) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)

    @property
    def brokers(self) -> str:
        return str(self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode())

    def send(self, count: int) -> None:
        """Send so many messages to the partition."""
        producer = Producer({"bootstrap.servers": self.brokers})
        for number in range(count):
            producer.produce(self.TOPIC, f"m{number}".encode(), partition=0)
        assert producer.flush(20) == 0

    def answer(self, request: int, *errors: int) -> None:
        """Answer the next requests of this kind with these errors, one after the other."""
        codes = (_INT * len(errors))(*errors)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, request, len(errors), codes)

    def answer_again(self, request: int) -> None:
        """Forget the errors for requests of this kind that are left."""
        self._library.rd_kafka_mock_clear_request_errors(self._cluster, request)

    def lead(self, broker: int) -> None:
        """Make a broker (1, or NO_BROKER) the leader of the partition."""
        self._library.rd_kafka_mock_partition_set_leader(self._cluster, self._topic, 0, broker)

    def describe_topic_with(self, error: int) -> None:
        """The error that metadata gives for the topic from now on; 0 for none."""
        self._library.rd_kafka_mock_topic_set_error(self._cluster, self._topic, error)

    @property
    def _topic(self) -> bytes:
        return self.TOPIC.encode()


@contextmanager
def mock_cluster() -> Iterator[MockCluster]:
    """A cluster while the body runs."""
    loaded = _loaded()
    handle = loaded.rd_kafka_new(_PRODUCER, None, None, 0)
    cluster = MockCluster(handle)
    try:
        yield cluster
    finally:
        cluster.close()
        loaded.rd_kafka_destroy(handle)


@cache
def _loaded() -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(library()))
    for name, result, arguments in (
        ("new", _POINTER, [_INT, _POINTER, _STRING, ctypes.c_size_t]),
        ("destroy", None, [_POINTER]),
        ("mock_cluster_new", _POINTER, [_POINTER, _INT]),
        ("mock_cluster_destroy", None, [_POINTER]),
        ("mock_cluster_bootstraps", _STRING, [_POINTER]),
        ("mock_topic_create", _INT, [_POINTER, _STRING, _INT, _INT]),
        ("mock_topic_set_error", None, [_POINTER, _STRING, _INT]),
        ("mock_partition_set_leader", _INT, [_POINTER, _STRING, ctypes.c_int32, ctypes.c_int32]),
        ("mock_push_request_errors_array", None, [_POINTER, ctypes.c_int16, ctypes.c_size_t, _POINTER]),
        ("mock_clear_request_errors", None, [_POINTER, ctypes.c_int16]),
    ):
        function = getattr(loaded, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded
