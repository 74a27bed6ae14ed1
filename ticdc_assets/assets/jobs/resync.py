"""Tables brought to what TiDB has, as a job: the same as `ticdc-assets resync`, with its options as run config.

It fails where the command exits with 1, after everything else is done. It is in the changefeed's pool, so that it and a
run never execute at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg

from ticdc_assets.assets.job_events import table_events
from ticdc_assets.assets.jobs.one_step import OneStep, one_step_job
from ticdc_assets.assets.metadata.figures import Metadata
from ticdc_assets.assets.resources import RETRIES_MAX, report_failures, tso_of
from ticdc_assets.assets.steps import progress_logger
from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.history.tables import split_name
from ticdc_assets.pipeline.reconcile.resync import ResyncReport, resync_tables
from ticdc_assets.pipeline.reconcile.whole_lake import resync_all
from ticdc_assets.pipeline.run.mirrors import run_mirrors
from ticdc_assets.printable import printable
from ticdc_assets.schema.history.source_table import fold_name

if TYPE_CHECKING:
    from ticdc_assets.assets.resources import ChangefeedRun
    from ticdc_assets.assets.steps import Feed

_SETTINGS = {
    "tables": dg.Field([str], default_value=[], description="Each as schema.table; none with `all`."),
    "all": dg.Field(bool, default_value=False, description="All tables: the stream was lost and begins anew."),
    "at": dg.Field(dg.Noneable(str), default_value="", description="The TSO; default: TiDB's present."),
}


def resync_job(feed: Feed, resource: dg.ResourceDefinition) -> dg.JobDefinition:
    """A job with one step. The metadata of its output has the rows that were copied and the changes that were added."""
    step = OneStep(
        feed.names.resync_op,
        feed.names.resync_job,
        "Copies tables that are held or new from TiDB, and adds what differs to live ones.",
        f"Brings tables of {feed.names.changefeed} to what TiDB has.",
        _SETTINGS,
        _resync,
    )
    return one_step_job(feed, resource, step)


def _resync(context: dg.OpExecutionContext, feed: Feed) -> Iterator[dg.Output[None]]:
    run: ChangefeedRun = getattr(context.resources, feed.names.resource)
    at, names = context.op_config["at"], [split_name(text) for text in context.op_config["tables"]]
    with report_failures(run, RETRIES_MAX):
        if bool(names) == context.op_config["all"]:
            raise ConfigError("run config", "`tables` or `all`", "both or neither", "Name the tables, or take all.")
        tso, on_progress = tso_of("at", at) if at else None, progress_logger(context)
        report = (
            resync_tables(run.lake, names, tso, run.jvm, on_progress)
            if names
            else resync_all(run.lake, tso, run.jvm, on_progress)
        )
        errors = dict(report.errors)
        if report.run_ids:
            done = run_mirrors(run.lake, report.run_ids[-1], run.jvm, on_progress)
            errors |= done.record.texts(done.errors) if done is not None else {}
        run.published()
    for event in table_events(feed, run, _done(run, report)):
        context.log_event(event)
    metadata = {"rows_copied": sum(report.copied.values()), "changes_added": sum(report.added.values())}
    yield dg.Output(None, metadata=metadata)
    if errors:
        raise dg.Failure(printable(" ".join(errors.values())), metadata, allow_retries=False)


def _done(run: ChangefeedRun, report: ResyncReport) -> dict[str, Metadata]:
    """By source table, what it gained from TiDB, and the TSO of TiDB's rows."""
    done: dict[str, Metadata] = {}
    for name in {*report.copied, *report.added, *report.rebuilt}:
        counts = {"resync_rows_copied": report.copied.get(name), "resync_changes_added": report.added.get(name)}
        table = run.tables().get(fold_name(*split_name(name)))
        if table is not None and (any(counts.values()) or name in report.rebuilt):
            shown = {key: count for key, count in counts.items() if count}
            done[table.source_table.id] = {**shown, "resync_tso": str(report.tsos.get(name, table.record.watermark))}
    return done
