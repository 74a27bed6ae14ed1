"""Topics of a Kafka cluster, read by offsets: no consumer group is joined and no offset is committed to Kafka."""

from ticdc_assets.sources.kafka.client import KafkaClient
from ticdc_assets.sources.kafka.ranges import OffsetRange, Partition, pending_ranges

__all__ = ["KafkaClient", "OffsetRange", "Partition", "pending_ranges"]
