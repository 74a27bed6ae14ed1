"""The component gives the same definitions as the code location."""

from __future__ import annotations

import asyncio
import importlib
import tomllib
from pathlib import Path
from typing import Any, ClassVar

import dagster as dg
import pytest
import yaml
from dagster._core.storage.defs_state.base import set_defs_state_storage
from dagster.components.core.package_entry import get_package_objects_in_module
from dagster.components.testing import create_defs_folder_sandbox

from ticdc_assets.assets.inline_config import described
from ticdc_assets.component import TicdcAssetsComponent, TicdcAssetsScaffolder
from ticdc_assets.config import load
from ticdc_assets.errors import ConfigError
from ticdc_assets_tests.assets.feeds import Feed, materializations
from ticdc_assets_tests.documentation.pages import REPOSITORY

pytestmark = [  # Dagster's own, while it loads components
    pytest.mark.filterwarnings("ignore:.*is currently in beta"),
    pytest.mark.filterwarnings("ignore:.*is currently in preview"),
]


class Noted(TicdcAssetsComponent):
    """Notes the assets of each step before it, and after it."""

    notes: ClassVar[list[str]] = []

    def execute(self, context: dg.AssetExecutionContext, step: Any) -> Any:
        last = sorted(key.path[1] for key in context.selected_asset_keys)[-1]
        self.notes.append(f"before {last}")
        yield from super().execute(context, step)
        self.notes.append(f"after {last}")


def built(config_path: Path, component: type = TicdcAssetsComponent, **more: Any) -> dg.Definitions:
    attributes = {"config_path": str(config_path), **more}
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=component,
            defs_path="feeds",
            defs_yaml_contents={"type": f"{component.__module__}.{component.__name__}", "attributes": attributes},
        )
        with sandbox.load_component_and_build_defs(defs_path=path) as (_, definitions):
            return definitions


def loaded_together(*config_paths: Path) -> dg.Definitions:
    """One code location with a component for each config."""
    with create_defs_folder_sandbox() as sandbox:
        for number, path in enumerate(config_paths):
            sandbox.scaffold_component(
                component_cls=TicdcAssetsComponent,
                defs_path=f"feeds_{number}",
                defs_yaml_contents={
                    "type": "ticdc_assets.component.TicdcAssetsComponent",
                    "attributes": {"config_path": str(path)},
                },
            )
        with sandbox.build_all_defs() as definitions:
            return definitions


def keys(definitions: dg.Definitions) -> set[dg.AssetKey]:
    return set(definitions.resolve_asset_graph().get_all_asset_keys())


