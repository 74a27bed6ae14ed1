"""What earlier runs of a changefeed mean for the next one: whether one is on its way, and whether the last ones broke.

Enters Dagster's records of runs; leaves sentences that name the run, so that somebody can look at it or end it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import dagster as dg
from dagster import DagsterEventType, DagsterRunStatus, RunsFilter
from dagster._core.errors import DagsterAssetCheckFailedError

from ticdc_assets.assets.chart import duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dagster import RunRecord

    from ticdc_assets.assets.keys import FeedNames

AGAIN_AFTER_S: Final = 120
"""How long after the first broken run the next is asked for; twice as long after each further one."""

BROKEN_MAX: Final = 7
"""So many broken runs in a row are counted: the longest wait is some two hours."""

_GOING_ON: Final = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
]

_CANCELLED: Final = (DagsterRunStatus.CANCELING, DagsterRunStatus.CANCELED)


def on_its_way(instance: dg.DagsterInstance, tags: Mapping[str, str], job: str | None = None) -> str | None:
    """Which run with these tags is queued or started, and since when; None if there is none."""
    asked = RunsFilter(job_name=job, tags=tags, statuses=_GOING_ON)
    for record in instance.get_run_records(asked, limit=1, ascending=True):
        run, age = record.dagster_run, duration(time.time() - _since(record))
        return (
            f"Run {run.run_id} of {run.job_name} has been {run.status.value} for {age}; what is new is asked for after "
            "it. If its process is gone, terminate it in the UI."
        )
    return None


@dataclass(frozen=True, slots=True)
class Broken:
    """The last run of a job broke, after others or not. `wait_s` is what is left until it is worth another try."""

    run_id: str
    in_a_row: int
    age_s: float

    @property
    def wait_s(self) -> float:
        return (AGAIN_AFTER_S << (self.in_a_row - 1)) - self.age_s

    @property
    def sentence(self) -> str:
        return (
            f"Run {self.run_id} failed {duration(self.age_s)} ago; the next is asked for in {duration(self.wait_s)}, "
            "whether or not anything is new. Look at why it failed; or start the job yourself."
        )


def broken(instance: dg.DagsterInstance, names: FeedNames) -> Broken | None:
    """Whether the last run of everything pending broke, and how many did in a row."""
    asked = RunsFilter(job_name=names.job, tags=names.tags)
    records = instance.get_run_records(asked, limit=BROKEN_MAX)
    in_a_row = next((n for n, record in enumerate(records) if not _broke(instance, record)), len(records))
    if not in_a_row:
        return None
    newest = records[0]
    return Broken(newest.dagster_run.run_id, in_a_row, time.time() - _ended(newest))


def cancelled(instance: dg.DagsterInstance, names: FeedNames) -> str | None:
    """That the last run of everything pending was cancelled, and how to go on; None where it was not."""
    for record in instance.get_run_records(RunsFilter(job_name=names.job, tags=names.tags), limit=1):
        run = record.dagster_run
        if run.status in _CANCELLED:
            return (
                f"Run {run.run_id[:8]} for this state of the source was cancelled, so none is asked for. To go on, "
                f"start {run.job_name} by hand; new files or messages, or a newer checkpoint, go on too."
            )
    return None


def _broke(instance: dg.DagsterInstance, record: RunRecord) -> bool:
    """A run fails by red checks too, but that one has done its work: the tables that are held would be so again."""
    run = record.dagster_run
    if run.status is not DagsterRunStatus.FAILURE:
        return False
    failed = instance.all_logs(run.run_id, of_type=DagsterEventType.STEP_FAILURE)
    errors = [e.dagster_event.step_failure_data.error for e in failed if e.dagster_event]
    red = [e is not None and e.cls_name == DagsterAssetCheckFailedError.__name__ for e in errors]
    return not red or not all(red)


def _since(record: RunRecord) -> float:
    return record.start_time or record.create_timestamp.timestamp()


def _ended(record: RunRecord) -> float:
    return record.end_time or record.update_timestamp.timestamp()
