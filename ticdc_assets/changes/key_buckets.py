"""Divides rows by their keys, so that the memory of a comparison does not grow with the number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Bools = npt.NDArray[np.bool_]


def can_hash(of: pa.DataType) -> bool:
    """Whether equal values of this type have the same text, which `in_bucket` needs: 0.0 and -0.0 do not."""
    return not pa.types.is_nested(of) and not pa.types.is_floating(of)


def in_bucket(keys: Sequence[pa.ChunkedArray], bucket: int, buckets: int) -> _Bools:
    """Which rows belong to part `bucket` of `buckets` parts of all keys; equal keys are in the same part, and NULL
    equals NULL."""
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
