"""Which history tables are behind, and what they rewrite, planned from real Iceberg metadata."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.pipeline.history_tables.pending import pending_histories, refusal, refusals
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.written_history import effects_digest
from ticdc_assets.tables.history.writer import ALL_KEYS, HistoryPlan, HistoryState
from ticdc_assets.tables.iceberg.properties import REPLAYED
from ticdc_assets.tables.progress import Progress
from ticdc_assets.tables.replayed import Replayed, replay_mark
from ticdc_assets_tests.pipeline.mirror.pending_feed import ADD, CREATE, ROW, Feed
from ticdc_assets_tests.schema.history.histories import event


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path, history=["shop.t"])


def kept(feed: Feed, watermark: int = 50, followed: str = "", effects: str | None = None) -> None:
    """A history table up to `watermark`."""
    [made] = feed.history.source_tables
    table = feed.table("history_table", properties={}, progress=Progress())
    state = HistoryState(Progress(watermark), effects or effects_digest(made, watermark), followed)
    table.append(table.scan().to_arrow(), {**state.progress.summary("feed", Progress()), **state.noted})


def plans(feed: Feed) -> list[HistoryPlan]:
    return [work.plan for work in pending_histories(feed.lake, feed.plan(), "run")]


def test_a_history_is_made_once_and_then_lacks_what_is_above_its_watermark(feed: Feed):
    feed.changelog(ROW, (45, 1, 20))

    [first] = plans(feed)
    kept(feed, watermark=40)
    [second] = plans(feed)

    assert [(plan.low, plan.high, plan.again) for plan in (first, second)] == [(-1, 50, None), (40, 50, None)]


def test_a_history_lacks_nothing_where_no_change_and_no_statement_is_above_its_watermark(feed: Feed):
    feed.changelog(ROW)
    kept(feed, watermark=30)

    assert plans(feed) == []


def test_a_statement_above_the_watermark_is_work_without_any_change(feed: Feed):
    feed.changelog(ROW)
    kept(feed, watermark=15)

    assert [(plan.low, plan.again) for plan in plans(feed)] == [(15, None)]


@pytest.mark.parametrize(
    ("followed", "replaces", "again"),
    [("late", "", None), ("", "", 11), ("early", "early", 11), ("early", "other", ALL_KEYS), ("", "early", ALL_KEYS)],
)
def test_late_rows_make_keys_again_and_a_mark_that_was_missed_makes_all_again(
    feed: Feed, followed: str, replaces: str, again: int | None
):
    feed.changelog(ROW, **{REPLAYED: Replayed("late", 11, 10, replaces).to_json()})
    kept(feed, followed=followed)

    assert [plan.again for plan in plans(feed)] == ([] if again is None else [again])


def test_late_rows_above_the_watermark_of_a_history_make_no_key_again_too_late(feed: Feed):
    feed.changelog(ROW, (45, 1, 20), **{REPLAYED: Replayed("late", 45, 20).to_json()})
    kept(feed, watermark=30)

    assert [(plan.low, plan.again) for plan in plans(feed)] == [(30, 31)]


def test_a_statement_that_came_late_makes_all_rows_again(feed: Feed):
    feed.changelog(ROW)
    kept(feed, effects="of other statements")

    assert [(plan.low, plan.again) for plan in plans(feed)] == [(-1, ALL_KEYS)]


def test_a_mark_names_the_mark_that_it_replaces(feed: Feed):
    [made] = feed.history.source_tables
    changelog = feed.changelog(ROW, **{REPLAYED: Replayed("first", 11, 10).to_json()})
    mirror = feed.mirror(**{REPLAYED: "first"})

    merged = replay_mark(made, changelog, mirror, Replayed("second", 12, 10))
    not_merged = replay_mark(made, changelog, None, Replayed("second", 12, 10))

    assert merged == {REPLAYED: Replayed("second", 12, 10, "first").to_json()}
    assert not_merged == {REPLAYED: Replayed("second", 11, 10, "").to_json()}


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("ALTER TABLE `t` MODIFY COLUMN `id` VARCHAR(9)", "changed the key"),
        ("ALTER TABLE `t` DROP PRIMARY KEY", "the table has no key"),
        ("ALTER TABLE `t` DROP PRIMARY KEY, ADD PRIMARY KEY (`v`)", "changed the key"),
    ],
)
def test_a_table_whose_changelog_does_not_determine_its_rows_has_no_history(feed: Feed, statement: str, reason: str):
    feed.changelog(ROW)
    feed.history = fold([event(10, "t", CREATE), event(20, "t", ADD), event(30, "t", statement)])
    [made] = feed.history.source_tables

    assert plans(feed) == []
    assert reason in refusal(feed.lake, made, 50)
    found = refusals(feed.lake, feed.history, feed.record())
    assert found == ({} if "no key" in reason else {made.id: refusal(feed.lake, made, 50)})
    assert refusal(feed.lake, made, 29) == ""


def test_a_table_that_is_not_asked_for_has_no_history_and_no_reason(tmp_path: Path):
    feed = Feed(tmp_path, history=["shop.u"])
    feed.changelog(ROW)
    [made] = feed.history.source_tables

    assert (plans(feed), refusal(feed.lake, made, 50)) == ([], "")
