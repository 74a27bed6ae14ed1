"""Landed messages whose table was set back, as by a catalog that is restored from a backup: no row is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ticdc_assets.errors import SetBackError
from ticdc_assets.pipeline.landing.land import land
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables import messages as messages_table
from ticdc_assets_tests.deliveries.wires import CanalJson, Wire
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.landing.second_feed import publish, second
from ticdc_assets_tests.pipeline.landing.sent_streams import SentStream, feed_of
from ticdc_assets_tests.pipeline.landing.sent_streams import sent as sent
from ticdc_assets_tests.pipeline.small_streams import TOPIC, SmallStream, UndatedCanalJson, ids, shape, states
from ticdc_assets_tests.services.kafka import KafkaServer

pytestmark = pytest.mark.services

A = shape("a")
ROWS = 6


def stream_of(folder: Path, wire: Wire) -> Any:
    """A workload of one table, whose messages are a statement and these rows, with watermarks if there are any."""
    stream = SmallStream(folder, wire)
    stream.create(1, A)
    for number in range(1, ROWS + 1):
        stream.put(10 * number, A, number)
        stream.watermark(10 * number + 5)
    variant = {"sink_uri": wire.sink_uri, "config": {}}
    return SimpleNamespace(variant=variant, events=[], time_zone="UTC", root=stream.capture)


def begun(kafka: KafkaServer, sent: Any, folder: Path, wire: Wire) -> tuple[FeedLake, SentStream, Callable[[], None]]:
    """A lake that has half of the messages, then all; what is returned last sets `messages` back to the half."""
    workload = stream_of(folder / "sent", wire)
    feed, stream = feed_of(workload, kafka, folder / "lake"), sent(workload)
    stream.send(0, 0.5)
    feed.publish()
    half = location(feed)
    stream.send(0.5, 1)
    feed.publish()
    assert len(ids(feed)["a"]) == ROWS
    return feed, stream, lambda: register(feed, half)


def location(feed: FeedLake) -> str:
    table = messages_table.load(feed.lake.catalog, feed.lake.control.namespace)
    assert table is not None
    return str(table.metadata_location)


def register(feed: FeedLake, metadata: str) -> None:
    identifier = (*feed.lake.control.namespace, "messages")
    feed.lake.catalog.drop_table(identifier)
    feed.lake.catalog.register_table(identifier, metadata)


def test_with_commit_ts_what_is_missing_is_landed_again(kafka: KafkaServer, sent: Any, tmp_path: Path):
    feed, _, set_back = begun(kafka, sent, tmp_path, CanalJson())
    set_back()

    assert land(feed.lake, LocalWorkers()).messages > 0
    feed.publish()

    assert (ids(feed), states(feed)) == ({"a": [*range(1, ROWS + 1)]}, {"a": "live"})
    assert feed.publish() is None


def test_with_commit_ts_what_kafka_has_no_more_is_named_and_its_table_held(
    kafka: KafkaServer, sent: Any, tmp_path: Path
):
    feed, stream, set_back = begun(kafka, sent, tmp_path, CanalJson())
    set_back()
    kafka.remove_messages_before(TOPIC, 0, len(stream.messages))

    [fault] = land(feed.lake, LocalWorkers()).faults.values()
    feed.publish()

    assert "skip_offsets" in str(fault)
    assert (ids(feed), states(feed)) == ({"a": [*range(1, ROWS + 1)]}, {"a": "stopped"})


def test_without_commit_ts_nothing_is_read_until_it_is_restored(kafka: KafkaServer, sent: Any, tmp_path: Path):
    """The places of messages order such a stream, and landed again they may have others."""
    feed, _, set_back = begun(kafka, sent, tmp_path, UndatedCanalJson())
    again = second(feed)
    publish(again)
    newest = location(feed)
    set_back()

    for read in (feed.publish, lambda: publish(again)):
        with pytest.raises(SetBackError, match="register its newer metadata file"):
            read()

    register(feed, newest)
    assert feed.publish() is None
    assert publish(again) is None
    assert ids(feed) == ids(again) == {"a": [*range(1, ROWS + 1)]}
