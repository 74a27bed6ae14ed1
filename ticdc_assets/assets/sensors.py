"""Sensors compare the source with what they saw last. The cursor is a hint of constant size.

A sensor only requests a run. The run determines from the tables what is pending, so a lost or reset cursor costs one
run that finds nothing to do. The rules, in this order:

- While a run of the changefeed is queued or started, no other is requested.
- If the last run of its job failed, another is requested even without new data: after two minutes the first time, twice
  as long after each further failure, at most about two hours. A run with failed checks only does not count as failed.
- Otherwise a run is requested when the source differs from the cursor. A run that a user cancelled is not requested
  again, and ticks say so.

Requests have no run key: Dagster would never start a failed run with the same key again.
"""

# Dagster evaluates the annotation of `context`, so this module must not postpone annotations.
import json
from collections.abc import Callable

import dagster as dg

from ticdc_assets.assets.earlier_runs import broken, cancelled, on_its_way
from ticdc_assets.assets.schema_cache import observation
from ticdc_assets.assets.steps import Feed
from ticdc_assets.config import Changefeed, Config
from ticdc_assets.faults import plain
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.sources import glance_at

INTERVAL_S = 30

Evaluation = Callable[[dg.SensorEvaluationContext], dg.SensorResult]


def sensors_of(config: Config, changefeed: Changefeed, feed: Feed, job: str) -> list[dg.SensorDefinition]:
    """The sensor of the changefeed's source."""
    if feed.reads_files:
        name, description = feed.names.files_sensor, "New files at the source."
    else:
        name, description = feed.names.messages_sensor, "New messages, which may carry a later watermark."
    return [_sensor(name, job, description, _new_at_source(config, changefeed, feed))]


def _sensor(name: str, job: str, description: str, evaluate: Evaluation) -> dg.SensorDefinition:
    return dg.SensorDefinition(
        name=name,
        job_name=job,
        evaluation_fn=_report_failures(evaluate),
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description=f"{description} Requests a run; the run decides what to do.",
    )


def _report_failures(evaluate: Evaluation) -> Evaluation:
    def evaluated(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        try:
            return evaluate(context)
        except Exception as error:  # noqa: BLE001  Dagster stores the message of a failed tick
            raise plain(error) from None

    return evaluated


def _new_at_source(config: Config, changefeed: Changefeed, feed: Feed) -> Evaluation:
    def new_at_source(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        glance = glance_at(Lake(config, changefeed))
        if glance.not_yet:
            return dg.SensorResult(skip_reason=dg.SkipReason(glance.not_yet), cursor=context.cursor)
        if glance.checkpoint is None:
            return _asked(context, feed, _cursor(digest=glance.digest))
        checkpoint = str(glance.checkpoint)
        observed = observation(feed.names, glance.checkpoint, {"watermark": checkpoint})
        return _asked(context, feed, _cursor(checkpoint=checkpoint, digest=glance.digest), observed)

    return new_at_source


def _cursor(**seen: str) -> str:
    return json.dumps({"v": 1, **seen}, separators=(",", ":"))


def _asked(
    context: dg.SensorEvaluationContext, feed: Feed, seen: str, *observed: dg.AssetMaterialization
) -> dg.SensorResult:
    """Request a run by the rules above."""
    going_on = on_its_way(context.instance, feed.names.tags)
    if going_on:
        return dg.SensorResult(skip_reason=dg.SkipReason(going_on), cursor=context.cursor)
    failed = broken(context.instance, feed.names)
    if failed and failed.wait_s > 0:
        return dg.SensorResult(skip_reason=dg.SkipReason(failed.sentence), cursor=context.cursor)
    if seen == context.cursor and not failed:
        reason = cancelled(context.instance, feed.names) or "Nothing new at the source."
        return dg.SensorResult(skip_reason=dg.SkipReason(reason), cursor=seen)
    request = dg.RunRequest(tags=feed.names.tags)
    return dg.SensorResult(run_requests=[request], asset_events=list(observed), cursor=seen)
