"""The result of the first pass over a stream: offsets, watermarks, tables and commit_ts."""

from __future__ import annotations

import numpy as np
import pytest

from ticdc_assets.pipeline.stream.offsets.ledger import Ledger
from ticdc_assets.pipeline.stream.scan.result import (
    RunningMaxima,
    ScannedCommits,
    ScannedOffsets,
    ScannedTables,
    ScannedWatermarks,
    StreamScan,
)
from ticdc_assets.schema.ddl_event import DdlEvent

P, Q = ("feed", 0), ("feed", 1)
T, U = ("shop", "t"), ("shop", "u")


def test_offsets_end_behind_the_last_message_that_was_added():
    found = ScannedOffsets()
    for partition, end in ((P, 5), (P, 3), (Q, 1), (P, 6)):
        found.extend(partition, end)

    assert found.ends == {P: 6, Q: 1}


def test_the_partitions_are_those_of_earlier_runs_and_of_this_capture():
    ledger = Ledger()
    ledger.add_range(P, 3, 4)

    assert ScannedOffsets(ledger, known=frozenset({Q})).partitions == {P, Q}


def watermarks(*passed: tuple[int, int]) -> ScannedWatermarks:
    """Watermarks of one partition, by offset."""
    found = ScannedWatermarks()
    for offset, ts in passed:
        found.add(P, offset, ts)
    return found


def test_the_newest_watermark_is_the_largest():
    assert watermarks((1, 50), (2, 40)).newest == {P: 50}
    assert watermarks((1, 40), (2, 50)).newest == {P: 50}


@pytest.mark.parametrize(("offset", "ts"), [(1, 0), (2, 40), (4, 40), (5, 50), (6, 45), (9, 45)])
def test_the_watermark_before_a_message_is_the_last_one_of_a_smaller_offset(offset: int, ts: int):
    found = watermarks((1, 40), (4, 50), (5, 45))

    assert found.passed_before(P, offset) == ts
    assert found.passed_before(Q, offset) == 0


@pytest.mark.parametrize(
    ("passed", "deliveries"),
    [
        (((1, 40), (2, 50)), {}),
        (((1, 40), (2, 40)), {}),
        (((1, 40), (2, 39), (3, 39), (4, 38)), {P: [2, 4]}),
        (((2, 40), (1, 50)), {P: [2]}),
        ((), {}),
    ],
)
def test_a_new_delivery_begins_where_a_watermark_is_smaller_than_the_one_before(
    passed: tuple[tuple[int, int], ...], deliveries: dict[tuple[str, int], list[int]]
):
    """By offset, in whatever order the capture has them."""
    found = watermarks(*passed)

    found.find_deliveries()

    assert found.deliveries == deliveries


def test_the_first_row_of_a_table_is_the_one_of_the_smallest_time_in_any_topic():
    found = ScannedTables()
    for topic, name, ts in (("one", "t", 5), ("two", "T", 5), ("one", "T", 4), ("one", "t", 9), ("two", "u", 0)):
        found.add_row(topic, "shop", name, ts)

    assert found.first_rows == {T: ("shop", "T", 4), U: ("shop", "u", 0)}
    assert found.by_topic == {"one": {T}, "two": {T, U}}


@pytest.mark.parametrize(
    ("inferred_at", "ts", "is_inferred"), [(4, 4, False), (4, 5, True), (0, 0, True), (1, 0, False)]
)
def test_a_table_is_inferred_from_the_earliest_row(inferred_at: int, ts: int, is_inferred: bool):
    found = ScannedTables(inferred={T: DdlEvent(inferred_at, *T, "")})

    assert found.is_inferred(T, ts) is is_inferred
    assert not found.is_inferred(U, ts)


def test_tables_are_mentioned_by_rows_by_statements_and_by_messages_that_are_not_read():
    tables = ScannedTables({T: ("shop", "T", 4)}, behind={T: ("shop", "t"), U: ("shop", "U")})
    statements = [DdlEvent(1, "shop", "V", "DROP TABLE V"), DdlEvent(1, "shop", "", "DROP DATABASE shop")]

    found = StreamScan(tables=tables, statements=statements).mentioned

    assert found == {T: ("shop", "T"), U: ("shop", "U"), ("shop", "v"): ("shop", "V")}


def test_partitions_count_that_were_seen_or_are_configured_in_a_topic_that_is_waited_for():
    scan = StreamScan(
        ScannedOffsets(known=frozenset({("one", 0), ("two", 1), ("default", 0)})),
        tables=ScannedTables(by_topic={"one": {T}, "two": {U}}),
    )

    assert scan.counted({T}) == {("one", 0), ("default", 0)}
    assert scan.counted({T}, 2) == {("one", 0), ("one", 1), ("default", 0), ("default", 1)}
    assert scan.counted({T, U}) == {("one", 0), ("two", 1), ("default", 0)}


def maxima(*rows: tuple[int, int, int]) -> RunningMaxima:
    """Messages by offset, commit_ts and ordinal."""
    found = RunningMaxima()
    found.add(*np.array(rows, np.int64).reshape(-1, 3).T)
    return found


COMMITS = StreamScan(
    ScannedOffsets(ends={P: 9, Q: 7}),
    commits=ScannedCommits(maxima={P: maxima((3, 20, 0), (5, 40, 6)), Q: maxima((2, 30, 1))}),
    messages=8,
)


@pytest.mark.parametrize(("high", "first"), [(19, 3), (20, 5), (39, 5), (40, 9)])
def test_the_first_message_above_a_tso_is_the_end_where_there_is_none(high: int, first: int):
    assert COMMITS.first_above(P, high) == first
    assert StreamScan(ScannedOffsets(ends={P: 9})).first_above(P, high) == 9


@pytest.mark.parametrize(("ts", "last"), [(10, -1), (20, 0), (30, 5), (40, 7)])
def test_the_last_message_before_a_tso_is_the_one_before_the_first_above_it_in_any_partition(ts: int, last: int):
    assert COMMITS.last_before(ts) == last


def test_a_finished_scan_knows_its_first_offsets_and_deliveries():
    scan = StreamScan()
    scan.offsets.ledger.add_range(P, 3, 5)
    scan.watermarks = watermarks((4, 40), (3, 50))

    scan.finish()

    assert (scan.offsets.begins, scan.watermarks.deliveries) == ({P: 3}, {P: [4]})
