"""The difference of a table between two TSOs, from its changes.

A row that exists at both TSOs is changed if it was changed by a commit in between and has other values than before, in
the columns of the later TSO. A column that was added has its default in earlier rows. A value from before a conversion
of its column is not known: it is NULL, and its row counts as changed if a commit changed it. A change that was undone
is not counted, nor is a row that only a statement changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.changes import layout

SENT: Final = "sent"
"""Whether the old values of an update were sent."""
CHANGE: Final = "change"
ADDED, CHANGED, REMOVED = "added", "changed", "removed"

_Bools = npt.NDArray[np.bool_]


def now_name(uid: int) -> str:
    """The name of a column's new values in a table of changes."""
    return f"now.{uid}"


def old_name(uid: int) -> str:
    """The name of a column's old values in a table of changes."""
    return f"old.{uid}"


class _Unknown:
    """The value of older rows after a conversion of their column."""


CONVERTED: Final = _Unknown()


@dataclass(frozen=True, slots=True)
class ComparedColumn:
    """A column at the later TSO. `steps` are the statements that gave it a value in older rows: their TSO and the
    value, or CONVERTED."""

    uid: int
    name: str
    type: pa.DataType
    steps: tuple[tuple[int, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class TsoRange:
    """The TSOs to compare: rows at `after` with rows at `until`.

    All rows were removed at each TSO of `emptied`, which are ascending and in `(after, until]`. Without rows at `until`
    (the table was dropped) `is_over` is true. If `is_upsert` is true, a change with the operation I may also be an
    update. If `is_back` is true, there were no rows at the earlier TSO (the table was dropped and came back since), and
    `after` is before all changes.
    """

    after: int
    until: int
    emptied: tuple[int, ...] = ()
    is_over: bool = False
    is_upsert: bool = False
    is_back: bool = False

    @property
    def first_until(self) -> int:
        """The TSO up to which the first change of a key shows whether its row existed at `after`."""
        return self.emptied[0] if self.emptied else self.until

    @property
    def last_after(self) -> int:
        """The TSO after which the last change of a key shows whether its row exists at `until`."""
        if self.is_over:
            return self.until
        return self.emptied[-1] if self.emptied else self.after


@dataclass(slots=True)
class Changes:
    """The changes of a table that are needed to compare it, added batch by batch.

    A batch has the system columns, SENT, and for each column its new and old values. Of each key three changes are
    kept: the last one up to `after`, the first one of the range, and the last one of the range.
    """

    range: TsoRange
    key: tuple[int, ...]
    columns: tuple[ComparedColumn, ...]
    _held: list[pa.Table] = field(default_factory=list)
    _folded_rows: int = 0
    _new_rows: int = 0
    fold_rows: int = 1 << 17

    def add(self, batch: pa.Table) -> None:
        """Add changes in any order; those that the comparison does not need are left out."""
        kept = batch.filter(pa.array(self._is_needed(batch.column(layout.COMMIT_TS).to_numpy())))
        self._held.append(kept)
        self._new_rows += len(kept)
        if self._new_rows >= max(self._folded_rows, self.fold_rows):
            self.fold()

    @property
    def held_bytes(self) -> int:
        """The memory that the changes take."""
        return sum(int(table.nbytes) for table in self._held)

    @property
    def _key_names(self) -> list[str]:
        return [now_name(uid) for uid in self.key]

    def _is_needed(self, commit_ts: npt.NDArray[np.int64]) -> _Bools:
        first = commit_ts <= self.range.first_until
        last = (commit_ts > self.range.last_after) & (commit_ts <= self.range.until)
        needed: _Bools = first | last
        return needed

    def _sorted(self) -> pa.Table:
        rows = pa.concat_tables(self._held).combine_chunks()
        return rows.sort_by([(layout.COMMIT_TS, "ascending"), (layout.SEQ, "ascending")])

    def fold(self) -> pa.Table:
        """Keep only the needed changes of each key. Returns them by key, as `_groups` does."""
        rows = self._sorted()
        groups = self._groups(rows)
        places = [groups.column(name).drop_null().to_numpy() for name in ("first_min", "base_max", "last_max")]
        kept = np.unique(np.concatenate(places)).astype(np.int64)
        self._held = [rows.take(pa.array(kept))]
        self._folded_rows, self._new_rows = len(kept), 0
        return groups

    def _groups(self, rows: pa.Table) -> pa.Table:
        """By key, the places of its first and last change in the range, and of its last one before."""
        commit_ts = rows.column(layout.COMMIT_TS).to_numpy()
        places = np.arange(len(rows))
        of = self.range
        in_first = (commit_ts > of.after) & (commit_ts <= of.first_until)
        in_last = (commit_ts > of.last_after) & (commit_ts <= of.until)
        named = {
            "first": pa.array(places, mask=~in_first),
            "base": pa.array(places, mask=commit_ts > of.after),
            "last": pa.array(places, mask=~in_last),
        }
        keys = {name: rows.column(name) for name in self._key_names}
        wanted = [("first", "min"), ("base", "max"), ("last", "max")]
        return pa.table({**keys, **named}).group_by(list(keys), use_threads=False).aggregate(wanted)

    # -- the result ----------------------------------------------------------------------------------------------------

    def keys_without_old_values(self) -> list[pa.ChunkedArray]:
        """The keys whose first change in the range does not have the old values of its row, or may not have them; one
        array for each key column, none without such keys."""
        if not self._held:
            return []
        self.fold()
        rows = self._sorted()
        groups = self._groups(rows)
        first = groups.column("first_min")
        op = rows.column(layout.OP).take(first)
        may_be_update = pc.not_equal(op, "D") if self.range.is_upsert else pc.is_in(op, pa.array(["U", "R"]))
        without = pc.and_(
            pc.fill_null(may_be_update, False), pc.invert(pc.fill_null(rows.column(SENT).take(first), True))
        )
        found = groups.filter(without)
        return [found.column(name) for name in self._key_names] if len(found) else []

    def differences(self) -> pa.Table:
        """One row for each key that differs, in the order of the keys: CHANGE, and the columns `old` and `new`, structs
        of the compared columns. `old` is NULL for added rows and where it is not known, `new` for removed ones."""
        if not self._held:
            return self._nothing()
        self.fold()
        rows = self._sorted()
        groups = self._groups(rows)
        first, base, last = (groups.column(name).combine_chunks() for name in ("first_min", "base_max", "last_max"))
        op = rows.column(layout.OP).combine_chunks()
        first_op, base_op, last_op = (op.take(places) for places in (first, base, last))
        base_lives = pc.fill_null(pc.not_equal(base_op, "D"), False)
        is_new = pc.is_in(first_op, value_set=pa.array(["I", "R"]))
        exists_before = pc.or_(pc.and_not(first_op.is_valid(), is_new), base_lives)
        exists_before = pc.and_(exists_before, not self.range.is_back)
        exists = pc.fill_null(pc.not_equal(last_op, "D"), False)
        from_old = pc.and_(pc.equal(first_op, "U"), rows.column(SENT).combine_chunks().take(first))
        from_old = pc.fill_null(from_old, False)
        deleted = pc.fill_null(pc.equal(first_op, "D"), False)
        nowhere = pa.scalar(None, first.type)
        source = pc.if_else(pc.or_(from_old, deleted), first, pc.if_else(base_lives, base, nowhere))
        source = pc.if_else(exists_before, source, nowhere)
        versions = rows.column(layout.TABLE_VERSION).combine_chunks()
        version, last_version = versions.take(source), versions.take(last)
        old, new, same = {}, {}, [pc.is_valid(source)]
        for column in self.columns:
            before, now = (rows.column(name(column.uid)).combine_chunks() for name in (old_name, now_name))
            was = pc.if_else(from_old, before.take(source), now.take(source))
            was, was_known = after_steps(was, version, column)
            is_now, is_known = after_steps(now.take(last), last_version, column)
            old[column.name], new[column.name] = was, is_now
            same.append(reduce(pc.and_, (was_known, is_known, _equal(was, is_now))))
        change = pc.if_else(
            exists,
            pc.if_else(exists_before, pc.if_else(reduce(pc.and_, same), None, CHANGED), ADDED),
            pc.if_else(exists_before, pa.scalar(REMOVED), pa.scalar(None, pa.string())),
        )
        found = pa.table({
            CHANGE: change,
            "old": pa.StructArray.from_arrays(list(old.values()), list(old), mask=pc.is_null(source)),
            "new": pa.StructArray.from_arrays(list(new.values()), list(new), mask=pc.invert(exists)),
            **{name: groups.column(name) for name in self._key_names},
        })  # fmt: skip
        found = found.filter(pc.is_valid(found.column(CHANGE)))
        return found.sort_by([(name, "ascending") for name in self._key_names])

    def _nothing(self) -> pa.Table:
        return pa.table({CHANGE: pa.array([], pa.string())})


def after_steps(values: pa.Array, version: pa.Array, column: ComparedColumn) -> tuple[pa.Array, pa.Array]:
    """Values of these versions after the statements on their column, and which of them are known."""
    known = pa.array(np.ones(len(values), np.bool_))
    for from_ts, value in column.steps:
        older = pc.fill_null(pc.less(version, from_ts), False)
        converted = value is CONVERTED
        known = pc.if_else(older, not converted, known)
        filled = pa.scalar(None if converted else value, column.type).cast(values.type)
        values = pc.if_else(older, filled, values)
    return values, known


def _equal(one: pa.Array, other: pa.Array) -> pa.Array:
    if pa.types.is_nested(one.type):
        return pa.array([a == b for a, b in zip(one.to_pylist(), other.to_pylist(), strict=True)], pa.bool_())
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.or_(both_null, pc.fill_null(pc.equal(one, other), False))


def counts(found: pa.Table) -> Mapping[str, int]:
    """The number of rows of each kind."""
    counted = pc.value_counts(found.column(CHANGE)).to_pylist()
    return {row["values"]: row["counts"] for row in counted}
