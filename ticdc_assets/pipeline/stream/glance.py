"""The state of captured messages, and of Kafka's topics, for a sensor."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from ticdc_assets.config import CaptureSource, KafkaSource
from ticdc_assets.pipeline.glance import Glance
from ticdc_assets.sources.capture import peek

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake


def of_capture(lake: Lake) -> Glance:
    """A digest of the sizes of the capture's files; none of them is opened."""
    source = lake.changefeed.source
    assert isinstance(source, CaptureSource)
    return Glance(peek(source.path))


def of_topics(lake: Lake) -> Glance:
    """A digest of the end offsets of the topics; no message is read. Raises SourceError where they cannot be read."""
    from ticdc_assets.sources.kafka import KafkaClient  # other sources do not need this library

    source = lake.changefeed.source
    assert isinstance(source, KafkaSource)
    with KafkaClient(source) as client:
        ends = "\n".join(f"{partition}\t{end}" for partition, end in sorted(client.ends().items()))
    return Glance(blake2b(ends.encode(), digest_size=16).hexdigest())
