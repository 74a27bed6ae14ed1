"""The same as a Dagster component: a `defs.yaml` that names a changefeeds.yaml.

type: ticdc_assets.component.TicdcAssetsComponent
attributes:
  config_path: changefeeds.yaml
"""

# Dagster reads the annotations of the attributes, so that they are not postponed.
import os
from pathlib import Path

import dagster as dg

from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.config import load


class TicdcAssetsComponent(dg.Component, dg.Model, dg.Resolvable):
    """The changefeeds of one config as assets, checks, jobs, sensors and schedules.

    `config_path` is a changefeeds.yaml, relative to the component's folder; `changefeeds` names those to take, all
    unless given.
    """

    config_path: str
    changefeeds: list[str] | None = None

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions. Raises ConfigError with one sentence for everything that is wrong in the config."""
        path = Path(context.path) / self.config_path
        return definitions_of(load(path, os.environ), self.changefeeds, among_others=True)
