"""Landed messages that another changefeed decodes again, without Kafka and without a schema registry."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets import spark
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.maintenance import remove_decoded
from ticdc_assets.pipeline.run.mirrors import run_mirrors
from ticdc_assets.pipeline.sources import state_of_source
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.landing.second_feed import publish, second
from ticdc_assets_tests.pipeline.landing.sent_streams import SentStream, feed_of, known_values
from ticdc_assets_tests.pipeline.landing.sent_streams import sent as sent
from ticdc_assets_tests.services.apicurio import Registry
from ticdc_assets_tests.services.kafka import KafkaServer

pytestmark = pytest.mark.services


def test_messages_are_decoded_again_by_a_second_changefeed(kafka: KafkaServer, sent: Any, tmp_path: Path):
    workload = workloads("canal-json-tidb", "seed1")[0]
    feed, stream = feed_of(workload, kafka, tmp_path / "lake"), sent(workload)
    again = second(feed)
    before = state_of_source(again.lake).digest
    stream.send(0, 0.5)
    feed.publish()
    half = state_of_source(again.lake).digest
    publish(again)
    stream.send(0.5, 1)
    feed.publish()
    stream.remove()  # nothing is read from Kafka any more
    stream.topics = []
    publish(again)

    assert len({before, half, state_of_source(again.lake).digest}) == 3
    assert again.changes() == feed.changes()
    assert sum(again.changes().values()) > 0
    assert again.lake.control.newest().tso == feed.lake.control.newest().tso
    assert publish(again) is None


def test_messages_stay_until_each_changefeed_that_reads_them_has_decoded_them(kafka, sent: Any, tmp_path: Path):
    workload = workloads("canal-json-tidb", "seed1")[0]
    feed, stream = feed_of(workload, kafka, tmp_path / "lake", options={"days_kept": 1}), sent(workload)
    again = second(feed)
    feed.config = again.config
    later = datetime.fromtimestamp(max(m["ts_ms"] for m in stream.messages) / 1000, UTC) + timedelta(days=2)

    def remove() -> int:
        return remove_decoded(Lake(again.config, again.config.changefeed("feed")), later, dry_run=False)

    for begin, end in ((0, 0.25), (0.25, 0.5)):
        stream.send(begin, end)
        feed.publish()
    assert remove() == 0
    publish(again)
    stream.send(0.5, 1)
    feed.publish()
    first = remove()
    assert 0 < first <= len(stream.messages) / 2
    assert remove() == 0
    publish(again)
    assert first + remove() == len(stream.messages)
    assert again.changes() == feed.changes()


@pytest.mark.spark
@pytest.mark.matrix
def test_messages_are_decoded_again_with_mirrors_while_the_registry_is_down(
    kafka: KafkaServer, sent: Any, tmp_path: Path
):
    workload = workloads("avro-ext", "seed1")[0]
    registry = Registry(tmp_path)
    stream: SentStream = sent(workload)
    feed = feed_of(workload, kafka, tmp_path / "lake", schema_registry={"url": registry.url})
    try:
        registry.start()
        registry.register(json.loads((workload.root / "registry.json").read_text()))
        stream.send()
        feed.run()
    finally:
        registry.stop()
    again = second(feed)
    report = publish(again)
    assert report is not None
    run_mirrors_of(again, report.run_id)

    assert known_values(again) == known_values(feed)
    replayed, original = again.records(), feed.records()
    assert replayed.keys() == original.keys()
    for name, record in replayed.items():
        rows = [lake.lake.catalog.load_table(tuple(r.mirror)).scan().to_arrow() for lake, r in (
            (again, record), (feed, original[name])
        ) if r.mirror]  # fmt: skip
        assert [len(table) for table in rows] in ([], [len(rows[0])] * 2)
    assert any(record.mirror for record in replayed.values())


def run_mirrors_of(feed: FeedLake, run_id: str) -> None:
    session = spark.session(feed.config)
    run_mirrors(feed.lake, run_id, lambda: JvmCatalog(session, feed.catalog_name))
