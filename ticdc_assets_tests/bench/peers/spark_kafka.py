"""Spark's own Kafka source: every message of a topic, undecoded, appended to an Iceberg table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import timed
from ticdc_assets_tests.bench.peers.spark_session import start

PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1"


def land(scratch: Path, brokers: str, topic: str, cores: int) -> dict[str, Any]:
    """Seconds to append all messages, and their number."""
    _, spark = start(scratch, cores, PACKAGE)
    _append(spark, brokers, topic, "lake.bench.warm_up")
    spent, _ = timed(lambda: _append(spark, brokers, topic, "lake.bench.messages"))
    return {**spent.as_dict(), "messages": spark.table("lake.bench.messages").count()}


def _append(spark: SparkSession, brokers: str, topic: str, table: str) -> None:
    columns = "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY"
    spark.sql(f"CREATE TABLE {table} ({columns}) USING iceberg PARTITIONED BY (days(timestamp), topic)")
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", brokers).option("subscribe", topic)
    read = reader.option("startingOffsets", "earliest").option("endingOffsets", "latest").load()
    read.select("topic", "partition", "offset", "timestamp", "key", "value").writeTo(table).append()


if __name__ == "__main__":
    serve(land)
