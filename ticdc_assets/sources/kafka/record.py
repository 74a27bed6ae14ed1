"""A message of Kafka with its headers."""

from __future__ import annotations

from typing import Any, NamedTuple

from ticdc_assets.sources.capture import Message


class KafkaRecord(NamedTuple):
    """A message with its headers; None if it has none."""

    message: Message
    headers: list[tuple[str, bytes | None]] | None

    @property
    def size_bytes(self) -> int:
        """The bytes of key and value."""
        return len(self.message.key or b"") + len(self.message.value or b"")


def record_of(found: Any) -> KafkaRecord:
    """The record of one of librdkafka's messages."""
    _, ts_ms = found.timestamp()
    message = Message(found.topic(), found.partition(), found.offset(), found.key(), found.value(), ts_ms)
    return KafkaRecord(message, found.headers())
