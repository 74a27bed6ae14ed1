"""The SQL that changes a mirror: newest change per key, merge, fills, conversions, partition deletes.

Every identifier goes through `names.quote`, every value through `literal` of
`ticdc_assets/tables/conversion/literals.py`; nothing else is put into a statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ticdc_assets.changes import layout
from ticdc_assets.changes.layout import LakeColumn
from ticdc_assets.names import quote
from ticdc_assets.tables.conversion.literals import spark_type


def newest_per_key(
    changelog: str, commit_range: str, names: Mapping[str, LakeColumn], key: Sequence[str], by_arrival: bool = False
) -> str:
    """A query for the newest change of every key: `names` maps changelog column names to the mirror's columns."""
    selected = ", ".join(
        f"CAST({quote(source)} AS {spark_type(column.type)}) AS {quote(column.name)}"
        for source, column in names.items()
    )
    order = f"{quote(layout.SEQ)} DESC" if by_arrival else f"{quote(layout.COMMIT_TS)} DESC, {quote(layout.SEQ)} DESC"
    partition = ", ".join(quote(source) for source, column in names.items() if column.name in key)
    system = f"{quote(layout.OP)}, {quote(layout.COMMIT_TS)}"
    return (
        f"SELECT {selected}, {system} FROM (SELECT *, row_number() OVER (PARTITION BY {partition} ORDER BY {order}) "
        f"AS _ticdc_rank FROM {changelog} WHERE {commit_range}) WHERE _ticdc_rank = 1"
    )


def commit_range(low: int, high: int, by_arrival: bool, version_ts: int) -> str:
    """The rows of one segment: by commit_ts in (low, high], or of one version by arrival in (low, high]."""
    column = quote(layout.SEQ if by_arrival else layout.COMMIT_TS)
    # Version and commit_ts agree, except by arrival, where only the version determines the segment.
    version = f" AND {quote(layout.TABLE_VERSION)} = {version_ts}" if by_arrival else ""
    return f"{column} > {low} AND {column} <= {high}{version}"


def insert(target: str, source: str, columns: Sequence[LakeColumn]) -> str:
    """The INSERT of rows into an empty mirror."""
    names = ", ".join(quote(name) for name in (*[c.name for c in columns], layout.COMMIT_TS))
    return f"INSERT INTO {target} ({names}) SELECT {names} FROM ({source}) WHERE {quote(layout.OP)} <> 'D'"


def insert_multiset(target: str, changelog: str, commit_range: str, names: Mapping[str, LakeColumn]) -> str:
    """The final rows of a table without a key: inserted rows minus deleted rows, compared as whole rows."""
    listed = ", ".join(quote(c.name) for c in names.values())
    now = ", ".join(f"{quote(s)} AS {quote(c.name)}" for s, c in names.items())
    old = ", ".join(f"{quote(layout.BEFORE)}.{quote(s)} AS {quote(c.name)}" for s, c in names.items())
    ts, op = quote(layout.COMMIT_TS), quote(layout.OP)
    signed = (
        f"SELECT {now}, {ts}, CASE WHEN {op} = 'D' THEN -1 ELSE 1 END AS _ticdc_sign FROM {changelog} "
        f"WHERE {commit_range} UNION ALL SELECT {old}, {ts}, -1 FROM {changelog} WHERE {commit_range} AND {op} = 'U'"
    )
    return (
        f"INSERT INTO {target} ({listed}, {ts}) SELECT {listed}, max({ts}) FROM ({signed}) "
        f"GROUP BY {listed} HAVING sum(_ticdc_sign) > 0"
    )


def updates_without_before(changelog: str, commit_range: str) -> str:
    """Whether any update lacks its old values, so that whole rows cannot be counted."""
    op, before = quote(layout.OP), quote(layout.BEFORE)
    return f"SELECT 1 FROM {changelog} WHERE {commit_range} AND {op} = 'U' AND {before} IS NULL LIMIT 1"


def merge_statement(target: str, source: str, columns: Sequence[LakeColumn], key: Sequence[str]) -> str:
    """The MERGE of the newest change of every key into a mirror."""
    names = [*[c.name for c in columns], layout.COMMIT_TS]
    on = " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in key)
    sets = ", ".join(f"t.{quote(name)} = s.{quote(name)}" for name in names)
    listed = ", ".join(quote(name) for name in names)
    values = ", ".join(f"s.{quote(name)}" for name in names)
    op = f"s.{quote(layout.OP)}"
    return (
        f"MERGE INTO {target} t USING ({source}) s ON {on} "
        f"WHEN MATCHED AND {op} = 'D' THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED AND {op} <> 'D' THEN INSERT ({listed}) VALUES ({values})"
    )


def update(target: str, assignments: Mapping[str, str]) -> str:
    """The UPDATE that sets columns of every row; the values are SQL expressions."""
    sets = ", ".join(f"{quote(name)} = {expression}" for name, expression in assignments.items())
    return f"UPDATE {target} SET {sets}"


def any_row(source: str, condition: str) -> str:
    """Whether a row meets the condition."""
    return f"SELECT 1 FROM {source} WHERE {condition} LIMIT 1"
