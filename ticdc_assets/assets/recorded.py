"""The TSO at which all tables of a changefeed can be read together, for sensors of users; from Dagster's events."""

from __future__ import annotations

from typing import Final

import dagster as dg

RECORDS_READ_MAX: Final = 100


def recorded_tso(instance: dg.DagsterInstance, changefeed: str, key: dg.AssetKey | None = None) -> int | None:
    """The newest TSO that runs of this instance have recorded for all tables.

    Args:
        key: that of the asset `watermarks`, where a translation has changed it.

    Returns:
        None where none of the last hundred records is complete, because a table is held or nothing has run yet.
    """
    watermarks = key or dg.AssetKey([changefeed, "watermarks"])
    for record in instance.fetch_materializations(watermarks, limit=RECORDS_READ_MAX).records:
        event = record.asset_materialization
        metadata = event.metadata if event is not None else {}
        if "watermark" in metadata and metadata["complete"].value is True:
            return int(str(metadata["watermark"].value))
    return None
