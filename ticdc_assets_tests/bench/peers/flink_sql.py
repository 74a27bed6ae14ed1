"""Flink SQL: its canal-json format, upserted into an Iceberg table.

Its source promises no order of files, and has no option for one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import timed
from ticdc_assets_tests.bench.peers import spark_session
from ticdc_assets_tests.bench.peers.flink import environment, flink_java, upsert


def load(scratch: Path, source: str, warm_up: str, cores: int, jars: str) -> dict[str, Any]:
    """Seconds to an upserted table, in a process that has filled another one before."""
    warehouse = scratch / "warehouse"
    with flink_java(Path(jars)) as java:
        started, flink = timed(lambda: environment(java, warehouse))
        upsert(flink, "warm_up", _files(warm_up))
        spent, _ = timed(lambda: upsert(flink, "newest", _files(source)))
    _, spark = spark_session.start(scratch, cores)  # to read what Flink wrote, with its equality deletes
    rows = spark.read.format("iceberg").load(f"file://{warehouse}/bench/newest")
    pq.write_table(rows.toArrow(), f"{scratch}/rows.parquet")
    return {**spent.as_dict(), "rows": f"{scratch}/rows.parquet", "start_s": started.wall_s}


def _files(source: str) -> dict[str, str]:
    folder = next(Path(source).rglob("CDC*.json")).parent
    pattern = r".*/CDC\d+\.json"  # the index file is no data
    path = f"file://{folder}"
    return {"connector": "filesystem", "path": path, "format": "canal-json", "source.path.regex-pattern": pattern}


if __name__ == "__main__":
    serve(load)
