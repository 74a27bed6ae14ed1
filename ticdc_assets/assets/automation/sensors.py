"""Sensors compare the source with what they saw last. The cursor is a hint of constant size.

A sensor only requests a run. The run determines from the tables what is pending, so a lost or reset cursor costs one
run that finds nothing to do. The rules, in this order:

- While a run of the changefeed is queued or started, no other is requested.
- If the last run of its job failed, another is requested even without new data: after two minutes the first time, twice
  as long after each further failure, at most about two hours. A run with failed checks only does not count as failed.
- Otherwise a run is requested when the source differs from the cursor. A run that a user cancelled is not requested
  again, and ticks say so.
- Topics of Kafka have new messages all the time. A run is requested when the smallest watermark has advanced
  by `source.kafka.run_after_s` since the last request, or when a message has waited that long.

Requests have no run key: Dagster would never start a failed run with the same key again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from ticdc_assets.assets.earlier_runs import broken, cancelled, on_its_way
from ticdc_assets.assets.metadata.sparkline import plain_seconds
from ticdc_assets.assets.stages.news import requested_keys
from ticdc_assets.assets.stages.schema_cache import UNLANDED, observation
from ticdc_assets.assets.steps import Feed
from ticdc_assets.config import Changefeed, Config
from ticdc_assets.faults import redacted_error
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.source_state import TopicLag
from ticdc_assets.pipeline.sources import state_of_source
from ticdc_assets.plurals import counted, duration
from ticdc_assets.tso import physical_ms, to_datetime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ticdc_assets.pipeline.source_state import PartitionLag


INTERVAL_S = 30
REASON_TAG, OFFSETS_TAG, LAG_TAG = "ticdc_assets/reason", "ticdc_assets/unlanded_offsets", "ticdc_assets/behind_clock"

SensorEvaluation = Callable[[dg.SensorEvaluationContext], dg.SensorResult]
SHOWN_MAX: Final = 100
"""At most this many partitions are listed: those with the largest lag."""


def sensors_of(config: Config, changefeed: Changefeed, feed: Feed, job: str) -> list[dg.SensorDefinition]:
    """The sensor of the changefeed's source."""
    if feed.reads_files:
        name, description = feed.names.files_sensor, "New files at the source."
    else:
        name, description = feed.names.messages_sensor, "New messages, which may carry a later watermark."
    return [_source_sensor(config, changefeed, feed, name, job, description)]


def _source_sensor(
    config: Config, changefeed: Changefeed, feed: Feed, name: str, job: str, description: str
) -> dg.SensorDefinition:
    evaluate = _new_at_source(config, changefeed, feed)
    status = dg.DefaultSensorStatus.RUNNING if feed.shown.sensor_runs else dg.DefaultSensorStatus.STOPPED
    return dg.SensorDefinition(
        name=name,
        job_name=job,
        evaluation_fn=_report_failures(evaluate),
        minimum_interval_seconds=INTERVAL_S,
        default_status=status,
        description=f"{description} Requests a run; the run decides what to do.",
    )


