"""The code location: everything in `defs/`."""

from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    """What `dg dev` and `dagster dev -m shop_reports.definitions` load."""
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
