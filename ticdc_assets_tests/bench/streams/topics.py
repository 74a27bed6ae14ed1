"""A recorded stream as a topic of a real broker, in any number of partitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from ticdc_assets.sources.capture import Message, messages
from ticdc_assets_tests.services.kafka import KafkaServer

_ROUND = 100


def send(kafka: KafkaServer, capture: Path, topic: str, partitions: int) -> int:
    """Make the topic and send a capture of Canal-JSON to it; the number of messages.

    Messages go to the partitions in turns, a hundred each. The recorded watermarks are of other partitions, so only the
    newest one is sent, at the end of every partition.
    """
    kafka.make_topic(topic, partitions)
    marks: list[tuple[int, Message]] = []

    def rows() -> Iterator[Message]:
        for file in sorted(capture.glob("*.bin")):
            for message in messages(file):
                ts = _watermark(message)
                if ts is None:
                    yield message
                else:
                    marks.append((ts, message))

    count = kafka.send(_fields(m, topic, number // _ROUND % partitions) for number, m in enumerate(rows()))
    _, last = max(marks, key=lambda mark: mark[0])
    return count + kafka.send(_fields(last, topic, partition) for partition in range(partitions))


def _watermark(message: Message) -> int | None:
    value = message.value or b""
    return int(orjson.loads(value)["_tidb"]["watermarkTs"]) if b"TIDB_WATERMARK" in value else None


def _fields(message: Message, topic: str, partition: int) -> dict[str, Any]:
    body = {"key": message.key, "value": message.value, "ts_ms": message.ts_ms}
    return {"topic": topic, "partition": partition, **body}
