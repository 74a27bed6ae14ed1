"""A lake whose runs are on a Spark standalone cluster: its life, killed executors, and how workers get this package."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import ticdc_assets
from ticdc_assets.errors import MachineError
from ticdc_assets.spark import SparkWorkers, session
from ticdc_assets_tests.apart import apart
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.stores.life import SECONDS_MAX, OpenedLake, World, live, run
from ticdc_assets_tests.services.spark_cluster import SparkCluster, spark_cluster

pytestmark = [pytest.mark.spark, pytest.mark.services]
PACKAGE = Path(ticdc_assets.__path__[0])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    not_inherited = {"PYTHONPATH": ""}  # executors get the package by the way that a test tries
    with spark_cluster(tmp_path_factory.mktemp("cluster"), not_inherited) as running:
        yield running


def on_cluster(folder: Path, cluster: SparkCluster, **conf: str) -> World:
    lake = {"name": "lake", "type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"{folder}/warehouse"}
    spark = {"master": cluster.master, "conf": {**conf_of_small_executors(), **conf}}
    return World(folder, {"spark": spark, "catalog": lake})


def conf_of_small_executors() -> dict[str, str]:
    return {"spark.executor.memory": "1g", "spark.default.parallelism": "2"}


# ---- a life, and deaths ----------------------------------------------------------------------------------------------


@pytest.mark.matrix
def test_a_lake_on_a_cluster_equals_the_truth_through_its_life(cluster: SparkCluster, tmp_path: Path):
    live(on_cluster(tmp_path, cluster))


@pytest.mark.matrix
def test_two_runs_of_messages_on_a_cluster_equal_the_truth(cluster: SparkCluster, tmp_path: Path):
    [workload] = [
        found for found in workloads("canal-json-tidb", "seed1") if found.root.parent.name == "canal-json-tidb"
    ]
    spark = {"master": cluster.master, "conf": conf_of_small_executors()}
    apart(_run_messages_twice, workload, tmp_path, spark, seconds_max=SECONDS_MAX)


def _run_messages_twice(workload: Workload, folder: Path, spark: Mapping[str, Any]) -> None:
    config = yaml.safe_load(FeedLake(workload, folder).config.path.read_text())
    (folder / "cluster.yaml").write_text(yaml.safe_dump({**config, "spark": spark}))
    lake = OpenedLake(workload, folder / "cluster.yaml", {})
    tsos = sorted({entry["ts"] for entry in workload.truth})
    for ts in (tsos[len(tsos) // 2], tsos[-1]):
        report = lake.run(until=ts)
        assert report is not None
        assert report.errors == {}
        assert lake.differences(ts) == []
    assert lake.lost_and_repeated() == (0, 0)


@pytest.mark.matrix
def test_executors_that_are_killed_during_a_run_cost_no_row(cluster: SparkCluster, tmp_path: Path):
    world = on_cluster(tmp_path, cluster)
    world.configure()
    killed = apart(_run_while_executors_die, world.fill(world.tsos[-1]), cluster, seconds_max=SECONDS_MAX)

    assert killed > 1


def _run_while_executors_die(world: World, cluster: SparkCluster) -> int:
    """Kill executors every second, some at most: Spark gives a task four attempts."""
    lake, killed, ended = world.lake(), 0, threading.Event()

    def kill() -> None:
        nonlocal killed
        while killed < 3 and not ended.wait(1):
            for pid in cluster.executors():
                os.kill(pid, signal.SIGKILL)
                killed += 1

    killer = threading.Thread(target=kill)
    SparkWorkers(session(lake.config)).map(lambda number: number, [1, 2])
    killer.start()
    try:
        run(lake)
    finally:
        ended.set()
        killer.join()
    assert lake.differences(world.tsos[-1]) == []
    return killed


# ---- how workers get this package ------------------------------------------------------------------------------------


@pytest.mark.matrix
def test_a_package_that_is_sent_as_a_zip_is_imported_by_workers(cluster: SparkCluster, tmp_path: Path):
    python = environment_of_workers(tmp_path / "workers")
    sent = shutil.make_archive(str(tmp_path / "ticdc_assets"), "zip", PACKAGE.parent, PACKAGE.name)
    world = on_cluster(tmp_path, cluster, **{"spark.pyspark.python": str(python), "spark.submit.pyFiles": sent})

    runs_equal_to_the_truth(world)


@pytest.mark.matrix
def test_workers_without_the_package_are_named_with_what_to_do(cluster: SparkCluster, tmp_path: Path):
    world = on_cluster(tmp_path, cluster, **{"spark.pyspark.python": str(environment_of_workers(tmp_path / "workers"))})
    world.configure()

    fault = apart(_fault, world, seconds_max=SECONDS_MAX)

    assert fault.startswith("Spark's worker on 127.0.0.1: expected a Python of the driver's version")
    assert "found no module ticdc_assets. docs/cluster.md has three ways" in fault


def _fault(world: World) -> str:
    try:
        world.fill(world.tsos[0]).lake().run()
    except MachineError as error:
        return str(error)
    return ""


@pytest.mark.matrix
def test_an_environment_that_is_sent_as_an_archive_runs_workers(cluster: SparkCluster, tmp_path: Path):
    environment_of_workers(tmp_path / "workers")
    shutil.copytree(PACKAGE, packages_of(tmp_path / "workers") / PACKAGE.name)
    with tarfile.open(tmp_path / "workers.tar.gz", "w:gz", compresslevel=1) as packed:
        packed.add(tmp_path / "workers", arcname=".")
    shutil.rmtree(tmp_path / "workers")
    archive = f"{tmp_path}/workers.tar.gz#environment"
    world = on_cluster(
        tmp_path, cluster, **{"spark.archives": archive, "spark.pyspark.python": "./environment/bin/python"}
    )

    runs_equal_to_the_truth(world)


def runs_equal_to_the_truth(world: World) -> None:
    world.configure()
    apart(_run_and_compare, world.fill(world.tsos[-1]), seconds_max=SECONDS_MAX)


def _run_and_compare(world: World) -> None:
    lake = world.lake()
    # Workers have no tests: a lambda is sent to them, a function of this module would be imported there.
    [python] = set(SparkWorkers(session(lake.config)).map(lambda _: sys.executable, [1, 2]))
    assert python != sys.executable
    run(lake)
    assert lake.differences(world.tsos[-1]) == []


def environment_of_workers(folder: Path) -> Path:
    """A virtual environment that has what this package needs, and not the package. Returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    # A .pth file adds the folder only, not the .pth file in it by which this package may be installed.
    (packages_of(folder) / "needs.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin" / "python"
    missing = subprocess.run(
        [str(python), "-c", "import pyarrow, numba, ticdc_assets"],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "No module named 'ticdc_assets'" in missing.stderr
    return python


def packages_of(folder: Path) -> Path:
    return folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
