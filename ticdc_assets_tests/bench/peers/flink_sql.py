"""Flink SQL: its canal-json format, upserted into an Iceberg table.

TICDC_ASSETS_BENCH_FLINK names a folder of jars: those of Flink's `lib`, and `iceberg-flink-runtime`. Hadoop's and
Py4J's come with PySpark. Its source promises no order of files, and has no option for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject, launch_gateway

from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import timed
from ticdc_assets_tests.bench.peers import spark_session
from ticdc_assets_tests.bench.peers.columns import COLUMNS, sql_type

_OPENED: Final = ("java.lang", "java.net", "java.nio", "java.time", "java.util", "java.util.concurrent")
_SETTINGS: Final = {
    "parallelism.default": "1",  # with two it takes longer: reading, writing and commits have threads of their own
    "execution.checkpointing.interval": "10s",  # Iceberg commits at each, and at the end
    "restart-strategy.type": "none",
    "taskmanager.memory.managed.size": "512m",
}


def load(scratch: Path, source: str, warm_up: str, cores: int, jars: str) -> dict[str, Any]:
    """Seconds to an upserted table, in a process that has filled another one before."""
    warehouse = scratch / "warehouse"
    with _java(Path(jars)) as java:
        started, flink = timed(lambda: _environment(java, warehouse))
        _upsert(flink, warm_up, "warm_up")
        spent, _ = timed(lambda: _upsert(flink, source, "newest"))
    _, spark = spark_session.start(scratch, cores)  # to read what Flink wrote, with its equality deletes
    rows = spark.read.format("iceberg").load(f"file://{warehouse}/bench/newest")
    pq.write_table(rows.toArrow(), f"{scratch}/rows.parquet")
    return {**spent.as_dict(), "rows": f"{scratch}/rows.parquet", "start_s": started.wall_s}


@contextmanager
def _java(jars: Path) -> Iterator[Any]:
    """A Java of Flink's own."""
    jars_of_spark = Path(pyspark.__file__).parent / "jars"
    port, token, process = launch_gateway(
        classpath=":".join(map(str, [*jars.glob("*.jar"), *jars_of_spark.glob("hadoop-client-*.jar")])),
        jarpath=str(next(jars_of_spark.glob("py4j*.jar"))),
        javaopts=["-Xmx4g", *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED)],
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    try:
        yield JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token)).jvm
    finally:
        process.kill()
        process.wait()


def _environment(java: Any, warehouse: Path) -> JavaObject:
    api = java.org.apache.flink.table.api
    flink = api.TableEnvironment.create(api.EnvironmentSettings.inStreamingMode())
    for key, value in _SETTINGS.items():
        flink.getConfig().set(key, value)
    flink.executeSql(
        f"CREATE CATALOG lake WITH ('type'='iceberg', 'catalog-type'='hadoop', 'warehouse'='file://{warehouse}')"
    )
    flink.executeSql("CREATE DATABASE lake.bench")
    return flink


def _upsert(flink: JavaObject, source: str, table: str) -> None:
    folder = next(Path(source).rglob("CDC*.json")).parent
    columns = ", ".join(f"`{name}` {_type(arrow)}" for name, arrow in COLUMNS.items())
    columns += ", PRIMARY KEY (id) NOT ENFORCED"
    flink.executeSql(
        f"CREATE TABLE changes_{table} ({columns}) "
        f"WITH ('connector'='filesystem', 'path'='file://{folder}', 'format'='canal-json', "
        r"'source.path.regex-pattern'='.*/CDC\d+\.json')"  # the index file is no data
    )
    flink.executeSql(
        f"CREATE TABLE lake.bench.{table} ({columns}) WITH ('format-version'='2', 'write.upsert.enabled'='true')"
    )
    job = flink.executeSql(f"INSERT INTO lake.bench.{table} SELECT * FROM changes_{table}")
    getattr(job, "await")()  # a word of Python's own


def _type(arrow: pa.DataType) -> str:
    return "TIMESTAMP(6)" if pa.types.is_timestamp(arrow) else sql_type(arrow)


if __name__ == "__main__":
    serve(load)
