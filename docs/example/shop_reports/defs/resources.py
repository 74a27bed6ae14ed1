"""The lake, for assets of this project."""

from pathlib import Path

import dagster as dg

from ticdc_assets.assets.lake_resource import LakeIOManager, LakeResource

CONFIG = Path(__file__).parents[2] / "changefeeds.yaml"


@dg.definitions
def resources() -> dg.Definitions:
    """`lake` gives tables by name, `lake_io` as inputs."""
    lake = LakeResource(config_path=str(CONFIG), changefeed="shop")
    return dg.Definitions(resources={"lake": lake, "lake_io": LakeIOManager(lake=lake)})
