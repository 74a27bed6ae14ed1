"""Groups files into tasks: contiguous files of one table, tasks of about equal bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from ticdc_assets.pipeline.tasks import TaskFile
from ticdc_assets.schema.history.source_table import SourceName

TASK_BYTES_MIN: Final = 4 << 20  # below this, starting a task costs more than it saves
TASKS_PER_CORE: Final = 2  # so that one slow task does not leave the other cores idle for long


def pack(files: Sequence[TaskFile], cores: int, whole: Mapping[SourceName, bool]) -> list[tuple[TaskFile, ...]]:
    """Group `files`, which are in order of consumption by name. The files of a name in `whole` stay in one task,
    because the order of their deliveries matters (tables without a key)."""
    total = sum(file.size_bytes for file in files)
    count = max(1, min(cores * TASKS_PER_CORE, total // TASK_BYTES_MIN))
    if count > cores:
        count -= count % cores  # a last round with few tasks would leave cores idle
    tasks: dict[int, list[TaskFile]] = {}
    packed_bytes = 0
    for name, group in groupby(files, key=lambda file: file.name):
        for run in [list(group)] if whole.get(name) else [[file] for file in group]:
            number = min(count - 1, packed_bytes * count // max(1, total))
            tasks.setdefault(number, []).extend(run)
            packed_bytes += sum(file.size_bytes for file in run)
    return [tuple(task) for task in tasks.values()]
