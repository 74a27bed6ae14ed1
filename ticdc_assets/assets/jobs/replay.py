"""The replay of quarantined records as a job: the same as `ticdc-assets replay --quarantine`.

It is in the changefeed's pool, so that it and a run never execute at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg

from ticdc_assets.assets.job_events import table_events
from ticdc_assets.assets.jobs.one_step import OneStep, one_step_job
from ticdc_assets.assets.metadata.figures import Metadata
from ticdc_assets.assets.resources import RETRIES_MAX, report_failures
from ticdc_assets.assets.steps import progress_logger
from ticdc_assets.pipeline.replay.run import ReplayReport, ReplayRequest, Resolution, position_of, replay
from ticdc_assets.pipeline.run.mirrors import run_mirrors
from ticdc_assets.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ticdc_assets.assets.resources import ChangefeedRun
    from ticdc_assets.assets.steps import Feed
    from ticdc_assets.tables.control.records import QuarantinedRecord

_SETTINGS = {
    "records": dg.Field(
        dg.Noneable([str]), default_value=None, description="Each as PATH:LINE; default: all in quarantine."
    ),
    "discard": dg.Field(
        [str], default_value=[], description="Records to give up, each as PATH:LINE. Then only `records` are decoded."
    ),
}


def replay_job(feed: Feed, resource: dg.ResourceDefinition) -> dg.JobDefinition:
    """A job with one step. The metadata of its output has the number of records by their resolution."""
    step = OneStep(
        feed.names.replay_op,
        feed.names.replay_job,
        "Decodes records in quarantine again and adds their changes, or gives them up.",
        f"Replay of the quarantine of {feed.names.changefeed}.",
        _SETTINGS,
        _replay,
    )
    return one_step_job(feed, resource, step)


def _replay(context: dg.OpExecutionContext, feed: Feed) -> Iterator[dg.Output[None]]:
    run: ChangefeedRun = getattr(context.resources, feed.names.resource)
    before = run.quarantined()
    with report_failures(run, RETRIES_MAX):
        report = replay(run.lake, _request(context.op_config["records"], context.op_config["discard"]))
        done = run_mirrors(run.lake, report.run_id, run.jvm, progress_logger(context))
        run.published()
    errors = [] if done is None else [*done.record.texts(done.errors).values()]
    errors += [outcome.reason for outcome in report.outcomes if outcome.resolution is Resolution.STILL_BAD]
    for event in table_events(feed, run, _done(before, report)):
        context.log_event(event)
    left = {"dagster/row_count": len(run.lake.control.quarantined())}
    context.log_event(dg.AssetMaterialization(feed.names.quarantine, metadata=left))
    counts = Counter(outcome.resolution for outcome in report.outcomes)
    metadata = {f"records_{resolution.replace(' ', '_')}": counts[resolution] for resolution in Resolution}
    yield dg.Output(None, metadata=metadata)
    if errors:
        raise dg.Failure(printable(" ".join(errors)), metadata, allow_retries=False)


def _request(records: list[str] | None, discard: list[str]) -> ReplayRequest:
    only = None if records is None and not discard else frozenset(map(position_of, records or ()))
    return ReplayRequest(only, discarded=frozenset(map(position_of, discard)))


def _done(before: Mapping[str, Sequence[QuarantinedRecord]], report: ReplayReport) -> dict[str, Metadata]:
    """By source table, the changes that it gained and the records that were given up."""
    given_up = {outcome.record.position for outcome in report.outcomes if outcome.resolution is Resolution.DISCARDED}
    done: dict[str, Metadata] = {i: {"replayed_changes": added} for i, added in report.added.items() if added}
    for source_table, records in before.items():
        count = sum(record.position in given_up for record in records)
        if count:
            done.setdefault(source_table, {})["discarded_records"] = count
    return done
