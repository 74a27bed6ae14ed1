"""Changes as columns: parts of them, and parts put together."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ticdc_assets.protocols.columnar.message_rows import TableRows, take
from ticdc_assets.protocols.columnar.raw_rows import RawRows, concat


def rows(*lines: int, before: bool = False, sent: bool = False) -> RawRows:
    texts = pa.array([str(line) for line in lines], pa.string())
    return RawRows(
        op=pa.array(["I"] * len(lines), pa.string()),
        commit_ts=pa.array([10 * line for line in lines], pa.int64()),
        commit_ms=pa.array([None] * len(lines), pa.int64()),
        line=pa.array(lines, pa.int64()),
        columns=("a",),
        wire=(texts,),
        before=(texts,) if before else None,
        has_before=pa.array([line % 2 == 0 for line in lines], pa.bool_()) if before else None,
        sent=(pa.array([line > 1 for line in lines], pa.bool_()),) if sent else None,
    )


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("sent", [False, True])
def test_a_part_of_changes_has_the_same_part_of_each_column(before: bool, sent: bool):
    every = rows(1, 2, 3, 4, before=before, sent=sent)

    assert len(every) == 4
    assert every.slice(1) == rows(2, 3, 4, before=before, sent=sent)
    assert every.slice(1, 2) == rows(2, 3, before=before, sent=sent)
    assert every.filter(pa.array([True, False, False, True])) == rows(1, 4, before=before, sent=sent)
    assert every.take(pa.array([3, 0])) == rows(4, 1, before=before, sent=sent)


@pytest.mark.parametrize("before", [False, True])
def test_changes_of_one_file_are_put_together_in_their_order(before: bool):
    assert concat([rows(1, 2, before=before), rows(3, before=before)]) == rows(1, 2, 3, before=before)


def test_changes_with_and_without_old_rows_are_not_put_together():
    with pytest.raises(AssertionError):
        concat([rows(1), rows(2, before=True)])


@pytest.mark.parametrize(("table_id", "partition_id"), [(True, True), (True, False), (False, True), (False, False)])
def test_some_rows_of_a_table_have_their_positions_and_ids(table_id: bool, partition_id: bool):
    numbers = pa.array([7, 8, 9], pa.int64())
    ids = {"table_id": numbers if table_id else None, "partition_id": numbers if partition_id else None}
    table = TableRows(schema="s", table="t", schema_version=None, rows=rows(1, 2, 3), position=numbers, **ids)

    found = take(table, pa.array([2, 0]))

    assert found.rows == rows(3, 1)
    assert found.position.to_pylist() == [9, 7]
    assert [of and of.to_pylist() for of in (found.table_id, found.partition_id)] == [
        [9, 7] if there else None for there in (table_id, partition_id)
    ]
