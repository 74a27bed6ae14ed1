"""The identity of changes: it finds repeats, changes that TiCDC sent more than once, and keys that identify no row.

A change is identified by (table, key values, commit_ts, op). In a table without a key it is identified by the whole row
and its ordinal among equal rows of one delivery; a new delivery begins where commit_ts decreases.

Two different source rows can share key values after conversion to lake types: all zero dates become NULL, the ENUM or
SET number 0 becomes the label '', and both TIMESTAMPs of a wall time that a clock change repeats become the first one.
With such a key, one row would count as a repeat of another, and a mirror would hold one row instead of two. A record
with such a key is therefore rejected.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from ticdc_assets.names.folding import fold
from ticdc_assets.protocols.values.ambiguous_times import is_ambiguous, occurs_twice
from ticdc_assets.schema.model import Kind
from ticdc_assets.tso import INT64_MAX

if TYPE_CHECKING:
    from ticdc_assets.changes.typed import TypedChanges
    from ticdc_assets.schema.model import Column

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Values: TypeAlias = pa.Array | pa.ChunkedArray

_NO_CODE: Final = -1
"""The code of NULL."""
_DISTANCE_MAX: Final = 1 << 40
"""About 70 minutes of commit_ts."""
NULL: Final = "NULL"
ZERO_DATE: Final = "a date that does not exist"
NUMBER_ZERO: Final = "the number 0, which reads like the label ''"

AMBIGUOUS: Final = "a time that occurs twice in the time zone that it is sent in"


def first_of_each(columns: Sequence[Values]) -> Bools:
    """True for the first row of each distinct combination of values over all columns; NULL equals NULL."""
    found = codes(columns)
    if bool((found[1:] > found[:-1]).all()):
        return np.ones(len(found), np.bool_)
    first = np.zeros(len(found), np.bool_)
    first[np.unique(found, return_index=True)[1]] = True
    return first


def ordinals(columns: Sequence[Values]) -> Ints:
    """For each row, the number of equal rows before it."""
    found = codes(columns)
    order = np.argsort(found, kind="stable")
    ranked = found[order]
    starts = np.flatnonzero(np.diff(ranked, prepend=_NO_CODE))
    numbers = np.empty(len(found), np.int64)
    numbers[order] = np.arange(len(found)) - np.repeat(starts, np.diff(starts, append=len(found)))
    return numbers


def codes(columns: Sequence[Values]) -> Ints:
    """One number per row; two rows have the same number exactly if all their values are equal.

    NULL equals NULL, and NaN equals NaN.
    """
    together, ways = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        found = _codes_of(column)
        count = _count(found)
        if ways * count > INT64_MAX:
            together, found = (np.unique(many, return_inverse=True)[1] for many in (together, found))
            ways, count = _count(together), _count(found)
        together = together * count + found + 1
        ways *= count
    return together


def _count(found: Ints) -> int:
    return int(found.max(initial=_NO_CODE)) + 2  # _NO_CODE is one of them


def _codes_of(column: Values) -> Ints:
    if (distances := _distances(column)) is not None:
        return distances
    if isinstance(column, pa.ChunkedArray):
        return _codes_of_chunks(column)
    if pt.is_struct(column.type):
        return codes([column.is_null(), *column.flatten()])
    if pt.is_list(column.type):  # Arrow cannot dictionary-encode lists
        column = pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
    return _indices(column.dictionary_encode())


def _distances(column: Values) -> Ints | None:
    """The distance of each integer to the smallest one, which takes less time than a dictionary. None for other values
    and for distances that leave little room for other columns."""
    if not pt.is_signed_integer(column.type) or column.null_count or not len(column):
        return None
    numbers: Ints = column.to_numpy().astype(np.int64, copy=False)
    least, most = int(numbers.min()), int(numbers.max())
    return numbers - least if most - least <= _DISTANCE_MAX else None


def _codes_of_chunks(column: pa.ChunkedArray) -> Ints:
    if not len(column):
        return np.empty(0, np.int64)
    if pt.is_nested(column.type):
        return _codes_of(pa.concat_arrays(column.chunks))
    coded = column.dictionary_encode()  # all chunks have the same dictionary
    return np.concatenate([_indices(chunk) for chunk in coded.chunks])


def _indices(coded: pa.DictionaryArray) -> Ints:
    indices = coded.indices.fill_null(_NO_CODE) if coded.null_count else coded.indices
    numbers: Ints = indices.to_numpy().astype(np.int64)
    return numbers


# -- keys ------------------------------------------------------------------------------------------------------------


def key_columns(columns: Collection[Column], key: Collection[str]) -> list[int]:
    """The indices of the key columns in `columns`."""
    wanted = {fold(name) for name in key}
    return [number for number, column in enumerate(columns) if fold(column.name) in wanted]


def fault_in_key(column: Column, wire: Any, value: Any, zone: str) -> str | None:
    """Why a key column's value is not unique in the lake; None if it is.

    Args:
        wire: the value as the protocol sent it.
        value: the same value after conversion.
        zone: the time zone of a TIMESTAMP that names none.
    """
    if value is None:
        return NULL if wire is None else ZERO_DATE
    if value == "" and reads_alike(column) and wire in (0, "0"):
        return NUMBER_ZERO
    return AMBIGUOUS if is_ambiguous(column, wire, value, zone) else None


def reads_alike(column: Column) -> bool:
    """Whether an ENUM or SET column has the label '', which number 0 also becomes."""
    return "" in (column.type.elements or ())


def may_have_faults(changes: TypedChanges, key: Collection[str], zone: str | None) -> bool:
    """Whether a new or old key of these changes may have a fault; `fault_in_key` decides from the wire value.

    `zone` is the time zone of the TIMESTAMPs, None if each value names its own.
    """
    for number in key_columns(changes.columns, key):
        now, before = changes.now[number], changes.before[number]
        if now.null_count or pc.any(pc.and_(changes.has_before, pc.is_null(before))).as_py():
            return True
        if changes.columns[number].type.kind is Kind.TIMESTAMP and (
            zone is None or occurs_twice(now, zone) or occurs_twice(before, zone)
        ):
            return True
        if reads_alike(changes.columns[number]) and (_has_empty(now) or _has_empty(before)):
            return True
    return False


def _has_empty(values: pa.Array) -> bool:
    return bool(pc.any(pc.equal(values, "")).as_py())
