"""Flink SQL from a topic: its canal-json format, upserted into an Iceberg table, up to the end of the topic.

The format refuses TiCDC's watermark messages, so errors are ignored; and where a commit deletes and inserts one key,
the rows are wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import timed
from ticdc_assets_tests.bench.peers import spark_session
from ticdc_assets_tests.bench.peers.flink import environment, flink_java, upsert


def load(scratch: Path, brokers: str, topic: str, cores: int, jars: str) -> dict[str, Any]:
    """Seconds to an upserted table, in a process that has filled another one before, and the rows of the table."""
    warehouse = scratch / "warehouse"
    with flink_java(Path(jars)) as java:
        flink = environment(java, warehouse)
        upsert(flink, "warm_up", _messages(brokers, topic))
        spent, _ = timed(lambda: upsert(flink, "newest", _messages(brokers, topic)))
    _, spark = spark_session.start(scratch, cores)
    return {**spent.as_dict(), "rows": spark.read.format("iceberg").load(f"file://{warehouse}/bench/newest").count()}


def _messages(brokers: str, topic: str) -> dict[str, str]:
    return {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": brokers,
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset",
        "format": "canal-json",
        "canal-json.ignore-parse-errors": "true",
    }


if __name__ == "__main__":
    serve(load)
