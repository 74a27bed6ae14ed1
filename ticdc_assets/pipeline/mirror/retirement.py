"""Removes the mirrors of dropped source tables where the changefeed is configured so (`on_drop: drop`).

Such a table gets no more merges, and its mirror is removed with its files. The changelog stays: it is the only copy of
the table's rows.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from ticdc_assets.config import OnDrop
from ticdc_assets.pipeline.commit_range import TableState
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.progress import source_table_of

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.plan import Plan
    from ticdc_assets.tables.catalog import Identifier
    from ticdc_assets.tables.control.records import TableRecord


def is_retired(lake: Lake, table: TableRecord) -> bool:
    """Whether the source table is dropped at the recorded TSO and its mirror is to be removed."""
    return lake.changefeed.mirror.on_drop is OnDrop.DROP and table.state == str(TableState.DROPPED)


def retire(lake: Lake, plan: Plan, awaited: Collection[str] = ()) -> list[Identifier]:
    """Remove the mirrors that are no longer wanted, except those `awaited` by an exchange of rows. Returns their names.
    It may be interrupted and run again."""
    removed = []
    for source_table_id, table in plan.recorded.items():
        if source_table_id in plan.locations and source_table_id not in awaited and is_retired(lake, table):
            identifier = plan.locations[source_table_id].mirror
            found = load_or_none(lake.catalog, identifier)
            if found is not None and source_table_of(found) == source_table_id:
                _remove(lake, identifier)
                removed.append(identifier)
    return removed


def _remove(lake: Lake, identifier: Identifier) -> None:
    with suppress(NoSuchTableError):  # another run was first
        try:
            lake.catalog.purge_table(identifier)
        except NotImplementedError:  # pyiceberg cannot with Hive
            lake.catalog.drop_table(identifier)
