"""Hand-written PySpark: from_json, a window for the newest change of every key, MERGE INTO an Iceberg table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import Spent, timed
from ticdc_assets_tests.bench.peers.columns import COLUMNS, newest_change, sql_type
from ticdc_assets_tests.bench.peers.spark_session import start


def merge_statement(target: str, source: str) -> str:
    """MERGE of a view with the newest change of every key."""
    return (
        f"MERGE INTO {target} t USING {source} s ON t.id = s.id "
        "WHEN MATCHED AND s.type = 'DELETE' THEN DELETE WHEN MATCHED THEN UPDATE SET "
        f"{', '.join(f't.{name} = s.{name}' for name in COLUMNS)} "
        f"WHEN NOT MATCHED AND s.type <> 'DELETE' THEN INSERT ({', '.join(COLUMNS)}) "
        f"VALUES ({', '.join(f's.{name}' for name in COLUMNS)})"
    )


def load(scratch: Path, source: str, warm_up: str, cores: int) -> dict[str, Any]:
    """Seconds to a mirror, in a session that has loaded another one before; and the session's start."""
    started_s, spark = start(scratch, cores)
    merge(spark, warm_up, "warm_up")
    spent = merge(spark, source, "current")
    pq.write_table(spark.table("lake.bench.current").toArrow(), f"{scratch}/rows.parquet")
    return {**spent.as_dict(), "rows": f"{scratch}/rows.parquet", "start_s": started_s}


def merge(spark: SparkSession, source: str, table: str) -> Spent:
    """The cost of merging the stream into a new table."""
    columns = ", ".join(f"{name} {sql_type(arrow)}" for name, arrow in COLUMNS.items())
    spark.sql(
        f"CREATE TABLE lake.bench.{table} ({columns}) USING iceberg TBLPROPERTIES "
        "('format-version'='3', 'write.merge.mode'='merge-on-read', 'write.delete.mode'='merge-on-read')"
    )
    spent, _ = timed(lambda: _merge(spark, source, table))
    return spent


def _merge(spark: SparkSession, source: str, table: str) -> None:
    lines = spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", "CDC*.json").text(source)
    lines.createOrReplaceTempView("lines")
    newest = spark.sql(newest_change("lines")).cache()  # MERGE would read and parse everything twice
    newest.createOrReplaceTempView("newest")
    spark.sql(merge_statement(f"lake.bench.{table}", "newest"))
    newest.unpersist()


if __name__ == "__main__":
    serve(load)
