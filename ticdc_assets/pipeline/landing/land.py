"""Lands Kafka topics in the table `messages`: the driver fixes offsets, tasks read them, the driver commits.

No consumer group is joined and no offset is committed to Kafka: the table alone records what was landed. Files of a
killed run are in no snapshot; the removal of orphan files deletes them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ticdc_assets.config import KafkaSource
from ticdc_assets.errors import StaleRunError, TopicError
from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.pipeline.landing.plan import pending_offsets, pieces, taken
from ticdc_assets.pipeline.landing.worker import LandedRange, LandingTask, land_range
from ticdc_assets.pipeline.stream.options import options_of
from ticdc_assets.plurals import counted
from ticdc_assets.sources.kafka.client import KafkaClient
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables import messages as messages_table
from ticdc_assets.tables.messages import LandedOffsets, LandedPartition

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.sources.kafka.ranges import OffsetRange
    from ticdc_assets.spark import Workers

LOCAL_OFFSETS_MAX: Final = 20_000
"""Up to this many offsets are read in this process, because starting Spark takes longer."""

_TASKS_PER_CORE: Final = 2


@dataclass(frozen=True, slots=True)
class LandingReport:
    """What one landing added, and how many offsets its limits left for the next run."""

    messages: int = 0
    left: int = 0


def unlanded_offsets(lake: Lake) -> int:
    """The number of offsets that a landing can take; 0 for other sources. Writes nothing.

    Raises:
            SourceError: the cluster cannot be read, or a topic has a fault and the other topics have nothing new.
    """
    source = lake.changefeed.source
    if not isinstance(source, KafkaSource):
        return 0
    table = messages_table.load(lake.catalog, lake.control.namespace)
    landed = LandedOffsets() if table is None else messages_table.landed_offsets(table)
    with KafkaClient(source) as client:
        pending = pending_offsets(client, source, landed, lake.changefeed.bad_input.skip_offsets)
    if not len(pending):
        _raise_first(pending.faults)
    return len(pending)


def land(lake: Lake, workers: Workers, on_progress: Callable[[str], None] = lambda _: None) -> LandingReport:
    """Land the new messages of the topics, up to the limits of `source.kafka` for one run; no effect for other sources.

    A topic with a fault is left out, and its error is raised once the messages of the other topics are committed.
    Where another run lands the same messages first, this run adds nothing and leaves the rest to the next run.

    Raises:
            SourceError: the cluster cannot be read, or a topic does not hold the expected offsets.
    """
    source = lake.changefeed.source
    if not isinstance(source, KafkaSource):
        return LandingReport()
    table = messages_table.ensure(lake.catalog, lake.control.namespace)
    landed = messages_table.landed_offsets(table)
    with KafkaClient(source) as client:
        pending = pending_offsets(client, source, landed, lake.changefeed.bad_input.skip_offsets)
    chosen = taken(pending.ranges, source.messages_max)
    if not len(pending) and {wanted.partition for wanted in pending.ranges} <= landed.partitions.keys():
        _raise_first(pending.faults)
        return LandingReport()
    hit(Failpoint.OFFSETS_FIXED)
    run_id = uuid.uuid4().hex
    tasks = _tasks(lake, source, table, chosen, run_id)
    on_progress(f"landing {counted(sum(len(wanted) for wanted in chosen), 'offset')} of Kafka")
    is_small = sum(len(task.wanted) for task in tasks) <= LOCAL_OFFSETS_MAX
    found = (LocalWorkers() if is_small else workers).map(land_range, tasks)
    hit(Failpoint.MESSAGES_WRITTEN)
    kept = _without_gaps(chosen, found)
    after = _after(landed, chosen, kept, run_id)
    after = replace(after, topic_ids={**landed.topic_ids, **pending.topic_ids})
    try:
        messages_table.append(table, lake.changefeed.name, [f for r in kept for f in r.files], landed, after)
    except StaleRunError as error:
        on_progress(str(error))
        return LandingReport()
    _raise_first([*pending.faults, *(r.fault for r in found if r.fault is not None)])
    done = sum(len(landed_range.done) for landed_range in kept)
    return LandingReport(sum(landed_range.messages for landed_range in kept), len(pending) - done)


def _raise_first(faults: Sequence[TopicError]) -> None:
    """Raise the error of the first topic that has one; the next run names the next."""
    if faults:
        raise faults[0]


def _tasks(
    lake: Lake, source: KafkaSource, table: Table, chosen: Sequence[OffsetRange], run_id: str
) -> list[LandingTask]:
    wanted = list(pieces(chosen, _TASKS_PER_CORE * lake.cores))
    # A landing needs no registry: its messages would be lost to Kafka's retention while the registry is down.
    options = options_of(lake.changefeed, lake.control, asks_registry=False)
    bytes_max = -(-source.bytes_max // max(1, len(wanted)))
    return [
        LandingTask(
            run_id=run_id,
            number=number,
            source=source,
            wanted=piece,
            bytes_max=bytes_max,
            protocol=str(lake.changefeed.sink.protocol),
            options=options,
            data_uri=f"{table.location()}/data",
            io_properties=lake.io_properties,
        )
        for number, piece in enumerate(wanted)
    ]


def _without_gaps(chosen: Sequence[OffsetRange], found: Sequence[LandedRange]) -> list[LandedRange]:
    """For each partition, the ranges up to the first one that ended early. Later offsets are read again."""
    next_offsets = {wanted.partition: wanted.begin for wanted in chosen}
    kept = []
    for landed_range in found:
        if landed_range.done.begin == next_offsets[landed_range.done.partition]:
            next_offsets[landed_range.done.partition] = landed_range.done.end
            kept.append(landed_range)
    return kept


def _after(
    landed: LandedOffsets, chosen: Sequence[OffsetRange], kept: Sequence[LandedRange], run_id: str
) -> LandedOffsets:
    """The offsets after these ranges are landed. It includes partitions without messages."""
    partitions = dict(landed.partitions)
    for wanted in chosen:
        partitions.setdefault(wanted.partition, LandedPartition(wanted.begin))
    for landed_range in kept:
        last_mark = landed_range.last_mark or partitions[landed_range.done.partition].last_mark
        partitions[landed_range.done.partition] = LandedPartition(landed_range.done.end, last_mark)
    return LandedOffsets(partitions, landed.messages + sum(r.messages for r in kept), run_id)
