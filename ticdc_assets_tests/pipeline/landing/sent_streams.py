"""Recorded streams that are sent to topics, and the values that runs must find."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.fixtures import Workload, read_jsonl
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.services.kafka import KafkaServer


class SentStream:
    """A recorded stream with its own topics and partitions, sent to a broker bit by bit."""

    def __init__(self, kafka: KafkaServer, workload: Workload) -> None:
        self.kafka = kafka
        self.messages = [_sendable(line) for line in read_jsonl(workload.root / "messages.jsonl")]
        # TiCDC creates the default topic itself, whether or not a rule leaves it messages.
        counts = {urlsplit(workload.variant["sink_uri"]).path.strip("/"): 1}
        for message in self.messages:
            counts[message["topic"]] = max(counts.get(message["topic"], 0), message["partition"] + 1)
        self.topics = sorted(counts)
        for topic, count in counts.items():
            kafka.make_topic(topic, count)

    def send(self, first: float = 0, last: float = 1) -> None:
        """Send a part of the stream, in shares of its length."""
        count = len(self.messages)
        self.kafka.send(self.messages[round(count * first) : round(count * last)])

    def remove(self) -> None:
        for topic in self.topics:
            self.kafka.remove_topic(topic)


@pytest.fixture
def sent(kafka: KafkaServer) -> Iterator[Any]:
    """Sends a workload; its topics are removed after the test."""
    streams: list[SentStream] = []

    def stream(workload: Workload) -> SentStream:
        streams.append(SentStream(kafka, workload))
        return streams[-1]

    yield stream
    for made in streams:
        made.remove()


def feed_of(workload: Workload, kafka: KafkaServer, folder: Path, **settings: Any) -> FeedLake:
    """A changefeed that reads the broker; its topics are those that the sink URI and its rules name."""
    source = {"kafka": {"brokers": kafka.brokers, **settings.pop("options", {})}}
    if (workload.root / "registry.json").exists():
        settings.setdefault("schema_registry", {"file": str(workload.root / "registry.json")})
    if (workload.root / "claim-check").exists():
        settings["claim_check"] = str(workload.root / "claim-check")
    return FeedLake(workload, folder, storage=Path("unused"), source=source, **settings)


def known_values(feed: FeedLake) -> Counter[Any]:
    """Every change with the values that it has. Without DDL, in Avro, the columns of a deleted row that are NULL depend
    on the order between partitions, which a capture has and Kafka has not."""
    if str(feed.lake.changefeed.sink.protocol) != "avro":
        return Counter(feed.changes())
    return Counter(
        change._replace(new=tuple((name, value) for name, value in change.new or () if value is not None))
        for change in feed.changes().elements()
    )


def last_ts(workload: Workload) -> int:
    return max(entry["ts"] for entry in workload.truth)


def _sendable(line: dict[str, Any]) -> dict[str, Any]:
    bodies = {name: None if line[name] is None else base64.b64decode(line[name]) for name in ("key", "value")}
    return {**line, **bodies}
