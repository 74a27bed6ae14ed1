"""What jobs of operators report of the tables that they changed, so that the history of the assets shows it and what is
downstream of them can follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ticdc_assets.assets.resources import ChangefeedRun
    from ticdc_assets.assets.steps import Feed


def table_events(
    feed: Feed, run: ChangefeedRun, done: Mapping[str, Mapping[str, Any]], changelogs: bool = True
) -> Iterator[dg.AssetMaterialization]:
    """A materialization of each asset of the tables in `done`.

    Args:
        done: what was done to a table, by source table.
        changelogs: whether changelogs were changed, too.
    """
    names = feed.names
    for table in run.tables().values():
        if table.source_table.id not in done:
            continue
        record = table.record
        metadata = {**done[table.source_table.id], "watermark": str(record.watermark)}
        if changelogs:
            yield dg.AssetMaterialization(names.changelog(*table.name), metadata=metadata)
        if record.mirror is not None:
            rows = {} if record.rows is None else {"dagster/row_count": record.rows}
            snapshot = {"snapshot_id": str(record.mirror_snapshot_id)}
            yield dg.AssetMaterialization(names.mirror(*table.name), metadata={**metadata, **rows, **snapshot})
        if record.history_table is not None:
            snapshot = {"snapshot_id": str(record.history_snapshot_id)}
            yield dg.AssetMaterialization(names.history(*table.name), metadata={**metadata, **snapshot})
