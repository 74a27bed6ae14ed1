"""Schedules: everything pending, every ten minutes, for those who do not want a sensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import dagster as dg

if TYPE_CHECKING:
    from ticdc_assets.assets.steps import Feed

EVERY_10_MINUTES: Final = "*/10 * * * *"


def schedules_of(feed: Feed, job: str) -> list[dg.ScheduleDefinition]:
    """One schedule, off until somebody turns it on."""
    return [
        dg.ScheduleDefinition(
            name=feed.names.schedule,
            job_name=job,
            cron_schedule=EVERY_10_MINUTES,
            execution_timezone="UTC",
            tags=feed.names.tags,
            default_status=dg.DefaultScheduleStatus.STOPPED,
            description="Everything pending of this changefeed.",
        )
    ]
