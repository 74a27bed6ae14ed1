"""The JVM that PySpark starts in this process: a failed start leaves none behind, and it can be ended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.spark.packages import with_class_path
from ticdc_assets.spark.requirements import signal_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JVM_END_SECONDS_MAX: Final = 5
_DEATH_SECONDS_MAX: Final = 1
"""A connection breaks before the process has ended."""
_STARTING: Final[list[subprocess.Popen[bytes]]] = []
"""The JVM that is being started: there is at most one, as sessions start one after another."""


def started(build: Callable[[], SparkSession], jars: Sequence[Path] = ()) -> SparkSession:
    """The session that `build` starts, with `jars` at the end of Java's class path. If the start fails or is
    interrupted, the JVM is ended."""
    from pyspark import java_gateway

    class Noted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            _STARTING.append(self)  # before it runs, as an interrupt may come at any moment
            if jars:
                options["env"] = with_class_path(options["env"], jars)
            super().__init__(*arguments, **options)

    true_popen, java_gateway.Popen = java_gateway.Popen, Noted
    try:
        return build()
    except BaseException:
        if _STARTING:
            _end(_STARTING)
        raise
    finally:
        java_gateway.Popen = true_popen
        _STARTING.clear()


def killed_while_starting() -> int | None:
    """The signal that has ended the JVM that is being started; None where none has."""
    for process in tuple(_STARTING):
        with suppress(subprocess.TimeoutExpired):
            return signal_of(process.wait(_DEATH_SECONDS_MAX))
    return None


def end_start() -> None:
    """Let the start of a JVM in another thread fail at once."""
    for process in tuple(_STARTING):
        if getattr(process, "pid", None) is not None:
            process.terminate()


def _end(begun: list[subprocess.Popen[bytes]]) -> None:
    """End the JVM, which would wait forever for its driver, and reset PySpark so that it can start another.

    A JVM that is asked to end removes its temporary folders; one that is killed leaves them.
    """
    forget_jvm()
    for process in begun:
        if getattr(process, "pid", None) is not None:
            process.terminate()
            try:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(JVM_END_SECONDS_MAX)
            finally:
                process.kill()
                process.wait()


def forget_jvm() -> None:
    """Reset PySpark so that it can start another JVM."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001


def is_alive() -> bool:
    """Whether the JVM of this process is running."""
    process = _jvm_process()
    return process is not None and process.poll() is None


def end_jvm(seconds_max: float | None = None) -> None:
    """End the JVM of this process, whose session is stopped, and wait until it has removed its files.

    Args:
        seconds_max: after which it is killed (default: `JVM_END_SECONDS_MAX`).
    """
    process = _jvm_process()
    if process is None or process.stdin is None:
        return
    process.stdin.close()  # the JVM ends with its driver
    try:
        process.wait(JVM_END_SECONDS_MAX if seconds_max is None else seconds_max)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    forget_jvm()


def kill_jvm() -> None:
    """End the JVM of this process at once, where there is one. Safe in a signal handler."""
    process = _jvm_process()
    if process is not None:
        process.kill()


def jvm_property(name: str) -> str:
    """A system property of the JVM of this process, which must be running."""
    from pyspark import SparkContext

    return str(SparkContext._jvm.java.lang.System.getProperty(name))  # noqa: SLF001


def _jvm_process() -> subprocess.Popen[bytes] | None:
    """The JVM that PySpark has started in this process; None without one."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)  # without importing it
    process: subprocess.Popen[bytes] | None = getattr(getattr(context, "_gateway", None), "proc", None)
    return process
