"""The newest change of every key, and the rows with given keys, compared with a simple model."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.changes.rows_by_key import in_bucket, newest_of_each, rows_with

KEYS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["", "a", "b"])), max_size=30)


def columns(keys: list[tuple[int, str]]) -> list[pa.ChunkedArray]:
    return [
        pa.chunked_array([pa.array([number for number, _ in keys], pa.int64())]),
        pa.chunked_array([pa.array([text for _, text in keys], pa.string())]),
    ]


def numbers(values: list[int], data: st.DataObject) -> pa.ChunkedArray:
    """The values in two chunks, either of which may be empty."""
    cut = data.draw(st.integers(0, len(values)))
    return pa.chunked_array([pa.array(part, pa.int64()) for part in (values[:cut], values[cut:])])


@settings(deadline=None)
@given(KEYS, st.data())
def test_the_last_of_each_key_in_the_order_is_its_newest(keys: list[tuple[int, str]], data: st.DataObject):
    moments = data.draw(st.lists(st.integers(0, 9), min_size=len(keys), max_size=len(keys)))
    places = data.draw(st.permutations(range(len(keys))))
    newest: dict[tuple[int, str], int] = {}
    for row in sorted(range(len(keys)), key=lambda row: (moments[row], places[row])):
        newest[keys[row]] = row

    order = [numbers(moments, data), numbers(list(places), data)]

    assert newest_of_each(columns(keys), order).tolist() == sorted(newest.values())


@settings(deadline=None)
@given(st.lists(st.integers(-3, 3), max_size=30), st.booleans(), st.data())
def test_the_last_of_each_number_is_its_newest(keys: list[int], is_sorted: bool, data: st.DataObject):
    moments = data.draw(st.lists(st.integers(0, 9), min_size=len(keys), max_size=len(keys)))
    moments = sorted(moments) if is_sorted else moments
    newest = {keys[row]: row for row in sorted(range(len(keys)), key=lambda row: (moments[row], row))}

    order = [numbers(moments, data), numbers(list(range(len(keys))), data)]

    assert newest_of_each([numbers(keys, data)], order).tolist() == sorted(newest.values())


@pytest.mark.parametrize(
    ("order", "newest"),
    [
        ([(5, 0), (5, 1)], 1), ([(5, 1), (5, 0)], 0), ([(5, 7), (6, 0)], 1), ([(6, 0), (5, 7)], 0),
        ([(5, 0), (5, 2), (5, 1)], 1), ([(5, 0), (6, 1), (6, 0)], 1), ([(5, 0)], 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_the_second_column_of_an_order_decides_where_the_first_is_equal(
    order: list[tuple[int, int]], newest: int, cut: int
):
    def chunked(values: list[int]) -> pa.ChunkedArray:
        return pa.chunked_array([pa.array(part, pa.int64()) for part in (values[:cut], values[cut:])])

    columns_of_order = [chunked([pair[n] for pair in order]) for n in (0, 1)]
    key, text = chunked([7] * len(order)), pa.chunked_array([pa.array(["a"] * len(order))])

    assert newest_of_each([key], columns_of_order).tolist() == [newest]
    assert newest_of_each([key, text], columns_of_order).tolist() == [newest]


@settings(deadline=None)
@given(KEYS, KEYS)
def test_rows_are_found_by_all_columns_of_their_key(keys: list[tuple[int, str]], wanted: list[tuple[int, str]]):
    found = rows_with(columns(keys), columns(wanted))

    assert sorted(found.tolist()) == [row for row, key in enumerate(keys) if key in wanted]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2, 3], pa.int32()),
        pa.array(["", "a", "A "]),
        pa.array([b"\x00", b"", b"\xff"]),
        pa.array([1, 2, 1 << 63], pa.decimal128(20, 0)),
        pa.array([0, 1, 2], pa.date32()),
        pa.array([0, 1, 2], pa.timestamp("us", tz="UTC")),
    ],
    ids=lambda values: str(values.type),
)
def test_keys_of_every_type_that_a_key_can_have_are_distinguished(values: pa.Array):
    twice = pa.chunked_array([values, values])
    other = pa.chunked_array([pa.array([7] * 6)])

    order = pa.chunked_array([pa.array(range(6))])
    assert newest_of_each([twice], [order]).tolist() == [3, 4, 5]
    assert newest_of_each([twice, other], [order.take(pa.array(range(5, -1, -1)))]).tolist() == [0, 1, 2]
    assert rows_with([twice], [pa.chunked_array([values[1:2]])]).tolist() == [1, 4]
    assert sorted(rows_with([twice, other], [pa.chunked_array([values[1:2]]), other[:1]]).tolist()) == [1, 4]


@pytest.mark.parametrize(
    "key",
    [
        pa.array([bytes([255, n]) for n in range(40)]),
        pa.array([bytes([255, n]) for n in range(40)], pa.large_binary()),
        pa.array(range(40), pa.decimal128(20, 0)),
        pa.array(range(40), pa.date32()),
        pa.array([f"k{n}" for n in range(40)]),
    ],
    ids=lambda key: str(key.type),
)
def test_a_key_of_any_type_belongs_to_one_part(key: pa.Array):
    parts = [in_bucket([pa.chunked_array([key])], bucket, 3) for bucket in range(3)]

    assert sum(part.astype(int) for part in parts).tolist() == [1] * 40
    again = in_bucket([pa.chunked_array([key.slice(7)])], 1, 3)
    assert again.tolist() == parts[1][7:].tolist()


def test_each_key_belongs_to_one_part():
    keys = [pa.chunked_array([pa.array(range(40))]), pa.chunked_array([pa.array([str(n % 3) for n in range(40)])])]

    parts = [in_bucket(keys, bucket, 3) for bucket in range(3)]

    assert sum(part.astype(int) for part in parts).tolist() == [1] * 40
    assert all(part.any() for part in parts)
