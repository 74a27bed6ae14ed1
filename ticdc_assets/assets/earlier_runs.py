"""What Dagster's earlier runs of a changefeed mean for the next run: one may be active, or the last ones failed.

Each answer is a sentence that names the run, so that the user can look at it or terminate it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import dagster as dg
from dagster import DagsterEventType, DagsterRunStatus, RunsFilter
from dagster._core.errors import DagsterAssetCheckFailedError

from ticdc_assets.plurals import duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dagster import RunRecord

    from ticdc_assets.assets.keys import FeedNames

AGAIN_AFTER_S: Final = 120
"""Seconds from the first failed run to the next request; they double with each further failure."""

BROKEN_MAX: Final = 7
"""At most this many failed runs in a row are counted, which limits the wait to about two hours."""

_GOING_ON: Final = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
]

_CANCELLED: Final = (DagsterRunStatus.CANCELING, DagsterRunStatus.CANCELED)


def on_its_way(instance: dg.DagsterInstance, tags: Mapping[str, str], job: str | None = None) -> str | None:
    """A sentence on the run with these tags that is queued or started, and since when; None without one."""
    wanted = RunsFilter(job_name=job, tags=tags, statuses=_GOING_ON)
    for record in instance.get_run_records(wanted, limit=1, ascending=True):
        run, age = record.dagster_run, duration(time.time() - _since(record))
        return (
            f"Run {run.run_id} of {run.job_name} has been {run.status.value} for {age}; the next run is requested "
            "after it. If its process no longer exists, terminate the run in the UI."
        )
    return None


@dataclass(frozen=True, slots=True)
class Broken:
    """The last run of a job failed, and perhaps runs before it. `wait_s` is the time left until the next attempt."""

    run_id: str
    in_a_row: int
    age_s: float

    @property
    def wait_s(self) -> float:
        return (AGAIN_AFTER_S << (self.in_a_row - 1)) - self.age_s

    @property
    def sentence(self) -> str:
        return (
            f"Run {self.run_id} failed {duration(self.age_s)} ago; the next run is requested in "
            f"{duration(self.wait_s)}, with or without new data. Find out why it failed, or start the job yourself."
        )


def broken(instance: dg.DagsterInstance, names: FeedNames) -> Broken | None:
    """The last run of the job that processes everything pending, if it failed; with the number of failures in a row."""
    wanted = RunsFilter(job_name=names.job, tags=names.tags)
    records = instance.get_run_records(wanted, limit=BROKEN_MAX)
    in_a_row = next((n for n, record in enumerate(records) if not broke(instance, record)), len(records))
    if not in_a_row:
        return None
    newest = records[0]
    return Broken(newest.dagster_run.run_id, in_a_row, time.time() - _ended(newest))


def cancelled(instance: dg.DagsterInstance, names: FeedNames) -> str | None:
    """A sentence on the last run of that job, and how to continue, if it was cancelled; else None."""
    for record in instance.get_run_records(RunsFilter(job_name=names.job, tags=names.tags), limit=1):
        run = record.dagster_run
        if run.status in _CANCELLED:
            return (
                f"Run {run.run_id[:8]} for this state of the source was cancelled, so no run is requested. To "
                f"continue, start {run.job_name} yourself, or wait for new files, messages or a newer checkpoint."
            )
    return None


def broke(instance: dg.DagsterInstance, record: RunRecord) -> bool:
    """Whether a run failed for another reason than its checks: after failed checks, another run changes nothing."""
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
