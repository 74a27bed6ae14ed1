"""Selects rows by their keys: the newest change of each key, the rows of given keys, one part of all keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


def newest_of_each(keys: Sequence[pa.ChunkedArray], order: Sequence[pa.ChunkedArray]) -> Ints:
    """The indices, ascending, of the last row of each key in the order given by `order`.

    `order` lists the sort columns, most significant first: integers without nulls. Rows that are sorted already, as a
    changelog mostly is, need less memory.
    """
    if len(keys) == 1 and pa.types.is_integer(keys[0].type) and not keys[0].null_count:
        return _newest_of_numbers(keys[0].to_numpy(), order)
    places = _places(order)
    table = pa.table([*keys, pa.array(places)], names=[*_names(keys), "place"])
    newest = table.group_by(_names(keys), use_threads=False).aggregate([("place", "max")]).column("place_max")
    rows = np.empty(len(places), np.int64)
    rows[places] = np.arange(len(places))
    return np.sort(rows[newest.to_numpy()])


def _newest_of_numbers(key: Ints, order: Sequence[pa.ChunkedArray]) -> Ints:
    """The newest rows of one integer key, found by sorting, which needs a third of the memory of grouping.

    The sort is not stable, which is twice as fast in NumPy: among equal keys the last row is selected afterwards.
    """
    rows = None if _is_sorted(order) else np.lexsort(_last_first(order))
    in_order = key if rows is None else key[rows]
    by_key = np.argsort(in_order)
    sorted_keys = in_order[by_key]
    is_first = np.ones(len(key), np.bool_)
    np.not_equal(sorted_keys[1:], sorted_keys[:-1], out=is_first[1:])
    last = np.maximum.reduceat(by_key, np.flatnonzero(is_first)) if len(key) else by_key
    return np.sort(last if rows is None else rows[last])


def _places(order: Sequence[pa.ChunkedArray]) -> Ints:
    """The rank of each row in sort order."""
    count = len(order[0])
    if _is_sorted(order):
        return np.arange(count)
    places = np.empty(count, np.int64)
    places[np.lexsort(_last_first(order))] = np.arange(count)
    return places


def _last_first(order: Sequence[pa.ChunkedArray]) -> list[Ints]:
    return [column.to_numpy() for column in reversed(order)]


def _is_sorted(order: Sequence[pa.ChunkedArray]) -> bool:
    last: tuple[int, ...] = ()
    for batch in pa.table(list(order), names=_names(order)).to_batches():
        columns = [column.to_numpy() for column in batch.columns]
        if not len(batch):
            continue
        if last > tuple(int(values[0]) for values in columns) or not _are_ascending(columns):
            return False
        last = tuple(int(values[-1]) for values in columns)
    return True


def _are_ascending(order: Sequence[Ints]) -> bool:
    undecided = np.ones(len(order[0]) - 1, np.bool_)
    for values in order:
        steps = np.diff(values)
        if bool((undecided & (steps < 0)).any()):
            return False
        undecided &= steps == 0
    return True


def rows_with(keys: Sequence[pa.ChunkedArray], wanted: Sequence[pa.ChunkedArray]) -> Ints:
    """The indices, in any order, of the rows whose `keys` are among `wanted`; both sides have the same types."""
    if len(keys) == 1:
        return np.flatnonzero(pc.is_in(keys[0], value_set=wanted[0].combine_chunks()).to_numpy())
    names = _names(keys)
    left = pa.table([*keys, pa.array(np.arange(len(keys[0])))], names=[*names, "row"])
    right = pa.table(list(wanted), names=names)
    found = left.join(right, names, join_type="left semi", use_threads=False)
    rows: Ints = found.column("row").to_numpy()
    return rows


def _names(keys: Sequence[pa.ChunkedArray]) -> list[str]:
    return [f"k{number}" for number in range(len(keys))]


def can_hash(of: pa.DataType) -> bool:
    """Whether equal values of this type have the same text, which `in_bucket` needs: 0.0 and -0.0 do not."""
    return not pa.types.is_nested(of) and not pa.types.is_floating(of)


def in_bucket(keys: Sequence[pa.ChunkedArray], bucket: int, buckets: int) -> _Bools:
    """Which rows belong to part `bucket` of `buckets` parts of all keys; equal keys are in the same part, and NULL
    equals NULL. A comparison of one part after another needs memory for one part only."""
    import pandas as pd  # imported only when needed

    hashes = np.zeros(len(keys[0]), np.uint64)
    for column in keys:
        hashes = hashes * np.uint64(31) + pd.util.hash_array(_plain(column), categorize=False)
    found: _Bools = hashes % np.uint64(buckets) == bucket
    return found


def _plain(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Integers, text or bytes without NULL: what pandas hashes by value, and alike in each part of a column."""
    kept = pa.types.is_integer(column.type) or pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    plain = column if kept else column.cast(pa.string())
    if plain.null_count:
        plain = plain.fill_null(pa.scalar(0 if pa.types.is_integer(plain.type) else b"").cast(plain.type))
    values: npt.NDArray[Any] = plain.to_numpy()
    return values
