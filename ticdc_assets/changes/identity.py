"""Which changes are the same change, sent again.

Identity is (table, key values, commit_ts, op). Hashes find the rows that may be equal, the values decide. A table
without a key has only the row itself and its ordinal among equal rows of one delivery; a delivery ends where
commit_ts goes back (the weak case of design section 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_FEW: Final = 256
"""So many rows are compared sooner than they are hashed."""


def first_of_each(connection: duckdb.DuckDBPyConnection, columns: Sequence[pa.Array]) -> Bools:
    """True for the first row of each distinct combination of values over all columns; NULLs are values here."""
    suspects = _alike(connection, columns)
    first = np.ones(len(columns[0]), np.bool_)
    seen: set[tuple[object, ...]] = set()
    taken = [column.take(pa.array(suspects)).to_pylist() for column in columns]
    for row, values in zip(suspects, zip(*taken, strict=True), strict=True):
        first[row] = values not in seen
        seen.add(values)
    return first


def _alike(connection: duckdb.DuckDBPyConnection, columns: Sequence[pa.Array]) -> Ints:
    """Rows that may equal another one: all of a few, else those that share a hash."""
    if len(columns[0]) <= _FEW:
        return np.arange(len(columns[0]))
    hashed = _hashes(connection, columns)
    _, index, counts = np.unique(hashed, return_index=True, return_counts=True)
    return np.flatnonzero(np.isin(hashed, hashed[index[counts > 1]]))


def _hashes(connection: duckdb.DuckDBPyConnection, columns: Sequence[pa.Array]) -> npt.NDArray[np.uint64]:
    names = [f"c{number}" for number in range(len(columns))]
    connection.register("identity_rows", pa.Table.from_arrays(list(columns), names=names))
    try:
        query = f"SELECT hash({', '.join(names)}) AS h FROM identity_rows"  # noqa: S608  names are ours
        answer = connection.sql(query).to_arrow_table()
    finally:
        connection.unregister("identity_rows")
    hashes: npt.NDArray[np.uint64] = answer.column("h").to_numpy()
    return hashes
