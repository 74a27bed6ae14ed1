"""Converts decoded rows to changelog rows in Arrow, in the same way for all protocols.

The input is the `RawRows` of one source table and schema version. The output is a table with one row per change: the
system columns, `_ticdc_before` and the columns of the version. docs/tables.md lists the types. An update that changes a
column of a handle key or unique key becomes DELETE + INSERT, which TiCDC also does unless output-raw-change-event is
set. So every change has one key, and the changelog does not depend on that option.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.changes import layout, order
from ticdc_assets.protocols.values import text_columns
from ticdc_assets.protocols.values.ambiguous_times import count
from ticdc_assets.protocols.values.text import DATE_KINDS
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.tso import LOGICAL_BITS

if TYPE_CHECKING:
    from ticdc_assets.protocols.columnar.raw_rows import RawRows
    from ticdc_assets.protocols.values.text import TextForms
    from ticdc_assets.schema.model import Column


@dataclass(frozen=True, slots=True)
class TypedChanges:
    """Changes of one schema version.

    `now` and `before` hold the new and old values, one array per column of `columns`. `has_before` marks the rows whose
    old values were sent. `half` is 1 for the second change of a split update. `zero_dates` is the number of dates that
    became NULL, `ambiguous_times` the number of new TIMESTAMPs whose wall time occurs twice.
    """

    columns: tuple[Column, ...]
    op: pa.Array
    commit_ts: pa.Array
    commit_ms: pa.Array
    line: pa.Array
    half: pa.Array
    now: tuple[pa.Array, ...]
    before: tuple[pa.Array, ...]
    has_before: pa.Array
    zero_dates: int
    ambiguous_times: int = 0

    def __len__(self) -> int:
        return len(self.op)

    def take(self, rows: pa.Array) -> TypedChanges:
        """The rows at these indices, in the given order."""
        op, commit_ts, commit_ms, line, half = (
            array.take(rows) for array in (self.op, self.commit_ts, self.commit_ms, self.line, self.half)
        )
        return TypedChanges(
            self.columns,
            op,
            commit_ts,
            commit_ms,
            line,
            half,
            tuple(array.take(rows) for array in self.now),
            tuple(array.take(rows) for array in self.before),
            self.has_before.take(rows),
            self.zero_dates,
            self.ambiguous_times,
        )


def concat(parts: Sequence[TypedChanges]) -> TypedChanges:
    """Concatenates changes of one schema version."""
    if len(parts) == 1:
        return parts[0]
    columns = range(len(parts[0].columns))
    return TypedChanges(
        columns=parts[0].columns,
        op=pa.concat_arrays([part.op for part in parts]),
        commit_ts=pa.concat_arrays([part.commit_ts for part in parts]),
        commit_ms=pa.concat_arrays([part.commit_ms for part in parts]),
        line=pa.concat_arrays([part.line for part in parts]),
        half=pa.concat_arrays([part.half for part in parts]),
        now=tuple(pa.concat_arrays([part.now[n] for part in parts]) for n in columns),
        before=tuple(pa.concat_arrays([part.before[n] for part in parts]) for n in columns),
        has_before=pa.concat_arrays([part.has_before for part in parts]),
        zero_dates=sum(part.zero_dates for part in parts),
        ambiguous_times=sum(part.ambiguous_times for part in parts),
    )


def typed(raw: RawRows, columns: Sequence[Column], unique: Sequence[str], forms: TextForms) -> TypedChanges:
    """Casts raw rows to the types of `columns`; a column that the rows do not have is NULL.

    Args:
        raw: rows of one schema version; `raw.columns` names their columns.
        columns: the columns of the version.
        unique: the columns of the handle key and of all unique keys.
        forms: how the protocol writes values.

    Raises:
        DecodeError: a value does not fit the type of its column; no row of the batch can be used then.
    """
    where = {name: number for number, name in enumerate(raw.columns)}
    now, before = _cast_both(raw, where, columns, forms)
    changes = TypedChanges(
        tuple(columns),
        raw.op.cast(pa.string()),
        raw.commit_ts,
        raw.commit_ms,
        raw.line,
        pa.array(np.zeros(len(raw), np.int64)),
        now,
        before,
        raw.has_before if raw.has_before is not None else pa.array(np.zeros(len(raw), np.bool_)),
        _zero_dates(raw.wire, now, where, columns),
        _ambiguous_times(raw.wire, now, where, columns, forms.zone),
    )
    return split_key_moves(changes, unique)


_FEW_ROWS_MAX: Final = 1000
"""Up to this number of rows, the cost of a cast does not depend on the number of rows."""

_Images = tuple[pa.Array, ...]


def _cast_both(
    raw: RawRows, where: dict[str, int], columns: Sequence[Column], forms: TextForms
) -> tuple[_Images, _Images]:
    """The new and the old values; for few rows both are cast together, which halves the number of casts."""
    count = len(raw)
    before = raw.before if raw.has_before is not None and pc.any(raw.has_before).as_py() else None
    if before is None or count > _FEW_ROWS_MAX or [a.type for a in raw.wire] != [a.type for a in before]:
        return _cast(raw.wire, where, columns, forms, count), _cast(before, where, columns, forms, count)
    texts = tuple(pa.concat_arrays(images) for images in zip(raw.wire, before, strict=True))
    both = _cast(texts, where, columns, forms, 2 * count)
    return tuple(array.slice(0, count) for array in both), tuple(array.slice(count) for array in both)


def _cast(
    texts: tuple[pa.Array, ...] | None,
    where: dict[str, int],
    columns: Sequence[Column],
    forms: TextForms,
    length: int,
) -> tuple[pa.Array, ...]:
    arrays = []
    for column in columns:
        number = where.get(column.name)
        if texts is None or number is None:
            arrays.append(pa.nulls(length, arrow_type(column.type)))
        else:
            arrays.append(text_columns.column(column.type, texts[number], forms))
    return tuple(arrays)


def _zero_dates(texts: _Images, now: _Images, where: dict[str, int], columns: Sequence[Column]) -> int:
    """The number of zero dates that were sent and became NULL."""
    sent = ((values, where.get(c.name)) for c, values in zip(columns, now, strict=True) if c.type.kind in DATE_KINDS)
    return sum(values.null_count - texts[place].null_count for values, place in sent if place is not None)


def _ambiguous_times(texts: _Images, now: _Images, where: dict[str, int], columns: Sequence[Column], zone: str) -> int:
    """The number of TIMESTAMPs whose wall time occurs twice; each was read as the first of the two times."""
    sent = ((column, where.get(column.name), values) for column, values in zip(columns, now, strict=True))
    return sum(count(column, texts[place], values, zone) for column, place, values in sent if place is not None)


def split_key_moves(changes: TypedChanges, unique: Sequence[str]) -> TypedChanges:
    """Splits each update that changes a column of `unique` into DELETE and INSERT, in this order, on the same line."""
    moved = _moved(changes, unique)
    if not moved.any():
        return changes
    rows = np.repeat(np.arange(len(changes)), np.where(moved, 2, 1))
    second = np.concatenate(([False], rows[1:] == rows[:-1]))
    first = np.concatenate((rows[1:] == rows[:-1], [False]))
    wide = changes.take(pa.array(rows))
    op = np.array(wide.op.to_numpy(zero_copy_only=False), dtype=object)
    op[first], op[second] = "D", "I"
    is_first = pa.array(first)
    nulled = pc.and_(wide.has_before, pa.array(~(first | second)))
    return TypedChanges(
        wide.columns,
        pa.array(op, pa.string()),
        wide.commit_ts,
        wide.commit_ms,
        wide.line,
        pa.array(second.astype(np.int64)),
        tuple(pc.if_else(is_first, b, n) for n, b in zip(wide.now, wide.before, strict=True)),
        wide.before,
        nulled,
        wide.zero_dates,
        wide.ambiguous_times,
    )


def _moved(changes: TypedChanges, unique: Sequence[str]) -> np.ndarray:
    moved = np.zeros(len(changes), np.bool_)
    if not unique or not pc.any(changes.has_before).as_py():
        return moved
    updates = pc.and_(changes.has_before, pc.equal(changes.op, "U")).to_numpy(zero_copy_only=False)
    for column, now, before in zip(changes.columns, changes.now, changes.before, strict=True):
        if column.name in unique:
            differs = _differs(now, before)
            moved |= updates & differs
    return moved


def _differs(now: pa.Array, before: pa.Array) -> np.ndarray:
    one_null = pc.not_equal(pc.is_null(now), pc.is_null(before))
    either = pc.or_(one_null, pc.fill_null(pc.not_equal(now, before), False))
    return np.asarray(either.to_numpy(zero_copy_only=False))


def changelog_table(changes: TypedChanges, seq: pa.Array, version_ts: int, schema: pa.Schema) -> pa.Table:
    """The rows in the layout of a changelog's data file.

    Args:
        changes: n changes of one version.
        seq: int64 of length n, `_ticdc_seq` of each change.
        version_ts: the TSO of the version.
        schema: the names, types and field ids of the columns.
    """
    before_type = schema.field(layout.BEFORE).type
    now = [_as(array, schema.field(6 + n).type) for n, array in enumerate(changes.now)]
    before = [_as(array, before_type.field(n).type) for n, array in enumerate(changes.before)]
    struct = _struct(before, before_type, pc.invert(changes.has_before), len(changes))
    version = pa.array(np.full(len(changes), version_ts, np.int64))
    arrays = [changes.op, changes.commit_ts, commit_time(changes), seq, version, struct, *now]
    return pa.Table.from_arrays(arrays, schema=schema)


def _struct(arrays: list[pa.Array], struct_type: pa.StructType, mask: pa.Array, length: int) -> pa.Array:
    if pc.all(mask).as_py():
        return pa.nulls(length, struct_type)
    return pa.StructArray.from_arrays(arrays, fields=list(struct_type), mask=mask)


def _as(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    # Equal types may still differ in field metadata inside lists. Promotions (int -> long) lose nothing.
    return array if array.type == wanted and not pa.types.is_nested(wanted) else array.cast(wanted)


def commit_time(changes: TypedChanges) -> pa.Array:
    """The commit time of each change: from commit_ts, else from commit_ms, else NULL."""
    from_ts = pc.shift_right(changes.commit_ts, LOGICAL_BITS)
    ms = pc.coalesce(from_ts, changes.commit_ms)
    return ms.cast(pa.timestamp("ms")).cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))


def seq_of(changes: TypedChanges, file_ordinal: int | order.Ints, by_arrival: bool = False) -> pa.Array:
    """`_ticdc_seq` of each change: within its commit_ts, or by arrival if `by_arrival` or a commit_ts is missing.

    `file_ordinal` is that of the file of all changes, or one for each change.
    """
    line, half = _ints(changes.line), _ints(changes.half)
    if by_arrival or changes.commit_ts.null_count:
        return pa.array(order.arrival(file_ordinal, line, half))
    is_delete = pc.equal(changes.op, "D").to_numpy(zero_copy_only=False)
    return pa.array(order.within_commit(file_ordinal, line, half, is_delete))


def _ints(array: pa.Array) -> order.Ints:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.int64)
