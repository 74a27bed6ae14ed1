"""The code location: config -> Definitions; nothing else."""

from __future__ import annotations

import os

import dagster as dg

from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.assets.resources import LakeSpark
from ticdc_assets.config import load

defs = dg.Definitions.merge(
    definitions_of(load(None, os.environ)),
    dg.Definitions(resources={"pyspark": LakeSpark()}, executor=dg.in_process_executor),
)
