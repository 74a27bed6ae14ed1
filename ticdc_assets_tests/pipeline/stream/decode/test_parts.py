"""The changes of a part: in the order of commit_ts, and each change of a key once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ticdc_assets.changes.typed import TypedChanges
from ticdc_assets.pipeline.stream.decode.batches import Piece
from ticdc_assets.pipeline.stream.decode.parts import _in_order, _sorted
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.model import Column

Change = tuple[str, int, int, int]
"""Operation, commit_ts, key and position of a change."""

ID = Column("id", parse_type("int"), nullable=False)


def changes(*rows: Change, half: int = 0) -> TypedChanges:
    columns = [pa.array(values) for values in zip(*rows, strict=True)]
    op, ts, key, line = columns if columns else [pa.array([], pa.string()), *[pa.array([], pa.int64())] * 3]
    halves, nothing = pa.array([half] * len(op), pa.int8()), pa.nulls(len(op), pa.int64())
    return TypedChanges((ID,), op, ts, ts, line, halves, (key,), (nothing,), pa.array([False] * len(op)), 0)


def listed(every: list[TypedChanges]) -> list[Change]:
    return [
        row
        for each in every
        for row in zip(*(array.to_pylist() for array in (each.op, each.commit_ts, each.now[0], each.line)), strict=True)
    ]


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ([("I", 5, 1, 0), ("I", 5, 1, 1)], [0]),
        ([("I", 5, 1, 0), ("I", 6, 1, 1)], [0, 1]),
        ([("I", 5, 1, 0), ("D", 5, 1, 1)], [0, 1]),
        ([("I", 5, 1, 0), ("I", 5, 2, 1)], [0, 1]),
        ([("I", 5, 1, 0), ("I", 5, 2, 1), ("I", 5, 1, 2), ("I", 5, 2, 3)], [0, 1]),
        ([("I", 4, 1, 0), ("I", 5, 1, 1), ("I", 5, 1, 2), ("I", 6, 1, 3)], [0, 1, 3]),
        ([("I", 5, 1, 0), ("I", 6, 1, 1), ("I", 7, 1, 2), ("I", 7, 1, 3)], [0, 1, 2]),
        ([("I", 5, 1, 0), ("I", 6, 2, 1), ("I", 5, 1, 2)], [0, 1]),
        ([("I", 5, 1, 0)], [0]),
        ([], []),
    ],
)
def test_a_change_that_was_sent_again_is_there_once_where_the_table_has_a_key(rows: list[Change], kept: list[int]):
    """A repeat has the commit_ts, the operation and the key of an earlier change. The first one stays."""
    in_pieces = [changes(row) for row in rows] or [changes()]

    assert sorted(listed(_sorted(in_pieces, ("id",)))) == sorted(rows[number] for number in kept)
    assert sorted(listed(_sorted([changes(*rows)], ("id",)))) == sorted(rows[number] for number in kept)
    assert sorted(listed(_sorted(in_pieces, ()))) == sorted(rows)


def test_changes_are_in_the_order_of_commit_ts_and_then_of_arrival():
    first, second = changes(("I", 7, 1, 0), ("I", 5, 2, 3)), changes(("I", 7, 3, 1), ("I", 6, 4, 2), ("I", 5, 5, 2))

    ordered = [("I", 5, 5, 2), ("I", 5, 2, 3), ("I", 6, 4, 2), ("I", 7, 1, 0), ("I", 7, 3, 1)]
    assert listed(_sorted([first, second], ())) == ordered
    assert listed(_sorted([first, second], ("id",))) == ordered


def test_the_delete_of_a_moved_key_comes_before_its_insert():
    """Both halves of a split update have one position."""
    assert listed(_sorted([changes(("I", 5, 2, 0), half=1), changes(("D", 5, 1, 0))], ("id",))) == [
        ("D", 5, 1, 0),
        ("I", 5, 2, 0),
    ]


def piece(position: list[int], *rows: Change) -> Piece:
    return Piece(("s", "t"), None, 0, np.array(position), changes(*rows))  # type: ignore[arg-type]


def test_pieces_are_put_in_the_order_of_the_stream():
    """By position of the message, and then within it: a message may have rows of several pieces."""
    one = piece([1, 0], ("I", 1, 1, 4), ("I", 1, 2, 9))
    two = piece([0, 0], ("I", 1, 3, 4), ("I", 1, 4, 5))

    assert [key for _, _, key, _ in listed(_in_order([one, two]))] == [3, 1, 4, 2]
