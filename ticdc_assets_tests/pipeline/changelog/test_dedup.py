"""Which rows of overlapping parts are repeats, by key or, without one, by delivery."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ticdc_assets.changes.layout import SYSTEM_COLUMNS
from ticdc_assets.pipeline.changelog import dedup
from ticdc_assets.pipeline.changelog.dedup import find_repeats, overlaps, repeat_tasks
from ticdc_assets.pipeline.tasks import ChangelogPart, CommitBounds
from ticdc_assets_tests.pipeline.changelog.without_repeats import without_repeats

Row = tuple[int, int | None]
"""commit_ts and id of an inserted row."""


def part(folder: Path, *rows: Row, task: int = 0, delivery: int = 0, version: int = 10) -> ChangelogPart:
    values = pa.array([number for _, number in rows], pa.int64())
    return part_of(folder, [ts for ts, _ in rows], pa.field("id", pa.int64()), values, task, delivery, version)


def weighed(folder: Path, weights: list[float], task: int) -> ChangelogPart:
    return part_of(folder, [7] * len(weights), pa.field("weight", pa.float64()), pa.array(weights), task)


def part_of(
    folder: Path, ts: list[int], field: pa.Field, values: pa.Array, task: int, delivery: int = 0, version: int = 10
) -> ChangelogPart:
    name = f"{len(list(folder.iterdir()))}.parquet"
    rows = len(ts)
    columns = [["I"] * rows, ts, [None] * rows, list(range(rows)), [version] * rows, values]
    made = pa.table(columns, schema=pa.schema([*SYSTEM_COLUMNS, field]))
    pq.write_table(made, folder / name, row_group_size=2)
    size_bytes, footer = (folder / name).stat().st_size, pq.read_metadata(folder / name)
    bounds, rows_by_op = CommitBounds.of(made), {"I": rows}
    return ChangelogPart(
        "shop.t@10", version, str(folder / name), size_bytes, footer, rows_by_op, bounds, rows, task, delivery
    )


def kept(*parts: ChangelogPart, key: tuple[str, ...] = ("id",)) -> list[list[Row]]:
    """The rows that remain, by part, and the report's own count of those that do not."""
    report = without_repeats(parts, key)
    assert report.repeats == sum(one.rows for one in parts) - sum(one.rows for one in report.parts)
    found = [pq.read_table(one.uri) for one in report.parts]
    assert [CommitBounds.of(table) for table in found] == [one.commit_ts for one in report.parts]
    return [list(zip(t["_ticdc_commit_ts"].to_pylist(), t["id"].to_pylist(), strict=True)) for t in found]


def test_a_row_of_a_later_part_with_the_commit_ts_and_key_of_an_earlier_one_is_a_repeat(tmp_path: Path):
    first, second = part(tmp_path, (11, 1), (12, 2)), part(tmp_path, (12, 2), (12, 3), (13, 2), task=1)

    assert overlaps([first, second])
    assert kept(first, second) == [[(11, 1), (12, 2)], [(12, 3), (13, 2)]]


def test_a_part_of_repeats_alone_is_left_out(tmp_path: Path):
    assert kept(part(tmp_path, (11, 1), (12, 2)), part(tmp_path, (11, 1), (12, 2), task=1)) == [[(11, 1), (12, 2)]]


def test_parts_that_do_not_overlap_or_are_of_other_versions_have_no_repeats(tmp_path: Path):
    parts = [part(tmp_path, (11, 1)), part(tmp_path, (12, 1)), part(tmp_path, (11, 1), version=20)]

    assert not overlaps(parts)
    assert kept(*parts) == [[(11, 1)], [(12, 1)], [(11, 1)]]


@pytest.mark.parametrize(("task", "delivery"), [(1, 0), (0, 1), (1, 1), (2, 0)])
def test_without_a_key_each_row_of_another_delivery_repeats_one_row(tmp_path: Path, task: int, delivery: int):
    """A delivery may have equal rows; another task or a decrease of commit_ts begins another delivery."""
    first = part(tmp_path, (11, 1), (11, 1))
    again = part(tmp_path, (11, 1), (11, 1), (11, 1), task=task, delivery=delivery)

    assert kept(first, again, key=()) == [[(11, 1), (11, 1)], [(11, 1)]]


