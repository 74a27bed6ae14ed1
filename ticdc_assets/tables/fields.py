"""A managed table's columns as Iceberg has them, each with the source column that it holds.

A table may differ from its history: a column that left the key may still be required, added columns are after the
columns of this project, and a held table has the columns that it had before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.types import NestedField, StructType

from ticdc_assets.faults import of_one_table
from ticdc_assets.tables.catalog import Identifier, load_or_none
from ticdc_assets.tables.iceberg.commits import COMMITS_AT_ONCE
from ticdc_assets.tables.progress import field_ids_by_uid


@dataclass(frozen=True, slots=True)
class LakeField:
    """A column of a table; `uid` is None for a column that this project adds. `type` is Iceberg's; for a struct it
    is only the word, and `fields` are its members."""

    name: str
    type: str
    required: bool
    uid: int | None
    fields: tuple[LakeField, ...] = ()


@dataclass(frozen=True, slots=True)
class LakeTable:
    """The columns of a table, and its number of rows without deletes; None where its snapshot does not have it."""

    fields: tuple[LakeField, ...]
    rows: int | None


def lake_tables(catalog: Catalog, identifiers: Iterable[Identifier]) -> dict[Identifier, LakeTable]:
    """The tables that exist and can be read."""
    wanted = list(identifiers)
    with ThreadPoolExecutor(COMMITS_AT_ONCE) as pool:
        tables = zip(wanted, pool.map(lambda name: _readable(catalog, name), wanted), strict=True)
        return {name: LakeTable(fields_of(table), _rows(table)) for name, table in tables if table is not None}


def _rows(table: Table) -> int | None:
    snapshot = table.current_snapshot()
    if snapshot is None:
        return 0
    total = snapshot.summary.get("total-records") if snapshot.summary else None
    return None if total is None else int(total)


def _readable(catalog: Catalog, identifier: Identifier) -> Table | None:
    try:
        return load_or_none(catalog, identifier)
    except Exception as error:  # noqa: BLE001  raised again where it is not of one table
        of_one_table(error)
        return None


def fields_of(table: Table) -> tuple[LakeField, ...]:
    """All columns, in the table's order."""
    uids = {id_: uid for uid, ids in field_ids_by_uid(table.properties).items() for id_ in ids}
    return tuple(_field(field, uids) for field in table.schema().fields)


def _field(field: NestedField, uids: Mapping[int, int]) -> LakeField:
    of = field.field_type
    members = tuple(_field(member, uids) for member in of.fields) if isinstance(of, StructType) else ()
    return LakeField(field.name, str(of).partition("<")[0], field.required, uids.get(field.field_id), members)
