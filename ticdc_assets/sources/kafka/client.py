"""A connection to a Kafka cluster: its partitions, their offsets, and their messages."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import methodcaller
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from ticdc_assets.config import KafkaSource
from ticdc_assets.errors import SourceError, TopicError
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.kafka.faults import Causes, fault_of
from ticdc_assets.sources.kafka.offsets import OffsetRequests
from ticdc_assets.sources.kafka.ranges import KafkaPartition, OffsetRange, Offsets
from ticdc_assets.sources.kafka.requests import RETRY_TIMEOUT_S, Requests, passes

IDS_TIMEOUT_S: Final = 20.0
"""Time limit of the request for the ids of topics."""
SILENCE_TIMEOUT_S: Final = 60.0
"""Reading fails if a partition gives no message for this long although it holds some."""
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's own topics, which no pattern matches."""
_REFUSED: Final = re.compile(r'(?:property:?|for) "([\w.]+)"|`([\w.]+)`|((?:ssl|sasl)\.[\w.]+[a-z])')
"""The name of a setting in librdkafka's texts, some of which quote the value before it."""
_BATCH_MESSAGES: Final = 1000
_ERROR: Final = methodcaller("error")
_POLL_S: Final = 0.5
_FILL_S: Final = 0.005
_DEFAULTS: Final[dict[str, Any]] = {
    "client.id": "ticdc-assets",
    "socket.connection.setup.timeout.ms": 10000,
    "reconnect.backoff.max.ms": 1000,
    "fetch.wait.max.ms": 100,
    # Messages after the end of a range are not needed, so little is fetched in advance.
    "queued.max.messages.kbytes": 16384,
    "fetch.message.max.bytes": 4 << 20,
    # librdkafka fetches nothing for this time once so much is fetched in advance; its default is a second.
    "fetch.queue.backoff.ms": 5,
}
_DEFAULTS_FOR_FEW: Final[dict[str, Any]] = {"queued.max.messages.kbytes": 4096, "fetch.message.max.bytes": 1 << 20}
FIXED: Final[dict[str, Any]] = {
    "group.id": "ticdc-assets",  # librdkafka requires one; `assign` joins no group
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
}
"""The settings that no config changes: it refuses them."""


def matching(pattern: str | None, topics: Iterable[str]) -> set[str]:
    """The topics whose whole name matches the regular expression; none without one."""
    if not pattern:
        return set()
    return {topic for topic in topics if topic not in INTERNAL_TOPICS and re.fullmatch(pattern, topic)}