def test_without_a_key_equal_rows_of_one_delivery_are_different_rows(tmp_path: Path):
    assert kept(part(tmp_path, (11, 1)), part(tmp_path, (11, 1)), key=()) == [[(11, 1)], [(11, 1)]]


@pytest.mark.parametrize("rows_max", [1, 5, 1000])
@pytest.mark.parametrize("seed", range(12))
def test_the_first_of_all_copies_stays_however_parts_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, rows_max: int
):
    monkeypatch.setattr(dedup, "ROWS_MAX", rows_max)
    draw = random.Random(seed)
    seen: set[Row] = set()
    parts, wanted = [], []
    for task in range(8):
        begin = draw.randrange(100, 130)
        rows = sorted({(begin + draw.randrange(12), draw.randrange(2)) for _ in range(draw.randrange(1, 9))})
        parts.append(part(tmp_path, *rows, task=task))
        wanted.append([row for row in rows if row not in seen])
        seen.update(rows)

    assert kept(*parts) == [rows for rows in wanted if rows]
    parts = [part(tmp_path, *rows, task=task) for task, rows in enumerate(wanted) if rows]
    assert kept(*parts) == [rows for rows in wanted if rows]


def test_parts_that_share_one_commit_are_read_only_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    read = []
    whole = pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile, "read_row_group", lambda file, number, **how: read.append(number) or whole(file, number, **how)
    )
    cut = [part(tmp_path, *((ts, ts) for ts in range(begin, begin + 11)), task=begin) for begin in range(10, 60, 10)]

    report = without_repeats(cut, ("id",))

    assert report.repeats == 4
    assert sorted(set(read)) == [0, 5]
    assert len(read) == 2 * 4


@pytest.mark.parametrize("key", [("id",), ()])
def test_a_commit_with_many_rows_is_compared_in_buckets_by_several_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...]
):
    monkeypatch.setattr(dedup, "ROWS_MAX", 10)
    cut = [part(tmp_path, *((7, number) for number in range(begin, begin + 15)), task=begin) for begin in (0, 10, 20)]
    tasks = repeat_tasks(cut, {10: key}, {})

    assert [len(task.comparisons) for task in tasks] == [1] * 5
    assert {uri for task in tasks for uri in find_repeats(task)} == {cut[1].uri, cut[2].uri}
    assert kept(*cut, key=key) == [
        [(7, number) for number in range(15)],
        [(7, number) for number in range(15, 25)],
        [(7, number) for number in range(25, 35)],
    ]


def test_a_commit_of_rows_that_have_no_buckets_is_compared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dedup, "ROWS_MAX", 1)
    weights = [[0.5, float("nan")], [0.5, float("nan"), 1.5]]
    parts = [weighed(tmp_path, values, task) for task, values in enumerate(weights)]

    assert len(repeat_tasks(parts, {10: ()}, {})) > 1
    assert without_repeats(parts, ()).repeats == 2


def test_rows_with_and_without_null_are_compared_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A column of integers with NULL becomes one of floating-point numbers in NumPy."""
    monkeypatch.setattr(dedup, "ROWS_MAX", 1)
    ids: list[list[int | None]] = [[1, 2, 3, 4], [4, None, 3, None]]
    parts = [part(tmp_path, *((7, number) for number in of), task=task) for task, of in enumerate(ids)]

    assert without_repeats(parts, ()).repeats == 2


def test_whole_rows_are_compared_in_buckets_by_their_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dedup, "BYTES_MAX", 100)
    cut = [part(tmp_path, *((7, number) for number in range(begin, begin + 15)), task=begin) for begin in (0, 10)]

    def buckets(key: tuple[str, ...]) -> set[int]:
        return {one.buckets for task in repeat_tasks(cut, {10: key}, {}) for one in task.comparisons}

    assert buckets(("id",)) == {1}
    assert min(buckets(())) > 1
    assert without_repeats(cut, ()).repeats == 5
