"""Sail (`pip install pysail pyspark-client`): the hand-written Spark SQL, on its own engine, to Parquet files.

It runs under an interpreter of its own, which TICDC_ASSETS_BENCH_SAIL names: its protobuf is newer than dagster's.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession

from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import timed
from ticdc_assets_tests.bench.peers.columns import newest_change


def load(scratch: Path, source: str, warm_up: str) -> dict[str, Any]:
    """Seconds to the current rows as Parquet, on a server that has loaded another stream before."""
    server = SparkConnectServer(port=0)
    server.start(background=True)
    _, port = server.listening_address
    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    started, _ = timed(lambda: _load(spark, warm_up, scratch / "warm_up"))
    spent, _ = timed(lambda: _load(spark, source, scratch / "rows"))
    pq.write_table(pq.read_table(scratch / "rows"), f"{scratch}/rows.parquet")
    return {**spent.as_dict(), "rows": f"{scratch}/rows.parquet", "start_s": started.wall_s}


def _load(spark: SparkSession, source: str, target: Path) -> None:
    files = [str(path) for path in sorted(Path(source).rglob("CDC*.json"))]
    spark.read.text(files).createOrReplaceTempView("lines")
    newest = spark.sql(f"SELECT * FROM ({newest_change('lines')}) WHERE type <> 'DELETE'").drop("type")
    newest.write.mode("overwrite").parquet(str(target))


if __name__ == "__main__":
    serve(load)
    os._exit(0)  # the server's threads do not end with the interpreter
