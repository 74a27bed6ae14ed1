"""A Hive metastore on loopback, with its database in Derby.

pyiceberg calls `get_table`, which the metastore of Hive 4 no longer has, so this one is of Hive 3.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from ticdc_assets_tests.services.jars import fetched, missing_tools, unpacked
from ticdc_assets_tests.services.processes import DIES_WITH_THE_TESTS, free_ports

START_TIMEOUT_S = 120
VERSION = "3.1.3"
_CLASSES = "org.apache.hadoop.hive.metastore"
_OF_SPARK = ("derby*", "hadoop-client-*", "commons-cli*", "commons-io*", "slf4j-api*", "jcl-over*", "log4j*")
"""Hadoop, and a Derby that runs on a present Java: Spark has both."""
_OPENED = ("java.base/java.lang", "java.base/java.net", "java.base/java.util")


def missing() -> list[str]:
    """What this machine lacks."""
    return [*missing_tools("java", "mvn"), *(["thrift"] if importlib.util.find_spec("thrift") is None else [])]


@contextmanager
def hive_metastore(folder: Path) -> Iterator[str]:
    """The URI of a metastore while the body runs."""
    [port] = free_ports(1)
    home = (
        unpacked("org.apache.hive", "hive-standalone-metastore", VERSION, "bin")
        / f"apache-hive-metastore-{VERSION}-bin"
    )
    _configure(folder, port)
    opens = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED]
    java = ["java", "-Xmx384m", *opens, "-cp", _class_path(folder, home)]
    environment = {**os.environ, "METASTORE_HOME": str(home)}
    with (folder / "hive.log").open("wb") as log:
        tables = [*java, f"{_CLASSES}.tools.MetastoreSchemaTool", "-initSchema", "-dbType", "derby"]
        subprocess.run(tables, check=True, timeout=START_TIMEOUT_S, stdout=log, stderr=log, env=environment, cwd=folder)
        command = [*DIES_WITH_THE_TESTS, *java, f"{_CLASSES}.HiveMetaStore"]
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)
        try:
            _wait(process, port, folder / "hive.log")
            yield f"thrift://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait(timeout=30)


def _class_path(folder: Path, home: Path) -> str:
    jars = Path(pyspark.__file__).parent / "jars"
    of_spark = [path for pattern in _OF_SPARK for path in jars.glob(f"{pattern}.jar")]
    own = [path for path in (home / "lib").glob("*.jar") if not path.name.startswith("derby")]
    collections = fetched("commons-collections", "commons-collections", "3.2.2").glob("*.jar")
    return ":".join(map(str, [folder, *of_spark, *own, *collections]))


def _configure(folder: Path, port: int) -> None:
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:{folder}/metastore;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "metastore.warehouse.dir": f"{folder}/hive",
        "metastore.thrift.port": port,
        "metastore.expression.proxy": f"{_CLASSES}.DefaultPartitionExpressionProxy",
        "metastore.txn.timeout": "10s",  # of a lock too, which a killed run leaves
        "metastore.timedout.txn.reaper.interval": "3s",
        # The second removes locks whose time is over; it does not run by default.
        "metastore.task.threads.always": f"{_CLASSES}.events.EventCleanerTask,{_CLASSES}.txn.AcidHouseKeeperService",
    }
    lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()]
    (folder / "metastore-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the metastore did not start:\n{log.read_text()[-3000:]}")
