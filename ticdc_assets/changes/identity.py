"""Which changes are the same change, sent again.

Identity is (table, key values, commit_ts, op). Codes find the rows that may be equal, the values decide. A table
without a key has only the row itself and its ordinal among equal rows of one delivery; a delivery ends where
commit_ts goes back (the weak case of design section 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ticdc_assets.tso import INT64_MAX

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_FEW: Final = 256
"""So many rows are compared sooner than they are coded."""


def first_of_each(columns: Sequence[pa.Array]) -> Bools:
    """True for the first row of each distinct combination of values over all columns; NULLs are values here."""
    suspects = _alike(columns)
    first = np.ones(len(columns[0]), np.bool_)
    seen: set[tuple[object, ...]] = set()
    taken = [column.take(pa.array(suspects)).to_pylist() for column in columns]
    for row, values in zip(suspects, zip(*taken, strict=True), strict=True):
        first[row] = values not in seen
        seen.add(values)
    return first


def _alike(columns: Sequence[pa.Array]) -> Ints:
    """Rows that may equal another one: all of a few, else those that share a code."""
    if len(columns[0]) <= _FEW:
        return np.arange(len(columns[0]))
    codes = _codes(columns)
    _, index, counts = np.unique(codes, return_index=True, return_counts=True)
    return np.flatnonzero(np.isin(codes, codes[index[counts > 1]]))


def _codes(columns: Sequence[pa.Array]) -> Ints:
    """A number for each row, the same where all values are."""
    codes, ways = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        coded = column.dictionary_encode()
        count = len(coded.dictionary) + 1
        if ways * count > INT64_MAX:
            codes = np.unique(codes, return_inverse=True)[1]
            ways = len(codes)
        codes = codes * count + coded.indices.fill_null(-1).to_numpy() + 1
        ways *= count
    return codes
