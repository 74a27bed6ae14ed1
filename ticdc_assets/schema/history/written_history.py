"""The part of a source table's history on which written rows depend, as the changelog stores it.

A statement may arrive after rows above its TSO were written. The history then differs from the one that these rows were
written with. The difference shows which rows have other columns, or belong to another source table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from ticdc_assets.names.folding import fold
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.evolution.schema_state import (
    ConvertColumn,
    DeletePartitions,
    Effect,
    ExchangedRows,
    FillColumn,
    KeyChanged,
)
from ticdc_assets.schema.history.source_table import NamePeriod, SourceTable, Version, fold_name
from ticdc_assets.schema.model import Column, TableSchema

WrittenName = tuple[str, str, int, int | None]
"""Schema and table without regard to case, for rows with a commit_ts above the first TSO, up to the second one."""

INFERRED: Final = ""
"""Instead of a digest where the columns are inferred from rows: each row is written with its own."""


@dataclass(frozen=True, slots=True)
class WrittenHistory:
    """The names of a source table, the columns of its versions as digests (`INFERRED` for none), and the first name of
    each column by its uid."""

    names: tuple[WrittenName, ...]
    versions: tuple[tuple[int, str], ...]
    columns: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, source_table: SourceTable) -> WrittenHistory:
        """The history as it is known now."""
        columns: dict[int, str] = {}
        for version in source_table.versions:
            for column in version.table.stored_columns:
                columns.setdefault(column.uid, fold(column.name))
        periods, dropped_ts = source_table.name_periods, source_table.dropped_ts
        return cls(
            tuple(_name(period, dropped_ts) for period in periods),
            tuple((version.from_ts, _columns_digest(version.table)) for version in source_table.versions),
            tuple(sorted(columns.items())),
        )

    def to_json(self) -> str:
        """The text that the changelog keeps as a property."""
        whole = {"names": self.names, "versions": self.versions, "columns": self.columns}
        return json.dumps(whole, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> WrittenHistory:
        """Read the text of `to_json`."""
        whole = json.loads(text)
        return cls(
            tuple((schema, table, after_ts, until_ts) for schema, table, after_ts, until_ts in whole["names"]),
            tuple((from_ts, digest) for from_ts, digest in whole["versions"]),
            tuple((uid, name) for uid, name in whole["columns"]),
        )

    @property
    def digest(self) -> str:
        """A digest of the history."""
        return _digest([self.to_json()])

    # -- compared with the current history --------------------------------------------------------------------------

    def other_columns_after(self, now: WrittenHistory) -> int | None:
        """The first TSO above which rows have other columns now; None where there is none."""
        starts = sorted({from_ts for from_ts, _ in (*self.versions, *now.versions)})
        return next((ts for ts in starts if _differ(_at(self.versions, ts), _at(now.versions, ts))), None)

    def has_renumbered_columns(self, now: WrittenHistory) -> bool:
        """Whether a uid is that of another column now."""
        known = dict(now.columns)
        return any(known.get(uid, name) != name for uid, name in self.columns)

    def names_lost(self, now: WrittenHistory) -> tuple[WrittenName, ...]:
        """The names that the source table no longer has; their rows belong to another source table."""
        return tuple(_without(self.names, now.names))

    def names_gained(self, now: WrittenHistory) -> tuple[WrittenName, ...]:
        """The names that the source table has only in the current history."""
        return tuple(_without(now.names, self.names))


def effects_digest(source_table: SourceTable, upto_ts: int) -> str:
    """A digest of what the statements up to a TSO did to rows and columns, without versions inferred from rows."""
    declared = (v for v in source_table.versions if v.from_ts <= upto_ts and not v.table.inferred)
    return _digest(_did(version) for version in declared)


def _did(version: Version) -> str:
    names = ",".join(f"{column.uid} {fold(column.name)}" for column in version.table.stored_columns)
    return "|".join([str(version.from_ts), names, *map(_effect, version.effects)])


def _effect(effect: Effect) -> str:
    kind = type(effect).__name__
    match effect:
        case FillColumn(uid=uid, value=value):
            return f"{kind} {uid} {value.value!r} {value.expression!r}"
        case ConvertColumn(old_uid=old, new_uid=new, old_type=before, new_type=after):
            return f"{kind} {old} {new} {before.kind} {after.kind}"
        case DeletePartitions(partitions=partitions):
            return f"{kind} {','.join(rows.partition for rows in partitions)}"
        case ExchangedRows(partitioned=partitioned, table=table, rows=rows):
            return f"{kind} {partitioned} {table} {rows.partition}"
        case KeyChanged():
            return kind
    return kind


def _columns_digest(table: TableSchema) -> str:
    # Without indexes: ADD UNIQUE INDEX changes a version in place, and no row has other values for it.
    return INFERRED if table.inferred else _digest(map(_column, table.stored_columns))


def _column(column: Column) -> str:
    labels = "" if column.type.elements is None else repr(column.type.elements)
    return f"{column.uid} {fold(column.name)} {arrow_type(column.type)} {labels}"


def _digest(texts: Iterable[str]) -> str:
    return blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()


def _at(versions: Sequence[tuple[int, str]], ts: int) -> str:
    """The digest of the version of rows right above `ts`; the first version's before that."""
    return next((digest for from_ts, digest in reversed(versions) if from_ts <= ts), versions[0][1])


def _differ(one: str, other: str) -> bool:
    return INFERRED not in (one, other) and one != other


def _name(period: NamePeriod, dropped_ts: int | None) -> WrittenName:
    name = fold_name(period.schema, period.table)
    return (*name, period.after_ts, period.until_ts if period.until_ts is not None else dropped_ts)


def _without(names: Sequence[WrittenName], others: Sequence[WrittenName]) -> Iterator[WrittenName]:
    """The parts of `names` that are in none of `others`."""
    for schema, table, after_ts, until_ts in names:
        left = [(after_ts, until_ts)]
        for their_schema, their_table, low, high in others:
            if (their_schema, their_table) == (schema, table):
                left = [part for one in left for part in _outside(one, low, high)]
        yield from ((schema, table, low, high) for low, high in left)


def _outside(part: tuple[int, int | None], low: int, high: int | None) -> Iterator[tuple[int, int | None]]:
    """The parts outside of `(low, high]`."""
    after_ts, until_ts = part
    first = low if until_ts is None else min(until_ts, low)
    if after_ts < first:
        yield after_ts, first
    if high is not None and (until_ts is None or high < until_ts):
        yield max(after_ts, high), until_ts
