"""A Dagster component: a `defs.yaml` that names a changefeeds.yaml.

type: ticdc_assets.component.TicdcAssetsComponent
attributes:
  config_path: changefeeds.yaml

The jobs run in one process, as in the code location `ticdc_assets.definitions`. A materialization outside these jobs
uses the executor of the user's code location, which a component cannot set.
"""

# Dagster evaluates the annotations of the attributes, so this module must not postpone them.
import os
from pathlib import Path

import dagster as dg

from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.assets.resources import LakeSpark
from ticdc_assets.config import load


class TicdcAssetsComponent(dg.Component, dg.Model, dg.Resolvable):
    """The changefeeds of one config as assets, checks, jobs, sensors and schedules.

    `config_path` is a changefeeds.yaml, relative to the component's folder. `changefeeds` names the changefeeds to
    load; default all. `spark_resource` is the resource key under which your own assets get the lake's Spark session;
    default none, as a code location can have only one resource per key, and another component may use another lake.
    """

    config_path: str
    changefeeds: list[str] | None = None
    spark_resource: str | None = None

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the definitions. Raises ConfigError with one sentence for everything that is wrong in the config."""
        path = Path(context.path) / self.config_path
        definitions = definitions_of(load(path, os.environ), self.changefeeds, among_others=True)
        if self.spark_resource is None:
            return definitions
        session = {self.spark_resource: LakeSpark(config_path=str(path))}
        return dg.Definitions.merge(definitions, dg.Definitions(resources=session))
