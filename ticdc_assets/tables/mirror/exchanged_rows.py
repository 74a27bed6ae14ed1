"""The rows that an EXCHANGE PARTITION moved, as SQL over mirrors and changelogs.

In a changelog they are D and I at the statement's commit_ts, after all other changes of that commit_ts: a D for each
row that left, then an I for each row that arrived. The commit that adds
them (there may be none) adds the statement's TSO to a property of the changelog.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.table import Table

from ticdc_assets.changes import layout
from ticdc_assets.names import quote
from ticdc_assets.schema.evolution.schema_state import ExchangedRows
from ticdc_assets.tables.conversion.literals import literal
from ticdc_assets.tables.progress import field_ids_by_uid

if TYPE_CHECKING:
    from ticdc_assets.schema.history.source_table import Version

EXCHANGED: Final = "ticdc.exchanged"
WENT_SEQ: Final = (1 << 63) - 2
CAME_SEQ: Final = (1 << 63) - 1
"""Larger than the seq of any change from a file, so that these are the last changes of their commit_ts."""


def rows_that_came(source: str, changelog: Table, ts: int, columns: Mapping[str, int]) -> str:
    """A query for the rows that arrived, with a mirror's columns: `columns` maps its names to uids."""
    places = field_ids_by_uid(changelog.properties)
    names = [changelog.schema().find_field(places[uid][0]).name for uid in columns.values()]
    listed = ", ".join(f"{quote(here)} AS {quote(there)}" for here, there in zip(names, columns, strict=True))
    return f"SELECT {listed}, {quote(layout.COMMIT_TS)} FROM {source} WHERE {_moved(ts)} AND {_op()} = 'I'"


def moved_rows(went: str, went_where: str, came: str, came_where: str, names: Sequence[tuple[str, str]]) -> str:
    """A query for the changes of one table, from both mirrors.

    Args:
        went, went_where: the mirror whose rows left the table, and the condition of these rows.
        came, came_where: the mirror whose rows arrived in the table, and the condition of these rows.
        names: for each column, its names in `went` and in `came`.
    """
    return (
        f"{_changes('D', WENT_SEQ, went, went_where, [own for own, _ in names])} "
        f"UNION ALL {_changes('I', CAME_SEQ, came, came_where, [other for _, other in names])}"
    )


def _changes(op: str, seq: int, source: str, where: str, names: Sequence[str]) -> str:
    listed = ", ".join(f"{quote(name)} AS c{number}" for number, name in enumerate(names))
    fixed = f"{literal(op, pa.string())} AS op, CAST({seq} AS bigint) AS seq"
    return f"SELECT {fixed}, {listed} FROM {source} WHERE {where}"


def moved_back(source: str, ts: int, names: Sequence[str]) -> str:
    """A query for the changes of one table, from the other's changelog: a row that left there arrived here."""
    listed = ", ".join(f"{quote(name)} AS c{number}" for number, name in enumerate(names))
    op = f"CASE WHEN {_op()} = 'D' THEN 'I' ELSE 'D' END"
    seq = f"CASE WHEN {_op()} = 'D' THEN CAST({CAME_SEQ} AS bigint) ELSE CAST({WENT_SEQ} AS bigint) END"
    return f"SELECT {op} AS op, {seq} AS seq, {listed} FROM {source} WHERE {_moved(ts)}"


def _moved(ts: int) -> str:
    return f"{quote(layout.COMMIT_TS)} = {ts} AND {quote(layout.SEQ)} >= {WENT_SEQ}"


def _op() -> str:
    return quote(layout.OP)


def exchange_in(version: Version) -> ExchangedRows | None:
    """The EXCHANGE PARTITION at the start of a version; None where there is none."""
    return next((effect for effect in version.effects if isinstance(effect, ExchangedRows)), None)


def is_awaited(version: Version, changelog: Table) -> bool:
    """Whether a version starts with an exchange whose rows the changelog lacks."""
    return exchange_in(version) is not None and version.from_ts not in exchanges_of(changelog)


def exchanges_of(changelog: Table) -> list[int]:
    """The TSOs of the exchanges whose rows the changelog has."""
    return [int(ts) for ts in json.loads(changelog.properties.get(EXCHANGED, "[]"))]


def with_exchange(changelog: Table, ts: int) -> dict[str, str]:
    """The changelog's property with one more exchange."""
    return {EXCHANGED: json.dumps(sorted({*exchanges_of(changelog), ts}))}
