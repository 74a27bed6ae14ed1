"""Sessions and their JVM: a failed or interrupted start leaves no JVM, and the end of one is noticed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from ticdc_assets import spark
from ticdc_assets.config import load
from ticdc_assets.errors import EngineError, MachineError
from ticdc_assets.spark import jvm as spark_jvm
from ticdc_assets.spark import sessions
from ticdc_assets.spark import start as spark_start
from ticdc_assets_tests.apart import apart
from ticdc_assets_tests.services.processes import free_ports
from ticdc_assets_tests.spark.processes import is_alive, waited_for

CHILD = """
import sys
from pathlib import Path
from ticdc_assets import spark
from ticdc_assets.config import load

spark.session(load(Path(sys.argv[1]), {}))
print("started", flush=True)
sys.stdin.read()
"""


def javas_below(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if line.split()[1] == "java"]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda sent: sent.name)
def test_no_jvm_stays_where_the_process_ends_while_spark_starts(tmp_path: Path, sent: signal.Signals):
    config = tmp_path / "changefeeds.yaml"
    config.write_text('changefeeds: {feed: {sink_uri: "s3://bucket/x?protocol=csv"}}\nspark: {master: "local[1]"}\n')
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    found: list[int] = []
    assert waited_for(lambda: found.extend(javas_below(child.pid)) or found)

    child.send_signal(sent)

    try:
        child.wait(60)
        assert waited_for(lambda: not is_alive(found[0]))
    finally:
        for pid in found:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


def test_an_error_of_a_start_ahead_is_raised_where_the_session_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(sessions, "_SESSIONS", {})
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    config = load(None, {})

    spark.start_ahead(config)
    for thread in threading.enumerate():
        if thread.name == "spark-start":
            thread.join()
    monkeypatch.delenv("JAVA_HOME")

    with pytest.raises(MachineError, match="Java"):
        spark.session(config)
    assert not spark.is_running()


def _start_at_a_master_that_is_not_there(folder: Path) -> str:
    [port] = free_ports(1)
    path = folder / "changefeeds.yaml"
    conf = {"spark.driver.host": "127.0.0.1"}
    feed = {"sink_uri": "file:///nowhere?protocol=csv"}
    block = {"master": f"spark://127.0.0.1:{port}", "conf": conf}
    path.write_text(yaml.safe_dump({"spark": block, "changefeeds": {"shop": feed}}))
    with pytest.raises(EngineError) as caught:
        spark.session(load(path, {}))
    return str(caught.value).replace(str(port), "PORT")


def _started_after_java_was_killed(when: str) -> tuple[str, bool, bool]:
    """The error of a start whose JVM is killed, whether the next one succeeds, and whether they leave Ctrl-C alone."""
    config, handlers, ended = load(None, {}), set(), threading.Event()
    true_settings = spark_start._with_settings

    def kill() -> None:
        found: list[int] = []
        assert waited_for(lambda: found.extend(javas_below(os.getpid())) or found)
        os.kill(found[0], signal.SIGKILL)

    def killed_settings(*arguments: Any) -> SparkSession:
        spark_start._with_settings = true_settings
        kill()
        return true_settings(*arguments)

    def watch() -> None:
        while not ended.wait(0.001):
            handlers.add(signal.getsignal(signal.SIGINT))

    if when == "the session has its settings":
        spark_start._with_settings = killed_settings
    else:
        threading.Thread(target=kill, daemon=True).start()
    threading.Thread(target=watch, daemon=True).start()
    with pytest.raises(EngineError) as caught:
        spark.session(config)
    is_started = spark.session(config).range(3).count() == 3
    ended.set()
    return str(caught.value), is_started, handlers == {signal.getsignal(signal.SIGINT)}


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("when", ["Java has begun", "the session has its settings"])
def test_a_start_whose_java_is_killed_can_be_tried_again(when: str):
    said, is_started, is_left_alone = apart(_started_after_java_was_killed, when)

    assert "expected to start, found signal 9, which ended " in said
    assert (is_started, is_left_alone) == (True, True)


@pytest.mark.spark
@pytest.mark.matrix  # Spark asks for a minute
def test_a_master_that_is_not_there_is_named_with_what_to_do(tmp_path: Path):
    said = apart(_start_at_a_master_that_is_not_there, tmp_path)

    assert said.startswith("Spark's session of spark://127.0.0.1:PORT: expected to start, found ")
    assert "ConnectionRefusedError" not in said
    assert "Check spark.master and spark.conf, and that the cluster runs; " in said


def _start_with_a_setting_that_java_refuses(folder: Path) -> str:
    path = folder / "changefeeds.yaml"
    feed = {"sink_uri": "file:///nowhere?protocol=csv"}
    blocks = {"spark": {"master": "local[1]", "conf": {"spark.driver.memory": "lots"}}, "changefeeds": {"shop": feed}}
    path.write_text(yaml.safe_dump(blocks))
    with pytest.raises(MachineError) as caught:
        spark.session(load(path, {}))
    return str(caught.value)


@pytest.mark.spark
def test_a_session_that_does_not_start_leads_to_its_settings(tmp_path: Path):
    said = apart(_start_with_a_setting_that_java_refuses, tmp_path)

    assert said.startswith("Spark's session of local[1]: expected to start, found ")
    assert "Check spark.master and spark.conf" in said


SLOW_JAVA = """#!/bin/sh
[ "$1" = -version ] && echo 'openjdk version "17.0.1"' >&2 && exit
touch "{folder}/begun"
while [ ! -e "{folder}/may_end" ]; do sleep 0.05; done
"""


def _stopped_while_it_starts(folder: Path) -> tuple[bool, bool, list[int]]:
    """Whether Java was started, and the session then stopped before Java was ready; the errors left for `session`."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(SLOW_JAVA.format(folder=folder))
    java.chmod(0o755)
    os.environ["JAVA_HOME"] = str(folder)
    spark.start_ahead(load(None, {}))
    was_started = waited_for((folder / "begun").exists)
    stopping = threading.Thread(target=spark.stop)
    stopping.start()
    stopping.join(10)
    was_stopped = not stopping.is_alive()
    (folder / "may_end").touch()
    stopping.join()
    for thread in threading.enumerate():
        if thread.name == "spark-start":
            thread.join()
    return was_started, was_stopped, list(sessions._FAILED_AHEAD)


