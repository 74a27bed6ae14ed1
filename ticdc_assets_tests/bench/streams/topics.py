"""A recorded stream as a topic of a real broker, in any number of partitions."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ticdc_assets.sources.capture import Message, messages
from ticdc_assets_tests.bench.streams.captures import watermark
from ticdc_assets_tests.services.kafka import KafkaServer

_ROUND = 100


def send(kafka: KafkaServer, form: str, capture: Path, topic: str, partitions: int) -> int:
    """Make the topic and send a capture to it; the number of messages.

    Messages go to the partitions in turns, a hundred each; those of Avro, which have no order but that of a partition,
    by their key. The recorded watermarks are of other partitions, so only the newest one is sent, at the end of every
    partition.
    """
    kafka.make_topic(topic, partitions)
    marks: list[tuple[int, Message]] = []

    def rows() -> Iterator[Message]:
        for file in sorted(capture.glob("*.bin")):
            for message in messages(file):
                ts = watermark(form, message)
                if ts is None:
                    yield message
                else:
                    marks.append((ts, message))

    def partition_of(number: int, message: Message) -> int:
        return (zlib.crc32(message.key or b"") if form == "avro" else number // _ROUND) % partitions

    count = kafka.send(_fields(m, topic, partition_of(number, m)) for number, m in enumerate(rows()))
    if not marks:
        return count
    _, last = max(marks, key=lambda mark: mark[0])
    return count + kafka.send(_fields(last, topic, partition) for partition in range(partitions))


def _fields(message: Message, topic: str, partition: int) -> dict[str, Any]:
    body = {"key": message.key, "value": message.value, "ts_ms": message.ts_ms}
    return {"topic": topic, "partition": partition, **body}
