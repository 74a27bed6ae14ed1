"""The schedule of maintenance.

While the previous run is queued or started, a tick is skipped with the id of that run, so runs do not accumulate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import dagster as dg

from ticdc_assets.assets.earlier_runs import on_its_way

if TYPE_CHECKING:
    from ticdc_assets.assets.steps import Feed

EVERY_NIGHT: Final = "17 2 * * *"


def maintenance_schedule(feed: Feed) -> dg.ScheduleDefinition:
    """Every night, off by default. Maintenance waits in the queue while another run of the changefeed is active."""
    names = feed.names

    def evaluate(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        going_on = on_its_way(context.instance, names.tags, names.maintenance_job)
        return dg.SkipReason(going_on) if going_on else dg.RunRequest(tags=names.tags)

    return dg.ScheduleDefinition(
        name=names.maintenance_schedule,
        job_name=names.maintenance_job,
        cron_schedule=EVERY_NIGHT,
        execution_timezone="UTC",
        execution_fn=evaluate,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=f"Maintains the tables of {names.changefeed}.",
    )
