"""`run --follow` as a real process: files arrive while it runs, faults come and go, signals end it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ticdc_assets_tests.commands.process.follow.process import follower, is_running, scraped
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake, Replay
from ticdc_assets_tests.spark.processes import waited_for

pytestmark = pytest.mark.spark


def lake_of(name: str, folder: Path) -> tuple[FeedLake, Replay]:
    [workload] = workloads(name, "seed1")
    replay = Replay(workload, folder / "bucket")
    return FeedLake(workload, folder, replay.folder), replay


def test_files_that_arrive_while_it_runs_are_followed_through_a_fault_until_sigterm(tmp_path: Path):
    lake, replay = lake_of("storage-csv-zone", tmp_path)
    replay.write(6)

    with follower(lake.config.path, "--interval", "0.2", "--metrics", "0") as process:
        url = process.until_note("metrics: ").split()[-1]
        first = process.until(lambda line: line["tso"] == str(replay.checkpoint))
        replay.folder.rename(tmp_path / "elsewhere")
        fault = process.until(lambda line: "error" in line)[-1]
        (tmp_path / "elsewhere").rename(replay.folder)
        replay.write(1000)
        last = process.until(lambda line: line.get("tso") == str(replay.checkpoint))[-1]
        metrics = scraped(url)
        started = process.children
        code = process.end()

    assert code == 0
    assert started and not [pid for pid in started if is_running(pid)]
    assert first[-1]["rows"] and first[-1]["complete"] and first[-1]["held"] == []
    assert list(first[-1]["seconds"]) == ["scan", "changelogs", "mirrors"]
    assert str(replay.folder) in fault["error"] and fault["again_in_s"] == 1
    assert last["complete"] and last["lag_ms"] > 0
    assert 'ticdc_assets_faults_total{changefeed="feed"} ' in metrics
    assert 'ticdc_assets_tables{changefeed="feed"} 2.0' in metrics
    assert metrics.endswith("# EOF\n")
    assert lake.differences(replay.checkpoint) == []


@pytest.mark.matrix
def test_a_second_signal_ends_it_at_once_with_its_jvm(tmp_path: Path):
    lake, replay = lake_of("storage-csv-zone", tmp_path)
    replay.write(1000)

    with follower(lake.config.path) as process:
        while not (started := [pid for pid in process.children if "java" in _command(pid)]):
            pass
        process.process.send_signal(signal.SIGTERM)
        process.process.send_signal(signal.SIGINT)
        code = process.process.wait(10)

    assert code in (128 + signal.SIGTERM, 128 + signal.SIGINT)
    assert waited_for(lambda: not any(map(is_running, started)))  # one that was being started ends with its driver


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
    except OSError:
        return ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_stop_before_the_first_run_ends_with_0(tmp_path: Path, number: signal.Signals):
    """The config is a pipe that nobody has written to yet: the process waits, and handles no signal itself."""
    config = tmp_path / "changefeeds.yaml"
    os.mkfifo(config)

    with follower(config) as process:
        writing = os.open(config, os.O_WRONLY)  # returns once the process has opened it to read
        code = process.end(number)
        os.close(writing)

    assert code == 0
    assert process.printed() == []
