"""When the sensor of a Kafka source requests a run, and what it shows of the lag of topics."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from ticdc_assets.assets.metadata.sparkline import duration, plain_seconds
from ticdc_assets.plurals import counted
from ticdc_assets.tso import physical_ms, to_datetime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ticdc_assets.pipeline.source_state import PartitionLag, TopicLag

SHOWN_MAX: Final = 100
"""At most this many partitions are listed: those with the largest lag."""


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
            "lag_seconds": _lag_s(lag.watermark, now_ms),
        }
    records = [_row(partition, now_ms) for partition in _largest(lag)]
    return {
        **of_watermark,
        "unlanded_offsets": lag.offsets,
        "waiting_seconds": plain_seconds(_waited_ms(lag, now_ms) / 1000),
        "partitions": dg.MetadataValue.table(records, _COLUMNS),
    }


def _lag_s(watermark: int, now_ms: int) -> float:
    return plain_seconds(max(0, now_ms - physical_ms(watermark)) / 1000)


def _largest(lag: TopicLag) -> list[PartitionLag]:
    shown = sorted(lag.partitions, key=lambda p: (-p.offsets, p.watermark or 0))[:SHOWN_MAX]
    return sorted(shown, key=lambda p: p.name)


def _row(partition: PartitionLag, now_ms: int) -> dg.TableRecord:
    waited_ms = 0 if partition.oldest_ms is None else max(0, now_ms - partition.oldest_ms)
    return dg.TableRecord({
        "partition": partition.name,
        "watermark": "" if partition.watermark is None else str(partition.watermark),
        "lag_seconds": None if partition.watermark is None else _lag_s(partition.watermark, now_ms),
        "unlanded_offsets": partition.offsets,
        "waiting_seconds": plain_seconds(waited_ms / 1000),
    })  # fmt: skip


_COLUMNS: Final = dg.TableSchema([
    dg.TableColumn("partition", "string"),
    dg.TableColumn("watermark", "string"),
    dg.TableColumn("lag_seconds", "float"),
    dg.TableColumn("unlanded_offsets", "int"),
    dg.TableColumn("waiting_seconds", "float"),
])  # fmt: skip
"""Without this, Dagster refuses a table of no partitions, and one whose first lag is unknown."""
