"""When the sensor requests a run of Kafka topics, and how it shows their lag."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ticdc_assets.assets.automation.sensors import SHOWN_MAX, due, lag_metadata, not_due
from ticdc_assets.pipeline.source_state import PartitionLag, TopicLag
from ticdc_assets.tso import from_physical_ms

NOW_MS = 1_754_006_400_000
NO_RUN = "no run has named the fault of "


def ts(seconds: float) -> int:
    """The TSO so many seconds before now."""
    return from_physical_ms(NOW_MS - round(seconds * 1000))


def lag_of(*partitions: tuple[float | None, int, float | None], recorded: int = 0, is_new: bool = False) -> TopicLag:
    """Partitions: seconds since the watermark, offsets that are not landed, and how many seconds these have waited."""
    rows = [
        PartitionLag(
            f"t[{number}]",
            None if behind_s is None else ts(behind_s),
            offsets,
            None if waited_s is None else NOW_MS - round(waited_s * 1000),
        )
        for number, (behind_s, offsets, waited_s) in enumerate(partitions)
    ]
    return TopicLag(rows, recorded, is_new, run_after_s=60)


@pytest.mark.parametrize(
    ("lag", "requested", "reason"),
    [
        (lag_of((1, 5, 3), recorded=ts(61)), 0, "the smallest watermark has advanced by 1 min"),
        (lag_of((1, 5, 3), recorded=ts(60)), 0, ""),
        (lag_of((1, 5, 3), recorded=ts(500)), ts(20), ""),  # that run was requested
        (lag_of((1, 5, 3), (50, 5, 3), recorded=ts(100)), 0, ""),  # the smallest watermark decides
        (lag_of((1, 5, 3), (None, 5, 3), recorded=ts(500)), 0, ""),  # a partition has no watermark
        (lag_of((None, 5, 60)), 0, "a message has waited for 1 min"),
        (lag_of((None, 5, 59), (None, 0, None)), 0, ""),
        (lag_of((None, 5, 5), (None, 1, 61)), 0, "a message has waited for 1 min 1 s"),
        (lag_of((None, 0, None), is_new=True), 0, "no run has read the topics"),
        (lag_of(), 0, ""),
        (lag_of((None, 5, None)), 0, "messages wait whose time is in the future or not known"),
        (lag_of((None, 5, -61), (None, 1, 3)), 0, "messages wait whose time is in the future or not known"),
        (lag_of((None, 5, -60)), 0, ""),  # a clock that is ahead by less
        (lag_of((1, 5, None), recorded=ts(20)), 0, ""),  # the watermark says when they are due
        (replace(lag_of((1, 0, None), recorded=ts(1)), unnamed_faults=("a",)), 0, NO_RUN + "topic a"),
        (replace(lag_of(), unnamed_faults=("a", "b", "c")), 0, NO_RUN + "topic a and of 2 other topics"),
    ],
)
def test_a_run_is_due_after_the_configured_time_of_watermarks_or_of_waiting(lag, requested, reason):
    assert due(lag, requested, NOW_MS) == reason


def test_a_tick_without_a_request_says_what_is_waiting():
    lag = lag_of((10, 7, 12), (5, 1, 3), recorded=ts(30))

    assert not_due(lag, ts(25), NOW_MS) == (
        "8 offsets to land, the first message waits for 12 s; the smallest watermark has advanced by 15 s. "
        "A run is requested after 60 s of either."
    )


def test_the_lag_is_shown_for_the_changefeed_and_for_each_partition():
    shown = lag_metadata(lag_of((10, 7, 12), (5, 0, None)), NOW_MS)

    assert shown["watermark"] == str(ts(10))
    assert (shown["behind_clock_seconds"], shown["unlanded_offsets"], shown["waiting_seconds"]) == (10, 7, 12)
    assert [dict(record.data) for record in shown["partitions"].records] == [
        {
            "partition": "t[0]", "behind_clock": "10 s", "unlanded": 7, "waiting": "12 s", "watermark": str(ts(10)),
        },
        {
            "partition": "t[1]", "behind_clock": "5 s", "unlanded": 0, "waiting": "0 s", "watermark": str(ts(5)),
        },
    ]  # fmt: skip


@pytest.mark.parametrize("count", [0, SHOWN_MAX + 5])
def test_topics_without_partitions_and_with_very_many_are_shown(count):
    lag = lag_of(*((None, number, None) for number in range(count)))

    shown = lag_metadata(lag, NOW_MS)["partitions"].records
    assert len(shown) == min(count, SHOWN_MAX)
    assert {record.data["partition"] for record in shown} == {f"t[{n}]" for n in range(count)[-SHOWN_MAX:]}
