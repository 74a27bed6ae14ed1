"""The parts of a scan that tasks decode: all messages once, of bounded size, as many parts for each core."""

from __future__ import annotations

import pytest

from ticdc_assets.pipeline.stream import batch
from ticdc_assets.pipeline.stream.decode.task import Mark
from ticdc_assets.pipeline.stream.scan.result import StreamScan
from ticdc_assets.sources.capture import START

MESSAGES = 10
"""Of a block."""


def stretches(blocks: int, cores: int) -> list[int]:
    marks = [Mark(number * MESSAGES, START) for number in range(blocks)]
    scan = StreamScan(messages=blocks * MESSAGES, marks=marks)
    return [last - begin.ordinal for begin, last in batch._stretches(scan, cores)]


@pytest.mark.parametrize("cores", [1, 2, 3, 8])
@pytest.mark.parametrize("blocks", [0, 1, 7, 16, 17, 40, 180])
def test_stretches_have_all_messages_and_are_small(blocks, cores):
    found = stretches(blocks, cores)

    assert sum(found) == blocks * MESSAGES
    assert max(found, default=0) <= batch.STRETCH_BATCHES_MAX * MESSAGES


@pytest.mark.parametrize(("blocks", "cores", "count"), [(17, 2, 4), (40, 3, 9), (2, 8, 2), (9, 1, 2)])
def test_each_core_has_as_many_stretches_as_the_others(blocks, cores, count):
    assert len(stretches(blocks, cores)) == count
