"""Which repeats the writer of a changelog's files removes, and which it leaves to the comparison of files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io import load_file_io

from ticdc_assets.changes import layout
from ticdc_assets.changes.identity import first_of_each
from ticdc_assets.changes.typed import TypedChanges
from ticdc_assets.pipeline.changelog import parts as parts_module
from ticdc_assets.pipeline.changelog.parts import PartWriter
from ticdc_assets.pipeline.tasks import ChangelogPart, Target
from ticdc_assets.schema.model import Column, Kind, MySqlType
from ticdc_assets_tests.pipeline.changelog.without_repeats import without_repeats

VERSION = 10
ID = Column("id", MySqlType(Kind.INT, "int"))
BEFORE = pa.field(layout.BEFORE, pa.struct([pa.field("id", pa.int32())]))
SCHEMA = pa.schema([*layout.SYSTEM_COLUMNS, BEFORE, pa.field("id", pa.int32())])
Row = tuple[int, int]
"""commit_ts and id of an inserted row."""


def changes(rows: Sequence[Row]) -> TypedChanges:
    count = len(rows)
    ts, ids = pa.array([ts for ts, _ in rows], pa.int64()), pa.array([number for _, number in rows], pa.int32())
    zeros = pa.array([0] * count, pa.int64())
    lines, none = pa.array(range(count), pa.int64()), pa.nulls(count, pa.int32())
    without = pa.array([False] * count)
    return TypedChanges((ID,), pa.array(["I"] * count), ts, zeros, lines, zeros, (ids,), (none,), without, 0)


def written(folder: Path, *batches: Sequence[Row]) -> tuple[list[ChangelogPart], int]:
    """The parts of these batches, and how many of their rows were left out as repeats."""
    target = Target("shop.t@10", 0, 1000, str(folder), {VERSION: SCHEMA})
    writer = PartWriter(load_file_io({}, str(folder)), target, "p", 0)
    repeats = sum(writer.write(changes(rows), ["id"], VERSION, number) for number, rows in enumerate(batches))
    writer.close()
    return writer.parts, repeats


def rows_of(parts: Sequence[ChangelogPart]) -> list[Row]:
    tables = [pq.read_table(part.uri) for part in parts]
    return [row for t in tables for row in zip(t[layout.COMMIT_TS].to_pylist(), t["id"].to_pylist(), strict=True)]


def test_a_row_that_comes_again_in_the_newest_commit_is_left_out(tmp_path: Path):
    parts, repeats = written(tmp_path, [(5, 1), (7, 2)], [(7, 2), (7, 3)], [(7, 3), (8, 3)])

    assert repeats == 2
    assert rows_of(parts) == [(5, 1), (7, 2), (7, 3), (8, 3)]
    assert len(parts) == 1


def test_the_rows_of_a_large_commit_are_compared_between_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parts_module, "_ROWS_OF_COMMIT_MAX", 10)
    batches = [[(7, number) for number in range(begin, begin + 6)] for begin in (0, 5, 10, 15, 3)]
    parts, _ = written(tmp_path, [(5, 1)], *batches, [(8, 1), (9, 2)], [(9, 2), (9, 3)])

    assert len(parts) == 2
    assert rows_of(without_repeats(parts, ("id",)).parts) == [
        (5, 1),
        *((7, number) for number in range(21)),
        (8, 1),
        (9, 2),
        (9, 3),
    ]


def test_a_large_commit_is_not_compared_again_with_each_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parts_module, "_ROWS_OF_COMMIT_MAX", 10)
    compared: list[int] = []

    def noted(columns: Sequence[Any]) -> Any:
        compared.append(len(columns[0]))
        return first_of_each(columns)

    monkeypatch.setattr(parts_module, "first_of_each", noted)
    written(tmp_path, *([(7, number) for number in range(begin, begin + 4)] for begin in range(0, 200, 4)))

    assert sum(compared) < 2 * 200
