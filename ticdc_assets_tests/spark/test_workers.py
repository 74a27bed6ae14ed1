"""How work reaches Spark's Python workers, and which work they avoid."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType

import pytest

from ticdc_assets import spark
from ticdc_assets.config import load
from ticdc_assets.spark import SparkWorkers
from ticdc_assets_tests.apart import apart
from ticdc_assets_tests.assets.feeds import Feed
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake

pytestmark = pytest.mark.spark


@pytest.fixture
def workers(tmp_path: Path) -> SparkWorkers:
    return SparkWorkers(spark.session(FeedLake(workloads("storage-csv")[0], tmp_path / "lake").config))


def test_answers_come_in_the_order_of_the_payloads_however_many_there_are(workers: SparkWorkers):
    assert workers.map(lambda number: number * 2, range(100)) == [number * 2 for number in range(100)]
    assert workers.map(lambda number: number * 2, []) == []


def test_jars_are_not_on_the_path_that_python_imports_from(workers: SparkWorkers):
    """A worker would read the list of what is in Iceberg's before every task."""
    paths = workers.map(lambda _: list(sys.path), range(4))

    assert [entry for path in [sys.path, *paths] for entry in path if entry.endswith(".jar")] == []


def test_workers_begin_with_what_they_need(workers: SparkWorkers):
    """They are forked from a process that has it, which keeps it out of what a worker looks through after each task."""
    frozen = workers.map(lambda _: gc.get_freeze_count(), range(4))

    assert min(frozen) > 10_000


def test_workers_on_this_machine_use_a_socket_of_this_user_alone(workers: SparkWorkers):
    named = workers._spark.conf.get("spark.python.unix.domain.socket.dir", None)
    if named is None:
        pytest.skip("the path of the folder for temporary files is too long for sockets")
    folder = Path(named)

    assert workers.map(lambda number: number, [1]) == [1]
    assert folder.stat().st_mode & 0o077 == 0
    assert list(folder.glob(".*.sock"))


class Ended(BaseException):
    """Raised by a handler of interruptions, as by that of Dagster."""


def _interrupted_as_java_is_asked(path: Path) -> str:
    def end(number: int, frame: FrameType | None) -> None:
        raise Ended

    signal.signal(signal.SIGINT, end)
    session = spark.session(load(path, {}))
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    try:
        while time.monotonic() < began + 20:
            session.sparkContext._jvm.java.lang.Thread.sleep(5_000)
    except BaseException as error:  # noqa: BLE001  which one it is, is the question
        return type(error).__name__
    return "nothing"


def test_a_handler_of_interruptions_is_called_while_spark_runs_too(tmp_path: Path):
    assert apart(_interrupted_as_java_is_asked, Feed(tmp_path).path) == Ended.__name__
