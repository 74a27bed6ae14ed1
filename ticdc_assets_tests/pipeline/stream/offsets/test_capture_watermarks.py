"""Partitions that join or leave a capture, and the watermark."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.deliveries.wires import OpenProtocol, Wire
from ticdc_assets_tests.pipeline.small_streams import (
    SmallStream,
    at,
    ids,
    states,
    tso,
)
from ticdc_assets_tests.pipeline.stream.offsets.rewritten_capture import A, Lines, notes, rows


def two_partitions(tmp_path: Path, wire: Wire | None = None) -> SmallStream:
    stream = SmallStream(tmp_path, wire or OpenProtocol())
    stream.create(0, A)
    for partition in (0, 1):
        rows(stream, range(1 + 3 * partition, 4 + 3 * partition), partition)
        stream.send("feed", partition, stream.wire.watermark(at(10)))
    return stream


def test_a_partition_that_leaves_the_capture_still_holds_the_watermark(tmp_path: Path):
    stream = two_partitions(tmp_path)
    lake = stream.lake()
    lake.publish()
    assert tso(lake) == at(10)
    stream.put(12, A, 12)
    stream.put(13, A, 13, partition=1)
    for partition in (0, 1):
        stream.send("feed", partition, stream.wire.watermark(at(20)))
    lines = Lines(stream)
    lines.put(partition=1)

    lake.publish()

    assert tso(lake) == at(10)
    assert states(lake) == {"a": "waiting"}
    assert "expected messages of feed[1], which the source has" in notes(lake)[0]
    lines.put_all()
    lake.publish()
    assert tso(lake) == at(20)
    assert states(lake) == {"a": "live"}
    assert ids(lake) == {"a": [1, 2, 3, 4, 5, 6, 12, 13]}


@pytest.mark.parametrize("where", ["sink_uri", "config"])
def test_partition_num_of_the_changefeed_counts(where: str, tmp_path: Path):
    stream = two_partitions(tmp_path)
    if where == "config":
        stream.config = {"sink": {"kafka-config": {"partition-num": 2}}}
    else:
        stream.wire.sink_uri += "&partition-num=2"
    lines, lake = Lines(stream), stream.lake()
    lines.put(partition=1)

    lake.publish()

    assert tso(lake) == 0
    assert states(lake) == {"a": "waiting"}
    assert "expected messages of feed[1], since sink_uri has partition-num=2, found none." in notes(lake)[0]
    lines.put_all()
    lake.publish()
    assert tso(lake) == at(10)
    assert ids(lake) == {"a": [1, 2, 3, 4, 5, 6]}


def test_a_partition_that_joins_lowers_nothing(tmp_path: Path):
    stream = two_partitions(tmp_path)
    lines, lake = Lines(stream), stream.lake()
    lines.put(partition=1)
    lake.publish()
    assert tso(lake) == at(10)
    lines.put(0, partition=1)

    lake.publish()

    assert tso(lake) == at(10)


def test_one_that_joins_without_its_first_messages_is_not_whole(tmp_path: Path):
    stream = two_partitions(tmp_path)
    lines, lake = Lines(stream), stream.lake()
    lines.put(partition=1)
    lake.publish()
    lines.put(2, 3, partition=1)

    lake.publish()

    assert states(lake) == {"a": "stopped"}
    assert "feed[1]: expected offset 0 next, found 2" in notes(lake)[0]
