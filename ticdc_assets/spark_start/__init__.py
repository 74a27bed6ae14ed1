"""Starts Spark's JVM. A failed start leaves no JVM behind, and first starts wait for each other.

The requirements of Spark are checked first, so that a missing one is reported as a sentence and not as a Spark error.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.errors import MachineError
from ticdc_assets.spark_start import class_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MAJOR_MIN: Final = 17
JAVA_SECONDS_MAX: Final = 30
JVM_END_SECONDS_MAX: Final = 5
IVY: Final = "spark.jars.ivy"
_IVY_FOLDER: Final = ".ivy2.5.2"
"""Where Spark keeps downloaded packages, below the user's home folder."""


def started(build: Callable[[], SparkSession], jars: Sequence[Path] = ()) -> SparkSession:
    """The session that `build` starts, with `jars` at the end of Java's class path. If the start fails or is
    interrupted, the JVM is ended."""
    from pyspark import java_gateway

    begun: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            begun.append(self)  # before it runs, as an interrupt may come at any moment
            if jars:
                options["env"] = class_path.extended(options["env"], jars)
            super().__init__(*arguments, **options)

    true_popen, java_gateway.Popen = java_gateway.Popen, Noted
    try:
        return build()
    except BaseException:
        if begun:
            _end(begun)
        raise
    finally:
        java_gateway.Popen = true_popen


def forget_jvm() -> None:
    """Reset PySpark so that it can start another JVM."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001


def _jvm_process() -> subprocess.Popen[bytes] | None:
    """The JVM that PySpark has started in this process; None without one."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)  # without importing it
    process: subprocess.Popen[bytes] | None = getattr(getattr(context, "_gateway", None), "proc", None)
    return process


def jvm_property(name: str) -> str:
    """A system property of the JVM of this process, which must be running."""
    from pyspark import SparkContext

    return str(SparkContext._jvm.java.lang.System.getProperty(name))  # noqa: SLF001


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


def _end(begun: list[subprocess.Popen[bytes]]) -> None:
    """End the JVM, which would wait forever for its driver, and reset PySpark so that it can start another."""
    forget_jvm()
    for process in begun:
        if getattr(process, "pid", None) is not None:
            process.kill()
            process.wait()


def require_java(environ: Mapping[str, str] | None = None) -> None:
    """Raise MachineError, with one sentence, unless Java 17 or newer can be started."""
    environ = os.environ if environ is None else environ
    home = environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environ.get("PATH"))
    fault = "none on the PATH" if java is None else _java_fault(java)
    if fault is None:
        return
    advice = "Install a Java runtime 17 or newer (Debian: apt-get install openjdk-17-jre-headless)"
    named = ", and let JAVA_HOME name its folder, or unset JAVA_HOME" if home else ""
    expected = f"version {JAVA_MAJOR_MIN} or newer, which Spark needs"
    raise MachineError("Java", expected, fault, f"{advice}{named}; then run again.")


_FIT: Final[set[tuple[str, int]]] = set()
"""Javas that this process has found fit, by path and time of change: each start of one takes a third of a second."""


def _java_fault(java: str) -> str | None:
    """What is wrong with this Java; None if Spark can use it."""
    with suppress(OSError):
        identity = java, Path(java).stat().st_mtime_ns
        if identity in _FIT:
            return None
        fault = _fault_of(java)
        if fault is None:
            _FIT.add(identity)
        return fault
    return _fault_of(java)


def _fault_of(java: str) -> str | None:
    try:
        answer = subprocess.run(  # noqa: S603  the command that Spark would start
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=JAVA_SECONDS_MAX, check=False
        )
    except FileNotFoundError:
        return f"no {java}"
    except OSError as error:
        return f"{java}, which cannot be started ({error.strerror or type(error).__name__})"
    except subprocess.TimeoutExpired:
        return f"{java}, which does not answer within {JAVA_SECONDS_MAX} s"
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if found is None:
        return f"{java}, which shows no version"
    return None if int(found[1]) >= JAVA_MAJOR_MIN else f"version {found[1]} ({java})"


def require_user() -> None:
    """Raise MachineError if this process's user has no name: Hadoop's part of Spark needs one."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        advice = (
            "Add the user to /etc/passwd, as with `useradd`, or run as another one; in a container, not by `--user`."
        )
        raise MachineError(
            f"user {os.getuid()}", "a name, which Java asks for", "none in /etc/passwd", advice
        ) from None


def ivy_folder() -> str | None:
    """The folder for Spark's packages; None if Spark's default, below the user's home folder, can be written."""
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    folder = home / _IVY_FOLDER
    if os.access(folder if folder.exists() else home, os.W_OK | os.X_OK):
        return None
    return str(Path(tempfile.gettempdir()) / f"ticdc-assets-ivy-{os.getuid()}")


@contextmanager
def packages_fetched_once(packages: str, folder: str | None) -> Iterator[tuple[Path, ...]]:
    """One process at a time downloads missing packages; processes that find them all start together. These are given
    the packages' jars, the one that downloads is given none.

    A partial download is never taken for a complete one: processes look for packages only while they hold the lock.
    """
    place = Path(folder) if folder is not None else Path(pwd.getpwuid(os.getuid()).pw_dir) / _IVY_FOLDER
    place.mkdir(parents=True, exist_ok=True)
    with (place / "ticdc-assets.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        jars = _jars_of(packages, place / "jars")
        fcntl.flock(lock, fcntl.LOCK_UN)
        if jars is not None:
            yield jars
            return
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield ()


def _jars_of(packages: str, folder: Path) -> tuple[Path, ...] | None:
    """The jars of the packages; None where one is missing."""
    parts = [part.strip().split(":") for part in packages.split(",") if part.strip()]
    jars = tuple(folder / f"{part[0]}_{part[1]}-{part[-1]}.jar" for part in parts if len(part) == 3)
    return jars if len(jars) == len(parts) and all(jar.is_file() for jar in jars) else None
