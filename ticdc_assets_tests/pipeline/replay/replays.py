"""Replays of quarantined records, and what must be true after them."""

from __future__ import annotations

from ticdc_assets.assets.checks.results import nothing_quarantined
from ticdc_assets.pipeline.replay.run import ReplayReport, ReplayRequest, replay
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import Feed

T = ("s", "t")
FILE = "s/t/100/CDC00000000000000000001.csv"


def again(feed: Feed | FeedLake, **request) -> ReplayReport:
    lake = feed.lake.lake if isinstance(feed, Feed) else feed.lake
    return replay(lake, ReplayRequest(**request))


def resolutions(report: ReplayReport) -> list[tuple[int, str]]:
    return [(outcome.record.line, str(outcome.resolution)) for outcome in report.outcomes]


def assert_all_is_well(feed: Feed) -> None:
    """Everything that happened is there once, and the check is green; another replay finds nothing to do."""
    assert feed.found() == feed.expected()
    assert nothing_quarantined(feed.quarantined(), "").passed
    snapshots = feed.lake.snapshots()
    assert again(feed).outcomes == []
    assert feed.run() is None
    assert feed.lake.snapshots() == snapshots
