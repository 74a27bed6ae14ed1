"""The maintenance of a changefeed's tables as a job: the same as `ticdc-assets maintain`, on a schedule.

It refuses what the command refuses. It fails where the command exits with 1, after everything else is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from ticdc_assets.assets.jobs.one_step import OneStep, one_step_job
from ticdc_assets.assets.resources import report_failures
from ticdc_assets.assets.steps import progress_logger
from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.maintenance import (
    AGE_MAX,
    DAYS_KEPT,
    OLDER_THAN_HOURS,
    OLDER_THAN_HOURS_MIN,
    Policy,
    maintain,
)
from ticdc_assets.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ticdc_assets.assets.resources import ChangefeedRun
    from ticdc_assets.assets.steps import Feed
    from ticdc_assets.pipeline.maintenance import MaintenanceReport

_SETTINGS = {
    "older_than_hours": dg.Field(
        float, default_value=float(OLDER_THAN_HOURS), description="Keep everything younger than this."
    ),
    "keep_days": dg.Field(int, default_value=DAYS_KEPT, description="How long the last record of each day stays."),
    "compact": dg.Field(bool, default_value=False, description="Also rewrite small files, with Spark."),
    "dry_run": dg.Field(bool, default_value=False, description="Only show what would be removed."),
}


def maintenance_job(feed: Feed, resource: dg.ResourceDefinition) -> dg.JobDefinition:
    """A job with one step. The metadata of its output has the counts of what was removed."""
    step = OneStep(
        feed.names.maintenance_op,
        feed.names.maintenance_job,
        "Removes old records, expires snapshots, removes files that no table needs, and finds late files.",
        f"Maintenance of the tables of {feed.names.changefeed}.",
        _SETTINGS,
        _maintain,
    )
    return one_step_job(feed, resource, step)


def _maintain(context: dg.OpExecutionContext, feed: Feed) -> Iterator[dg.Output[None]]:
    run: ChangefeedRun = getattr(context.resources, feed.names.resource)
    with report_failures(run, context.retry_number):
        report = maintain(run.lake, _policy(context.op_config), run.jvm, progress_logger(context))
    metadata = _counts(report)
    yield dg.Output(None, metadata=metadata)
    if report.left_alone:
        listed = "; ".join(f"{place}: left alone, because {why}" for place, why in sorted(report.left_alone.items()))
        raise dg.Failure(printable(f"{listed}. Everything else is done."), metadata, allow_retries=False)


def _policy(config: Mapping[str, Any]) -> Policy:
    """The requested policy, relative to now. Dagster's config has no number ranges, so they are checked here."""
    for name, least in (("older_than_hours", OLDER_THAN_HOURS_MIN), ("keep_days", 0)):
        if not least <= config[name] <= AGE_MAX:
            expected = f"a number from {least} to {AGE_MAX}"
            raise ConfigError(
                f"maintenance, {name}", expected, str(config[name]), "Correct the run's config; nothing was changed."
            )
    return Policy(
        datetime.now(UTC), config["older_than_hours"], config["keep_days"], config["compact"], config["dry_run"]
    )


def _counts(report: MaintenanceReport) -> dict[str, int]:
    return {
        "records": report.records,
        "messages": report.messages,
        "snapshots": report.snapshots,
        "branches": report.branches,
        "files_compacted": sum(report.compacted.values()),
        "leftover_files": len(report.leftovers),
        "leftover_bytes": report.size_bytes,
        "late_files": len(report.late_files),
        "locations_left_alone": len(report.left_alone),
    }
