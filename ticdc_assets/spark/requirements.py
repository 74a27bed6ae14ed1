"""What Spark requires of the machine. A missing requirement is reported as a sentence and not as an error of Spark."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from ticdc_assets.errors import EngineError, MachineError

JAVA_MAJOR_MIN: Final = 17
JAVA_SECONDS_MAX: Final = 30
KILLED: Final = (
    "If the system ended it for lack of memory, free memory or lower spark.driver.memory. No partial result is "
    "visible: run again."
)
_OF_SHELL: Final = 128
_ACCEPTED: Final[set[tuple[str, int]]] = set()
"""The Java programs that this process has found suitable, by path and time of change: each test takes a third of a
second."""


def require_java(environ: Mapping[str, str] | None = None) -> None:
    """Raise MachineError, with one sentence, unless Java 17 or newer can be started.

    Raises EngineError where it was killed, or does not answer.
    """
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


def _java_fault(java: str) -> str | None:
    """What is wrong with this Java; None if Spark can use it."""
    with suppress(OSError):
        identity = java, Path(java).stat().st_mtime_ns
        if identity in _ACCEPTED:
            return None
        fault = _fault_of(java)
        if fault is None:
            _ACCEPTED.add(identity)
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
        raise _ended(f"{java}, which does not answer within {JAVA_SECONDS_MAX} s") from None
    if signal := signal_of(answer.returncode):
        raise _ended(f"signal {signal}, which ended {java}")
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if found is None:
        return f"{java}, which shows no version"
    return None if int(found[1]) >= JAVA_MAJOR_MIN else f"version {found[1]} ({java})"


def signal_of(exit_code: int) -> int | None:
    """The signal that ended a process, also one that a shell has started; None where it ended by itself."""
    return -exit_code if exit_code < 0 else exit_code - 128 if exit_code > _OF_SHELL else None


def _ended(found: str) -> EngineError:
    return EngineError("Java", "to start", found, KILLED)


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
