"""All tables of a changefeed pinned as of one moment: the job that is `ticdc-assets snapshot --at TSO --pin NAME`.

It refuses what the command refuses. It is in the changefeed's pool, so that it and a run never execute at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg

from ticdc_assets.assets.jobs.one_step import OneStep, one_step_job
from ticdc_assets.assets.metadata.shown import shown
from ticdc_assets.assets.resources import report_failures, tso_of
from ticdc_assets.pipeline.history.pins import pin
from ticdc_assets.tso import to_datetime

if TYPE_CHECKING:
    from ticdc_assets.assets.resources import ChangefeedRun
    from ticdc_assets.assets.steps import Feed

_SETTINGS = {
    "at": dg.Field(str, description="The TSO, or a time with its zone, such as 2025-07-31T16:00:00Z."),
    "pin": dg.Field(str, description="The name of the pin, and of the tag on every table."),
}


def as_of_job(feed: Feed, resource: dg.ResourceDefinition) -> dg.JobDefinition:
    """A job with one step. The metadata of its output has the pinned TSO and the snapshot of each table."""
    step = OneStep(
        feed.names.as_of_op,
        feed.names.as_of_job,
        "Pins all tables at the newest recorded TSO up to the given one.",
        f"Pins all tables of {feed.names.changefeed} as of one moment.",
        _SETTINGS,
        _pin,
    )
    return one_step_job(feed, resource, step)


def _pin(context: dg.OpExecutionContext, feed: Feed) -> Iterator[dg.Output[None]]:
    run: ChangefeedRun = getattr(context.resources, feed.names.resource)
    with report_failures(run, context.retry_number):
        made = pin(run.lake, run.jvm, context.op_config["pin"], tso_of("at", context.op_config["at"]))
    yield dg.Output(
        None,
        metadata={
            "pin": made.name,
            "watermark": str(made.tso),
            "watermark_time": dg.MetadataValue.timestamp(to_datetime(made.tso)),
            "tables": len(made.tables),
            "snapshots": dg.MetadataValue.json(shown(made.tables)),
        },
    )
