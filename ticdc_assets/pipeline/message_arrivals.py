"""Streams without commit_ts in captures whose partitions grow side by side, each in a file of its own.

There the place of a message in the capture changes with every message that comes before it. So a table's own newest
snapshot tells the last offset of each partition that it has, and what a run adds to it is one delivery, numbered after
all deliveries before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ticdc_assets.pipeline import arrivals
from ticdc_assets.pipeline.message_task import Arrival
from ticdc_assets.pipeline.offset_ranges import Partition

if TYPE_CHECKING:
    from ticdc_assets.pipeline.stream_look import StreamLook
    from ticdc_assets.schema.lineage import Stop
    from ticdc_assets.tables.progress import Files, Progress


def arrival_of(look: StreamLook, stop: Stop | None, progress: Progress) -> Arrival:
    """What a table takes that has come so far; of each partition nothing from behind its stop."""
    last = dict(progress.files)
    since = {partition: last[_name(partition)] + 1 for partition in look.ends if _name(partition) in last}
    until = {partition: look.first_above(partition, stop.ts) for partition in look.ends} if stop is not None else {}
    return Arrival(arrivals.next_ordinal(progress), since, until)


def consumed_with(look: StreamLook, arrival: Arrival, progress: Progress) -> Files:
    """What the table's next snapshot says of its messages: by partition, the last offset that it has."""
    last = dict(progress.files)
    for partition, end in look.ends.items():
        last[_name(partition)] = max(last.get(_name(partition), -1), arrival.until.get(partition, end) - 1)
    return tuple(sorted(last.items()))


def _name(partition: Partition) -> str:
    topic, number = partition
    return f"{topic}/{number}"
