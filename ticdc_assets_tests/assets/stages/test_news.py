"""Runs that the sensor requests: they process every table, and write to Dagster what is new."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster import DagsterEventType, DagsterRunStatus

from ticdc_assets.assets.earlier_runs import broken
from ticdc_assets.assets.keys import FeedNames
from ticdc_assets.assets.stages import news
from ticdc_assets_tests.assets.feeds import Feed
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.assets.requested import requested_run

pytestmark = pytest.mark.usefixtures("without_java")

OF_EVERY_RUN = {"shop/source", "shop/schema_cache", "shop/watermarks"}
BYTES_MAX = 20_000
"""The events of a run without news, for any number of tables."""


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def feed(tmp_path: Path, instance: dg.DagsterInstance) -> Feed:
    """Two tables, which a run of all assets has reported."""
    made = Feed(tmp_path).table("shop", "users").table("shop", "log", keyless=True).checkpoint(10)
    made.rows("shop", "users", ("I", 1, "ann", 2)).rows("shop", "log", ("I", 1, "x", 3))
    made.run(instance)
    made.run(instance)  # with the assets of the tables
    return made


def materialized(instance: dg.DagsterInstance, run: dg.DagsterRun) -> set[str]:
    entries = instance.all_logs(run.run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION)
    return {e.dagster_event.asset_key.to_user_string() for e in entries}  # type: ignore[union-attr]


def checked(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dict[str, bool]:
    entries = instance.all_logs(run.run_id, of_type=DagsterEventType.ASSET_CHECK_EVALUATION)
    found = [entry.dagster_event.asset_check_evaluation_data for entry in entries]  # type: ignore[union-attr]
    return {f"{e.asset_key.path[-1]}/{e.check_name}": e.passed for e in found}


def test_a_table_without_news_is_complete_up_to_the_new_tso_and_writes_nothing(
    feed: Feed, instance: dg.DagsterInstance
):
    before = feed.records()["shop.users"].watermark
    feed.rows("shop", "log", ("I", 2, "y", 12)).checkpoint(20)

    run = requested_run(feed, instance)

    assert run.status is DagsterRunStatus.SUCCESS
    assert materialized(instance, run) == {*OF_EVERY_RUN, "shop/changelog/shop/log_changes"}
    assert {name.partition("/")[0] for name in checked(instance, run)} == {"log_changes"}
    assert feed.records()["shop.users"].watermark > before


def test_a_run_without_news_writes_little_for_any_number_of_tables(feed: Feed, instance: dg.DagsterInstance):
    feed.checkpoint(20)

    run = requested_run(feed, instance)

    assert materialized(instance, run) == OF_EVERY_RUN
    assert checked(instance, run) == {}
    events = [dg.serialize_value(entry) for entry in instance.all_logs(run.run_id)]
    assert sum(map(len, events)) < BYTES_MAX


def test_news_of_a_changelog_is_news_of_its_mirror_with_all_checks(feed: Feed, instance: dg.DagsterInstance):
    feed.rows("shop", "users", ("I", 2, "bob", 12)).checkpoint(20)

    run = requested_run(feed, instance)

    tables = {"shop/changelog/shop/users_changes", "shop/mirror/shop/users"}
    assert materialized(instance, run) == OF_EVERY_RUN | tables
    names = ("not_held", "nothing_quarantined", "near_source_checkpoint", "written_by_runs_alone")
    assert checked(instance, run) == {f"users/{name}": True for name in (*names, "rows_equal_the_changelog")}


def test_a_table_that_becomes_held_fails_its_check_and_the_run_which_is_not_repeated_for_it(
    feed: Feed, instance: dg.DagsterInstance
):
    feed.statement("shop", "users", "ALTER TABLE `users` FROBNICATE `id`", 15, type_=5).checkpoint(20)

    first = requested_run(feed, instance)
    feed.checkpoint(30)
    second = requested_run(feed, instance)

    assert {"shop/mirror/shop/users", "shop/watermarks"} <= materialized(instance, first)
    assert checked(instance, first)["users/not_held"] is False
    assert "users/not_held" not in checked(instance, second)
    assert (first.status, second.status) == (DagsterRunStatus.FAILURE, DagsterRunStatus.FAILURE)
    assert broken(instance, FeedNames("shop", "csv")) is None


def test_a_table_without_news_is_reported_again_after_some_hours(
    feed: Feed, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(news, "REPORTED_AGAIN_S", 0)
    feed.checkpoint(20)

    assert "shop/mirror/shop/users" in materialized(instance, requested_run(feed, instance))


def test_a_table_without_assets_is_reported_as_soon_as_it_is_known(feed: Feed, instance: dg.DagsterInstance):
    loaded_before = feed.definitions
    feed.table("shop", "late", 11).rows("shop", "late", ("I", 1, "x", 12)).checkpoint(20)

    run = requested_run(feed, instance, loaded_before)

    assert {"shop/changelog/shop/late_changes", "shop/mirror/shop/late"} <= materialized(instance, run)
    assert checked(instance, run)["watermarks/tables_have_assets"] is False
