"""Spark's own JSON reader with a schema and casts, without a sink: the cost of reading alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import timed
from ticdc_assets_tests.bench.peers.columns import CASTS, CHANGE
from ticdc_assets_tests.bench.peers.spark_session import start


def load(scratch: Path, source: str, warm_up: str, cores: int) -> dict[str, Any]:
    """Seconds to read and cast every row."""
    started_s, spark = start(scratch, cores)
    read(spark, warm_up)
    spent, _ = timed(lambda: read(spark, source))
    return {**spent.as_dict(), "start_s": started_s}


def read(spark: SparkSession, source: str) -> None:
    """Read the stream once."""
    reader = spark.read.schema(CHANGE).option("recursiveFileLookup", "true").option("pathGlobFilter", "CDC*.json")
    changes = reader.json(source).selectExpr("type", "_tidb.commitTs AS commit_ts", "data[0] AS row")
    changes.createOrReplaceTempView("changes")
    spark.sql(f"SELECT type, commit_ts, {CASTS} FROM changes").write.format("noop").mode("overwrite").save()


if __name__ == "__main__":
    serve(load)
