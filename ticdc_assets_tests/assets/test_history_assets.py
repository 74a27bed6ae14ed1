"""Histories and views in Dagster: histories are assets beside the mirrors, which the job of pins includes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from ticdc_assets import spark
from ticdc_assets.assets.lake_resource import LakeResource
from ticdc_assets.changes.layout import IS_CURRENT, VALID_FROM, VALID_TO
from ticdc_assets.tables.control.retention import named_pins
from ticdc_assets_tests.assets.feeds import Feed, failures, ts
from ticdc_assets_tests.assets.pinned import pinned
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home

HISTORY = dg.AssetKey(["shop", "history", "shop", "users_history"])


def shop(folder: Path) -> Feed:
    feed = Feed(folder, history=["shop.users"]).table("shop", "users").table("shop", "orders")
    return feed.rows("shop", "users", ("I", 1, "ann", 2), ("U", 1, "eve", 5)).checkpoint(10)


def test_only_tables_that_the_config_asks_for_have_a_history_asset(tmp_path: Path):
    keys = {
        key for key in shop(tmp_path).definitions.resolve_asset_graph().get_all_asset_keys() if "history" in key.path
    }

    assert keys == {HISTORY}


@pytest.fixture
def own_session() -> Iterator[None]:
    """The sessions of other tests have other settings."""
    spark.stop()
    yield
    spark.stop()


@pytest.mark.spark
@pytest.mark.usefixtures("own_session")
def test_a_mirror_shows_the_name_of_its_view(tmp_path: Path):
    feed = Feed(tmp_path, views="{schema}__recorded.{table}").table("shop", "users")
    feed.rows("shop", "users", ("I", 1, "ann", 2)).checkpoint(10)

    result = feed.run()

    assert failures(result) == []
    found = {m.asset_key.path[-1]: m.metadata for m in result.asset_materializations_for_node("shop__mirrors")}
    assert found["users"]["view"].value == "lake.shop__recorded.users"
    rows = spark.session(feed.config).sql("SELECT name FROM lake.shop__recorded.users").collect()
    assert [row.name for row in rows] == ["ann"]


@pytest.mark.spark
@pytest.mark.usefixtures("own_session")
def test_a_history_is_an_asset_with_its_columns_and_its_snapshot_is_pinned(tmp_path: Path):
    feed = shop(tmp_path)

    result = feed.run()

    assert failures(result) == []
    [made] = result.asset_materializations_for_node("shop__mirrors")[-1:]
    found = {m.asset_key: m.metadata for m in result.asset_materializations_for_node("shop__mirrors")}[HISTORY]
    assert made.asset_key.path[-1] == "watermarks"
    assert str(found["dagster/table_name"].value).endswith("shop.users__history")
    names = [column.name for column in found["dagster/column_schema"].value.columns]  # type: ignore[union-attr]
    assert names[-2:] == ["id", "name"]
    table = LakeResource(config_path=str(feed.path)).history_table("shop.users")
    rows = table.to_arrow([VALID_FROM, VALID_TO, IS_CURRENT, "name"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [
        (ts(2), ts(5), False, "ann"),
        (ts(5), None, True, "eve"),
    ]

    answer = pinned(feed, at=str(ts(10)), pin="first-day")

    assert failures(answer) == []
    assert named_pins(feed.lake.control) == {"first-day": ts(10)}
    history = feed.lake.catalog.load_table(table.identifier)
    assert history.metadata.refs["first-day"].snapshot_id == table.snapshot_id
