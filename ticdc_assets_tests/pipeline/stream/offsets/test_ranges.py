"""Ranges of offsets are the sets of their offsets; a window has what no run has consumed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.pipeline.stream.offsets.ranges import OffsetSet, Range, Window, union, within, without

P = ("feed", 0)
OFFSETS = st.integers(0, 12)
RANGES = st.lists(st.tuples(OFFSETS, OFFSETS), max_size=5)


def offsets(ranges: Iterable[Range]) -> set[int]:
    return {offset for first, end in ranges for offset in range(first, end)}


def as_ranges(members: set[int]) -> list[Range]:
    """The longest ranges, in order: none is empty and no two touch."""
    firsts = sorted(offset for offset in members if offset - 1 not in members)
    ends = sorted(offset + 1 for offset in members if offset + 1 not in members)
    return list(zip(firsts, ends, strict=True))


@given(RANGES, RANGES, OFFSETS, OFFSETS)
def test_ranges_are_sets_of_offsets(ranges: list[Range], more: list[Range], first: int, end: int):
    assert union(ranges, more) == as_ranges(offsets(ranges) | offsets(more))
    assert offsets(within(ranges, first, end)) == offsets(ranges) & set(range(first, end))
    assert all(a < b for a, b in within(ranges, first, end))
    assert without(first, end, ranges) == as_ranges(set(range(first, end)) - offsets(ranges))


@given(st.lists(OFFSETS, min_size=1, max_size=12), st.tuples(OFFSETS, OFFSETS))
def test_offsets_that_come_one_by_one_are_their_ranges(added: list[int], more: Range):
    found, members = OffsetSet(added[0]), {added[0]}
    for offset in added[1:]:
        assert found.add(offset) is (offset not in members)
        members.add(offset)
        assert found.ranges == as_ranges(members)
        assert (found.first, found.end) == (min(members), max(members) + 1)

    found.add_range(*more)
    assert found.ranges == as_ranges(members | set(range(*more)))


GAPS = st.lists(st.tuples(OFFSETS, OFFSETS), max_size=3)


@given(OFFSETS, st.integers(0, 12), GAPS, st.none() | OFFSETS)
def test_a_window_has_what_was_not_consumed(begin: int, length: int, gaps: list[Range], until: int | None):
    """With `until` only what is new and before it: what is older is read again once the fault is corrected."""
    end = begin + length
    inside = [(max(a, begin), min(b, end)) for a, b in gaps]
    window = Window({P: end}, {P: begin}, {P: inside}, {} if until is None else {P: until})
    consumed = set(range(begin, end)) - offsets(inside)

    for offset in range(30):
        wanted = offset not in consumed if until is None else end <= offset < until
        assert window.mask(P, np.array([offset])).tolist() == [wanted]


@given(OFFSETS, st.integers(0, 12), GAPS, OFFSETS, st.integers(1, 12))
def test_messages_are_passed_together_only_where_each_was_consumed(
    begin: int, length: int, gaps: list[Range], first: int, count: int
):
    end = begin + length
    inside = [(max(a, begin), min(b, end)) for a, b in gaps]
    window = Window({P: end}, {P: begin}, {P: [(a, b) for a, b in inside if a < b]})

    assert window.overlaps(P, first, first + count) is bool(window.mask(P, np.arange(first, first + count)).any())


@pytest.mark.parametrize(
    ("first", "end", "overlaps"),
    [
        (3, 5, False),
        (4, 6, True),
        (5, 6, True),
        (6, 8, False),
        (8, 9, False),
        (8, 10, True),
        (2, 4, False),
        (1, 3, True),
    ],
)
def test_a_range_beside_a_gap_or_a_bound_needs_nothing_of_it(first: int, end: int, overlaps: bool):
    assert Window({P: 9}, {P: 2}, {P: [(5, 6)]}).overlaps(P, first, end) is overlaps


def test_a_partition_without_a_cursor_is_new_from_its_first_message():
    window = Window({}, until={("feed", 1): 3})

    assert window.mask(P, np.array([0])).tolist() == [True]
    assert window.mask(("feed", 1), np.array([2, 3])).tolist() == [True, False]
    assert Window({}).overlaps(P, 0, 1)
    assert not Window({P: 1}).overlaps(P, 0, 1)
    assert Window({P: 1}).mask(P, np.array([0, 1])).tolist() == [False, True]


WHOLE = StreamCursor(
    offsets={P: 7, ("feed", 1): 0},
    watermarks={P: 90},
    tables_by_topic={"feed": frozenset({("shop", "t"), ("shop", "u")})},
    passed={P: 80},
    begins={P: 2},
    read={P: 6},
    gaps={P: ((3, 4), (5, 6))},
    digests={P: {2: "aa", 4: "bb"}},
    messages=9,
)


@pytest.mark.parametrize("cursor", [StreamCursor(), WHOLE, StreamCursor({P: 0}), StreamCursor({P: 1})])
def test_a_cursor_is_read_as_it_was_recorded(cursor: StreamCursor):
    assert StreamCursor.from_json(cursor.to_json()) == cursor
    assert StreamCursor.from_json("") == StreamCursor()


def test_a_cursor_of_an_older_release_has_0_for_a_partition_that_was_not_read():
    older = '{"partitions": [["feed", 0, 0, 90], ["feed", 1, 5, 80]]}'

    assert StreamCursor.from_json(older).offsets == {("feed", 1): 5}
