"""The schedules of maintenance and of comparisons with TiDB, off by default.

While the previous run is queued or started, a tick is skipped with the id of that run, so runs do not accumulate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import dagster as dg

from ticdc_assets.assets.earlier_runs import on_its_way

if TYPE_CHECKING:
    from ticdc_assets.assets.steps import Feed

EVERY_NIGHT: Final = "17 2 * * *"
LATER_AT_NIGHT: Final = "17 3 * * *"
EVERY_ROW_IN_A_WEEK: Final = "15%"


def maintenance_schedule(feed: Feed) -> dg.ScheduleDefinition:
    """Maintenance waits in the queue while another run of the changefeed is active."""
    names = feed.names
    description = f"Maintains the tables of {names.changefeed}."
    request = dg.RunRequest(tags=names.tags)
    return _schedule(names.maintenance_schedule, names.maintenance_job, EVERY_NIGHT, description, request)


def verify_schedule(feed: Feed) -> dg.ScheduleDefinition:
    """Samples of all mirrors that have every row in a week. They change nothing, so runs may be active at the time."""
    names = feed.names
    config = {"ops": {names.verify_op: {"config": {"sample": EVERY_ROW_IN_A_WEEK}}}}
    description = f"Compares samples of the mirrors of {names.changefeed} with TiDB."
    request = dg.RunRequest(run_config=config)
    return _schedule(names.verify_schedule, names.verify_job, LATER_AT_NIGHT, description, request)


def _schedule(name: str, job: str, cron: str, description: str, request: dg.RunRequest) -> dg.ScheduleDefinition:
    def evaluate(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        going_on = on_its_way(context.instance, request.tags, job)
        return dg.SkipReason(going_on) if going_on else request

    return dg.ScheduleDefinition(
        name=name,
        job_name=job,
        cron_schedule=cron,
        execution_timezone="UTC",
        execution_fn=evaluate,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=description,
    )
