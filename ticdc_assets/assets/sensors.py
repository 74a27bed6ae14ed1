"""Sensors: what the source has, against what a sensor saw last. Its cursor is a hint of constant size.

A sensor only asks for a run; the run itself decides what is to do, from the tables. So a cursor that is lost or reset
costs one run that finds nothing. The rule, in this order:

- While a run of the changefeed is queued or started, none is asked for.
- If the last run of its job broke, another is asked for, whether or not anything is new: two minutes after the first,
  twice as long after each further one, at most some two hours. A run that only has red checks did not break.
- Else one is asked for whenever the source is not as the cursor says. A run that somebody cancelled stays
  cancelled, and ticks say so.

Runs are asked for without a key: Dagster would never again start one that it has seen fail.
"""

# Dagster reads the annotation of `context`, so that annotations here are not postponed.
import json
from collections.abc import Callable

import dagster as dg

from ticdc_assets.assets.earlier_runs import broken, cancelled, on_its_way
from ticdc_assets.assets.schema_cache import observation
from ticdc_assets.assets.steps import Feed
from ticdc_assets.config import CaptureSource, Changefeed, Config, StorageSource
from ticdc_assets.errors import NotYetError
from ticdc_assets.faults import plain
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.sources.capture import peek as peek_capture
from ticdc_assets.sources.filesystem import open_root
from ticdc_assets.sources.storage import peek
from ticdc_assets.sources.storage_paths import Layout

INTERVAL_S = 30

Evaluation = Callable[[dg.SensorEvaluationContext], dg.SensorResult]


def sensors_of(config: Config, changefeed: Changefeed, feed: Feed, job: str) -> list[dg.SensorDefinition]:
    """The sensors that fit the changefeed's kind of source."""
    if isinstance(changefeed.source, StorageSource):
        return [_sensor(feed.names.files_sensor, job, "New files at the source.", _new_files(config, changefeed, feed))]
    if isinstance(changefeed.source, CaptureSource):
        told = "New messages in the capture, which may carry a later watermark."
        return [_sensor(feed.names.messages_sensor, job, told, _new_messages(changefeed.source, feed))]
    return []


def _sensor(name: str, job: str, description: str, evaluate: Evaluation) -> dg.SensorDefinition:
    return dg.SensorDefinition(
        name=name,
        job_name=job,
        evaluation_fn=_told_plainly(evaluate),
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description=f"{description} Asks for a run; the run decides what is to do.",
    )


def _told_plainly(evaluate: Evaluation) -> Evaluation:
    def told(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        try:
            return evaluate(context)
        except Exception as error:  # noqa: BLE001  Dagster keeps what a failed tick says
            raise plain(error) from None

    return told


def _new_files(config: Config, changefeed: Changefeed, feed: Feed) -> Evaluation:
    def new_files(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        lake = Lake(config, changefeed)
        try:
            checkpoint, digest = peek(open_root(lake.storage_uri), Layout.of(changefeed.sink))
        except NotYetError as error:
            return dg.SensorResult(skip_reason=dg.SkipReason(str(error)), cursor=context.cursor)
        return _answer(context, feed, checkpoint, digest)

    return new_files


def _new_messages(source: CaptureSource, feed: Feed) -> Evaluation:
    def new_messages(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        seen = json.dumps({"v": 1, "digest": peek_capture(source.path)}, separators=(",", ":"))
        return _asked(context, feed, seen)

    return new_messages


def _answer(context: dg.SensorEvaluationContext, feed: Feed, checkpoint: int | None, digest: str) -> dg.SensorResult:
    if checkpoint is None:
        reason = "TiCDC has written no checkpoint yet; check the path and that the changefeed is running."
        return dg.SensorResult(skip_reason=dg.SkipReason(reason), cursor=context.cursor)
    seen = json.dumps({"v": 1, "checkpoint": str(checkpoint), "digest": digest}, separators=(",", ":"))
    observed = observation(feed.names, checkpoint, {"watermark": str(checkpoint)})
    return _asked(context, feed, seen, observed)


def _asked(
    context: dg.SensorEvaluationContext, feed: Feed, seen: str, *observed: dg.AssetMaterialization
) -> dg.SensorResult:
    """Ask for a run by the rule above."""
    going_on = on_its_way(context.instance, feed.names.tags)
    if going_on:
        return dg.SensorResult(skip_reason=dg.SkipReason(going_on), cursor=context.cursor)
    failed = broken(context.instance, feed.names)
    if failed and failed.wait_s > 0:
        return dg.SensorResult(skip_reason=dg.SkipReason(failed.sentence), cursor=context.cursor)
    if seen == context.cursor and not failed:
        told = cancelled(context.instance, feed.names) or "Nothing new at the source."
        return dg.SensorResult(skip_reason=dg.SkipReason(told), cursor=seen)
    request = dg.RunRequest(tags=feed.names.tags)
    return dg.SensorResult(run_requests=[request], asset_events=list(observed), cursor=seen)
