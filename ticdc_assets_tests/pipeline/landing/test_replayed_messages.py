"""Landed messages that another changefeed decodes again, without Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ticdc_assets.config import load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.pipeline.sources import glance_at
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.landing.test_kafka_runs import feed_of
from ticdc_assets_tests.pipeline.landing.test_kafka_runs import sent as sent
from ticdc_assets_tests.services.kafka import KafkaServer

pytestmark = pytest.mark.services


def second(feed: FeedLake, **settings: Any) -> FeedLake:
    """Another changefeed of the same file, in the same catalog, with tables of its own."""
    config = yaml.safe_load(feed.config.path.read_text())
    target = {"mirror": "again_{schema}.{table}", "changelog": "again_{schema}__changes.{table}"}
    first = config["changefeeds"]["feed"]
    replayed = {**first, "source": {"messages": "feed"}, "target": target, **settings}
    feed.config.path.write_text(yaml.safe_dump({**config, "changefeeds": {"feed": first, "again": replayed}}))
    again = FeedLake.__new__(FeedLake)
    again.workload, again.config = feed.workload, load(feed.config.path, {})
    again.lake = Lake(again.config, again.config.changefeed("again"))
    return again


def publish(again: FeedLake) -> Any:
    run = run_of(Lake(again.config, again.lake.changefeed))
    pending = run.scan()
    return None if pending.is_empty else run.publish_changelogs(pending, LocalWorkers())


def test_messages_are_decoded_again_by_a_second_changefeed(kafka: KafkaServer, sent: Any, tmp_path: Path):
    workload = workloads("canal-json-tidb", "seed1")[0]
    feed, stream = feed_of(workload, kafka, tmp_path / "lake"), sent(workload)
    again = second(feed)
    before = glance_at(again.lake).digest
    stream.send(0, 0.5)
    feed.publish()
    half = glance_at(again.lake).digest
    publish(again)
    stream.send(0.5, 1)
    feed.publish()
    stream.remove()  # nothing is read from Kafka any more
    stream.topics = []
    publish(again)

    assert len({before, half, glance_at(again.lake).digest}) == 3
    assert again.changes() == feed.changes()
    assert sum(again.changes().values()) > 0
    assert again.lake.control.newest().tso == feed.lake.control.newest().tso
    assert publish(again) is None