class KafkaClient:
    """A connection, closed by the context manager. Every fault is a SourceError that names brokers and cause.

    Errors may pass by themselves, for example after a broker restarts. Requests wait for that for `retry_timeout_s` in
    total, reading until no message has come for `SILENCE_TIMEOUT_S`. With `reads_few`, where a few messages of each
    partition are read, fewer are fetched in advance.
    """

    def __init__(
        self, source: KafkaSource, retry_timeout_s: float = RETRY_TIMEOUT_S, *, reads_few: bool = False
    ) -> None:
        self._source = source
        self._causes = Causes()
        self._where = f"Kafka at {','.join(source.brokers)}"
        settings: dict[str, Any] = {
            **_DEFAULTS,
            **(_DEFAULTS_FOR_FEW if reads_few else {}),
            **source.options,
            **FIXED,
            "bootstrap.servers": ",".join(source.brokers),
            "error_cb": self._causes.add,
        }
        self._settings = settings
        try:
            self._consumer = Consumer(settings, logger=_silent_logger())
        except KafkaException as error:
            raise SourceError(
                self._where,
                "settings that librdkafka accepts",
                f"one that it refuses{_setting_in(error, source.options)}",
                "Check source.kafka.security and source.kafka.options.",
            ) from None
        self._requests = Requests(self._consumer, self._where, self._causes, retry_timeout_s)
        self._offsets = OffsetRequests(self._consumer, self._requests)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    # -- what there is ------------------------------------------------------------------------------------------------

    def partitions(self) -> list[KafkaPartition]:
        """The partitions of all configured topics, sorted. TopicError if a topic does not exist."""
        found = self.partitions_found()
        for topic in self._source.topics:
            if not any(partition.topic == topic for partition in found):
                raise self.missing(topic)
        return found

    def partitions_found(self) -> list[KafkaPartition]:
        """The partitions of the configured topics that exist, sorted."""
        found = self._metadata()
        names = set(self._source.topics) | matching(self._source.pattern, found)
        if not names:
            advice = "Check source.kafka.pattern, or wait until TiCDC has made the first topic."
            raise SourceError(self._where, "a topic that the pattern matches", "none", advice)
        return [
            KafkaPartition(name, number)
            for name in sorted(names & found.keys())
            for number in sorted(found[name].partitions)
        ]

    def _metadata(self) -> dict[str, Any]:
        """The cluster's topics."""

        def request(timeout_s: float) -> dict[str, Any]:
            found = dict(self._consumer.list_topics(timeout=timeout_s).topics)
            for topic in self._source.topics:
                error = found[topic].error if topic in found and not found[topic].partitions else None
                if error is not None and passes(error):
                    raise KafkaException(error)
            return found

        return self._requests.answer("the cluster's topics", request)

    def missing(self, topic: str) -> TopicError:
        """The error for a configured topic that does not exist."""
        advice = "Check source.kafka.topics or sink_uri, and that this user may describe the topic."
        return TopicError(self._where, f"the topic {topic}", "no such topic", advice)

    def topic_ids(self) -> dict[str, str]:
        """The ids of topics, which Kafka assigns on creation; without topics whose id is unknown."""
        topics = sorted({partition.topic for partition in self.partitions_found()})
        admin = AdminClient(self._settings, logger=_silent_logger())
        found = {}
        for topic, future in admin.describe_topics(TopicCollection(topics), request_timeout=IDS_TIMEOUT_S).items():
            try:
                found[topic] = str(future.result().topic_id)
            except KafkaException:
                continue  # an older broker, no permission or no answer: the last message identifies the topic too
        return {topic: topic_id for topic, topic_id in found.items() if topic_id.strip("A")}

    def offsets_of(self, partitions: Sequence[KafkaPartition]) -> dict[KafkaPartition, Offsets]:
        """The first offset that each partition holds, and the one after its last. Raises TopicError where the offsets
        of a topic cannot be asked for."""
        found, faults = self.offsets_of_sound_topics(partitions)
        for fault in faults.values():
            raise fault
        return found

    def offsets_of_sound_topics(
        self, partitions: Sequence[KafkaPartition]
    ) -> tuple[dict[KafkaPartition, Offsets], dict[str, TopicError]]:
        """The same, and by topic the error of each whose offsets cannot be asked for."""
        return self._offsets.of(partitions)

    def ends(self) -> dict[KafkaPartition, int]:
        """The end offset of every partition of the topics that exist."""
        return {partition: offsets.end for partition, offsets in self.offsets_of(self.partitions_found()).items()}

    def first_offset_since(self, partition: KafkaPartition, timestamp_ms: int) -> int:
        """The offset of the first message with that timestamp or a later one, else the partition's end."""
        offset = self._offsets.at_time(partition, timestamp_ms)
        return self.offsets_of([partition])[partition].end if offset < 0 else offset

    # -- messages -----------------------------------------------------------------------------------------------------

    def messages(self, wanted: OffsetRange) -> Iterator[Message]:
        """The messages of the range, in order of offsets.

        Reading stops when the reader's position reaches the end of the range. The last offset may have no message,
        since compaction and transactions leave gaps.
        """
        return self.messages_of_all([wanted])

    def batches(self, ranges: Sequence[OffsetRange], each_max: int | None = None) -> Iterator[list[Any]]:
        """The messages of ranges of different partitions at once, of each partition in order of offsets. They are
        librdkafka's objects, in batches as they arrive; no batch is empty.

        Args:
            each_max: how many messages of each partition are read at most.
        """
        left = [wanted for wanted in ranges if len(wanted)]
        if not left:
            return
        first = left[0]
        what = f"messages {first.begin} to {first.end - 1} of {first.partition}"
        if len(left) > 1:
            what = f"messages of {first.partition} and of {len(left) - 1} more"
        yield from self._read(left, what, each_max)

    def messages_of_all(self, ranges: Sequence[OffsetRange], each_max: int | None = None) -> Iterator[Message]:
        """The messages of `batches`."""
        for found in self.batches(ranges, each_max):
            yield from map(_message_of, found)

    def _read(self, ranges: Sequence[OffsetRange], what: str, each_max: int | None) -> Iterator[list[Any]]:
        with self._faults(what):
            self._consumer.assign([_at(wanted.partition, wanted.begin) for wanted in ranges])
        try:
            yield from self._assigned({wanted.partition: wanted.end for wanted in ranges}, what, each_max)
        finally:
            with suppress(RuntimeError):  # where the caller is interrupted, the consumer is closed before
                # A pause outlives the assignment.
                self._consumer.resume([_at(wanted.partition) for wanted in ranges])
                self._consumer.unassign()

    def _assigned(self, ends: dict[KafkaPartition, int], what: str, each_max: int | None) -> Iterator[list[Any]]:
        """The messages before the end of each partition; a partition is removed from `ends` once it is read."""
        heard, counts = time.monotonic(), Counter[KafkaPartition]()
        only_end = next(iter(ends.values())) if len(ends) == 1 and each_max is None else None
        while ends:
            with self._faults(what):
                batch = self._batch()
            is_whole = only_end is not None and _are_before(batch, only_end)
            found = batch if is_whole else self._before_ends(batch, ends, what, counts, each_max)
            if found:
                yield found
            if batch:
                heard = time.monotonic()
            for position in self._consumer.position([_at(partition) for partition in ends]) if ends else ():
                partition = KafkaPartition(position.topic, position.partition)
                if position.offset >= ends[partition]:
                    self._ended(ends, partition)
            if ends and time.monotonic() - heard > SILENCE_TIMEOUT_S:
                raise self._silent(what)

    def _before_ends(
        self,
        batch: list[Any],
        ends: dict[KafkaPartition, int],
        what: str,
        counts: Counter[KafkaPartition],
        each_max: int | None,
    ) -> list[Any]:
        """The messages of a batch before the end of their partition. Raises SourceError where one is an error."""
        kept = []
        for found in batch:
            error = found.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise fault_of(KafkaException(error), self._where, what, self._causes)
            partition = KafkaPartition(found.topic(), found.partition())
            if partition not in ends:
                continue
            if found.offset() >= ends[partition]:
                self._ended(ends, partition)
            elif error is None:
                kept.append(found)
                if each_max is not None:
                    counts[partition] += 1
                    if counts[partition] == each_max:
                        self._ended(ends, partition)
        return kept

    def _batch(self) -> list[Any]:
        """The next messages. `consume` alone waits for all of a batch, also at the end of a partition."""
        first = self._consumer.poll(_POLL_S)
        batch = [] if first is None else [first, *self._consumer.consume(_BATCH_MESSAGES, timeout=_FILL_S)]
        return [found for found in batch if not self._is_passing(found.error())] if any(map(_ERROR, batch)) else batch

    def _is_passing(self, error: KafkaError | None) -> bool:
        """Whether librdkafka continues after this error. It is kept as the cause in case no message follows."""
        if error is None or not passes(error):
            return False
        self._causes.add(error)
        return True

    def _ended(self, ends: dict[KafkaPartition, int], partition: KafkaPartition) -> None:
        del ends[partition]
        if ends:  # reading of the other partitions continues
            self._consumer.pause([_at(partition)])

    def _silent(self, what: str) -> SourceError:
        found = self._causes.newest or f"no answer for {SILENCE_TIMEOUT_S:.0f} s"
        return SourceError(self._where, what, found, "Nothing is lost: try again when the brokers answer.")

    # -- faults -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _faults(self, what: str) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            self._causes.gather(self._consumer)
            raise fault_of(error, self._where, what, self._causes) from None