def test_a_start_that_nobody_needs_any_more_is_not_waited_for(tmp_path: Path):
    assert apart(_stopped_while_it_starts, tmp_path) == (True, True, [])


TIDY_JAVA = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, lambda *_: (Path(sys.argv[1]).unlink(), sys.exit(143)))
Path(sys.argv[1]).touch()
time.sleep(60)
"""


def _is_left_by_an_interrupted_start(file: Path) -> bool:
    """Whether the file of a program that stands in for Java is left."""
    from pyspark import java_gateway

    def interrupted() -> SparkSession:
        java_gateway.Popen([sys.executable, "-c", TIDY_JAVA, str(file)])
        assert waited_for(file.exists)
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        spark_jvm.started(interrupted)
    return file.exists()


def test_a_jvm_whose_start_is_interrupted_removes_its_files(tmp_path: Path):
    """It has a file, and removes it when it is asked to end."""
    assert not apart(_is_left_by_an_interrupted_start, tmp_path / "file")


class _Gateway:
    """What PySpark keeps of the JVM that it has started; here another program stands in for Java."""

    def __init__(self, *command: str) -> None:
        self.proc = subprocess.Popen(command, stdin=subprocess.PIPE)


class _Session:
    def __init__(self) -> None:
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True
        raise ConnectionRefusedError


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., _Gateway]]:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    begun: list[_Gateway] = []
    for name in ("_gateway", "_jvm", "_active_spark_context"):
        monkeypatch.setattr(SparkContext, name, None)
    for name in ("_instantiatedSession", "_activeSession"):
        monkeypatch.setattr(SparkSession, name, None)

    def started(*command: str) -> _Gateway:
        begun.append(_Gateway(*command))
        monkeypatch.setattr(SparkContext, "_gateway", begun[-1])
        return begun[-1]

    yield started
    for one in begun:
        one.proc.kill()
        one.proc.wait()


def test_only_a_session_whose_jvm_has_ended_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, gateway: Callable[..., _Gateway]
):
    from pyspark import SparkContext

    session = _Session()
    monkeypatch.setattr(sessions, "_SESSIONS", {os.getpid(): ({}, session)})
    jvm = gateway("cat").proc

    spark.forget_dead_session()
    was_kept = spark.is_running()
    spark_jvm.kill_jvm()
    jvm.wait()
    spark.forget_dead_session()

    assert was_kept
    assert session.is_stopped and not spark.is_running()
    assert SparkContext._gateway is None


@pytest.mark.parametrize("command", [("cat",), ("sleep", "60")], ids=["ends with its driver", "does not end"])
def test_a_jvm_is_ended_and_waited_for(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, gateway: Callable[..., _Gateway]
):
    monkeypatch.setattr(spark_jvm, "JVM_END_SECONDS_MAX", 5 if command == ("cat",) else 0.05)
    jvm = gateway(*command).proc

    spark_jvm.end_jvm()

    assert jvm.returncode == (0 if command == ("cat",) else -signal.SIGKILL)
    spark_jvm.end_jvm()  # there is none any more
