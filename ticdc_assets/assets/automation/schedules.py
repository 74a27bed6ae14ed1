"""Schedules: everything pending every ten minutes, in place of a sensor; maintenance every night.

While the previous run is queued or started, a tick is skipped with the id of that run, so runs do not accumulate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import dagster as dg

from ticdc_assets.assets.earlier_runs import on_its_way
from ticdc_assets.assets.stages.news import requested_keys

if TYPE_CHECKING:
    from ticdc_assets.assets.steps import Feed

EVERY_10_MINUTES: Final = "*/10 * * * *"
EVERY_NIGHT: Final = "17 2 * * *"

ScheduleEvaluation = Callable[[dg.ScheduleEvaluationContext], dg.RunRequest | dg.SkipReason]


def schedules_of(feed: Feed, job: str) -> list[dg.ScheduleDefinition]:
    """Two schedules, off by default. Maintenance waits in the queue while another run of the changefeed is active."""
    names = feed.names
    pending = "Processes everything pending of this changefeed."
    maintenance = "Maintains the tables of this changefeed."
    return [
        _schedule(
            names.schedule, job, EVERY_10_MINUTES, pending, _unless_on_its_way(names.tags, keys=requested_keys(feed))
        ),
        _schedule(
            names.maintenance_schedule,
            names.maintenance_job,
            EVERY_NIGHT,
            maintenance,
            _unless_on_its_way(names.tags, names.maintenance_job),
        ),
    ]


def _schedule(name: str, job: str, cron: str, description: str, evaluate: ScheduleEvaluation) -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        name=name,
        job_name=job,
        cron_schedule=cron,
        execution_timezone="UTC",
        execution_fn=evaluate,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=description,
    )


def _unless_on_its_way(
    tags: dict[str, str], job: str | None = None, keys: Sequence[dg.AssetKey] | None = None
) -> ScheduleEvaluation:
    checks: Sequence[dg.AssetCheckKey] | None = None if keys is None else []

    def evaluate(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        going_on = on_its_way(context.instance, tags, job)
        request = dg.RunRequest(tags=tags, asset_selection=keys, asset_check_keys=checks)
        return dg.SkipReason(going_on) if going_on else request

    return evaluate