def _message_of(found: Any) -> Message:
    """The message of one of librdkafka's objects."""
    _, ts_ms = found.timestamp()
    return Message(found.topic(), found.partition(), found.offset(), found.key(), found.value(), ts_ms)


def _are_before(batch: list[Any], end: int) -> bool:
    """Whether a batch of one partition has no error and no message from the offset `end` on."""
    return bool(batch) and not any(map(_ERROR, batch)) and batch[-1].offset() < end


def _at(partition: KafkaPartition, offset: int | None = None) -> TopicPartition:
    if offset is None:
        return TopicPartition(partition.topic, partition.number)
    return TopicPartition(partition.topic, partition.number, offset)


def _setting_in(error: KafkaException, options: Mapping[str, str]) -> str:
    """librdkafka's name of a setting that it refuses, without the value; of a file, its path and what is wrong."""
    text = str(error.args[0].str()) if error.args else ""
    if "No provider for SASL mechanism" in text:
        return f": sasl.mechanism, {options.get('sasl.mechanism', 'GSSAPI')}: this librdkafka was built without it"
    name = _REFUSED.search(text)
    if name is None:
        return ""
    setting = name[name.lastindex or 0]
    if setting == "sasl.username" and options.get(setting):
        setting = "sasl.password"  # librdkafka names both, whichever is missing
    path = options.get(setting, "") if setting.endswith(".location") else ""
    return f": {setting}, {_fault_of_file(path)}" if path else f": {setting}"


def _fault_of_file(path: str) -> str:
    try:
        Path(path).read_bytes()
    except OSError as error:
        return f"{path}: {error.strerror}"
    return f"{path}: not as PEM, or locked with another password"


def _silent_logger() -> logging.Logger:
    # librdkafka prints to stderr otherwise; the error callback gets important messages too.
    logger = logging.getLogger("ticdc_assets.kafka.silent")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
