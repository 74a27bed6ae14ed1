"""How far the topics are ahead of the lake, for the sensor: from the newest messages of each partition.

No JVM is started. Of each partition at most one message at the first offset that is not landed and some of its last
messages are read, so a check costs the same for one waiting message and for a million.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.config import KafkaSource
from ticdc_assets.pipeline.landing.landed_log import landed_log
from ticdc_assets.pipeline.landing.message_heads import WATERMARK, message_head
from ticdc_assets.pipeline.source_state import PartitionLag, SourceState, TopicLag
from ticdc_assets.pipeline.stream.options import options_of
from ticdc_assets.sources.kafka.client import KafkaClient
from ticdc_assets.sources.kafka.ranges import KafkaPartition, OffsetRange
from ticdc_assets.tables import messages as messages_table
from ticdc_assets.tables.messages import LandedOffsets

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.sources.capture import Message
    from ticdc_assets.sources.kafka.ranges import Offsets

LAST_MESSAGES: Final = 64
"""The last messages of a partition in which a watermark is searched first. TiCDC sends about one each second."""
LAST_MESSAGES_MAX: Final = 4096
"""The last messages in which it is searched where many rows follow it."""
_LAST_MESSAGES_OF_ALL_MAX: Final = 100_000
RETRY_TIMEOUT_S: Final = 10.0
"""How long a check waits for errors of the cluster to pass; the sensor checks again soon."""


def lag_of_topics(lake: Lake) -> SourceState:
    """The state of the topics. Raises SourceError where the cluster cannot be read."""
    source = lake.changefeed.source
    assert isinstance(source, KafkaSource)
    table = messages_table.load(lake.catalog, lake.control.namespace)
    landed = LandedOffsets() if table is None else messages_table.landed_offsets(table)
    record = lake.control.newest()
    with KafkaClient(source, RETRY_TIMEOUT_S, reads_few=True) as client:
        held = client.offsets_of(client.partitions_found())
        unlanded = _unlanded(held, landed)
        oldest_ms = _oldest(client, unlanded)
        watermarks = _watermarks(client, lake, held) if lake.measures_lag else {}
    partitions = [
        PartitionLag(str(of.partition), watermarks.get(of.partition), len(of), oldest_ms.get(of.partition))
        for of in unlanded
    ]
    lag = TopicLag(partitions, record.tso if record else 0, not landed.partitions, source.run_after_s)
    return SourceState(_digest(held, landed), lag.watermark, lag=lag)


def of_messages(lake: Lake) -> SourceState:
    """The number of messages that another changefeed has landed; none is read."""
    log = landed_log(lake)
    count = log.first_ordinal + sum(landing.rows for landing in log.landings)
    return SourceState(str(count))


def _digest(held: Mapping[KafkaPartition, Offsets], landed: LandedOffsets) -> str:
    """A digest of the ends of the partitions, and of the offsets up to which they are landed."""
    lines = [f"{p}\t{offsets.end}\t{landed.next_offsets.get(p, -1)}" for p, offsets in sorted(held.items())]
    return blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()


def _unlanded(held: Mapping[KafkaPartition, Offsets], landed: LandedOffsets) -> list[OffsetRange]:
    """The offsets of each partition that are not landed; none where the partition has a fault, which a run names."""
    found = []
    for partition, offsets in sorted(held.items()):
        begin = landed.next_offsets.get(partition, offsets.low)
        is_sound = offsets.low <= begin <= offsets.end
        found.append(OffsetRange(partition, begin if is_sound else offsets.end, offsets.end))
    return found


def _oldest(client: KafkaClient, unlanded: Sequence[OffsetRange]) -> dict[KafkaPartition, int]:
    """The timestamp of the first message of each range; without ranges that have none."""
    messages = client.messages_of_all(unlanded, each_max=1)
    return {_partition(message): message.ts_ms for message in messages if message.ts_ms >= 0}


def _watermarks(client: KafkaClient, lake: Lake, held: Mapping[KafkaPartition, Offsets]) -> dict[KafkaPartition, int]:
    """The newest watermark of each partition, searched from its end."""
    protocol = str(lake.changefeed.sink.protocol)
    options = options_of(lake.changefeed, lake.control, asks_registry=False)
    found: dict[KafkaPartition, int] = {}
    for count in (LAST_MESSAGES, min(LAST_MESSAGES_MAX, _LAST_MESSAGES_OF_ALL_MAX // max(1, len(held)))):
        ranges = [
            OffsetRange(partition, max(offsets.low, offsets.end - count), offsets.end)
            for partition, offsets in held.items()
            if partition not in found
        ]
        last: dict[KafkaPartition, list[Message]] = {}
        for message in client.messages_of_all(ranges):
            last.setdefault(_partition(message), []).append(message)
        for partition, messages in last.items():
            watermark = _newest_watermark(protocol, options, messages)
            if watermark is not None:
                found[partition] = watermark
    return found


def _newest_watermark(protocol: str, options: Any, messages: Sequence[Message]) -> int | None:
    heads = (message_head(protocol, options, message) for message in reversed(messages))
    return next((head.commit_ts for head in heads if head.kind == WATERMARK), None)


def _partition(message: Message) -> KafkaPartition:
    return KafkaPartition(message.topic, message.partition)
