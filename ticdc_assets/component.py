"""The same as a Dagster component: a `defs.yaml` that names a changefeeds.yaml.

type: ticdc_assets.component.TicdcAssetsComponent
attributes:
  config_path: changefeeds.yaml

The jobs run in one process, as everything does in the code location `ticdc_assets.definitions`. What is materialised
without them runs by the executor of the code location that has the component: that is not a component's to choose.
"""

# Dagster reads the annotations of the attributes, so that they are not postponed.
import os
from pathlib import Path

import dagster as dg

from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.assets.resources import LakeSpark
from ticdc_assets.config import load


class TicdcAssetsComponent(dg.Component, dg.Model, dg.Resolvable):
    """The changefeeds of one config as assets, checks, jobs, sensors and schedules.

    `config_path` is a changefeeds.yaml, relative to the component's folder; `changefeeds` names those to take, all
    unless given. `spark_resource` is the key under which your own assets get the lake's Spark session, none unless
    given: resources of one key in one code location must be one, and another component may have another lake.
    """

    config_path: str
    changefeeds: list[str] | None = None
    spark_resource: str | None = None

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions. Raises ConfigError with one sentence for everything that is wrong in the config."""
        path = Path(context.path) / self.config_path
        definitions = definitions_of(load(path, os.environ), self.changefeeds, among_others=True)
        if self.spark_resource is None:
            return definitions
        session = {self.spark_resource: LakeSpark(config_path=str(path))}
        return dg.Definitions.merge(definitions, dg.Definitions(resources=session))
