"""The order of landed messages over the partitions of a commit."""

from __future__ import annotations

import numpy as np
import pytest

from ticdc_assets.pipeline.landing.landed_log import owners_by_time


@pytest.mark.parametrize("window_rows", [1, 7, 100, 10_000])
@pytest.mark.parametrize("segments", [2, 3, 50, 300])
@pytest.mark.parametrize("last_ms", [1, 20, 100_000])
def test_messages_are_ordered_by_time_and_then_by_segment_in_windows_of_any_size(segments, window_rows, last_ms):
    random = np.random.default_rng([segments, last_ms])
    times = [np.sort(random.integers(0, last_ms, random.integers(1, 40))) for _ in range(segments)]
    numbered = sorted((time, number) for number, of in enumerate(times) for time in of.tolist())

    assert owners_by_time(times, window_rows).tolist() == [number for _, number in numbered]


def test_a_segment_that_comes_after_all_others_is_last():
    assert owners_by_time([np.arange(10, 15), np.arange(5)], 2).tolist() == [1] * 5 + [0] * 5