def _report_failures(evaluate: SensorEvaluation) -> SensorEvaluation:
    def evaluated(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        try:
            return evaluate(context)
        except Exception as error:  # noqa: BLE001  Dagster stores the message of a failed tick
            raise redacted_error(error) from None

    return evaluated


def _new_at_source(config: Config, changefeed: Changefeed, feed: Feed) -> SensorEvaluation:
    def new_at_source(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        state = state_of_source(Lake(config, changefeed))
        if state.not_yet:
            return dg.SensorResult(skip_reason=dg.SkipReason(state.not_yet), cursor=context.cursor)
        if state.lag is not None:
            return _requested_by_lag(context, feed, state.digest, state.lag)
        if state.checkpoint is None:
            return _asked(context, feed, _cursor(digest=state.digest))
        checkpoint = str(state.checkpoint)
        observed = observation(feed.names, state.checkpoint, {"watermark": checkpoint})
        return _asked(context, feed, _cursor(checkpoint=checkpoint, digest=state.digest), observed)

    return new_at_source


def _requested_by_lag(context: dg.SensorEvaluationContext, feed: Feed, digest: str, lag: TopicLag) -> dg.SensorResult:
    """Request a run of topics. The cursor has the digest and the watermark of the last request."""
    now_ms, requested = time.time_ns() // 1_000_000, _watermark_in(context.cursor)
    seen = _cursor(watermark=str(max(lag.watermark or 0, requested)), digest=digest)
    reason = due(lag, requested, now_ms)
    metadata = lag_metadata(lag, now_ms)
    observed = (
        dg.AssetObservation(feed.names.source, metadata=metadata)
        if lag.watermark is None
        else observation(feed.names, lag.watermark, metadata)
    )
    tags = {REASON_TAG: reason, OFFSETS_TAG: str(lag.offsets)}
    if lag.watermark is not None:
        tags[LAG_TAG] = duration(_lag_s(lag.watermark, now_ms))
    wait = "" if reason else not_due(lag, requested, now_ms)
    return _asked(context, feed, seen, observed, tags=tags, wait=wait)


def _watermark_in(cursor: str | None) -> int:
    """The watermark at the last request; 0 where the cursor has none."""
    try:
        return int(json.loads(cursor or "{}").get("watermark", 0))
    except (ValueError, TypeError, AttributeError):
        return 0  # a cursor that a user has set


def _cursor(**seen: str) -> str:
    return json.dumps({"v": 1, **seen}, separators=(",", ":"))


def _asked(
    context: dg.SensorEvaluationContext,
    feed: Feed,
    seen: str,
    *observed: dg.AssetMaterialization | dg.AssetObservation,
    tags: Mapping[str, str] | None = None,
    wait: str = "",
) -> dg.SensorResult:
    """Request a run by the rules above. `wait` is why none is requested yet; "" where nothing has to be waited for."""
    going_on = on_its_way(context.instance, feed.names.tags)
    if going_on:
        return dg.SensorResult(skip_reason=dg.SkipReason(going_on), cursor=context.cursor)
    failed = broken(context.instance, feed.names)
    if failed and failed.wait_s > 0:
        return dg.SensorResult(skip_reason=dg.SkipReason(failed.sentence), cursor=context.cursor)
    if seen == context.cursor and not failed:
        reason = cancelled(context.instance, feed.names) or "Nothing new at the source."
        return dg.SensorResult(skip_reason=dg.SkipReason(reason), cursor=seen)
    if wait and not failed:
        return dg.SensorResult(skip_reason=dg.SkipReason(wait), cursor=context.cursor)
    request = dg.RunRequest(
        tags={**feed.names.tags, **(tags or {})}, asset_selection=requested_keys(feed), asset_check_keys=[]
    )
    return dg.SensorResult(run_requests=[request], asset_events=list(observed), cursor=seen)


def due(lag: TopicLag, requested: int, now_ms: int) -> str:
    """Why a run is requested now; "" where it can wait. `requested` is the watermark at the last request, else 0."""
    limit = lag.run_after_s * 1000
    if lag.is_new:
        return "no run has read the topics"
    if lag.unnamed_faults:
        return f"no run has named the fault of {_listed(lag.unnamed_faults)}"
    advanced_ms = _advanced_ms(lag, requested)
    if advanced_ms >= limit:
        return f"the smallest watermark has advanced by {duration(advanced_ms / 1000)}"
    waited_ms = _waited_ms(lag, now_ms)
    if waited_ms >= limit:
        return f"a message has waited for {duration(waited_ms / 1000)}"
    if lag.watermark is None and any(_has_no_time(partition, now_ms + limit) for partition in lag.partitions):
        return "messages wait whose time is in the future or not known"
    return ""


def _has_no_time(partition: PartitionLag, newest_ms: int) -> bool:
    """Whether nothing tells how long the messages of a partition wait. Clocks differ, so they may be from up to
    `newest_ms`."""
    return partition.offsets > 0 and (partition.oldest_ms is None or partition.oldest_ms > newest_ms)


def _listed(topics: Sequence[str]) -> str:
    others = len(topics) - 1
    return f"topic {topics[0]}" + (f" and of {counted(others, 'other topic')}" if others else "")


def not_due(lag: TopicLag, requested: int, now_ms: int) -> str:
    """What is waiting, in a sentence."""
    return (
        f"{counted(lag.offsets, 'offset')} to land, the first message waits for "
        f"{duration(_waited_ms(lag, now_ms) / 1000)}; the smallest watermark has advanced by "
        f"{duration(_advanced_ms(lag, requested) / 1000)}. A run is requested after {lag.run_after_s} s of either."
    )


def _advanced_ms(lag: TopicLag, requested: int) -> int:
    if lag.watermark is None:
        return 0
    return max(0, physical_ms(lag.watermark) - physical_ms(max(lag.recorded, requested)))


def _waited_ms(lag: TopicLag, now_ms: int) -> int:
    return 0 if lag.oldest_ms is None else max(0, now_ms - lag.oldest_ms)


def lag_metadata(lag: TopicLag, now_ms: int) -> dict[str, Any]:
    """The lag of the changefeed and of each partition; without a watermark, only what is not landed."""
    of_watermark = {}
    if lag.watermark is not None:
        of_watermark = {
            "watermark": str(lag.watermark),
            "watermark_time": dg.MetadataValue.timestamp(to_datetime(lag.watermark).astimezone(UTC)),
            "behind_clock_seconds": plain_seconds(_lag_s(lag.watermark, now_ms)),
        }
    records = [_row(partition, now_ms) for partition in _largest(lag)]
    return {
        **of_watermark,
        UNLANDED: lag.offsets,
        "waiting_seconds": plain_seconds(_waited_ms(lag, now_ms) / 1000),
        "partitions": dg.MetadataValue.table(records, _COLUMNS),
    }


def _lag_s(watermark: int, now_ms: int) -> float:
    return max(0, now_ms - physical_ms(watermark)) / 1000


def _largest(lag: TopicLag) -> list[PartitionLag]:
    shown = sorted(lag.partitions, key=lambda p: (-p.offsets, p.watermark or 0))[:SHOWN_MAX]
    return sorted(shown, key=lambda p: p.name)


def _row(partition: PartitionLag, now_ms: int) -> dg.TableRecord:
    waited_ms = 0 if partition.oldest_ms is None else max(0, now_ms - partition.oldest_ms)
    return dg.TableRecord({
        "partition": partition.name,
        "behind_clock": "" if partition.watermark is None else duration(_lag_s(partition.watermark, now_ms)),
        "unlanded": partition.offsets,
        "waiting": duration(waited_ms / 1000),
        "watermark": "" if partition.watermark is None else str(partition.watermark),
    })  # fmt: skip


_COLUMNS: Final = dg.TableSchema([
    dg.TableColumn("partition", "string"),
    dg.TableColumn("behind_clock", "string"),
    dg.TableColumn("unlanded", "int"),
    dg.TableColumn("waiting", "string"),
    dg.TableColumn("watermark", "string"),
])  # fmt: skip
"""Without this, Dagster refuses a table of no partitions. A narrow page cuts the last column."""
