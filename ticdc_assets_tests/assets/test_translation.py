"""A component's translation changes keys, groups and more, and runs, checks, sensors and lineage follow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.assets.hooks import Hooks
from ticdc_assets.assets.lake_resource import LakeIOManager, LakeResource
from ticdc_assets.assets.recorded import recorded_tso
from ticdc_assets.assets.translation import ChangefeedAsset
from ticdc_assets.component import TicdcAssetsComponent
from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.recorded.lake import RecordedTable
from ticdc_assets_tests.assets.feeds import QUIET, Feed, checks, failures, materializations, ts

pytestmark = [  # Dagster's own, while it loads components
    pytest.mark.filterwarnings("ignore:.*is currently in beta"),
    pytest.mark.filterwarnings("ignore:.*is currently in preview"),
]

TRANSLATION = {
    "key": "lake/{{ data.schema ~ '/' if data.schema else '' }}{{ data.name }}",
    "group_name": "{{ 'marts' if data.kind in ['mirror', 'history', 'watermarks'] else spec.group_name }}",
    "tags": {"domain": "crm"},
    "owners": ["team:data"],
    "kinds": ["tidb"],
    "description": "{{ data.schema }}.{{ data.table }}",
}
MIRROR, CHANGES = dg.AssetKey(["lake", "shop", "users"]), dg.AssetKey(["lake", "shop", "users_changes"])


class Renamed(TicdcAssetsComponent):
    """Gives mirrors the names of their tables, and leaves the rest."""

    def get_asset_spec(self, asset: ChangefeedAsset) -> dg.AssetSpec:
        spec = super().get_asset_spec(asset)
        if asset.kind != "mirror":
            return spec
        return spec.replace_attributes(key=[asset.schema, asset.table], deps=["audit"], metadata={})


@contextmanager
def loaded(feed: Feed, component: type = TicdcAssetsComponent, **attributes: Any) -> Iterator[dg.Definitions]:
    with create_defs_folder_sandbox() as sandbox:
        contents = {
            "type": f"{component.__module__}.{component.__name__}",
            "attributes": {"config_path": str(feed.path), **attributes},
        }
        sandbox.scaffold_component(component_cls=component, defs_path="feeds", defs_yaml_contents=contents)
        with sandbox.build_all_defs() as definitions:
            yield definitions


def feed_of(folder: Path, **settings: Any) -> Feed:
    feed = Feed(folder, **settings).table("shop", "users").rows("shop", "users", ("I", 1, "x", 2), ("I", 2, "y", 3))
    return feed.checkpoint(10)


def test_a_translation_in_yaml_changes_all_that_dagster_shows(tmp_path: Path):
    with loaded(feed_of(tmp_path), translation=TRANSLATION) as definitions:
        dg.Definitions.validate_loadable(definitions)
        graph = definitions.resolve_asset_graph()

    assert {key.to_user_string() for key in graph.get_all_asset_keys()} == {
        "lake/source",
        "lake/schema_cache",
        "lake/quarantine",
        "lake/shop/users_changes",
        "lake/shop/users",
        "lake/watermarks",
    }
    mirror = graph.get(MIRROR)
    assert (mirror.group_name, graph.get(CHANGES).group_name) == ("marts", "shop")
    assert (mirror.tags["domain"], list(mirror.owners), mirror.kinds) == ("crm", ["team:data"], {"tidb"})
    edges = {(graph.get(up).group_name, node.group_name) for node in graph.asset_nodes for up in node.parent_keys}
    assert {edge for edge in edges if edge[0] != edge[1]} == {("shop", "marts")}
    assert mirror.description == "shop.users"
    assert mirror.parent_keys == {CHANGES}
    assert {key.asset_key for key in graph.asset_check_keys if key.name == "not_held"} == {MIRROR}


@pytest.mark.usefixtures("without_java")
def test_a_run_reports_under_the_translated_keys_also_a_table_that_is_new(tmp_path: Path):
    feed = feed_of(tmp_path, dagster={"days_from": "2025-10-08"})
    with dg.DagsterInstance.ephemeral() as instance, loaded(feed, translation=TRANSLATION) as definitions:
        result = feed.run(instance, definitions)
        sensor = definitions.resolve_sensor_def("shop_new_files").evaluate_tick(
            dg.build_sensor_context(instance, sensor_name="shop_new_files")
        )
        feed.table("shop", "orders", 11).rows("shop", "orders", ("I", 1, "x", 12)).checkpoint(20)
        later = feed.run(instance, definitions)
        days = instance.get_materialized_partitions(dg.AssetKey(["lake", "days"]))
        tso = recorded_tso(instance, "shop", dg.AssetKey(["lake", "watermarks"]))
        new = instance.get_latest_materialization_event(dg.AssetKey(["lake", "shop", "orders"]))
        found = {key.path[0] for key in instance.all_asset_keys()}

    materialized = materializations(result)
    assert (failures(result), failures(later)) == ([], [])
    assert (
        materialized["lake/shop/users"]["dagster/row_count"]
        == materialized["lake/shop/users_changes"]["dagster/row_count"]
    )
    lineage = materialized["lake/shop/users"]["dagster/column_lineage"].deps_by_column["id"]
    assert [dep.asset_key for dep in lineage] == [CHANGES]
    assert checks(result)["lake/shop/users", "not_held"].passed
    assert [event.asset_key.path[0] for event in sensor.asset_events] == ["lake"]
    assert (days, tso, new is not None) == ({"2025-10-08"}, ts(20), True)
    assert found == {"lake"}  # nothing under a plain key


@pytest.mark.usefixtures("without_java")
def test_a_subclass_translates_in_python_and_cannot_remove_what_a_run_depends_on(tmp_path: Path):
    feed = feed_of(tmp_path)
    users = dg.AssetIn(key=["shop", "users"], input_manager_key="lake_io")

    @dg.asset(ins={"users": users}, io_manager_key="memory")
    def place(users: RecordedTable) -> str:
        return ".".join(users.identifier)

    lake = LakeIOManager(lake=LakeResource(config_path=str(feed.path)))
    own = dg.Definitions([place], resources={"lake_io": lake, "memory": dg.InMemoryIOManager()})
    with loaded(feed, Renamed) as definitions:
        both = dg.Definitions.merge(definitions, own)
        graph = both.resolve_asset_graph()
        ran = feed.run(definitions=both)
        found = both.resolve_implicit_global_asset_job_def().execute_in_process(QUIET, asset_selection=[place.key])

    plain = dg.AssetKey(["shop", "changelog", "shop", "users_changes"])
    assert graph.get(dg.AssetKey(["shop", "users"])).parent_keys == {plain, dg.AssetKey("audit")}
    assert ran.success
    assert found.output_for_node("place") == "shop.users"


def test_two_assets_with_one_key_are_refused_with_both_names(tmp_path: Path):
    feed = feed_of(tmp_path)

    with pytest.raises(ConfigError) as raised:
        definitions_of(feed.config, hooks=Hooks(lambda asset: asset.spec.replace_attributes(key="all")))

    assert "all for both shop/source and shop/schema_cache" in str(raised.value)
    assert "data.kind" in str(raised.value)


def test_a_name_that_a_template_does_not_know_is_refused(tmp_path: Path):
    """The template's text is empty there."""
    key = "lake/{{ data.kimd }}/{{ data.name }}"

    with pytest.raises(Exception, match="feeds") as raised, loaded(feed_of(tmp_path), translation={"key": key}):
        pass

    assert isinstance(raised.value.__cause__, ConfigError)
    assert "expected a key without empty parts, found lake//users" in str(raised.value.__cause__)


def test_the_parts_of_a_translation_are_names_that_dagster_accepts(tmp_path: Path):
    feed = Feed(tmp_path).table("my-db", "表", keyless=True).checkpoint(10)
    seen = {}

    def translate(asset: ChangefeedAsset) -> dg.AssetSpec:
        seen[asset.kind] = asset
        return asset.spec.replace_attributes(key=[asset.kind, asset.schema, asset.table, asset.name])

    dg.Definitions.validate_loadable(definitions_of(feed.config, hooks=Hooks(translate)))

    changelog = seen["changelog"]
    assert changelog.spec.metadata["source_table"] == "my-db.表"
    assert changelog.name == f"{changelog.table}_changes"
    assert (changelog.schema + changelog.table).isascii()
