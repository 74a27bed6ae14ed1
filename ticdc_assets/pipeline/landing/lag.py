"""How far the topics are ahead of the lake, for the sensor: from the newest messages of each partition.

No JVM is started. Of each partition at most the last message that is landed, the first one that is not, and some of its
last messages are read, so a check costs the same for one waiting message and for a million.

A topic with a fault is left out, as in a landing. A run is requested where none has recorded the fault yet, so that it
is named also while nothing else is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.config import KafkaSource, OffsetRule
from ticdc_assets.errors import TopicError
from ticdc_assets.pipeline.landing.landed_log import landed_log
from ticdc_assets.pipeline.landing.message_heads import WATERMARK, message_head
from ticdc_assets.pipeline.landing.plan import PendingOffsets, pending_offsets
from ticdc_assets.pipeline.source_state import PartitionLag, SourceState, TopicLag
from ticdc_assets.pipeline.stream_options import options_of
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.kafka.client import KafkaClient
from ticdc_assets.sources.kafka.ranges import KafkaPartition, OffsetRange
from ticdc_assets.sources.kafka.same_topic import messages_of_sound_topics
from ticdc_assets.tables import messages as messages_table
from ticdc_assets.tables.messages import LandedOffsets

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake

LAST_MESSAGES: Final = 64
"""The last messages of a partition in which a watermark is searched first. TiCDC sends about one each second."""
LAST_MESSAGES_MAX: Final = 4096
"""The last messages in which it is searched where many rows follow it."""
_LAST_MESSAGES_OF_ALL_MAX: Final = 100_000
RETRY_TIMEOUT_S: Final = 10.0
"""How long a check waits for errors of the cluster to pass; the sensor checks again soon."""


def lag_of_topics(lake: Lake) -> SourceState:
    """The state of the topics that can be read. Raises SourceError where the cluster cannot be read."""
    source = lake.changefeed.source
    assert isinstance(source, KafkaSource)
    table = messages_table.load(lake.catalog, lake.control.namespace)
    landed = LandedOffsets() if table is None else messages_table.landed_offsets(table)
    record = lake.control.newest()
    with KafkaClient(source, RETRY_TIMEOUT_S, reads_few=True) as client:
        pending = _pending(client, source, landed, lake.changefeed.bad_input.skip_offsets)
        faults = dict(pending.faults)
        oldest_ms = _oldest(client, pending.ranges, faults)
        watermarks = _watermarks(client, lake, pending, faults) if lake.measures_lag else {}
    unlanded = [of for of in pending.ranges if of.partition.topic not in faults]
    partitions = [
        PartitionLag(str(of.partition), watermarks.get(of.partition), len(of), oldest_ms.get(of.partition))
        for of in unlanded
    ]
    unnamed = tuple(sorted(faults.keys() - landed.faults.keys()))
    lag = TopicLag(partitions, record.tso if record else 0, not landed.partitions, source.run_after_s, unnamed)
    return SourceState(_digest(unlanded, landed, unnamed), lag.watermark, lag=lag)


def of_messages(lake: Lake) -> SourceState:
    """The number of messages that another changefeed has landed; none is read."""
    log = landed_log(lake)
    count = log.first_ordinal + sum(landing.rows for landing in log.landings)
    return SourceState(str(count))


def _pending(
    client: KafkaClient, source: KafkaSource, landed: LandedOffsets, skip_offsets: Sequence[OffsetRule]
) -> PendingOffsets:
    """What a landing would take. The first one is requested in any case, so nothing is compared before it."""
    if landed.partitions:
        return pending_offsets(client, source, landed, skip_offsets)
    held, faults = client.offsets_of_sound_topics(client.partitions_found())
    return PendingOffsets(tuple(OffsetRange(p, *held[p]) for p in sorted(held)), {}, faults, held)


def _digest(unlanded: Sequence[OffsetRange], landed: LandedOffsets, unnamed: Sequence[str]) -> str:
    """A digest of the ends of the partitions, of the offsets up to which they are landed, and of the topics whose fault
    no run has named."""
    lines = [f"{of.partition}\t{of.end}\t{landed.next_offsets.get(of.partition, -1)}" for of in unlanded]
    return blake2b("\n".join([*lines, *unnamed]).encode(), digest_size=16).hexdigest()


def _oldest(
    client: KafkaClient, unlanded: Sequence[OffsetRange], faults: dict[str, TopicError]
) -> dict[KafkaPartition, int]:
    """The timestamp of the first message of each range; without ranges that have none. Topics that cannot be read are
    added to `faults`."""
    found, unreadable = messages_of_sound_topics(client, unlanded, each_max=1)
    faults |= unreadable
    return {partition: first.ts_ms for partition, [first] in found.items() if first.ts_ms >= 0}


def _watermarks(
    client: KafkaClient, lake: Lake, pending: PendingOffsets, faults: dict[str, TopicError]
) -> dict[KafkaPartition, int]:
    """The newest watermark of each partition, searched from its end. Topics that cannot be read are added to
    `faults`."""
    protocol = str(lake.changefeed.sink.protocol)
    options = options_of(lake.changefeed, lake.control, asks_registry=False)
    found: dict[KafkaPartition, int] = {}
    partitions = [of.partition for of in pending.ranges]
    for count in (LAST_MESSAGES, min(LAST_MESSAGES_MAX, _LAST_MESSAGES_OF_ALL_MAX // max(1, len(partitions)))):
        ranges = [
            OffsetRange(of, max(pending.held[of].low, pending.held[of].end - count), pending.held[of].end)
            for of in partitions
            if of not in found and of.topic not in faults
        ]
        last, unreadable = messages_of_sound_topics(client, ranges)
        faults |= unreadable
        for partition, messages in last.items():
            watermark = _newest_watermark(protocol, options, messages)
            if watermark is not None:
                found[partition] = watermark
    return found


def _newest_watermark(protocol: str, options: Any, messages: Sequence[Message]) -> int | None:
    heads = (message_head(protocol, options, message) for message in reversed(messages))
    return next((head.commit_ts for head in heads if head.kind == WATERMARK), None)
