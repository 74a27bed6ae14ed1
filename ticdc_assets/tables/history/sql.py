"""The SQL of history tables: versions of rows from changes, their ends, and the effects of statements.

A row is in the table at the TSOs from VALID_FROM, which is included, to VALID_TO, which is not. A statement applies to
the rows that are valid at its TSO; it takes effect after the changes of its own TSO. So the order of changes and
statements within a run does not matter: versions are made from all changes first, then the statements are applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ticdc_assets.changes.layout import (
    COMMIT_TS,
    IS_CURRENT,
    OP,
    SEQ,
    VALID_FROM,
    VALID_FROM_TIME,
    VALID_TO,
    VALID_TO_TIME,
    VALIDITY_COLUMNS,
)
from ticdc_assets.names import quote
from ticdc_assets.tso import LOGICAL_BITS

_NEXT: Final = "_ticdc_next"
_FIRST: Final = "_ticdc_first"


def changed_keys(changelog: str, condition: str, key: Sequence[str]) -> str:
    """A query for the keys of some changes, each once, with the TSO of the first change."""
    listed = _listed(key)
    return (
        f"SELECT {listed}, min({quote(COMMIT_TS)}) AS {quote(_FIRST)} FROM {changelog} "  # noqa: S608
        f"WHERE {condition} GROUP BY {listed}"
    )


def after(low: int, high: int) -> str:
    """The changes with commit_ts in `(low, high]`, as a condition."""
    return f"{quote(COMMIT_TS)} > {low} AND {quote(COMMIT_TS)} <= {high}"


def insert_versions(
    target: str, changelog: str, condition: str, columns: Sequence[str], key: Sequence[str], only: str | None = None
) -> str:
    """The INSERT of the versions that some changes made, each up to the next change of its key.

    Args:
        condition: the changes; of each key, they are all changes from the first one on.
        only: a query for keys; those of `changed_keys`. Changes of other keys are left out.
    """
    ts, listed = quote(COMMIT_TS), _listed(columns)
    kept = f" LEFT SEMI JOIN ({only}) s ON {_same(key)}" if only is not None else ""
    changes = (
        f"SELECT {listed}, {quote(OP)}, {ts}, lead({ts}) OVER (PARTITION BY {_listed(key)} ORDER BY {ts}, "  # noqa: S608
        f"{quote(SEQ)}) AS {quote(_NEXT)} FROM (SELECT * FROM {changelog} WHERE {condition}) t{kept}"
    )
    validity = f"{ts}, {quote(_NEXT)}, {_time(ts)}, {_time(quote(_NEXT))}, {quote(_NEXT)} IS NULL"
    own = _listed([name for name, _ in VALIDITY_COLUMNS])
    # Of several changes of a key in one commit, the last one makes the row.
    made = f"{quote(OP)} <> 'D' AND ({quote(_NEXT)} IS NULL OR {quote(_NEXT)} > {ts})"
    return f"INSERT INTO {target} ({own}, {listed}) SELECT {validity}, {listed} FROM ({changes}) WHERE {made}"  # noqa: S608


def end_changed(target: str, keys: str, key: Sequence[str]) -> str:
    """The MERGE that ends the current versions of changed keys at their first change."""
    sets = ", ".join(f"t.{quote(name)} = {value}" for name, value in ends(f"s.{quote(_FIRST)}").items())
    on = f"{_same(key)} AND t.{quote(IS_CURRENT)} = true"
    return f"MERGE INTO {target} t USING ({keys}) s ON {on} WHEN MATCHED THEN UPDATE SET {sets}"


def ends(ts: str) -> dict[str, str]:
    """The assignments for a version that ends at a TSO, which is given as an expression."""
    return {VALID_TO: ts, VALID_TO_TIME: _time(ts), IS_CURRENT: "false"}


def delete_all(target: str) -> str:
    """The DELETE of all versions."""
    return f"DELETE FROM {target}"  # noqa: S608


def delete_keys(target: str, keys: str, key: Sequence[str]) -> str:
    """The MERGE that deletes all versions of some keys."""
    return f"MERGE INTO {target} t USING ({keys}) s ON {_same(key)} WHEN MATCHED THEN DELETE"


def change(
    target: str, assignments: Mapping[str, str], ts: int, only: str | None = None, key: Sequence[str] = ()
) -> str:
    """The statement that sets columns of the versions that are valid at a TSO; of the keys `only` where given."""
    if only is None:
        sets = ", ".join(f"{quote(name)} = {value}" for name, value in assignments.items())
        return f"UPDATE {target} SET {sets} WHERE {valid_at(ts)}"  # noqa: S608
    sets = ", ".join(f"t.{quote(name)} = {value}" for name, value in assignments.items())
    on = f"{_same(key)} AND {valid_at(ts, 't.')}"
    return f"MERGE INTO {target} t USING ({only}) s ON {on} WHEN MATCHED THEN UPDATE SET {sets}"


def insert_again(target: str, ts: int, again_ts: int, columns: Sequence[str]) -> str:
    """The INSERT of the versions that are valid at a TSO once more, from a later TSO on."""
    kept = {name: quote(name) for name in (*(name for name, _ in VALIDITY_COLUMNS), *columns)}
    kept |= {VALID_FROM: literal_ts(again_ts), VALID_FROM_TIME: _time(literal_ts(again_ts))}
    values = ", ".join(kept.values())
    return f"INSERT INTO {target} ({_listed(list(kept))}) SELECT {values} FROM {target} WHERE {valid_at(ts)}"  # noqa: S608


def delete_never_valid(target: str, ts: int) -> str:
    """The DELETE of versions that began and ended at a TSO."""
    return f"DELETE FROM {target} WHERE {quote(VALID_FROM)} = {ts} AND {quote(VALID_TO)} = {ts}"  # noqa: S608


def valid_at(ts: int, prefix: str = "") -> str:
    """Whether a version is valid at a TSO, as a condition."""
    began, ended = f"{prefix}{quote(VALID_FROM)}", f"{prefix}{quote(VALID_TO)}"
    return f"{began} <= {ts} AND ({ended} IS NULL OR {ended} > {ts})"


def literal_ts(ts: int) -> str:
    """A TSO as an expression."""
    return f"CAST({ts} AS bigint)"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(quote(name) for name in names)


def _same(key: Sequence[str]) -> str:
    return " AND ".join(f"t.{quote(name)} <=> s.{quote(name)}" for name in key)


def _time(ts: str) -> str:
    return f"timestamp_millis(shiftright({ts}, {LOGICAL_BITS}))"
