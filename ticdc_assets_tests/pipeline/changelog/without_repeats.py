"""Removes the repeats among parts, as a run does, with all tasks in this process."""

from __future__ import annotations

from collections.abc import Sequence

from ticdc_assets.pipeline.changelog import dedup
from ticdc_assets.pipeline.changelog.dedup import RemovalTask, RepeatReport
from ticdc_assets.pipeline.tasks import ChangelogPart


def without_repeats(parts: Sequence[ChangelogPart], key: tuple[str, ...]) -> RepeatReport:
    """The report of the removal; all versions have the same key."""
    keys = dict.fromkeys({part.version_ts for part in parts}, key)
    found = [dedup.find_repeats(task) for task in dedup.repeat_tasks(parts, keys, {})]
    return dedup.remove_repeats(RemovalTask(tuple(parts), dedup.joined(found)))
