"""A managed table's columns as Iceberg has them, each with the source column that it holds.

What a table's history says is only what a table is on its way to: a column may be required still that is of no key any
more, columns that were added stand behind ours, and a table that is held is as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ticdc_assets.faults import of_one_table
from ticdc_assets.tables.catalog import Identifier, load_or_none
from ticdc_assets.tables.iceberg.commits import COMMITS_AT_ONCE
from ticdc_assets.tables.progress import columns_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class LakeField:
    """A column of a table; `uid` is None for one that is ours. `type` is Iceberg's, of a struct the bare word."""

    name: str
    type: str
    required: bool
    uid: int | None


Fields = tuple[LakeField, ...]


def all_fields(catalog: Catalog, identifiers: Iterable[Identifier]) -> dict[Identifier, Fields]:
    """The columns of those tables that are there and can be read."""
    wanted = list(identifiers)
    with ThreadPoolExecutor(COMMITS_AT_ONCE) as pool:
        tables = zip(wanted, pool.map(lambda name: _readable(catalog, name), wanted), strict=True)
        return {name: fields_of(table) for name, table in tables if table is not None}


def _readable(catalog: Catalog, identifier: Identifier) -> Table | None:
    try:
        return load_or_none(catalog, identifier)
    except Exception as error:  # noqa: BLE001  raised again where it is not of one table
        of_one_table(error)
        return None


def fields_of(table: Table) -> Fields:
    """All columns, in the table's order."""
    uids = {ids[0]: uid for uid, ids in columns_of(table.properties).items()}
    return tuple(
        LakeField(f.name, str(f.field_type).partition("<")[0], f.required, uids.get(f.field_id))
        for f in table.schema().fields
    )
