"""Lands Kafka topics in the table `messages`: the driver fixes offsets, tasks read them, the driver commits.

No consumer group is joined and no offset is committed to Kafka: the table alone records what was landed. Files of a
killed run are in no snapshot; the removal of orphan files deletes them.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pyiceberg.table import Table

from ticdc_assets.config import KafkaSource
from ticdc_assets.errors import StaleRunError, TopicError
from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.pipeline.landing.plan import (
    PendingOffsets,
    created_again_since,
    pending_offsets,
    ranges_of_tasks,
    taken,
)
from ticdc_assets.pipeline.landing.records import row_group_bytes
from ticdc_assets.pipeline.landing.worker import LandedRange, LandingTask, land_ranges
from ticdc_assets.pipeline.set_back import require_control_tables
from ticdc_assets.pipeline.stream_options import options_of
from ticdc_assets.plurals import counted
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.kafka.client import KafkaClient
from ticdc_assets.sources.kafka.ranges import OffsetRange
from ticdc_assets.sources.kafka.requests import RETRY_TIMEOUT_S
from ticdc_assets.spark import LocalWorkers, Workers
from ticdc_assets.tables import messages as messages_table
from ticdc_assets.tables.messages import LandedOffsets, LandedPartition
from ticdc_assets.work_progress import OnProgress, no_progress

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake

LOCAL_OFFSETS_MAX: Final = 20_000
"""Up to this many offsets are read in this process, because starting Spark takes longer."""

_TASKS_PER_CORE: Final = 2
SAMPLED_FROM_OFFSETS: Final = 20_000
"""With fewer offsets, sizes are not estimated before the first round."""
_SAMPLE_MESSAGES: Final = 50
_SHARE: Final = 0.9
"""Offsets are chosen for this share of the bytes left, so that few tasks reach their limit; below the rest, it ends."""


# -- how much one landing may still read -------------------------------------------------------------------------------
#
# `max_messages` and `max_bytes` of `source.kafka` bound a whole run.
# Offsets are known before they are read, bytes are not. So the size of a message is estimated, from the first
# messages of each partition and then from what was read, and the tasks get offsets for a part of the remaining bytes.


@dataclass(frozen=True, slots=True)
class LandingBudget:
    """What is left of the limits of a run. `bytes_per_offset` is None while it is not known."""

    bytes_max: int
    offsets_left: int
    bytes_left: int
    bytes_per_offset: float | None = None

    @classmethod
    def of(cls, client: KafkaClient, source: KafkaSource, ranges: Sequence[OffsetRange]) -> LandingBudget:
        """The limits of the source, before anything is read. Raises SourceError where the cluster cannot be read."""
        whole = cls(source.bytes_max, source.messages_max, source.bytes_max)
        if sum(map(len, ranges)) < SAMPLED_FROM_OFFSETS:
            return whole
        try:
            sizes = [_size_bytes(message) for message in client.messages_of_all(ranges, each_max=_SAMPLE_MESSAGES)]
        except TopicError:
            return whole  # the task that reads the topic reports its fault
        return replace(whole, bytes_per_offset=sum(sizes) / len(sizes)) if sizes else whole

    @property
    def offsets(self) -> int:
        """How many offsets the next round may take; 0 where the limits are reached."""
        if self.bytes_left <= (1 - _SHARE) * self.bytes_max:
            return 0
        if not self.bytes_per_offset:
            return self.offsets_left
        return min(self.offsets_left, max(1, int(_SHARE * self.bytes_left / self.bytes_per_offset)))

    def after(self, offsets: int, size_bytes: int) -> LandingBudget:
        """The budget after a round that read this many offsets and bytes. After a round without offsets, nothing more
        is read."""
        if not offsets:
            return replace(self, offsets_left=0)
        return replace(
            self,
            offsets_left=self.offsets_left - offsets,
            bytes_left=max(0, self.bytes_left - size_bytes),
            bytes_per_offset=size_bytes / offsets or self.bytes_per_offset,
        )


def _size_bytes(message: Message) -> int:
    """The bytes of key and value."""
    return len(message.key or b"") + len(message.value or b"")


@dataclass(frozen=True, slots=True)
class LandingReport:
    """What one landing added, how many offsets its limits left for the next run, and the errors of topics by topic.

    `total` is the number of messages of all landings up to this one.
    """

    messages: int = 0
    left: int = 0
    faults: Mapping[str, TopicError] = field(default_factory=dict)
    total: int = 0


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
    with KafkaClient(source, reads_few=True) as client:
        pending = pending_offsets(client, source, landed, lake.changefeed.bad_input.skip_offsets)
    if not len(pending) and pending.faults:
        raise next(iter(pending.faults.values()))
    return len(pending)


def topic_faults(lake: Lake) -> Mapping[str, str]:
    """By topic, what the last landing found wrong with it; empty for other sources."""
    if not isinstance(lake.changefeed.source, KafkaSource):
        return {}
    table = messages_table.load(lake.catalog, lake.control.namespace)
    return {} if table is None else messages_table.landed_offsets(table).faults


def land(
    lake: Lake,
    workers: Workers,
    on_progress: OnProgress = no_progress,
    retry_timeout_s: float = RETRY_TIMEOUT_S,
) -> LandingReport:
    """Land the new messages of the topics, up to the limits of `source.kafka` for one run; no effect for other sources.

    A topic with a fault is left out. Its error is in the report and is recorded with the offsets, so that its tables
    are held and those of the other topics advance. Where another run lands the same messages first, this run adds
    nothing and leaves the rest to the next run. Requests of the driver wait for `retry_timeout_s` for errors to pass.

    Raises:
        SourceError: the cluster cannot be read, or a topic has a fault and nothing was landed before.
    """
    source = lake.changefeed.source
    if not isinstance(source, KafkaSource):
        return LandingReport()
    require_control_tables(lake)
    table = messages_table.ensure(lake.catalog, lake.control.namespace)
    landed = messages_table.landed_offsets(table)
    with KafkaClient(source, retry_timeout_s, reads_few=True) as client:
        pending = pending_offsets(client, source, landed, lake.changefeed.bad_input.skip_offsets)
        budget = LandingBudget.of(client, source, pending.ranges)
    if _is_recorded(pending, landed):
        return _report(LandingReport(faults=pending.faults, total=landed.messages), on_progress)
    hit(Failpoint.OFFSETS_FIXED)
    run_id = uuid.uuid4().hex
    kept, fresh = _read(_Reading(lake, source, table, run_id), workers, pending.ranges, budget, on_progress)
    hit(Failpoint.MESSAGES_WRITTEN)
    replaced = _created_again(source, retry_timeout_s, landed, pending, kept)
    kept = [landed_range for landed_range in kept if landed_range.done.partition.topic not in replaced]
    faults = {**fresh, **replaced, **pending.faults}
    after = replace(
        _after(landed, pending.ranges, kept, run_id),
        topic_ids={**landed.topic_ids, **pending.topic_ids},
        faults=_sentences(faults),
    )
    if replace(after, run_id=landed.run_id) == landed:
        return _report(LandingReport(0, len(pending), faults, landed.messages), on_progress)
    try:
        messages_table.append(table, lake.changefeed.name, [f for r in kept for f in r.files], landed, after)
    except StaleRunError as error:
        on_progress(str(error))
        return _report(LandingReport(faults=faults, total=landed.messages), on_progress)
    done = sum(len(landed_range.done) for landed_range in kept)
    messages = sum(landed_range.messages for landed_range in kept)
    return _report(LandingReport(messages, len(pending) - done, faults, after.messages), on_progress)


def _is_recorded(pending: PendingOffsets, landed: LandedOffsets) -> bool:
    """Whether nothing is pending, and the table has all partitions and the present faults of topics."""
    return (
        not len(pending)
        and {wanted.partition for wanted in pending.ranges} <= landed.partitions.keys()
        and _sentences(pending.faults) == landed.faults
    )


def _created_again(
    source: KafkaSource,
    retry_timeout_s: float,
    landed: LandedOffsets,
    pending: PendingOffsets,
    kept: Sequence[LandedRange],
) -> dict[str, TopicError]:
    """By topic, the error of each that was created again while it was read, so that some messages may be of either."""
    topics = {landed_range.done.partition.topic for landed_range in kept}
    if not topics:
        return {}
    with KafkaClient(source, retry_timeout_s, reads_few=True) as client:
        return created_again_since(client, landed, pending, topics)


def _report(report: LandingReport, on_progress: OnProgress) -> LandingReport:
    for fault in report.faults.values():
        on_progress(str(fault))
    return report


def _sentences(faults: Mapping[str, TopicError]) -> dict[str, str]:
    return {topic: str(fault) for topic, fault in faults.items()}


@dataclass(frozen=True, slots=True)
class _Reading:
    """What all tasks of one landing have in common."""

    lake: Lake
    source: KafkaSource
    table: Table
    run_id: str


def _read(
    reading: _Reading,
    workers: Workers,
    ranges: Sequence[OffsetRange],
    budget: LandingBudget,
    on_progress: OnProgress,
) -> tuple[list[LandedRange], dict[str, TopicError]]:
    """Read in rounds until the budget or the ranges end: a task stops at its share of the bytes, and the next round
    continues with the rest of the budget."""
    kept: list[LandedRange] = []
    faults: dict[str, TopicError] = {}
    left, number = list(ranges), 0
    while chosen := [wanted for wanted in taken(left, budget.offsets) if len(wanted)]:
        tasks = _tasks(reading, chosen, budget.bytes_left, number)
        on_progress(f"landing {counted(sum(len(wanted) for wanted in chosen), 'offset')} of Kafka")
        is_small = sum(len(wanted) for task in tasks for wanted in task.wanted) <= LOCAL_OFFSETS_MAX
        answers = (LocalWorkers() if is_small else workers).map(land_ranges, tasks)
        found = [landed_range for answer in answers for landed_range in answer]
        read = _without_gaps(chosen, found)
        kept += read
        faults |= {r.done.partition.topic: r.fault for r in reversed(found) if r.fault is not None}
        budget = budget.after(sum(len(r.done) for r in read), sum(r.size_bytes for r in read))
        left, number = _left(left, read, faults), number + len(tasks)
    return kept, faults


def _left(ranges: Sequence[OffsetRange], read: Sequence[LandedRange], faulty: Collection[str]) -> list[OffsetRange]:
    """The ranges after those that were read, without those of faulty topics."""
    ends = {landed_range.done.partition: landed_range.done.end for landed_range in read}
    return [
        replace(wanted, begin=ends.get(wanted.partition, wanted.begin))
        for wanted in ranges
        if wanted.partition.topic not in faulty
    ]


def _tasks(reading: _Reading, chosen: Sequence[OffsetRange], bytes_left: int, number: int) -> list[LandingTask]:
    lake = reading.lake
    wanted = list(ranges_of_tasks(chosen, _TASKS_PER_CORE * lake.cores))
    # A landing needs no registry: its messages would be lost to Kafka's retention while the registry is down.
    options = options_of(lake.changefeed, lake.control, asks_registry=False)
    bytes_max = -(-bytes_left // max(1, len(wanted)))
    schema = messages_table.file_schema(reading.table)
    return [
        LandingTask(
            run_id=reading.run_id,
            number=place,
            source=reading.source,
            wanted=ranges,
            bytes_max=bytes_max,
            row_group_bytes=row_group_bytes(len(chosen)),
            protocol=str(lake.changefeed.sink.protocol),
            options=options,
            schema=schema,
            data_uri=f"{reading.table.location()}/data",
            io_properties=lake.io_properties,
        )
        for place, ranges in enumerate(wanted, start=number)
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
