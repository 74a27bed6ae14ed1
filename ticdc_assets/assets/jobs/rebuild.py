"""The rebuild of a changefeed's tables as a job: the same as `ticdc-assets rebuild`, with its options as run config.

It refuses what the command refuses. It fails where the command exits with 1, after everything else is done. It is in
the changefeed's pool, so that it and a run never execute at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, Any

import dagster as dg

from ticdc_assets.assets.job_events import table_events
from ticdc_assets.assets.jobs.one_step import OneStep, one_step_job
from ticdc_assets.assets.resources import RETRIES_MAX, report_failures, tso_of
from ticdc_assets.assets.steps import progress_logger
from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.rebuild.run import RebuildRequest, rebuild_tables
from ticdc_assets.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ticdc_assets.assets.resources import ChangefeedRun
    from ticdc_assets.assets.steps import Feed

_SETTINGS = {  # an empty text, because the Launchpad leaves out defaults of None
    "tables": dg.Field([str], default_value=[], description="Each as schema.table; default: all tables."),
    "from": dg.Field(
        dg.Enum("origin", [dg.EnumValue("changelog"), dg.EnumValue("source")]),
        default_value="changelog",
        description="Mirrors from their changelogs, or changelogs and mirrors from the source.",
    ),
    "at": dg.Field(dg.Noneable(str), default_value="", description="Rebuild mirrors as of this TSO."),
    "day": dg.Field(
        dg.Noneable(str), default_value="", description="From the source: only this UTC day of commits, 2026-01-05."
    ),
}


def rebuild_job(feed: Feed, resource: dg.ResourceDefinition) -> dg.JobDefinition:
    """A job with one step. The metadata of its output has the number of tables."""
    step = OneStep(
        feed.names.rebuild_op,
        feed.names.rebuild_job,
        "Rebuilds mirrors, or changelogs and mirrors, and replaces each in one commit.",
        f"Rebuild of the tables of {feed.names.changefeed}.",
        _SETTINGS,
        _rebuild,
    )
    return one_step_job(feed, resource, step)


def _rebuild(context: dg.OpExecutionContext, feed: Feed) -> Iterator[dg.Output[None]]:
    run: ChangefeedRun = getattr(context.resources, feed.names.resource)
    with report_failures(run, RETRIES_MAX):
        report = rebuild_tables(run.lake, run.jvm, _request(context.op_config), progress_logger(context))
        run.published()
    asked = {f"rebuilt_{name}": value for name, value in context.op_config.items() if name != "tables" and value}
    from_source = context.op_config["from"] == "source"
    for event in table_events(feed, run, dict.fromkeys(report.rebuilt, asked), from_source):
        context.log_event(event)
    metadata = {"tables_rebuilt": len(report.rebuilt), "tables_as_they_were": len(report.errors)}
    yield dg.Output(None, metadata=metadata)
    if report.errors:
        raise dg.Failure(printable(" ".join(report.errors.values())), metadata, allow_retries=False)


def _request(config: Mapping[str, Any]) -> RebuildRequest:
    tso = tso_of("at", config["at"]) if config["at"] else None
    return RebuildRequest(tuple(config["tables"]), config["from"] == "source", tso, _day(config["day"]))


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise ConfigError("day", "a day such as 2026-01-05", "something else", "Correct the run's config.") from None
