"""Definitions: what is in them, and that they load without network, catalog or JVM."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.code_pointer import FileCodePointer
from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext
from dagster._core.definitions.reconstruct import (
    initialize_repository_def_from_pointer,
    reconstruct_repository_def_from_pointer,
)

from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.assets.keys import FeedNames
from ticdc_assets.assets.known_tables import KnownTable, tables_of_lake
from ticdc_assets.config import load
from ticdc_assets.errors import ConfigError
from ticdc_assets_tests.assets.feeds import Feed

LOAD_AND_TELL = """
import json, os, socket, sys
def refuse(*arguments): raise AssertionError("the network was asked")
socket.socket.connect = refuse
from ticdc_assets.definitions import defs
import dagster as dg
dg.Definitions.validate_loadable(defs)
from pyspark import SparkContext
keys = sorted(key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys())
print(json.dumps({"jvm": SparkContext._gateway is not None, "files": os.listdir(), "keys": keys}))
"""

LOCATION = """
from pathlib import Path
from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.config import load
defs = definitions_of(load(Path("{}"), {{}}))
"""


def capture_of(folder: Path) -> dict[str, Any]:
    """The settings of a changefeed whose messages were captured: none so far."""
    (folder / "messages.jsonl").touch()
    capture = str(folder / "messages.jsonl")
    return {"sink_uri": "kafka://host:9092/t?protocol=simple", "config": {}, "source": {"capture": capture}}


def load_elsewhere(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "TICDC_ASSETS_CONFIG"}
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOAD_AND_TELL],
        cwd=folder,
        env={**kept, "PYTHONPATH": root, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_definitions_load_without_network_catalog_or_jvm(tmp_path: Path):
    done = load_elsewhere(tmp_path)

    loaded = json.loads(done.stdout)
    assert not loaded["jvm"]
    assert loaded["files"] == []
    assert "storage_csv/mirror/shop/users" in loaded["keys"]
    assert "storage_canal_json/changelog/shop/parted_changes" in loaded["keys"]
    assert "simple_avro/source" in loaded["keys"]


def test_a_wrong_config_shows_its_sentence_when_the_code_location_loads(tmp_path: Path):
    (tmp_path / "c.yaml").write_text("changefeed: {}\n")

    done = load_elsewhere(tmp_path, TICDC_ASSETS_CONFIG=str(tmp_path / "c.yaml"))

    last = done.stderr.strip().splitlines()
    assert done.returncode != 0
    assert "changefeeds" in "".join(last[-4:])
    assert "ConfigFaultsError" in "".join(last[-4:])


def test_a_changefeed_is_a_group_of_source_schema_cache_changelogs_and_mirrors(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users").checkpoint(10)

    graph = feed.definitions.resolve_asset_graph()

    keys = {key.to_user_string() for key in graph.get_all_asset_keys()}
    assert keys == {
        "shop/source",
        "shop/schema_cache",
        "shop/quarantine",
        "shop/changelog/shop/users_changes",
        "shop/mirror/shop/users",
        "shop/watermarks",
    }
    assert {graph.get(key).group_name for key in graph.get_all_asset_keys()} == {"shop"}
    mirror = graph.get(dg.AssetKey(["shop", "mirror", "shop", "users"]))
    assert {k.to_user_string() for k in mirror.parent_keys} == {"shop/changelog/shop/users_changes"}
    assert graph.get(dg.AssetKey(["shop", "source"])).is_external


def test_the_decode_stage_has_its_plain_name_where_one_changefeed_is_alone(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users").checkpoint(10)

    names = {node.name for node in feed.definitions.resolve_job_def("shop__run").nodes}

    assert {"decode_csv", "shop__schema_cache", "shop__mirrors", "shop__checks"} <= names


@pytest.mark.parametrize("name", ["checks", "mirrors", "schema_cache", "maintenance"])
def test_an_asset_of_the_users_own_may_have_any_simple_name(tmp_path: Path, name: str):
    @dg.asset(name=name)
    def body() -> None: ...

    feed = Feed(tmp_path).table("shop", "users").checkpoint(10)

    dg.Definitions.validate_loadable(dg.Definitions.merge(feed.definitions, dg.Definitions(assets=[body])))


def test_a_changefeed_that_nothing_is_known_of_still_has_a_job_that_can_find_out(tmp_path: Path):
    job = Feed(tmp_path).definitions.resolve_job_def("shop__run")

    assert {"decode_csv", "shop__mirrors"} <= {node.name for node in job.nodes}


def test_only_a_source_of_files_is_checked_for_gaps_in_its_files(tmp_path: Path):
    Feed(tmp_path, "files")
    both = Feed(tmp_path, "messages", **capture_of(tmp_path))

    keys = both.definitions.resolve_asset_graph().asset_check_keys

    assert {key.asset_key.path[0] for key in keys if key.name == "no_gaps_in_files"} == {"files"}
    assert {key.asset_key.path[0] for key in keys if key.name == "checkpoint_near_clock"} == {"files", "messages"}


def test_sensors_and_schedules_are_off_by_default(tmp_path: Path):
    repository = Feed(tmp_path).definitions.get_repository_def()

    assert [s.name for s in repository.sensor_defs] == ["shop_new_files"]
    schedules = repository.schedule_defs
    assert [s.name for s in schedules] == ["shop_maintenance_every_night"]
    assert repository.sensor_defs[0].default_status is dg.DefaultSensorStatus.STOPPED
    assert {s.default_status for s in schedules} == {dg.DefaultScheduleStatus.STOPPED}


def test_tables_that_the_config_does_not_ask_for_have_no_assets(tmp_path: Path):
    feed = Feed(tmp_path, tables=["shop.u*"]).table("shop", "users").table("shop", "orders").checkpoint(10)

    named = definitions_of(feed.config, known={"shop": [KnownTable("shop", "users"), KnownTable("shop", "orders")]})

    assert mirrors(feed.definitions) == mirrors(named) == {"users"}


def mirrors(definitions: dg.Definitions) -> set[str]:
    keys = definitions.resolve_asset_graph().get_all_asset_keys()
    return {key.path[-1] for key in keys if key.path[1] == "mirror"}


@pytest.mark.usefixtures("without_java")
def test_the_tables_of_the_lake_have_assets_where_its_source_is_not_at_hand(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users").table("shop", "log", keyless=True).checkpoint(10)
    feed.run()
    shutil.rmtree(feed.bucket.base)

    assert tables_of_lake(feed.config, feed.config.changefeeds[0]) == (
        KnownTable("shop", "log", has_key=False),
        KnownTable("shop", "users"),
    )


def test_a_catalog_that_cannot_be_read_leaves_the_changefeed_without_assets_of_tables(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    feed = Feed(tmp_path).table("shop", "users").checkpoint(10)
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "catalog.db").write_text("no database")

    assert mirrors(feed.definitions) == set()
    assert "shop has no assets of tables until the code location is reloaded: " in caplog.text


def test_a_process_of_a_run_has_the_tables_of_the_code_server_that_started_it(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users").checkpoint(10)
    (tmp_path / "location.py").write_text(LOCATION.format(feed.path))
    pointer = FileCodePointer(str(tmp_path / "location.py"), "defs")
    try:
        loaded = initialize_repository_def_from_pointer(pointer).repository_load_data
        feed.table("shop", "orders", 5)

        again = reconstruct_repository_def_from_pointer(pointer, loaded)
    finally:
        DefinitionsLoadContext._instance = None

    assert again.has_job("shop__run")
    assert {key.path[-1] for key in again.assets_defs_by_key if key.path[1] == "mirror"} == {"users"}


def test_a_changefeed_that_is_not_in_the_config_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="shop"):
        definitions_of(Feed(tmp_path).config, ["shpo"])


def test_names_of_changefeeds_with_underscores_stay_apart():
    first = FeedNames("a", "csv", shares_protocol=True)
    second = FeedNames("a__mirrors", "csv", shares_protocol=True)

    of_first = {first.decode_op, first.schema_cache_op, first.mirrors_op, first.checks_op}
    of_second = {second.decode_op, second.schema_cache_op, second.mirrors_op, second.checks_op}
    assert not of_first & of_second
    assert first.table_checks_op("b", "c") != FeedNames("a", "csv").table_checks_op("b_c", "")


def test_the_tag_of_a_long_name_fits_what_dagster_takes():
    tags = FeedNames("f" * 200, "csv").tags

    assert all(len(value) <= 63 for value in tags.values())
    assert tags != FeedNames("f" * 201, "csv").tags


def test_the_packaged_sample_is_a_config_without_warnings():
    config = load(None, {})

    assert len(config.changefeeds) == 8
    assert [c.warnings for c in config.changefeeds] == [()] * 8


def test_the_section_dagster_turns_the_sensor_on_and_marks_the_assets_of_its_tables(tmp_path: Path):
    settings = {
        "sensor": True,
        "max_lag": "30m",
        "owners": {"shop.u*": ["team:data"]},
        "tags": {"shop.u*": {"domain": "crm"}},
    }
    definitions = (
        Feed(tmp_path, dagster=settings).table("shop", "users").table("shop", "log").checkpoint(10).definitions
    )

    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()
    for kind, table in (("changelog", "users_changes"), ("mirror", "users")):
        asset = graph.get(dg.AssetKey(["shop", kind, "shop", table]))
        assert (list(asset.owners), asset.tags["domain"]) == (["team:data"], "crm")
        assert asset.freshness_policy == dg.FreshnessPolicy.time_window(timedelta(minutes=30), timedelta(minutes=15))
    assert not graph.get(dg.AssetKey(["shop", "mirror", "shop", "log"])).owners
    [sensor] = definitions.get_repository_def().sensor_defs
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
