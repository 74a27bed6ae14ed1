"""Tables of the lake follow the names of their source tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets.tables.catalog import Identifier, load_or_none
from ticdc_assets.tables.locations import parked, rename_tables
from ticdc_assets.tables.progress import source_table_of

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.plan import Plan

_CHANGELOG, _MIRROR, _HISTORY = "changelog", "mirror", "history_table"


def rename_changelogs(lake: Lake, plan: Plan) -> dict[str, Identifier]:
    """Rename every changelog to its name in the history. Returns, by source table, the names that other tables have."""
    return _renamed(lake, plan, _CHANGELOG)


def rename_mirrors(lake: Lake, plan: Plan) -> None:
    """Rename every mirror to its name in the history. Where another table has it, the mirror's writer raises."""
    _renamed(lake, plan, _MIRROR)


def rename_histories(lake: Lake, plan: Plan) -> None:
    """Rename every history table to its name in the history."""
    if lake.changefeed.mirror.history.takes_any or any(table.history_table for table in plan.recorded.values()):
        _renamed(lake, plan, _HISTORY)


def changelog_of(lake: Lake, plan: Plan, source_table: SourceTable) -> Table | None:
    """The changelog of a recorded source table, wherever it is; None where it does not exist."""
    name = _name_of(lake, plan, source_table, _CHANGELOG)
    table = load_or_none(lake.catalog, name) if name else None
    return table if table is not None and source_table_of(table) == source_table.id else None


def _renamed(lake: Lake, plan: Plan, kind: str) -> dict[str, Identifier]:
    """Rename the tables of a kind from where they are: as recorded, else under a present or former name of the source
    table, newest first. A run that ended between the move and its record leaves the table at the new or the
    intermediate name."""
    if not lake.moves_tables:
        return {}
    names = {n.id: _name_of(lake, plan, n, kind) for n in plan.history.source_tables if not n.is_contained}
    found = {i: name for i, name in names.items() if name}
    wanted = {i: getattr(place, kind) for i, place in plan.locations.items()}
    former = {i: tuple(getattr(table, kind) or ()) for i, table in plan.recorded.items()}
    return rename_tables(lake.catalog, wanted, found, {i: name for i, name in former.items() if name})


def _name_of(lake: Lake, plan: Plan, source_table: SourceTable, kind: str) -> Identifier:
    held: Identifier = tuple(getattr(plan.recorded.get(source_table.id), kind, None) or ())
    if len(source_table.name_periods) == 1 and held == getattr(plan.locations[source_table.id], kind):
        return held  # it never had another name
    if held or len(source_table.name_periods) > 1 or source_table.dropped_ts is not None:
        names = [*([held] if held else []), *_former_names(lake, plan, source_table, kind)]
        return next((name for name in names if _holds(lake, name, source_table)), held)
    return ()


def _former_names(lake: Lake, plan: Plan, source_table: SourceTable, kind: str) -> Iterator[Identifier]:
    """The names that the source table's table may have, each with its intermediate name during a move."""
    names = [getattr(plan.locations[source_table.id], kind)]
    for number in range(len(source_table.name_periods), 0, -1):
        former = replace(source_table, name_periods=source_table.name_periods[:number])
        places = lake.table_locations(replace(plan.history, source_tables=(former,)))
        names.append(getattr(places[source_table.id], kind))
    yield from names
    yield from (parked(source_table.id, name) for name in names)


def _holds(lake: Lake, name: Identifier, source_table: SourceTable) -> bool:
    table = load_or_none(lake.catalog, name)
    return table is not None and source_table_of(table) == source_table.id
