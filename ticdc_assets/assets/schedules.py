"""Schedules: everything pending, every ten minutes, for those who do not want a sensor; maintenance every night."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import dagster as dg

if TYPE_CHECKING:
    from ticdc_assets.assets.steps import Feed

EVERY_10_MINUTES: Final = "*/10 * * * *"
EVERY_NIGHT: Final = "17 2 * * *"


def schedules_of(feed: Feed, job: str) -> list[dg.ScheduleDefinition]:
    """Two schedules, off until somebody turns them on."""
    pending = "Everything pending of this changefeed."
    maintenance = "Maintenance of this changefeed's tables."
    return [
        _schedule(feed, feed.names.schedule, job, EVERY_10_MINUTES, pending),
        _schedule(feed, feed.names.maintenance_schedule, feed.names.maintenance_job, EVERY_NIGHT, maintenance),
    ]


def _schedule(feed: Feed, name: str, job: str, cron: str, description: str) -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        name=name,
        job_name=job,
        cron_schedule=cron,
        execution_timezone="UTC",
        tags=feed.names.tags,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=description,
    )
