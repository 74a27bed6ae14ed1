"""Converts decoded rows to changelog rows in Arrow, in the same way for all protocols.

The input is the `RawRows` of one source table and schema version. The output is a table with one row per change: the
system columns, `_ticdc_before` and the columns of the version. docs/tables.md lists the types. An update that changes a
column of a handle key or unique key becomes DELETE + INSERT, which TiCDC also does unless output-raw-change-event is
set. So every change has one key, and the changelog does not depend on that option.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.changes import layout
from ticdc_assets.protocols.values import text_columns
from ticdc_assets.protocols.values.ambiguous_times import count_ambiguous, is_ambiguous
from ticdc_assets.protocols.values.text import DATE_KINDS
from ticdc_assets.schema.arrow_types import BINARY_KINDS, CHARACTER_KINDS, arrow_type
from ticdc_assets.schema.model import Column, Kind
from ticdc_assets.tso import LOGICAL_BITS

if TYPE_CHECKING:
    from ticdc_assets.protocols.columnar.raw_rows import RawRows
    from ticdc_assets.protocols.values.text import TextForms

Ints = npt.NDArray[np.int64]

_FEW_ROWS_MAX: Final = 1000
"""Up to this number of rows, the cost of a cast does not depend on the number of rows."""
_WRITTEN_AS_TEXT: Final = CHARACTER_KINDS | BINARY_KINDS | {Kind.ENUM, Kind.SET}
_HALF_BITS: Final = 1  # an update that changes the key becomes two changes of one record
_LINE_BITS: Final = 31  # a 512 MiB file, TiCDC's largest, has fewer records than this
_FILE_BITS: Final = 30
_FILE_SHIFT: Final = _HALF_BITS + _LINE_BITS
_NOT_DELETE: Final = 1 << (_FILE_SHIFT + _FILE_BITS)


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


Cast = Callable[[Column, pa.Array], pa.Array]
"""(column, sent values) to the values of its Arrow type; DecodeError where one does not fit."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How sent values are read.

    cast: converts the sent values of a column.
    zone: the time zone in which TIMESTAMPs are sent that name none.
    cells: the sent values, if arrays of them hold their indices (`protocols.columnar.event_rows`).
    names_zones: whether TIMESTAMPs may name their time zone.
    is_exact: whether `wires` gives the values as the reference decoder has them.
    """

    cast: Cast
    zone: str
    cells: Sequence[Any] | None = None
    names_zones: bool = False
    is_exact: bool = True

    @classmethod
    def of_cells(cls, cells: Sequence[Any], value: Callable[[Column, Any], Any], zone: str) -> Reading:
        """Reads arrays of indices in `cells` value by value."""

        def cast(column: Column, sent: pa.Array) -> pa.Array:
            values = [None if at is None else value(column, cells[at]) for at in sent.to_pylist()]
            return pa.array(values, arrow_type(column.type))

        return cls(cast, zone, cells, names_zones=True)

    def wires(self, sent: pa.Array) -> list[Any]:
        """The sent values of an array."""
        if self.cells is None:
            return list(sent.to_pylist())
        return [None if at is None else self.cells[at] for at in sent.to_pylist()]

    def count_ambiguous(self, column: Column, sent: pa.Array, values: pa.Array) -> int:
        """The number of TIMESTAMPs among the values of a column whose wall time occurs twice."""
        if column.type.kind is not Kind.TIMESTAMP:
            return 0
        if self.cells is None:
            return count_ambiguous(column, sent, values, self.zone)
        pairs = zip(self.wires(sent), values.to_pylist(), strict=True)
        return sum(is_ambiguous(column, wire, value, self.zone) for wire, value in pairs)


def text_reading(forms: TextForms) -> Reading:
    """Reads texts of these forms."""
    return Reading(lambda column, texts: _cast(column, texts, forms), forms.zone)


def _cast(column: Column, texts: pa.Array, forms: TextForms) -> pa.Array:
    if forms.null is not None and not column.nullable and column.type.kind in _WRITTEN_AS_TEXT:
        texts = pc.fill_null(texts, pa.scalar(forms.null, texts.type))
    return text_columns.column(column.type, texts, forms)


def with_types(raw: RawRows, columns: Sequence[Column], places: Sequence[int | None], reading: Reading) -> TypedChanges:
    """The rows with the types of `columns`.

    Args:
        places: for each of `columns`, its index among the columns of the rows; None where the rows lack it.
    """
    sent = [
        (n, column, place) for n, (column, place) in enumerate(zip(columns, places, strict=True)) if place is not None
    ]
    new, old = _both_cast(raw, sent, reading.cast)
    dates = ((n, place) for n, column, place in sent if column.type.kind in DATE_KINDS)
    nulls = {n: pa.nulls(len(raw), arrow_type(c.type)) for n, c in enumerate(columns) if n not in new or n not in old}
    return TypedChanges(
        tuple(columns),
        raw.op.cast(pa.string()),
        raw.commit_ts,
        raw.commit_ms,
        raw.line,
        pa.array(np.zeros(len(raw), np.int64)),
        tuple(new[n] if n in new else nulls[n] for n in range(len(columns))),
        tuple(old[n] if n in old else nulls[n] for n in range(len(columns))),
        raw.has_before if raw.has_before is not None else pa.array(np.zeros(len(raw), np.bool_)),
        sum(new[n].null_count - raw.wire[place].null_count for n, place in dates),
        sum(reading.count_ambiguous(column, raw.wire[place], new[n]) for n, column, place in sent),
    )


def _both_cast(
    raw: RawRows, sent: Sequence[tuple[int, Column, int]], cast: Cast
) -> tuple[dict[int, pa.Array], dict[int, pa.Array]]:
    """The new and the old values by column; without old values if no row has any. For few rows both are cast together,
    which halves the number of casts."""
    rows = len(raw)
    old = raw.before if raw.has_before is not None and pc.any(raw.has_before).as_py() else None
    if old is None:
        return {n: cast(column, raw.wire[place]) for n, column, place in sent}, {}
    if rows > _FEW_ROWS_MAX or [a.type for a in raw.wire] != [a.type for a in old]:
        now, before = ({n: cast(column, image[place]) for n, column, place in sent} for image in (raw.wire, old))
        return now, before
    both = {n: cast(column, pa.concat_arrays([raw.wire[place], old[place]])) for n, column, place in sent}
    now = {n: values.slice(0, rows) for n, values in both.items()}
    return now, {n: values.slice(rows) for n, values in both.items()}


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
            one_null = pc.not_equal(pc.is_null(now), pc.is_null(before))
            differs = pc.or_(one_null, pc.fill_null(pc.not_equal(now, before), False))
            moved |= updates & differs.to_numpy(zero_copy_only=False)
    return moved


def changelog_table(changes: TypedChanges, seq: pa.Array, version_ts: int, schema: pa.Schema) -> pa.Table:
    """The rows in the layout of a changelog's data file.

    Args:
        changes: n changes of one version.
        seq: int64 of length n, `_ticdc_seq` of each change.
        version_ts: the TSO of the version.
        schema: the names, types and field ids of the columns.
    """
    before_type = schema.field(layout.BEFORE).type
    count, first = len(changes.before), schema.get_field_index(layout.BEFORE) + 1
    types = [field.type for field in (*before_type, *list(schema)[first:])]
    # Equal types may still differ in field metadata inside lists. Promotions (int -> long) lose nothing.
    cast = [
        array if array.type == wanted and not pa.types.is_nested(wanted) else array.cast(wanted)
        for array, wanted in zip((*changes.before, *changes.now), types, strict=True)
    ]
    without = pc.invert(changes.has_before)
    struct = (
        pa.nulls(len(changes), before_type)
        if pc.all(without).as_py()
        else pa.StructArray.from_arrays(cast[:count], fields=list(before_type), mask=without)
    )
    version = pa.array(np.full(len(changes), version_ts, np.int64))
    arrays = [changes.op, changes.commit_ts, commit_time(changes), seq, version, struct, *cast[count:]]
    return pa.Table.from_arrays(arrays, schema=schema)


def commit_time(changes: TypedChanges) -> pa.Array:
    """The commit time of each change: from commit_ts, else from commit_ms, else NULL."""
    from_ts = pc.shift_right(changes.commit_ts, LOGICAL_BITS)
    ms = pc.coalesce(from_ts, changes.commit_ms)
    return ms.cast(pa.timestamp("ms")).cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))


# -- the order of changes ----------------------------------------------------------------------------------------------


def seq_of(changes: TypedChanges, file_ordinal: int | Ints, by_arrival: bool = False) -> pa.Array:
    """`_ticdc_seq` of each change: by arrival if `by_arrival` or a commit_ts is missing, increasing over the whole life
    of the table; else within its commit_ts. There deletes come first, since TiCDC sends an update that changes the key
    as DELETE + INSERT with one commit_ts.

    Args:
        file_ordinal: the number of the file among the files of its table, in order of arrival: one for all changes, or
            one for each.

    Raises:
        OverflowError: `file_ordinal` does not fit.
    """
    if np.max(file_ordinal, initial=0) >= 1 << _FILE_BITS:
        raise OverflowError(f"a table of more than {1 << _FILE_BITS} files is beyond what seq can number")
    line, half = (np.asarray(array.to_numpy(zero_copy_only=False), np.int64) for array in (changes.line, changes.half))
    seq = (np.asarray(file_ordinal, np.int64) << _FILE_SHIFT) | (line << _HALF_BITS) | half
    if not by_arrival and not changes.commit_ts.null_count:
        is_delete = pc.equal(changes.op, "D").to_numpy(zero_copy_only=False)
        seq |= np.where(is_delete, 0, _NOT_DELETE)
    return pa.array(seq)


def next_position(file_ordinal: int) -> int:
    """The smallest seq by arrival of a file; all seqs of earlier files are smaller."""
    return file_ordinal << _FILE_SHIFT


def line_of(seq: int) -> int:
    """The line of a seq."""
    return seq >> _HALF_BITS & (1 << _LINE_BITS) - 1
