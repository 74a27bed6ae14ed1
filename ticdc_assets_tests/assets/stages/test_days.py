"""The asset `days`: a day is materialised once the recorded TSO of all tables has passed it; assets depend on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ticdc_assets import spark
from ticdc_assets_tests.assets.feeds import QUIET, Feed, failures, materializations

PAGE = (Path(__file__).parents[3] / "docs" / "dagster.md").read_text()
DAYS = dg.AssetKey(["shop", "days"])
DAY_S = 86_400  # the tests begin at 2025-10-09 08:53:20 UTC


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def shop(folder: Path, first: str = "2025-10-09") -> Feed:
    feed = Feed(folder, dagster={"days_from": first}).table("shop", "users").table("shop", "log", keyless=True)
    feed.rows("shop", "users", ("I", 1, "ann", 2), ("U", 1, "eve", DAY_S)).rows("shop", "log", ("I", 1, "x", 3))
    return feed.checkpoint(DAY_S + 1)


def closed(instance: dg.DagsterInstance) -> dict[str, dict[str, Any]]:
    """By day, the metadata of its materializations; a day that was materialised twice is an error."""
    found: dict[str, dict[str, Any]] = {}
    for record in instance.fetch_materializations(DAYS, limit=100).records:
        event = record.asset_materialization
        assert event is not None and event.partition not in found
        found[str(event.partition)] = {name: value.value for name, value in event.metadata.items()}
    return found


def decoded_again(feed: Feed, instance: dg.DagsterInstance, first: str, last: str) -> dg.ExecuteInProcessResult:
    """What one run of a backfill of these days does."""
    alone = dg.define_asset_job("alone", dg.AssetSelection.assets(DAYS))
    job = dg.Definitions.merge(feed.definitions, dg.Definitions(jobs=[alone])).resolve_job_def("alone")
    tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    return job.execute_in_process(QUIET, instance=instance, raise_on_error=False, tags=tags)


@pytest.mark.usefixtures("without_java")
def test_a_day_is_closed_once_and_with_its_rows(tmp_path: Path, instance: dg.DagsterInstance):
    feed = shop(tmp_path)

    assert failures(feed.run(instance)) == []
    first = closed(instance)
    feed.run(instance)
    feed.checkpoint(3 * DAY_S)
    feed.run(instance)

    assert set(first) == {"2025-10-09"}
    assert first["2025-10-09"]["rows_by_table"] == {"shop.log": 1, "shop.users": 1}
    assert first["2025-10-09"]["dagster/partition_row_count"] == 2
    days = closed(instance)
    assert sorted(days) == ["2025-10-09", "2025-10-10", "2025-10-11"]
    assert [days[day]["dagster/partition_row_count"] for day in sorted(days)] == [2, 1, 0]


@pytest.mark.usefixtures("without_java")
def test_no_day_is_closed_while_a_table_is_held(tmp_path: Path, instance: dg.DagsterInstance):
    feed = shop(tmp_path).statement("shop", "users", "ALTER TABLE `users` FROBNICATE", 5).checkpoint(3 * DAY_S)

    feed.run(instance)

    assert closed(instance) == {}


@pytest.mark.usefixtures("without_java")
@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
def test_the_users_asset_of_the_documentation_runs_for_each_closed_day(tmp_path: Path, instance: dg.DagsterInstance):
    [snippet] = re.findall(r"^### Days\n.*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    found: dict[str, Any] = {}
    exec(compile(snippet.replace("2025-07-31", "2025-10-09"), "snippet", "exec", dont_inherit=True), found)
    feed = shop(tmp_path)
    defs = dg.Definitions.merge(feed.definitions, dg.Definitions(assets=[found["daily_report"]]))
    before = dg.evaluate_automation_conditions(defs, instance)

    feed.run(instance)
    after = dg.evaluate_automation_conditions(defs, instance, cursor=before.cursor)
    again = dg.evaluate_automation_conditions(defs, instance, cursor=after.cursor)

    key = dg.AssetKey("daily_report")
    assert before.total_requested == 0
    assert after.get_requested_partitions(key) == {"2025-10-09"}
    assert again.total_requested == 0


@pytest.mark.usefixtures("without_java")
def test_without_the_config_key_there_is_no_asset_of_days(tmp_path: Path):
    graph = Feed(tmp_path).table("shop", "users").checkpoint(10).definitions.resolve_asset_graph()

    assert DAYS not in graph.get_all_asset_keys()


@pytest.mark.usefixtures("without_java")
def test_a_day_that_is_not_complete_is_refused_before_anything_is_decoded(tmp_path: Path, instance: dg.DagsterInstance):
    feed = shop(tmp_path)
    feed.run(instance)
    before = feed.snapshots()

    [error] = failures(decoded_again(feed, instance, "2025-10-09", "2025-10-10"))

    assert "days, 2025-10-10: expected a day that is complete in all tables, found one that is not" in error
    assert feed.snapshots() == before


@pytest.mark.long
@pytest.mark.spark
def test_a_backfill_decodes_days_again_and_the_assets_of_the_tables_show_it(
    tmp_path: Path, instance: dg.DagsterInstance
):
    spark.stop()  # another test's session has other settings
    feed = shop(tmp_path).checkpoint(3 * DAY_S)
    assert failures(feed.run(instance)) == []
    before = feed.records()

    result = decoded_again(feed, instance, "2025-10-09", "2025-10-10")

    assert failures(result) == []
    found = materializations(result)
    assert found["shop/days"]["dagster/partition_row_count"] == 1
    assert found["shop/mirror/shop/users"]["rebuilt_day"] == "2025-10-10"
    assert {"shop/changelog/shop/users_changes", "shop/changelog/shop/log_changes"} <= set(found)
    after = feed.records()
    assert {name: table.rows for name, table in after.items()} == {name: table.rows for name, table in before.items()}
    assert all(after[name].changelog_snapshot_id != before[name].changelog_snapshot_id for name in before)
