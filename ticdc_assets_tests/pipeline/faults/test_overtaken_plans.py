"""A run that was planned before another one read more, and publishes what that one left: rows that only the other has
read are not taken for repeats."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.pipeline.run import run_of
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.deliveries.wires import WIRES, Wire
from ticdc_assets_tests.pipeline.small_feeds import JsonSink, Sink
from ticdc_assets_tests.pipeline.small_streams import SmallStream, at, ids, shape, states, tso

A, B = shape("a"), shape("b")
T = ("s", "t")


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_a_run_publishes_the_rows_of_a_partition_that_joined_after_its_plan(wire: Wire, tmp_path: Path):
    stream = SmallStream(tmp_path, wire)
    for table in (A, B):
        stream.create(1, table)
        stream.bootstrap(table)
    stream.put(4, A, 1)
    stream.watermark(10)
    stream.put(15, B, 2)
    stream.watermark(21)
    lake = stream.lake()
    slow = run_of(lake.lake)
    pending = slow.scan()
    stream.send("feed", 1, wire.watermark(at(10)))
    stream.put(11, B, 3, partition=1)
    lake.publish()
    assert (tso(lake), ids(lake)) == (at(10), {"a": [1]})

    slow.publish_changelogs(pending, LocalWorkers())

    stream.send("feed", 1, wire.watermark(at(25)))
    stream.watermark(25)
    lake.publish()
    assert states(lake) == {"a": "live", "b": "live"}
    assert ids(lake) == {"a": [1], "b": [2, 3]}
    assert lake.publish() is None


@pytest.mark.parametrize("kind", [Sink, JsonSink])
def test_a_run_publishes_the_rows_of_a_file_that_arrived_after_its_plan(kind: type[Sink], tmp_path: Path):
    sink = kind(tmp_path / "bucket", checkpoint=1000)
    sink.table(T)
    sink.file(T, 1, [sink.insert(T, 700, 1, "one")])
    slow, pending = sink.feed(tmp_path / "lake").scan()
    sink.file(T, 2, [sink.insert(T, 600, 2, "two")])
    sink.feed(tmp_path / "lake").lake.publish(until=500)
    feed = sink.feed(tmp_path / "lake")

    slow.publish_changelogs(pending, LocalWorkers())

    sink.bucket.checkpoint(2000)
    feed.run()
    assert feed.state(T) == "live"
    assert feed.found() == feed.expected()
    assert feed.run() is None
