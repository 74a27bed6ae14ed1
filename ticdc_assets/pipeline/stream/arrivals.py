"""Streams without commit_ts in captures with one file per partition.

In such a capture the ordinal of a message changes with every message that is appended to an earlier file. So a table's
own newest snapshot records the last offset that it has of each partition. What a run adds is one delivery, numbered
after all earlier deliveries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ticdc_assets.pipeline.storage import arrivals
from ticdc_assets.pipeline.stream.decode.task import Arrival
from ticdc_assets.pipeline.stream.offsets.ranges import TopicPartition

if TYPE_CHECKING:
    from ticdc_assets.pipeline.stream.scan.result import StreamScan
    from ticdc_assets.schema.history.source_table import Stop
    from ticdc_assets.tables.progress import Files, Progress


def arrival_of(scan: StreamScan, stop: Stop | None, progress: Progress) -> Arrival:
    """The offsets that a table takes after its progress; none after its stop."""
    last = dict(progress.files)
    since = {partition: last[_name(partition)] + 1 for partition in scan.offsets.ends if _name(partition) in last}
    until = (
        {partition: scan.first_above(partition, stop.ts) for partition in scan.offsets.ends} if stop is not None else {}
    )
    return Arrival(arrivals.next_ordinal(progress), since, until)


def consumed_with(scan: StreamScan, arrival: Arrival, progress: Progress) -> Files:
    """The files entry of the table's next snapshot: by partition, the last offset that it has."""
    last = dict(progress.files)
    for partition, end in scan.offsets.ends.items():
        last[_name(partition)] = max(last.get(_name(partition), -1), arrival.until.get(partition, end) - 1)
    return tuple(sorted(last.items()))


def _name(partition: TopicPartition) -> str:
    topic, number = partition
    return f"{topic}/{number}"
