"""Mirrors of dropped source tables, where the changefeed wants them removed (`on_drop: drop`).

Nothing is merged for such a table any more, and its mirror goes with its files. The changelog stays: it alone tells
what the table once held.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from ticdc_assets.config import OnDrop
from ticdc_assets.pipeline.interval import TableState
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.progress import lineage_of

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.lineage import History
    from ticdc_assets.tables.catalog import Identifier
    from ticdc_assets.tables.control import TableRecord, WatermarkRecord


def is_retired(lake: Lake, table: TableRecord) -> bool:
    """Whether the source table is gone at the recorded TSO and its mirror is to go too."""
    return lake.changefeed.on_drop is OnDrop.DROP and table.state == str(TableState.DROPPED)


def retire(lake: Lake, history: History, record: WatermarkRecord, awaited: Collection[str] = ()) -> list[Identifier]:
    """Remove the mirrors that are not wanted any more, nor `awaited` by an exchange of rows; their names. It may be cut
    off anywhere and be run again."""
    places = lake.places(history)
    removed = []
    for table in record.tables:
        if table.lineage in places and table.lineage not in awaited and is_retired(lake, table):
            identifier = places[table.lineage].mirror
            found = load_or_none(lake.catalog, identifier)
            if found is not None and lineage_of(found) == table.lineage:
                _remove(lake, identifier)
                removed.append(identifier)
    return removed


def _remove(lake: Lake, identifier: Identifier) -> None:
    with suppress(NoSuchTableError):  # another run was first
        try:
            lake.catalog.purge_table(identifier)
        except NotImplementedError:  # pyiceberg cannot with Hive
            lake.catalog.drop_table(identifier)
