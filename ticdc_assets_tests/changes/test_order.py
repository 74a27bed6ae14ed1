"""The sequence numbers order changes by arrival, and the deletes of a commit_ts before its other changes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.changes.typed import TypedChanges, line_of, next_position, seq_of
from ticdc_assets.tso import INT64_MAX

FILES_MAX, LINES_MAX = 1 << 30, 1 << 31
FILE = st.one_of(st.integers(0, 3), st.integers(FILES_MAX - 3, FILES_MAX - 1), st.integers(0, FILES_MAX - 1))
LINE = st.one_of(st.integers(0, 3), st.integers(LINES_MAX - 3, LINES_MAX - 1), st.integers(0, LINES_MAX - 1))
CHANGES = st.lists(st.tuples(FILE, LINE, st.sampled_from([0, 1])), min_size=1, max_size=20)


def change(line: int, half: int, op: str = "I") -> TypedChanges:
    line_of, half_of, time, none = (pa.array([number], pa.int64()) for number in (line, half, 7, None))
    return TypedChanges((), pa.array([op]), time, none, line_of, half_of, (), (), pa.array([False]), 0)


def arrived(file: int, line: int, half: int, op: str = "I") -> int:
    (seq,) = seq_of(change(line, half, op), file, by_arrival=True).to_pylist()
    return seq


def committed(file: int, line: int, half: int, is_delete: bool) -> int:
    (seq,) = seq_of(change(line, half, "D" if is_delete else "I"), file).to_pylist()
    return seq


@settings(deadline=None)
@given(CHANGES)
def test_changes_sort_by_file_then_line_then_half(changes: list[tuple[int, int, int]]):
    by_seq = sorted(set(changes), key=lambda change: arrived(*change))

    assert by_seq == sorted(set(changes))
    assert all(0 <= arrived(*change) <= INT64_MAX for change in changes)


@settings(deadline=None)
@given(st.lists(st.tuples(FILE, LINE, st.sampled_from([0, 1]), st.booleans()), min_size=1, max_size=20))
def test_the_deletes_of_a_commit_come_before_its_other_changes(changes: list[tuple[int, int, int, bool]]):
    by_seq = sorted(set(changes), key=lambda change: committed(*change))

    assert by_seq == sorted(set(changes), key=lambda change: (not change[3], *change[:3]))
    assert len({committed(*change) for change in changes}) == len(set(changes))
    assert all(0 <= committed(*change) <= INT64_MAX for change in changes)


@settings(deadline=None)
@given(st.integers(0, FILES_MAX - 2))
def test_a_file_begins_above_all_changes_of_the_one_before(file: int):
    assert arrived(file, LINES_MAX - 1, 1) < next_position(file + 1) == arrived(file + 1, 0, 0)


def test_a_table_of_more_files_than_can_be_numbered_is_refused():
    assert arrived(FILES_MAX - 1, LINES_MAX - 1, 1) < INT64_MAX
    with pytest.raises(OverflowError, match=f"more than {FILES_MAX} files"):
        arrived(FILES_MAX, 0, 0)


@settings(deadline=None)
@given(FILE, LINE, st.sampled_from([0, 1]), st.booleans())
def test_a_position_tells_its_line(file: int, line: int, half: int, is_delete: bool):
    assert line_of(committed(file, line, half, is_delete)) == line_of(arrived(file, line, half)) == line


def test_a_delete_keeps_its_place_of_arrival():
    for line, half in ((0, 0), (0, 1), (7, 0)):
        assert committed(3, line, half, is_delete=True) == arrived(3, line, half, "D")
