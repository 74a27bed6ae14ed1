"""Two tables in topics of a broker, which lose messages or are created again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import BY_TABLE, SmallStream, shape
from ticdc_assets_tests.services.kafka import KafkaServer

TOPICS = ["feed", "s_a", "s_b"]

A, B = shape("a", version=1), shape("b", version=1)


class SentStream(SmallStream):
    """A stream whose messages go to a broker, a topic for each table."""

    def __init__(self, folder: Path, kafka: KafkaServer) -> None:
        super().__init__(folder, config=BY_TABLE)
        self.kafka = kafka

    def send(self, topic: str, partition: int, *messages: Any) -> None:
        fields = {"topic": topic, "partition": partition, "ts_ms": 1_754_006_400_000}
        self.kafka.send([{**fields, "key": key, "value": value} for key, value in filter(None, messages)])

    def lake(self, **settings: Any) -> FeedLake:
        return super().lake(**settings, source={"kafka": {"brokers": self.kafka.brokers, "topics": TOPICS}})

    def lose_next(self, topic: str, offset: int) -> None:
        """What retention does: the topic begins at the offset from now on."""
        self.kafka.remove_messages_before(topic, 0, offset)


@pytest.fixture
def stream(kafka: KafkaServer, tmp_path: Path) -> Iterator[SentStream]:
    """Two tables with a row each, complete up to tick 3; each topic has 2 or 3 messages."""
    for topic in TOPICS:
        kafka.make_topic(topic)
    made = SentStream(tmp_path, kafka)
    for table, topic in ((A, "s_a"), (B, "s_b")):
        made.create(1, table, topic)
        made.put(2, table, 1, topic=topic)
    made.watermark(3, *TOPICS)
    yield made
    for topic in TOPICS:
        kafka.remove_topic(topic)
