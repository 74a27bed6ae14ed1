"""Finds repeats: changes that TiCDC sent more than once.

A change is identified by (table, key values, commit_ts, op). In a table without a key it is identified by the whole row
and its ordinal among equal rows of one delivery; a new delivery begins where commit_ts decreases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from ticdc_assets.tso import INT64_MAX

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Column: TypeAlias = pa.Array | pa.ChunkedArray

_NULL: Final = -1


def first_of_each(columns: Sequence[Column]) -> Bools:
    """True for the first row of each distinct combination of values over all columns; NULL equals NULL."""
    first = np.zeros(len(columns[0]), np.bool_)
    first[np.unique(codes(columns), return_index=True)[1]] = True
    return first


def ordinals(columns: Sequence[Column]) -> Ints:
    """For each row, the number of equal rows before it."""
    found = codes(columns)
    order = np.argsort(found, kind="stable")
    ranked = found[order]
    starts = np.flatnonzero(np.diff(ranked, prepend=_NULL))
    numbers = np.empty(len(found), np.int64)
    numbers[order] = np.arange(len(found)) - np.repeat(starts, np.diff(starts, append=len(found)))
    return numbers


def codes(columns: Sequence[Column]) -> Ints:
    """One number per row; two rows have the same number exactly if all their values are equal.

    NULL equals NULL, and NaN equals NaN.
    """
    together, ways = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        found = _codes_of(column)
        count = int(found.max(initial=_NULL)) + 2  # _NULL is one of them
        if ways * count > INT64_MAX:
            together = np.unique(together, return_inverse=True)[1]
            ways = int(together.max(initial=0)) + 1
        together = together * count + found + 1
        ways *= count
    return together


def _codes_of(column: Column) -> Ints:
    if isinstance(column, pa.ChunkedArray):
        return _codes_of_chunks(column)
    if pt.is_struct(column.type):
        return codes([column.is_null(), *column.flatten()])
    if pt.is_list(column.type):  # Arrow cannot dictionary-encode lists
        column = pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
    return _indices(column.dictionary_encode())


def _codes_of_chunks(column: pa.ChunkedArray) -> Ints:
    if not column.num_chunks:
        return np.empty(0, np.int64)
    if pt.is_nested(column.type):
        return _codes_of(pa.concat_arrays(column.chunks))
    coded = column.dictionary_encode().unify_dictionaries()
    return np.concatenate([_indices(chunk) for chunk in coded.chunks])


def _indices(coded: pa.DictionaryArray) -> Ints:
    indices = coded.indices.fill_null(_NULL) if coded.null_count else coded.indices
    numbers: Ints = indices.to_numpy().astype(np.int64)
    return numbers
