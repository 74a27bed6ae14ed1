"""librdkafka alone: reads every message of a topic in one process and discards it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import timed


def read(scratch: Path, brokers: str, topic: str, partitions: int) -> dict[str, Any]:
    """Seconds to read all messages, their number and their bytes."""
    spent, (count, size_bytes) = timed(lambda: _read(brokers, topic, partitions))
    return {**spent.as_dict(), "messages": count, "size_bytes": size_bytes}


def _read(brokers: str, topic: str, partitions: int) -> tuple[int, int]:
    settings = {"bootstrap.servers": brokers, "group.id": "bench", "enable.partition.eof": True}
    consumer = Consumer({**settings, "enable.auto.commit": False, "queued.max.messages.kbytes": 65536})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    count, size_bytes, ended = 0, 0, 0
    while ended < partitions:
        for message in consumer.consume(1000, timeout=0.1):
            if message.error() is not None:
                ended += 1
            else:
                count, size_bytes = count + 1, size_bytes + len(message.value() or b"")
    consumer.close()
    return count, size_bytes


if __name__ == "__main__":
    serve(read)
