"""Files are divided into tasks of about equal bytes, so that no core is idle in the last round."""

import pytest

from ticdc_assets.pipeline.tasks import TASK_BYTES_MIN, TASKS_PER_CORE, TaskFile, pack

MIB = 1 << 20


def files(*sizes: int, table: str = "t") -> list[TaskFile]:
    return [
        TaskFile(f"{table}/{number}", size, ("s", table), "s", table, 1, number) for number, size in enumerate(sizes)
    ]


def sizes(tasks: list[tuple[TaskFile, ...]]) -> list[int]:
    return [sum(file.size_bytes for file in task) for task in tasks]


def test_files_of_little_size_are_one_task():
    assert sizes(pack(files(MIB, MIB, MIB), 2, {})) == [3 * MIB]


def test_files_of_large_size_are_some_tasks_for_each_core():
    tasks = pack(files(*[8 * MIB] * 40), 2, {})

    assert len(tasks) == 2 * TASKS_PER_CORE
    assert len(set(sizes(tasks))) == 1


@pytest.mark.parametrize("mib", range(1, 40))
def test_every_round_has_a_task_for_each_core_or_there_is_one_round(mib: int):
    tasks = pack(files(*[MIB // 8] * 8 * mib), 4, {})

    assert len(tasks) <= 4 or len(tasks) % 4 == 0
    assert sum(sizes(tasks)) == mib * MIB
    assert max(sizes(tasks)) - min(sizes(tasks)) <= MIB // 8
    assert min(sizes(tasks)) >= min(TASK_BYTES_MIN, mib * MIB) - MIB // 8


def test_large_files_are_spread_over_tasks():
    assert sizes(pack(files(*[20 * MIB] * 6), 2, {})) == [40 * MIB, 20 * MIB, 40 * MIB, 20 * MIB]


def test_empty_files_are_in_a_task():
    assert sizes(pack(files(0, 0), 2, {})) == [0]
    assert len(pack(files(*[8 * MIB] * 4, 0), 2, {})) == 4


def test_files_keep_their_order_and_those_of_a_table_without_key_stay_together():
    keyless, keyed = files(*[8 * MIB] * 4, table="a"), files(*[8 * MIB] * 4, table="b")

    tasks = pack([*keyless, *keyed], 2, {("s", "a"): True})

    assert [file for task in tasks for file in task] == [*keyless, *keyed]
    assert sum(any(file.table == "a" for file in task) for task in tasks) == 1
