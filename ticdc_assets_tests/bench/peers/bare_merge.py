"""A bare Spark MERGE of ready Parquet into a mirror: the newest change of every key is known, decoding is done."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import timed
from ticdc_assets_tests.bench.peers.pyspark_by_hand import merge_statement
from ticdc_assets_tests.bench.peers.spark_session import start


def load(scratch: Path, base: str, rounds: list[str], cores: int) -> dict[str, Any]:
    """Seconds of the last round; those before it warm the session up."""
    started_s, spark = start(scratch, cores)
    _make(spark, base)
    for changes in rounds:
        spent, _ = timed(partial(_merge, spark, changes))
    count = spark.table("lake.bench.current").count()
    return {**spent.as_dict(), "rows": count, "start_s": started_s}


def _make(spark: SparkSession, base: str) -> None:
    frame = spark.read.parquet(base)
    frame.writeTo("lake.bench.current").using("iceberg").tableProperty("format-version", "3").tableProperty(
        "write.merge.mode", "merge-on-read"
    ).tableProperty("write.delete.mode", "merge-on-read").create()


def _merge(spark: SparkSession, changes: str) -> None:
    spark.read.parquet(changes).createOrReplaceTempView("newest")
    spark.sql(merge_statement("lake.bench.current", "newest"))


if __name__ == "__main__":
    serve(load)
