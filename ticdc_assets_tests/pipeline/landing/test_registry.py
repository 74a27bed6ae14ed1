"""An Avro changefeed from Kafka with a real schema registry: before it is up, and with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.errors import SourceError
from ticdc_assets.pipeline.landing.landed_log import landed_log
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.landing.sent_streams import SentStream, feed_of, known_values
from ticdc_assets_tests.pipeline.landing.sent_streams import sent as sent
from ticdc_assets_tests.services.apicurio import Registry
from ticdc_assets_tests.services.kafka import KafkaServer

pytestmark = [pytest.mark.services, pytest.mark.matrix]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Registry]:
    """A registry that is not started yet."""
    made = Registry(tmp_path)
    yield made
    made.stop()


def test_an_avro_changefeed_lands_without_its_registry_and_is_decoded_with_it(
    kafka: KafkaServer, server: Registry, sent: Any, tmp_path: Path
):
    workload = workloads("avro-ext", "seed1")[0]
    schemas = json.loads((workload.root / "registry.json").read_text())
    stream: SentStream = sent(workload)
    feed = feed_of(workload, kafka, tmp_path / "lake", schema_registry={"url": server.url})
    captured = FeedLake(workload, tmp_path / "captured", schema_registry={"file": str(workload.root / "registry.json")})
    captured.publish()

    stream.send()
    with pytest.raises(SourceError, match="expected an answer of the schema registry, found a connection that failed"):
        feed.publish()
    assert sum(map(len, landed_log(feed.lake).blocks())) == len(stream.messages)
    assert not feed.changes()

    server.start()
    server.register(schemas)
    feed.publish()
    assert known_values(feed) == known_values(captured)
    assert feed.complete_tso() == captured.complete_tso() > 0
