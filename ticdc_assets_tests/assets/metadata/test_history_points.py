"""The points of the charts: one for each of the newest TSOs, oldest first."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.assets.metadata import history_points as module
from ticdc_assets.assets.metadata.history_points import recent
from ticdc_assets_tests.assets.feeds import Feed

pytestmark = pytest.mark.usefixtures("without_java")


def runs(folder: Path, count: int) -> Feed:
    """A changefeed after so many runs, each with one row more and, of one TSO, two records."""
    feed = Feed(folder).table("shop", "users")
    for number in range(1, count + 1):
        feed.rows("shop", "users", ("I", number, "x", 10 * number - 5)).checkpoint(10 * number).run()
    return feed


def test_a_table_has_a_point_for_each_recorded_tso_with_the_rows_of_its_mirror_then(tmp_path: Path):
    [points] = recent(runs(tmp_path, 3).lake).values()

    assert [point.rows for point in points] == [1, 2, 3]
    assert points == sorted(points, key=lambda point: point.recorded_at)


def test_only_the_newest_records_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "RECORDS_MAX", 2)

    [points] = recent(runs(tmp_path, 4).lake).values()

    assert [point.rows for point in points] == [3, 4]


def test_there_are_no_points_before_the_first_run(tmp_path: Path):
    assert recent(Feed(tmp_path).table("shop", "users").lake) == {}
