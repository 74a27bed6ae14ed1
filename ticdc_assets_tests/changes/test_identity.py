"""Of equal rows the first one counts, however many there are and whatever their columns hold."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ticdc_assets.changes.identity import first_of_each

KINDS = {
    "numbers": pa.array([1, 2, None, 1 << 62], pa.int64()),
    "texts": pa.array(["a", "", None, "é"], pa.string()),
    "bytes": pa.array([b"\x00", b"", None, b"\xff"], pa.binary()),
    "decimals": pa.array([Decimal("1.5"), Decimal("-2.0"), None], pa.decimal128(5, 1)),
    "dates": pa.array([date(2025, 1, 1), date(1, 1, 1), None], pa.date32()),
    "floats": pa.array([1.5, -1.5, None, 0.0], pa.float64()),
}


def drawn(rows: int, kinds: Sequence[str], seed: int) -> list[pa.Array]:
    random = np.random.default_rng(seed)
    return [KINDS[kind].take(pa.array(random.integers(0, len(KINDS[kind]), rows))) for kind in kinds]


def naive(columns: list[pa.Array]) -> list[bool]:
    seen: set[Any] = set()
    return [not (row in seen or seen.add(row)) for row in zip(*(c.to_pylist() for c in columns), strict=True)]


@pytest.mark.parametrize("rows", [0, 1, 200, 257, 3000])
@pytest.mark.parametrize("kinds", [[kind] for kind in KINDS] + [["numbers", "texts"], list(KINDS)], ids=" ".join)
def test_the_first_of_each_is_found(rows: int, kinds: list[str]):
    columns = drawn(rows, kinds, rows)

    assert first_of_each(columns).tolist() == naive(columns)


def test_columns_of_many_values_do_not_run_out_of_codes():
    """Five columns of 5,000 values each have more combinations than 64 bits."""
    random = np.random.default_rng(7)
    columns = [pa.array(random.permutation(5000)) for _ in range(5)]
    twice = [pa.concat_arrays([column, column.slice(0, 100)]) for column in columns]

    assert first_of_each(twice).tolist() == [True] * 5000 + [False] * 100
