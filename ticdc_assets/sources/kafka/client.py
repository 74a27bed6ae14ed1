"""One connection to a Kafka cluster: which partitions there are, which offsets they hold, and their messages."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from ticdc_assets.config import KafkaSource
from ticdc_assets.errors import SourceError
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.kafka.faults import Causes, fault_of
from ticdc_assets.sources.kafka.ranges import OffsetRange, Offsets, Partition

REQUEST_TIMEOUT_S: Final = 20.0
"""How long one request for metadata or offsets may take."""
FIRST_REQUEST_TIMEOUT_S: Final = 2.0
SILENCE_TIMEOUT_S: Final = 60.0
"""How long a partition may give no message, though there are some, before reading fails."""
_BATCH_MESSAGES: Final = 1000
_POLL_S: Final = 0.5
_DEFAULTS: Final[dict[str, Any]] = {
    "client.id": "ticdc-assets",
    "socket.connection.setup.timeout.ms": 10000,
    "fetch.wait.max.ms": 100,
    "queued.max.messages.kbytes": 65536,
    "fetch.message.max.bytes": 16 << 20,
}
_FIXED: Final[dict[str, Any]] = {
    "group.id": "ticdc-assets",  # librdkafka asks for one; `assign` joins no group
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
}


class KafkaClient:
    """A connection; a context manager that closes it. Every fault is a SourceError that names brokers and cause."""

    def __init__(self, source: KafkaSource) -> None:
        self._source = source
        self._causes = Causes()
        self._where = f"Kafka at {','.join(source.brokers)}"
        settings: dict[str, Any] = {
            **_DEFAULTS,
            **source.options,
            **_FIXED,
            "bootstrap.servers": ",".join(source.brokers),
            "error_cb": self._causes.add,
        }
        try:
            self._consumer = Consumer(settings, logger=_silent_logger())
        except KafkaException as error:
            raise SourceError(
                self._where,
                "settings that librdkafka accepts",
                _setting_in(error),
                "Look at source.kafka.security and source.kafka.options.",
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    # -- what there is ------------------------------------------------------------------------------------------------

    def partitions(self) -> list[Partition]:
        """The partitions of all topics that the config names, in order. SourceError where a topic is not there."""
        found = self._metadata()
        for topic in self._source.topics:
            if topic not in found:
                self._raise_missing(topic)
        pattern = re.compile(self._source.pattern) if self._source.pattern else None
        names = set(self._source.topics) | {name for name in found if pattern and pattern.fullmatch(name)}
        if not names:
            todo = "Check source.kafka.pattern, or wait until TiCDC has made the first topic."
            raise SourceError(self._where, "a topic that the pattern matches", "none", todo)
        return [Partition(name, number) for name in sorted(names) for number in sorted(found[name].partitions)]

    def _metadata(self) -> dict[str, Any]:
        """The cluster's topics. The first request logs in, so it is made in short tries: a refused login fails at once,
        where one request would wait for its whole time."""
        until = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            try:
                return dict(self._consumer.list_topics(timeout=FIRST_REQUEST_TIMEOUT_S).topics)
            except KafkaException as error:
                self._causes.gather(self._consumer)
                if self._causes.is_final or time.monotonic() > until:
                    raise fault_of(error, self._where, "the cluster's topics", self._causes) from None

    def _raise_missing(self, topic: str) -> None:
        todo = "Check source.kafka.topics or sink_uri, and that this user may describe the topic."
        raise SourceError(self._where, f"the topic {topic}", "no such topic", todo)

    def offsets(self, partition: Partition) -> Offsets:
        """The first offset that the partition holds, and the one after its last."""
        with self._faults(f"the offsets of {partition}"):
            low, high = self._consumer.get_watermark_offsets(_at(partition), timeout=REQUEST_TIMEOUT_S)
        return Offsets(low, high)

    def first_offset_since(self, partition: Partition, timestamp_ms: int) -> int:
        """The offset of the first message with that timestamp or a later one, else the partition's end."""
        with self._faults(f"the offsets of {partition}"):
            (found,) = self._consumer.offsets_for_times([_at(partition, timestamp_ms)], timeout=REQUEST_TIMEOUT_S)
        if found.error is not None:
            raise fault_of(KafkaException(found.error), self._where, f"the offsets of {partition}", self._causes)
        return self.offsets(partition).end if found.offset in (OFFSET_END, -1) else int(found.offset)

    # -- messages -----------------------------------------------------------------------------------------------------

    def messages(self, wanted: OffsetRange) -> Iterator[Message]:
        """The messages of the range, in order of their offsets.

        It ends where the position of the reader has reached the end of the range: compaction and transactions leave
        offsets without a message, so that the last offset may never come.
        """
        what = f"messages {wanted.begin} to {wanted.end - 1} of {wanted.partition}"
        if wanted.begin >= wanted.end:
            return
        with self._faults(what):
            self._consumer.assign([_at(wanted.partition, wanted.begin)])
        try:
            yield from self._assigned(wanted, what)
        finally:
            self._consumer.unassign()

    def _assigned(self, wanted: OffsetRange, what: str) -> Iterator[Message]:
        heard = time.monotonic()
        while True:
            with self._faults(what):
                batch = self._consumer.consume(_BATCH_MESSAGES, timeout=_POLL_S)
            for found in batch:
                error = found.error()
                if error is None:
                    if found.offset() >= wanted.end:
                        return
                    yield _message(found)
                elif error.code() == KafkaError._PARTITION_EOF:
                    if found.offset() >= wanted.end:
                        return
                else:
                    raise fault_of(KafkaException(error), self._where, what, self._causes)
            if batch:
                heard = time.monotonic()
            if self._position(wanted.partition) >= wanted.end:
                return
            if time.monotonic() - heard > SILENCE_TIMEOUT_S:
                raise self._silent(what)

    def _silent(self, what: str) -> SourceError:
        found = self._causes.newest or f"no answer for {SILENCE_TIMEOUT_S:.0f} s"
        return SourceError(self._where, what, found, "Nothing is lost: try again when the brokers answer.")

    def _position(self, partition: Partition) -> int:
        (found,) = self._consumer.position([_at(partition)])
        return int(found.offset)

    # -- faults -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _faults(self, what: str) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            self._causes.gather(self._consumer)
            raise fault_of(error, self._where, what, self._causes) from None


def _at(partition: Partition, offset: int | None = None) -> TopicPartition:
    if offset is None:
        return TopicPartition(partition.topic, partition.number)
    return TopicPartition(partition.topic, partition.number, offset)


def _message(found: Any) -> Message:
    _, ts_ms = found.timestamp()
    return Message(found.topic(), found.partition(), found.offset(), found.key(), found.value(), ts_ms)


def _setting_in(error: KafkaException) -> str:
    """librdkafka's words for a setting it refuses, without the setting's value."""
    text = str(error.args[0].str()) if error.args else ""
    name = re.search(r'"([\w.]+)"', text)
    return f"one that it refuses: {name[1]}" if name else "one that it refuses"


def _silent_logger() -> logging.Logger:
    # librdkafka prints to stderr otherwise; what matters comes to the error callback too.
    logger = logging.getLogger("ticdc_assets.kafka.silent")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
