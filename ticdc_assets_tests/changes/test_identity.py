"""Of equal rows only the first one is kept, whatever their number and columns."""

from collections import Counter
from collections.abc import Sequence
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from ticdc_assets.changes.identity import first_of_each, ordinals
from ticdc_assets.tso import INT64_MAX

KINDS = {
    "numbers": pa.array([1, 2, None, 1 << 62], pa.int64()),
    "texts": pa.array(["a", "", None, "é"], pa.string()),
    "bytes": pa.array([b"\x00", b"", None, b"\xff"], pa.binary()),
    "decimals": pa.array([Decimal("1.5"), Decimal("-2.0"), None], pa.decimal128(5, 1)),
    "dates": pa.array([date(2025, 1, 1), date(1, 1, 1), None], pa.date32()),
    "floats": pa.array([1.5, -1.5, None, 0.0], pa.float64()),
    "vectors": pa.array([[1.5, 2.0], [1.5], [], None], pa.list_(pa.float32())),
    "images": pa.array(
        [{"a": 1, "b": None}, {"a": None, "b": "x"}, None], pa.struct([("a", pa.int64()), ("b", pa.string())])
    ),
}


def drawn(rows: int, kinds: Sequence[str], seed: int) -> list[pa.Array]:
    random = np.random.default_rng(seed)
    return [KINDS[kind].take(pa.array(random.integers(0, len(KINDS[kind]), rows))) for kind in kinds]


def spelled(columns: list[pa.Array]) -> list[str]:
    return [repr(row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


@pytest.mark.parametrize("rows", [0, 1, 200, 257, 3000])
@pytest.mark.parametrize("kinds", [[kind] for kind in KINDS] + [["numbers", "texts"], list(KINDS)], ids=" ".join)
def test_equal_rows_are_numbered_from_the_first_on(rows: int, kinds: list[str]):
    columns = drawn(rows, kinds, rows)
    seen: Counter[str] = Counter()
    before = [(seen[row], seen.update([row]))[0] for row in spelled(columns)]

    assert ordinals(columns).tolist() == before
    assert first_of_each(columns).tolist() == [count == 0 for count in before]


@pytest.mark.parametrize("kind", KINDS)
def test_a_chunked_column_is_numbered_like_a_whole_one(kind: str):
    column = drawn(100, [kind], 7)[0]
    chunks = pa.chunked_array([column.slice(0, 40), column.slice(40, 0), column.slice(40)])

    assert ordinals([chunks]).tolist() == ordinals([column]).tolist()
    assert ordinals([pa.chunked_array([], column.type)]).tolist() == []


@pytest.mark.parametrize("of", [pa.int8(), pa.int32(), pa.int64()], ids=str)
@pytest.mark.parametrize("numbers", [[5, -3, 5, 7, -3], [1, 2, 3], [], [9], [3, None, 3, None, 0]], ids=str)
def test_numbers_are_compared_whatever_their_distance(of: pa.DataType, numbers: list[int | None]):
    far = [number if number is None else number * (1 << 58) for number in numbers]
    wanted = [number not in numbers[:place] for place, number in enumerate(numbers)]

    assert first_of_each([pa.array(numbers, of)]).tolist() == wanted
    assert first_of_each([pa.array(far, pa.int64())]).tolist() == wanted
    assert first_of_each([pa.array(numbers, of), pa.array(far, pa.int64())]).tolist() == wanted


def test_numbers_far_apart_do_not_run_out_of_codes():
    """Three columns with distances of 2^40 have more combinations than 64 bits."""
    far = [number << 28 for number in range(4096)]
    columns = [pa.array(far), pa.array(far[::-1]), pa.array([*far[7:], *far[:7]])]
    twice = [pa.concat_arrays([column, column.slice(0, 9)]) for column in columns]

    assert first_of_each(twice).tolist() == [True] * 4096 + [False] * 9


def test_columns_of_many_values_do_not_run_out_of_codes():
    """Five columns of 8,000 values each have more combinations than 64 bits."""
    random = np.random.default_rng(7)
    columns = [pa.array(random.permutation(8000)) for _ in range(5)]
    twice = [pa.concat_arrays([column, column.slice(0, 100)]) for column in columns]
    one_differs = [*twice[:4], pa.concat_arrays([columns[4], columns[4].slice(1, 100)])]

    assert 8000**5 > INT64_MAX
    assert first_of_each(twice).tolist() == [True] * 8000 + [False] * 100
    assert first_of_each(one_differs).all()
    assert first_of_each(twice[::-1]).tolist() == first_of_each(twice).tolist()
