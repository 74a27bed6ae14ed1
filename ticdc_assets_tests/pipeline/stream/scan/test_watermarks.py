"""The watermark of a stream: the smallest of the partitions that count."""

from __future__ import annotations

import pytest

from ticdc_assets.pipeline.stream.scan.result import ScannedOffsets, ScannedTables, ScannedWatermarks, StreamScan

T, U = ("s", "t"), ("s", "u")


def scan(watermarks: dict[tuple[str, int], int], *silent: tuple[str, int], left_out: str = "") -> StreamScan:
    """Partitions with these watermarks and others with none; `t` is in the topic `one` and `u` in `two`."""
    offsets = ScannedOffsets(known=frozenset({*watermarks, *silent}), left_out=frozenset({left_out} - {""}))
    return StreamScan(offsets, ScannedWatermarks(watermarks), ScannedTables({}, by_topic={"one": {T}, "two": {U}}))


@pytest.mark.parametrize(
    ("partition_num", "watermark"),
    [(None, 40), (0, 40), (2, None), (3, None)],
)
def test_a_stream_waits_for_the_partitions_that_were_seen_and_those_of_the_sink(
    partition_num: int | None, watermark: int | None
):
    """A partition without messages counts only where the sink is known to have it."""
    found = scan({("feed", 1): 50, ("feed", 2): 40})

    assert found.watermark({T}, partition_num) == watermark
    assert scan({("feed", 0): 50, ("feed", 1): 40}).watermark({T}, 2) == 40


def test_a_stream_has_no_watermark_before_each_partition_that_was_seen_has_one():
    assert scan({("feed", 0): 50}, ("feed", 1)).watermark({T}) is None
    assert scan({}).watermark({T}) is None


@pytest.mark.parametrize(("live", "watermark"), [({T, U}, 30), ({T}, 40), ({U}, 30), (set(), 30)])
def test_a_topic_whose_tables_are_gone_counts_only_where_all_are(live: set[tuple[str, str]], watermark: int):
    found = scan({("one", 0): 40, ("two", 0): 30})

    assert found.watermark(live) == watermark


def test_a_topic_with_a_fault_of_its_own_does_not_count():
    assert scan({("one", 0): 40, ("two", 0): 30}, left_out="two").watermark({T, U}) == 40