def test_a_component_builds_the_same_definitions_as_the_code_location(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users").checkpoint(10)

    assert keys(built(feed.path)) == keys(feed.definitions)


INLINE = """\
type: ticdc_assets.component.TicdcAssetsComponent
attributes:
  config:
    changefeeds:
      shop:
        sink_uri: "{{ env.SHOP_SINK }}"
        config: {sink: {date-separator: none, csv: {include-commit-ts: true}}}
        source: {storage: BUCKET}
        dagster:
          max_lag: 30m
"""


def inline(text: str, **more: str) -> dg.Definitions:
    """The definitions of a defs.yaml that has the config itself, and what of it is replaced."""
    for word, other in more.items():
        text = text.replace(word, other)
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.defs_folder_path / "feeds"
        folder.mkdir()
        (folder / "defs.yaml").write_text(text)
        with sandbox.build_all_defs() as definitions:
            return definitions


def test_a_config_can_stand_in_defs_yaml_with_values_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    feed = Feed(tmp_path).table("shop", "users").checkpoint(10)
    monkeypatch.setenv("SHOP_SINK", "file:///x?protocol=csv")

    assert keys(inline(INLINE, BUCKET=str(feed.bucket.base))) == keys(feed.definitions)


@pytest.mark.parametrize(
    ("sink", "replaced", "fault"),
    [
        ("file:///x?protocol=csv", {"max_lag": "max_lagg"}, "shop.dagster.max_lagg (line 10): expected a known key"),
        ("file:///x?protocol=csx", {}, "shop.sink_uri (line 6)"),
        (None, {}, "shop.sink_uri (line 6): expected a template that has a value, found {{ env.SHOP_SINK }}."),
        ("x", {INLINE.partition("config:")[2]: " shop\n"}, "attributes.config: expected a mapping, found a text."),
        ("x", {"  config:\n": "  config_path: a.yaml\n  config:\n"}, "attributes: expected either config_path or"),
    ],
)
def test_a_fault_of_a_config_in_defs_yaml_has_its_line(
    sink: str | None, replaced: dict[str, str], fault: str, monkeypatch: pytest.MonkeyPatch
):
    if sink is not None:
        monkeypatch.setenv("SHOP_SINK", sink)

    with pytest.raises(Exception, match="feeds") as raised:
        inline(INLINE, **replaced)

    assert isinstance(raised.value.__cause__, ConfigError)
    assert fault in str(raised.value.__cause__)


def test_every_field_has_a_description_and_an_example():
    schema = TicdcAssetsComponent.model().model_json_schema()
    fields = [*schema["properties"].items(), *described()["properties"].items()]

    assert [name for name, field in fields if not (field.get("description") and field.get("examples"))] == []


def test_a_component_can_select_changefeeds_of_a_config(tmp_path: Path):
    Feed(tmp_path, "shop").table("shop", "users").checkpoint(10)
    other = Feed(tmp_path, "other").table("shop", "users").checkpoint(10)

    assert {key.path[0] for key in keys(built(other.path, changefeeds=["other"]))} == {"other"}


@pytest.mark.usefixtures("without_java")
def test_two_components_load_and_run_in_one_code_location(tmp_path: Path):
    feeds = []
    for number, name in enumerate(("shop", "other"), start=1):
        (tmp_path / name).mkdir()
        feed = Feed(tmp_path / name, name).table("shop", "users")
        feeds.append(feed.rows("shop", "users", *(("I", key, "x", 2) for key in range(number))).checkpoint(10))

    both = loaded_together(*(feed.path for feed in feeds))
    dg.Definitions.validate_loadable(both)
    results = [feed.run(definitions=both) for feed in feeds]

    materialized = [materializations(result) for result in results]
    assert [result.success for result in results] == [True, True]
    assert materialized[0]["shop/mirror/shop/users"]["dagster/row_count"] == 1
    assert materialized[1]["other/mirror/shop/users"]["dagster/row_count"] == 2


def test_assets_of_the_users_own_get_the_spark_session_under_the_key_that_is_asked_for(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users").checkpoint(10)

    plain, asked = built(feed.path), built(feed.path, spark_resource="pyspark")

    assert "pyspark" not in (plain.resources or {})
    assert asked.resources["pyspark"].config_path == str(feed.path)


def test_a_config_that_is_not_there_is_one_sentence(tmp_path: Path):
    with pytest.raises(Exception, match="feeds") as raised:
        built(tmp_path / "none.yaml")

    assert isinstance(raised.value.__cause__, ConfigError)
    assert "Correct config_path, which is relative to the folder of defs.yaml." in str(raised.value.__cause__)


@pytest.mark.usefixtures("without_java")
def test_a_run_includes_mirrors_that_a_user_put_into_another_group(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users").rows("shop", "users", ("I", 1, "x", 2)).checkpoint(10)
    regrouped = {"assets": [{"target": "kind:mirror", "attributes": {"group_name": "marts"}}]}
    with create_defs_folder_sandbox() as sandbox:
        sandbox.scaffold_component(
            component_cls=TicdcAssetsComponent,
            defs_path="feeds",
            defs_yaml_contents={
                "type": "ticdc_assets.component.TicdcAssetsComponent",
                "attributes": {"config_path": str(feed.path)},
                "post_processing": regrouped,
            },
        )
        with sandbox.build_all_defs() as definitions:
            graph = definitions.resolve_asset_graph()
            result = feed.run(definitions=definitions)

    mirror = dg.AssetKey(["shop", "mirror", "shop", "users"])
    assert graph.get(mirror).group_name == "marts"
    assert result.success
    assert "shop/mirror/shop/users" in materializations(result)
    assert "shop/watermarks" in materializations(result)


@pytest.mark.usefixtures("without_java")
def test_a_subclass_can_do_more_before_and_after_each_step_of_a_run(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users").checkpoint(10)

    assert feed.run(definitions=built(feed.path, Noted)).success

    steps = ("schema_cache", "quarantine", "watermarks")
    assert Noted.notes == [f"{when} {step}" for step in steps for when in ("before", "after")]


def test_the_settings_of_op_are_those_of_the_ops_of_all_assets(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users").checkpoint(10)
    policy = {"type": "multi_run", "max_partitions_per_run": 5}
    op = {"name": "night", "pool": "spark", "tags": {"team": "data"}, "backfill_policy": policy}

    definitions = built(feed.path, op=op)

    assets = [asset for asset in definitions.assets or () if isinstance(asset, dg.AssetsDefinition)]
    names = {asset.op.name for asset in assets}
    assert names == {"night__shop__schema_cache", "night__shop__decode_csv", "night__shop__mirrors"}
    assert {(asset.op.pool, asset.op.tags["team"]) for asset in assets} == {("spark", "data")}
    assert {asset.backfill_policy.max_partitions_per_run for asset in assets} == {5}
    assert definitions.resolve_job_def("shop_rebuild").graph.node_defs[0].pools == {"spark"}


# -- state -------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_java")
def test_a_refreshed_state_decides_which_tables_have_assets_until_a_run_finds_new_ones(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users").checkpoint(10)
    contents = {
        "type": "ticdc_assets.component.TicdcAssetsComponent",
        "attributes": {"config_path": str(feed.path)},
    }
    with dg.DagsterInstance.local_temp() as instance, create_defs_folder_sandbox() as sandbox:
        sandbox.scaffold_component(TicdcAssetsComponent, defs_path="feeds", defs_yaml_contents=contents)

        def load() -> dg.Definitions:
            with set_defs_state_storage(instance.defs_state_storage), sandbox.build_all_defs() as definitions:
                return definitions

        before = load()
        with set_defs_state_storage(instance.defs_state_storage), sandbox.build_component_tree() as tree:
            [component] = tree.get_all_components(of_type=TicdcAssetsComponent)
            asyncio.run(component.refresh_state(tree.project_root))
        feed.table("shop", "orders", 11).checkpoint(20)
        refreshed = load()
        version = instance.defs_state_storage.get_latest_version("TicdcAssetsComponent[shop]")
        runs = [feed.run(instance, refreshed), feed.run(instance, refreshed)]
        versions = list(Path(instance.root_directory).glob("defs_state/*/*"))
        reloaded = load()

    orders = dg.AssetKey(["shop", "mirror", "shop", "orders"])
    assert (
        keys(before)
        == keys(refreshed)
        == keys(reloaded) - {orders, dg.AssetKey(["shop", "changelog", "shop", "orders_changes"])}
    )
    assert [run.success for run in runs] == [True, True]
    assert version is not None
    assert len(versions) == 2


# -- dg ----------------------------------------------------------------------------------------------------------------


def scaffolded(root: Path, **params: str) -> Path:
    """The folder of the component, as `dg scaffold defs` makes it below the project's root."""
    folder = root / "src" / "shop" / "defs" / "lake"
    folder.mkdir(parents=True, exist_ok=True)
    request = dg.ScaffoldRequest(
        type_name="ticdc_assets.component.TicdcAssetsComponent",
        target_path=folder,
        scaffold_format="yaml",
        project_root=root,
        params=TicdcAssetsScaffolder.get_scaffold_params()(**params),
    )
    TicdcAssetsScaffolder().scaffold(request)
    return folder


def test_dg_finds_the_component_by_the_entry_point():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    [module] = project["entry-points"]["dagster_dg_cli.registry_modules"].values()

    assert dict(get_package_objects_in_module(importlib.import_module(module))) == {
        "TicdcAssetsComponent": TicdcAssetsComponent
    }


@pytest.mark.parametrize("params", [{}, {"changefeed": "sales", "sink_uri": "file:///x?protocol=csv"}])
def test_what_is_scaffolded_loads_with_a_lake_outside_of_defs(tmp_path: Path, params: dict[str, str]):
    folder = scaffolded(tmp_path, **params)

    written = yaml.safe_load((folder / "defs.yaml").read_text())
    path = (folder / written["attributes"]["config_path"]).resolve()
    assert path == tmp_path / "changefeeds.yaml"
    assert path.read_text().startswith("# yaml-language-server: $schema=")
    assert Path(load(path, {}).catalog.warehouse or "").is_relative_to(tmp_path / "lake")
    assert {key.path[0] for key in keys(built(path))} == {params.get("changefeed", "shop")}


def test_a_config_that_is_there_is_kept(tmp_path: Path):
    feed = Feed(tmp_path, "other").table("shop", "users").checkpoint(10)
    before = feed.path.read_text()

    scaffolded(tmp_path)

    assert feed.path == tmp_path / "changefeeds.yaml"
    assert feed.path.read_text() == before


def test_a_lake_in_the_folder_of_the_definitions_is_refused(tmp_path: Path):
    with create_defs_folder_sandbox() as sandbox:
        config = sandbox.defs_folder_path / "changefeeds.yaml"
        config.write_text('changefeeds: {shop: {sink_uri: "s3://bucket/x?protocol=csv"}}\n')
        sandbox.scaffold_component(
            component_cls=TicdcAssetsComponent,
            defs_path="feeds",
            defs_yaml_contents={
                "type": "ticdc_assets.component.TicdcAssetsComponent",
                "attributes": {"config_path": "../changefeeds.yaml"},
            },
        )
        with pytest.raises(Exception, match="Error while building") as raised, sandbox.build_all_defs():
            pass

    advice = "Move changefeeds.yaml to the root of the project, or set `catalog` in it."
    assert str(raised.value.__cause__).endswith(advice)
