"""After a run no asset is shown as stale ("Unsynced" in the UI), whatever the run found at the source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from ticdc_assets_tests.assets.feeds import QUIET, Feed, failures
from ticdc_assets_tests.assets.requested import requested_run

pytestmark = pytest.mark.usefixtures("without_java")


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def out_of_date(feed: Feed, instance: dg.DagsterInstance, definitions: dg.Definitions | None = None) -> dict[str, str]:
    """By asset, why Dagster does not show it as fresh; of the definitions as they load now, where none are given."""
    graph = (definitions or feed.definitions).resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    return {
        key.to_user_string(): "; ".join(cause.reason for cause in resolver.get_stale_causes(key))
        for key in graph.get_all_asset_keys()
        if resolver.get_status(key) is not StaleStatus.FRESH
    }


def shop(folder: Path) -> Feed:
    feed = Feed(folder).table("shop", "users").table("shop", "log", keyless=True)
    return feed.rows("shop", "users", ("I", 1, "ann", 2)).rows("shop", "log", ("I", 1, "x", 3)).checkpoint(10)


def test_no_asset_is_stale_after_the_first_run_and_after_a_later_one(tmp_path: Path, instance: dg.DagsterInstance):
    feed = shop(tmp_path)

    feed.run(instance)
    after_first = out_of_date(feed, instance)
    feed.rows("shop", "users", ("I", 2, "bob", 12)).checkpoint(20).run(instance)

    assert (after_first, out_of_date(feed, instance)) == ({}, {})


def test_no_asset_is_stale_after_runs_that_report_only_what_is_new(tmp_path: Path, instance: dg.DagsterInstance):
    feed = shop(tmp_path)
    feed.run(instance)
    feed.run(instance)

    requested_run(feed.checkpoint(20), instance)
    without_news = out_of_date(feed, instance)
    requested_run(feed.rows("shop", "users", ("I", 2, "bob", 22)).checkpoint(30), instance)

    assert (without_news, out_of_date(feed, instance)) == ({}, {})


def test_no_asset_is_stale_after_a_run_with_nothing_new(tmp_path: Path, instance: dg.DagsterInstance):
    feed = shop(tmp_path)
    feed.run(instance)

    assert failures(feed.run(instance)) == []
    assert out_of_date(feed, instance) == {}


def test_a_new_table_makes_no_asset_stale_before_or_after_the_code_location_is_reloaded(
    tmp_path: Path, instance: dg.DagsterInstance
):
    feed = shop(tmp_path)
    feed.run(instance)
    loaded_before = feed.definitions
    feed.table("shop", "late", 11).rows("shop", "late", ("I", 1, "x", 12))
    feed.table("shop", "late_log", 11, keyless=True).rows("shop", "late_log", ("I", 1, "x", 12)).checkpoint(20)

    assert failures(feed.run(instance, loaded_before)) == []

    assert out_of_date(feed, instance, loaded_before) == {}
    reloaded = feed.definitions
    assert dg.AssetKey(["shop", "mirror", "shop", "late"]) in reloaded.resolve_asset_graph().get_all_asset_keys()
    assert out_of_date(feed, instance, reloaded) == {}


def test_one_mirror_materialised_alone_with_nothing_new_makes_no_asset_stale(
    tmp_path: Path, instance: dg.DagsterInstance
):
    feed = shop(tmp_path)
    feed.run(instance)
    alone = dg.define_asset_job("alone", dg.AssetSelection.assets(["shop", "mirror", "shop", "users"]))
    job = dg.Definitions.merge(feed.definitions, dg.Definitions(jobs=[alone])).resolve_job_def("alone")

    assert job.execute_in_process(QUIET, instance=instance).success

    assert out_of_date(feed, instance) == {}
