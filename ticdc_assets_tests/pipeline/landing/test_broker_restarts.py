"""A broker that restarts or stops while it is read."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ticdc_assets.config import KafkaSource
from ticdc_assets.errors import SourceError
from ticdc_assets.pipeline.landing import records, worker
from ticdc_assets.pipeline.landing.land import land
from ticdc_assets.sources.kafka import client
from ticdc_assets.sources.kafka.ranges import Offsets
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.pipeline.landing.topics import lake_of, landed, numbered

pytestmark = pytest.mark.services


def test_a_broker_that_restarts_is_waited_for_and_read_on(kafka, topic, tmp_path):
    kafka.make_topic(topic, 2)
    kafka.send(numbered(topic, 3, 1))
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    source = lake.changefeed.source
    assert isinstance(source, KafkaSource)
    with client.KafkaClient(source) as connection, ThreadPoolExecutor() as threads:
        first, second = connection.partitions()
        kafka.stop()
        # While the broker starts, and while nobody leads.
        asked = threads.submit(connection.offsets_of, [first, second])
        kafka.start()
        assert asked.result() == {first: Offsets(0, 3), second: Offsets(0, 1)}
    kafka.send(numbered(topic, 2, first=3))
    land(lake, LocalWorkers())

    assert landed(lake) == {0: [0, 1, 2, 3, 4], 1: [0]}


@pytest.mark.matrix
def test_a_broker_that_restarts_or_stops_in_the_middle_of_a_run_loses_nothing(kafka, topic, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "ROW_GROUP_MESSAGES", 4)
    kafka.make_topic(topic)

    def in_small_batches(first: int) -> None:
        """200 messages in 20 batches: a fetch gets at least one."""
        for number in range(20):
            kafka.send([{**m, "value": b"x" * 900} for m in numbered(topic, 10, first=first + 10 * number)])

    in_small_batches(0)
    small_fetches = {"queued.min.messages": "1", "fetch.message.max.bytes": "1000", "fetch.max.bytes": "1000"}
    lake = lake_of(tmp_path, kafka, [topic], options={**small_fetches, "message.max.bytes": "1000"})
    write = worker._RangeWriter.write

    def when_first_written(act: Callable[[], object]) -> None:
        def first(writer: Any, *written: Any) -> None:
            monkeypatch.setattr(worker._RangeWriter, "write", write)
            act()
            write(writer, *written)

        monkeypatch.setattr(worker._RangeWriter, "write", first)

    when_first_written(lambda: (kafka.stop(), kafka.start()))
    assert land(lake, LocalWorkers()).messages == 200

    in_small_batches(200)
    monkeypatch.setattr(client, "SILENCE_TIMEOUT_S", 3.0)
    when_first_written(kafka.stop)
    with pytest.raises(SourceError, match=r"expected messages 200 to 399 of .* Nothing is lost: try again"):
        land(lake, LocalWorkers())
    kafka.start()
    monkeypatch.undo()
    assert land(lake, LocalWorkers()).messages == 200
    assert landed(lake) == {0: list(range(400))}
