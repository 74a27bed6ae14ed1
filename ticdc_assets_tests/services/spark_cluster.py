"""A Spark standalone cluster on loopback: a master, and a worker of two cores, from the installed PySpark."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

from ticdc_assets_tests.services.processes import DIES_WITH_THE_TESTS, free_ports

START_TIMEOUT_S = 60
_SPARK_HOME = Path(pyspark.__path__[0])


@dataclass(frozen=True)
class SparkCluster:
    """A running cluster. Everything that its executors write is below `folder`."""

    folder: Path
    port: int
    web_port: int

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    @property
    def workers(self) -> int:
        """How many workers the master knows to be alive."""
        with urlopen(f"http://127.0.0.1:{self.web_port}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])

    def executors(self) -> list[int]:
        """The process ids of the executors that run now."""
        ours = f"spark://Worker@127.0.0.1:{(self.folder / 'worker.port').read_text()}"
        return [pid for pid, command in _commands() if "CoarseGrainedExecutorBackend" in command and ours in command]


@contextmanager
def spark_cluster(folder: Path, environ: Mapping[str, str] | None = None) -> Iterator[SparkCluster]:
    """A cluster while the body runs. `environ` is added to what the worker's executors inherit."""
    folder.mkdir(parents=True, exist_ok=True)
    port, web_port, worker_port, worker_web_port = free_ports(4)
    (folder / "worker.port").write_text(str(worker_port))
    cluster = SparkCluster(folder, port, web_port)
    master = ["Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web_port)]
    worker = ["Worker", "--host", "127.0.0.1", "--port", str(worker_port), "--webui-port", str(worker_web_port)]
    worker += ["--cores", "2", "--memory", "2g", "--work-dir", str(folder / "work"), cluster.master]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for command in (master, worker):
            processes.append(_started(folder, command, environ or {}))
        _wait(cluster, processes)
        yield cluster
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait(timeout=30)


def _started(folder: Path, command: list[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    home = {"SPARK_HOME": str(_SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    start = [*DIES_WITH_THE_TESTS, str(_SPARK_HOME / "bin" / "spark-class")]
    start.append(f"org.apache.spark.deploy.{command[0].lower()}.{command[0]}")
    with (folder / f"{command[0].lower()}.log").open("ab") as log:
        return subprocess.Popen(
            [*start, *command[1:]], env={**os.environ, **home, **environ}, stdout=log, stderr=subprocess.STDOUT
        )


def _wait(cluster: SparkCluster, processes: list[subprocess.Popen[bytes]]) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until and all(process.poll() is None for process in processes):
        try:
            if cluster.workers == 1:
                return
        except (URLError, OSError):
            pass
        time.sleep(0.3)
    logs = "\n".join(path.read_text()[-2000:] for path in cluster.folder.glob("*.log"))
    raise RuntimeError(f"the cluster did not start:\n{logs}")


def _commands() -> Iterator[tuple[int, str]]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield int(path.parent.name), path.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
