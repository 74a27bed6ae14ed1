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
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import dagster as dg
from dagster.components.component_scaffolding import scaffold_component
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver
from pydantic import BaseModel, Field

from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.assets.resources import LakeSpark
from ticdc_assets.assets.translation import ChangefeedAsset
from ticdc_assets.config import editor_line, load
from ticdc_assets.errors import ConfigError

if TYPE_CHECKING:
    from ticdc_assets.config import Config

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


@dg.scaffold_with(TicdcAssetsScaffolder)
class TicdcAssetsComponent(dg.Component, dg.Model, dg.Resolvable):
    """The changefeeds of one config as assets, checks, jobs, sensors and schedules.

    `config_path` is a changefeeds.yaml, relative to the component's folder. `changefeeds` names the changefeeds to
    load; default all. `spark_resource` is the resource key under which your own assets get the lake's Spark session;
    default none, as a code location can have only one resource per key, and another component may use another lake.
    `translation` changes assets: its templates see each as `data`, a `ChangefeedAsset`, and its plain spec as `spec`.
    """

    config_path: str
    changefeeds: list[str] | None = None
    spark_resource: str | None = None
    translation: (
        Annotated[
            TranslationFn[ChangefeedAsset],
            TranslationFnResolver[ChangefeedAsset](template_vars_for_translation_fn=lambda data: {"data": data}),
        ]
        | None
    ) = None

    def get_asset_spec(self, asset: ChangefeedAsset) -> dg.AssetSpec:
        """The asset as Dagster shows it, by `translation`. A subclass may return any other spec; dependencies that the
        plain spec has stay."""
        return asset.spec if self.translation is None else self.translation(asset.spec, asset)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the definitions. Raises ConfigError with one sentence for everything that is wrong in the config."""
        # Without `..`: the lake of one config has one name, whichever way the config is found.
        path = Path(os.path.normpath(Path(context.path) / self.config_path))
        config = load(path, os.environ, "Correct config_path, which is relative to the folder of defs.yaml.")
        _require_lake_outside(config, Path(context.defs_module_path))
        definitions = definitions_of(config, self.changefeeds, True, self.get_asset_spec)
        if self.spark_resource is None:
            return definitions
        session = {self.spark_resource: LakeSpark(config_path=str(path))}
        return dg.Definitions.merge(definitions, dg.Definitions(resources=session))


def _require_lake_outside(config: "Config", defs: Path) -> None:
    """Raise ConfigError where the lake is in the folder of the definitions, in which Dagster looks into each file."""
    warehouse = config.catalog.warehouse or ""
    if "://" in warehouse or not Path(warehouse).resolve().is_relative_to(defs.resolve()):
        return
    advice = f"Move {config.path.name} to the root of the project, or set `catalog` in it."
    raise ConfigError(str(config.path), f"a lake outside of {defs}", warehouse, advice)
