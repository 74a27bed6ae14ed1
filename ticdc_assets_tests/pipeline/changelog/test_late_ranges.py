"""How parts that may hold late rows are shared among tasks, and which commit_ts ranges are read for them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.pipeline.changelog import late_rows

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), min_size=1, max_size=30)


@dataclass(frozen=True)
class Part:
    """The fields of a ChangelogPart that are used here."""

    first_ts: int
    last_ts: int
    rows: int = 1
    version_ts: int = 0
    uri: str = ""


def parts_of(ranges: list[tuple[int, int]]) -> list[Part]:
    return [Part(low, low + length, uri=f"part {n}") for n, (low, length) in enumerate(ranges)]


@settings(deadline=None)
@given(RANGES)
def test_without_a_key_all_rows_of_one_commit_ts_are_in_one_task(ranges: list[tuple[int, int]]):
    parts = parts_of(ranges)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(late_rows, "ROWS_MAX", 1)
        tasks = list(late_rows.dealt_parts(parts, {}))  # type: ignore[arg-type]

    assert sorted(part.uri for task in tasks for part in task) == sorted(part.uri for part in parts)
    of = [{ts for part in task for ts in range(part.first_ts, part.last_ts + 1)} for task in tasks]
    assert sum(map(len, of)) == len(set().union(*of))


def test_tasks_are_full_where_parts_may_be_shared_freely(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(late_rows, "ROWS_MAX", 12)
    parts = [Part(5, 5, rows, uri=f"part {n}") for n, rows in enumerate((6, 6, 5, 7, 30, 1))]

    tasks = late_rows.dealt_parts(parts, {0: ("id",)})  # type: ignore[arg-type]

    assert [[part.rows for part in task] for task in tasks] == [[6, 6], [5, 7], [30], [1]]


@settings(deadline=None)
@given(RANGES)
def test_what_the_parts_cover_is_read_and_nothing_twice(ranges: list[tuple[int, int]]):
    parts = parts_of(ranges)

    read = late_rows._ranges(parts)  # type: ignore[arg-type]

    covered = {ts for part in parts for ts in range(part.first_ts, part.last_ts + 1)}
    times = [ts for low, high in read for ts in range(low, high + 1)]
    assert len(read) <= late_rows._RANGES_MAX
    assert times == sorted(set(times))
    assert covered <= set(times)


def test_commit_ts_between_few_parts_are_not_read():
    parts = [Part(1, 9), Part(30, 30), Part(2, 3), Part(9, 12)]

    assert late_rows._ranges(parts) == [(1, 12), (30, 30)]  # type: ignore[arg-type]


def test_many_ranges_are_joined_into_a_few_that_cover_them():
    read = late_rows._ranges([Part(10 * n, 10 * n + 1) for n in range(40)])  # type: ignore[arg-type]

    assert len(read) <= late_rows._RANGES_MAX
    assert read[:2] == [(0, 21), (30, 51)]
    assert read[-1] == (390, 391)
