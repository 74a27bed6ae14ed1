"""A Dagster component: a `defs.yaml` that names a changefeeds.yaml.

type: ticdc_assets.component.TicdcAssetsComponent
attributes:
  config_path: changefeeds.yaml

`dg scaffold defs ticdc_assets.component.TicdcAssetsComponent NAME` writes it, and a changefeeds.yaml in the project's
root where there is none.

The jobs run in one process, as in the code location `ticdc_assets.definitions`. A materialization outside these jobs
uses the executor of the user's code location, which a component cannot set.
"""

# Dagster evaluates the annotations of the attributes, so this module must not postpone them.
import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final
from uuid import uuid4

import dagster as dg
from dagster._core.storage.defs_state.base import DefsStateStorage
from dagster.components import DefsStateConfig, DefsStateConfigArgs, StateBackedComponent
from dagster.components.component_scaffolding import scaffold_component
from dagster.components.resolved.core_models import OpSpec
from dagster.components.utils.defs_state import DefsStateManagementType
from dagster.components.utils.translation import ResolvedTranslationFn
from pydantic import BaseModel, Field, WithJsonSchema

from ticdc_assets.assets.graph import chosen, definitions_of
from ticdc_assets.assets.hooks import Hooks, Results
from ticdc_assets.assets.inline_config import InlineConfig, described, inline_config
from ticdc_assets.assets.known_tables import as_state, of_state, tables_of_lake
from ticdc_assets.assets.resources import spark_of
from ticdc_assets.assets.translation import ChangefeedAsset
from ticdc_assets.config import Config, editor_line, load
from ticdc_assets.errors import ConfigError
from ticdc_assets.faults import redacted_error

_VERSIONED: Final = DefsStateManagementType.VERSIONED_STATE_STORAGE
CONFIG_NAME: Final = "changefeeds.yaml"
_EXAMPLE_SINK: Final = "s3://bucket/prefix?protocol=canal-json&enable-tidb-extension=true"
_CONFIG: Final = """\
# The tables are in ./lake, next to this file; `catalog:` sets another place.
changefeeds:
  {name}:
    sink_uri: "{sink_uri}"  # that of `cdc cli changefeed create`
    # config_file: changefeed.toml  # the file given to cdc with --config
    time_zone: UTC  # the zone in which TiCDC writes TIMESTAMP
"""


class ScaffoldParams(BaseModel):
    """What `dg scaffold defs` asks for."""

    sink_uri: str = Field(default=_EXAMPLE_SINK, description="The sink URI of `cdc cli changefeed create`.")
    changefeed: str = Field(default="shop", description="The name of the changefeed.")


