"""Topics of a Kafka cluster, read by offsets: it joins no consumer group and commits no offset to Kafka."""

from ticdc_assets.sources.kafka.client import KafkaClient
from ticdc_assets.sources.kafka.ranges import KafkaPartition, OffsetRange, pending_ranges

__all__ = ["KafkaClient", "KafkaPartition", "OffsetRange", "pending_ranges"]
