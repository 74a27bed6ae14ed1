"""An environment of Flink SQL with an Iceberg catalog, in a Java of its own.

TICDC_ASSETS_BENCH_FLINK names a folder of jars: those of Flink's `lib`, `iceberg-flink-runtime`, and for topics
`flink-sql-connector-kafka`. Hadoop's and Py4J's come with PySpark.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject, launch_gateway

from ticdc_assets_tests.bench.peers.columns import COLUMNS, sql_type

_OPENED: Final = ("java.lang", "java.net", "java.nio", "java.time", "java.util", "java.util.concurrent")
_SETTINGS: Final = {
    "parallelism.default": "1",  # with two it takes longer: reading, writing and commits have threads of their own
    "execution.checkpointing.interval": "10s",  # Iceberg commits at each, and at the end
    "restart-strategy.type": "none",
    "taskmanager.memory.managed.size": "512m",
}


@contextmanager
def flink_java(jars: Path) -> Iterator[Any]:
    """Flink's classes in a process of their own, which ends with the block."""
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


def environment(java: Any, warehouse: Path) -> JavaObject:
    """Flink SQL with the catalog `lake` in the folder, and in it the database `bench`."""
    api = java.org.apache.flink.table.api
    flink = api.TableEnvironment.create(api.EnvironmentSettings.inStreamingMode())
    for key, value in _SETTINGS.items():
        flink.getConfig().set(key, value)
    flink.executeSql(
        f"CREATE CATALOG lake WITH ('type'='iceberg', 'catalog-type'='hadoop', 'warehouse'='file://{warehouse}')"
    )
    flink.executeSql("CREATE DATABASE lake.bench")
    return flink


def upsert(flink: JavaObject, table: str, connector: dict[str, str]) -> None:
    """Fill a new table of the lake from the changes that the connector reads, until it has no more."""
    columns = ", ".join(f"`{name}` {_type(arrow)}" for name, arrow in COLUMNS.items())
    columns += ", PRIMARY KEY (id) NOT ENFORCED"
    options = ", ".join(f"'{key}'='{value}'" for key, value in connector.items())
    flink.executeSql(f"CREATE TABLE changes_{table} ({columns}) WITH ({options})")
    flink.executeSql(
        f"CREATE TABLE lake.bench.{table} ({columns}) WITH ('format-version'='2', 'write.upsert.enabled'='true')"
    )
    job = flink.executeSql(f"INSERT INTO lake.bench.{table} SELECT * FROM changes_{table}")
    getattr(job, "await")()  # a word of Python's own


def _type(arrow: pa.DataType) -> str:
    return "TIMESTAMP(6)" if pa.types.is_timestamp(arrow) else sql_type(arrow)