class TicdcAssetsScaffolder(dg.Scaffolder[ScaffoldParams]):
    """Writes a defs.yaml, and a changefeeds.yaml in the project's root where there is none."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        """The parameters of the command line."""
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        """Write both files. A changefeeds.yaml that is there is kept."""
        root = request.project_root or Path.cwd()
        path = root / CONFIG_NAME
        if not path.exists():
            text = _CONFIG.format(name=request.params.changefeed, sink_uri=request.params.sink_uri)
            path.write_text(editor_line(root) + text)
        scaffold_component(request, {"config_path": os.path.relpath(path, request.target_path)})


def _beside_defs(context: dg.ResolutionContext, path: str | None) -> str | None:
    """The absolute path of one that is relative to the folder of defs.yaml. Links are kept: the lake is beside them."""
    if path is None:
        return None
    tree = context.source_position_tree
    folder = Path(tree.position.filename).parent if tree is not None else Path()
    # Without `..`: the lake of one config has one name, whichever way the config is found.
    return os.path.normpath(folder.absolute() / path)


@dg.scaffold_with(TicdcAssetsScaffolder)
class TicdcAssetsComponent(StateBackedComponent, dg.Model, dg.Resolvable):
    """The changefeeds of one config as assets, checks, jobs, sensors and schedules.

    Its state is the list of tables that have assets. It is refreshed from the lake by `dg utils refresh-defs-state`, in
    the UI, and by runs that find new tables; before the first refresh, the load of the code location reads the lake.
    """

    config_path: Annotated[
        str | None,
        dg.Resolver(
            _beside_defs,
            model_field_type=str,
            description="A changefeeds.yaml, relative to the folder of defs.yaml.",
            examples=["../../../changefeeds.yaml"],
        ),
    ] = None
    config: Annotated[
        InlineConfig | None,
        dg.Resolver(
            inline_config,
            inject_before_resolve=False,
            model_field_type=Annotated[dict[str, Any], WithJsonSchema(described())],
            description="What else stands in a changefeeds.yaml, in place of config_path. Paths and the lake start at "
            "the root of the project. The command line and LakeResource read a changefeeds.yaml only.",
            examples=[{"changefeeds": {"shop": {"sink_uri": "{{ env.SHOP_SINK_URI }}"}}}],
        ),
    ] = None
    changefeeds: Annotated[
        list[str] | None,
        dg.Resolver.default(description="The changefeeds of the config to load; default all.", examples=[["shop"]]),
    ] = None
    spark_resource: Annotated[
        str | None,
        dg.Resolver.default(
            description="The resource key under which your own assets get the lake's Spark session; default none, as a "
            "code location can have only one resource per key, and another component may use another lake.",
            examples=["pyspark"],
        ),
    ] = None
    translation: Annotated[
        ResolvedTranslationFn[ChangefeedAsset],
        dg.Resolver.default(
            description="Changes assets: its templates see each as `data`, a `ChangefeedAsset`, and its plain spec as "
            "`spec`.",
            examples=[{"group_name": "{{ 'marts' if data.kind == 'mirror' else spec.group_name }}"}],
        ),
    ] = None
    op: Annotated[
        OpSpec | None,
        dg.Resolver.default(
            description="Settings of the ops of the assets. `name` begins their names. The jobs use the same `pool`.",
            examples=[{"pool": "spark", "tags": {"dagster/priority": "1"}, "backfill_policy": {"type": "single_run"}}],
        ),
    ] = None
    defs_state: Annotated[
        DefsStateConfigArgs,
        dg.Resolver.default(
            description="Where the list of tables with assets is kept; default: the instance's `defs_state_storage`.",
            examples=[{"management_type": "VERSIONED_STATE_STORAGE", "key": "lake"}],
        ),
    ] = DefsStateConfigArgs.versioned_state_storage()

    @cached_property
    def loaded(self) -> Config:
        """The config. Raises ConfigError with one sentence for everything that is wrong in it."""
        if (self.config_path is None) == (self.config is None):
            found = "neither" if self.config is None else "both"
            raise ConfigError("attributes", "either config_path or config", found, "Give one of the two.")
        if self.config is not None:
            return self.config.checked()
        advice = "Correct config_path, which is relative to the folder of defs.yaml."
        return load(Path(str(self.config_path)), os.environ, advice)

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """Where the state is kept, under a key with the names of the changefeeds."""
        names = ",".join(changefeed.name for changefeed in chosen(self.loaded, self.changefeeds))
        return DefsStateConfig.from_args(self.defs_state, default_key=f"{type(self).__name__}[{names}]")

    def get_asset_spec(self, asset: ChangefeedAsset) -> dg.AssetSpec:
        """The asset as Dagster shows it, by `translation`. A subclass may return any other spec; dependencies that the
        plain spec has stay."""
        return asset.spec if self.translation is None else self.translation(asset.spec, asset)

    def execute(self, context: dg.AssetExecutionContext, step: Callable[[], Results]) -> Results:
        """Run a step of a run: the schema cache, the changelogs or the mirrors of one changefeed, or all of them where
        a sensor requests the run. `step()` yields the results; a subclass may do more before and after it."""
        yield from step()

    def write_state_to_path(self, state_path: Path) -> None:
        """Write the tables of the lake; before the first run those of the source. Raises TicdcAssetsError."""
        found = chosen(self.loaded, self.changefeeds)
        state_path.write_text(as_state({feed.name: tables_of_lake(self.loaded, feed) for feed in found}))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the definitions. A process without a Dagster instance, such as a test, has no stored state."""
        if self.defs_state.management_type is _VERSIONED and DefsStateStorage.get() is None:
            return self.build_defs_from_state(context, None)
        return super().build_defs(context)

    def build_defs_from_state(self, context: dg.ComponentLoadContext, state_path: Path | None) -> dg.Definitions:
        """Build the definitions. Tables of changefeeds that the state lacks are read from the lake. Raises
        ConfigError."""
        _require_lake_outside(self.loaded, Path(context.defs_module_path))
        known = of_state(state_path.read_text()) if state_path is not None else {}
        hooks = Hooks(self.get_asset_spec, self._keep_new_tables, self.execute, self.op or OpSpec())
        definitions = definitions_of(self.loaded, self.changefeeds, True, hooks, known)
        if self.spark_resource is None:
            return definitions
        session = {self.spark_resource: spark_of(self.loaded)}
        return dg.Definitions.merge(definitions, dg.Definitions(resources=session))

    def _keep_new_tables(self, context: dg.AssetExecutionContext) -> None:
        """Refresh a stored state that lacks tables of the lake. Without one, the next load reads the lake."""
        storage, key = context.instance.defs_state_storage, self.defs_state_config.key
        info = storage.get_latest_defs_state_info() if storage is not None else None
        stored = info.info_mapping.get(key) if info is not None else None
        if storage is None or stored is None or stored.management_type is not _VERSIONED:
            return
        try:
            with TemporaryDirectory() as folder:
                before, now = Path(folder, "before"), Path(folder, "now")
                storage.download_state_to_path(key, stored.version, before)
                self.write_state_to_path(now)
                if now.read_text() != before.read_text():
                    storage.upload_state_from_path(key, str(uuid4()), now)
        except Exception as error:  # noqa: BLE001  the tables are published: the run must not fail
            context.log.warning(f"The list of tables with assets cannot be stored: {redacted_error(error)}")


def _require_lake_outside(config: Config, defs: Path) -> None:
    """Raise ConfigError where the lake is in the folder of the definitions, in which Dagster looks into each file."""
    warehouse = config.catalog.warehouse or ""
    if "://" in warehouse or not Path(warehouse).resolve().is_relative_to(defs.resolve()):
        return
    advice = f"Move {config.path.name} to the root of the project, or set `catalog` in it."
    raise ConfigError(str(config.path), f"a lake outside of {defs}", warehouse, advice)
