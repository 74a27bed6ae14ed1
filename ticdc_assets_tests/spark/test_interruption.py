"""An interruption of a Spark job returns to the caller at once; the job itself may go on until Spark stops."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._utils.interrupts import raise_interrupts_as

from ticdc_assets import spark
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.spark.workers import tasks_done
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake

SECONDS_MAX = 60
pytestmark = pytest.mark.spark


@pytest.mark.variants(1)
@pytest.mark.parametrize("kind", [KeyboardInterrupt, DagsterExecutionInterruptedError])
def test_an_interruption_does_not_wait_for_the_job_and_later_calls_get_their_own_answers(
    tmp_path: Path, kind: type[BaseException], caplog: pytest.LogCaptureFixture
):
    workers = SparkWorkers(spark.session(FeedLake(workloads("storage-csv")[0], tmp_path / "lake").config))
    begun, may_end = tmp_path / "begun", tmp_path / "may_end"
    threading.Thread(target=_interrupt_once_there_is, args=(begun,), daemon=True).start()

    try:
        with pytest.raises(kind), raise_interrupts_as(kind):
            workers.map(_waits, [(begun, may_end)])
        still_running = tasks_done()
        answer = workers._spark.sparkContext._jvm.java.lang.Integer.parseInt("7")
    finally:
        may_end.touch()

    assert still_running == (0, 1)
    assert answer == 7
    assert not caplog.records


def _waits(files: tuple[Path, Path]) -> None:
    begun, may_end = files
    begun.touch()
    _until_there_is(may_end)


def _interrupt_once_there_is(file: Path) -> None:
    _until_there_is(file)
    os.kill(os.getpid(), signal.SIGINT)


def _until_there_is(file: Path) -> None:
    limit = time.monotonic() + SECONDS_MAX
    while not file.exists() and time.monotonic() < limit:
        time.sleep(0.1)
