"""How the offsets of one landing are cut: to a number of messages, and into pieces for tasks."""

from __future__ import annotations

import pytest

from ticdc_assets.pipeline.landing.plan import (
    TASK_OFFSETS_MIN,
    TASK_RANGES_MAX,
    PendingOffsets,
    ranges_of_tasks,
    taken,
)
from ticdc_assets.sources.kafka.ranges import KafkaPartition, OffsetRange

A, B, C = (KafkaPartition("feed", number) for number in range(3))


def test_a_landing_takes_so_many_messages_divided_fairly_in_order_of_partitions():
    ranges = [OffsetRange(C, 0, 9), OffsetRange(A, 5, 7), OffsetRange(B, 0, 9)]

    assert taken(ranges, 8) == [OffsetRange(A, 5, 7), OffsetRange(B, 0, 3), OffsetRange(C, 0, 3)]
    assert taken(ranges, 99) == [OffsetRange(A, 5, 7), OffsetRange(B, 0, 9), OffsetRange(C, 0, 9)]
    assert len(PendingOffsets(tuple(ranges), {})) == 20


@pytest.mark.parametrize(
    ("count", "tasks", "lengths"),
    [
        (0, 4, []),
        (1, 4, [1]),
        (TASK_OFFSETS_MIN, 4, [TASK_OFFSETS_MIN]),
        (TASK_OFFSETS_MIN + 1, 4, [TASK_OFFSETS_MIN, 1]),
        (8 * TASK_OFFSETS_MIN, 4, [2 * TASK_OFFSETS_MIN] * 4),
        (8 * TASK_OFFSETS_MIN + 1, 4, [2 * TASK_OFFSETS_MIN + 1] * 3 + [2 * TASK_OFFSETS_MIN - 2]),
    ],
)
def test_a_long_range_is_cut_into_as_many_pieces_as_there_are_tasks(count: int, tasks: int, lengths: list[int]):
    found = [piece for [piece] in ranges_of_tasks([OffsetRange(A, 3, 3 + count)], tasks)]

    assert [len(piece) for piece in found] == lengths
    assert [(piece.begin, piece.partition) for piece in found] == [(3 + sum(lengths[:n]), A) for n in range(len(found))]


def test_pieces_are_as_long_as_all_ranges_together_need():
    ranges = [OffsetRange(A, 0, 3 * TASK_OFFSETS_MIN), OffsetRange(B, 0, TASK_OFFSETS_MIN)]

    assert [(piece.partition, len(piece)) for [piece] in ranges_of_tasks(ranges, 2)] == [
        (A, 2 * TASK_OFFSETS_MIN),
        (A, TASK_OFFSETS_MIN),
        (B, TASK_OFFSETS_MIN),
    ]


def test_short_ranges_are_read_together_after_the_long_pieces_of_their_partitions():
    half = TASK_OFFSETS_MIN // 2
    ranges = [OffsetRange(A, 0, TASK_OFFSETS_MIN + half), OffsetRange(B, 5, 5 + half), OffsetRange(C, 0, 1)]

    assert list(ranges_of_tasks(ranges, 8)) == [
        (OffsetRange(A, 0, TASK_OFFSETS_MIN),),
        (OffsetRange(A, TASK_OFFSETS_MIN, TASK_OFFSETS_MIN + half), OffsetRange(B, 5, 5 + half)),
        (OffsetRange(C, 0, 1),),
    ]


def test_a_task_reads_no_more_ranges_than_it_may_have_files_open():
    ranges = [OffsetRange(KafkaPartition("feed", number), 0, 1) for number in range(2 * TASK_RANGES_MAX + 1)]
    found = list(ranges_of_tasks(ranges, 8))

    assert [len(task) for task in found] == [TASK_RANGES_MAX, TASK_RANGES_MAX, 1]
    assert [wanted for task in found for wanted in task] == ranges
