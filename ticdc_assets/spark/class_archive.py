"""The archive of Java's loaded classes, from which a JVM starts with a third less processor time.

Java reads, checks and links ten thousand classes at each start of Spark. From an archive it maps them into memory. The
archive is made once, by `ticdc-assets doctor --prepare`, in the user's cache folder. Its name depends on Java, the jars
and this package's version, so that another combination gets another archive. Java itself compares the version of the
JVM and the size and time of each jar, and verifies the checksums of the archive; it starts without an archive that does
not fit.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ticdc_assets import __version__
from ticdc_assets.errors import MachineError
from ticdc_assets.spark.packages import spark_home

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
KEPT_MAX: Final = 3
"""How many archives of other versions and jars are kept."""

DUMP_SECONDS_MAX: Final = 600
_MAKING: Final = "making-"
_PR_SET_PDEATHSIG: Final = 1
_DUMP_MEMORY: Final = "-Xmx1g"
_ADVICE: Final = "Runs start without an archive. Try again, or continue without it."


def cache_folder(environ: Mapping[str, str]) -> Path | None:
    """The folder of the user's archives; None where the user has no home."""
    cache = environ.get("XDG_CACHE_HOME") or ""
    with suppress(RuntimeError):
        return (Path(cache) if cache.startswith("/") else Path.home() / ".cache") / "ticdc_assets" / "java"
    return None


def archive_of(jars: Sequence[Path], environ: Mapping[str, str]) -> Path | None:
    """Where the archive for this Java, this Spark and these jars is, or would be. None where Java is not found."""
    folder = cache_folder(environ)
    home = environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environ.get("PATH"))
    if folder is None or java is None or any(mark in str(folder) for mark in "\"'\\\n"):
        return None
    try:
        files = [Path(java).resolve(), *sorted((spark_home() / "jars").glob("*.jar")), *jars]
        stats = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    except OSError:
        return None
    digest = hashlib.sha256(json.dumps([__version__, stats]).encode()).hexdigest()
    return folder / f"{digest[:24]}.jsa"


def is_own(archive: Path) -> bool:
    """Whether the file exists and only this user can have written it: Java would run its code."""
    with suppress(OSError):
        return all(
            stat.st_uid == os.getuid() and not stat.st_mode & 0o022
            for stat in (archive.stat(follow_symlinks=False), archive.parent.stat())
        )
    return False


def options_from(archive: Path) -> str:
    """The options of a JVM that starts from the archive if it fits, and prints no message if it does not."""
    return f'-Xshare:auto "-XX:SharedArchiveFile={archive}" -XX:+VerifySharedSpaces -Xlog:cds=off -Xlog:class+path=off'


def options_that_list(classes: Path) -> str:
    """The options of a JVM that writes the names of its loaded classes into a file when it ends."""
    return f'"-XX:DumpLoadedClassList={classes}"'


# -- the use at a start ------------------------------------------------------------------------------------------------

_LISTS: list[Path] = []
"""The file to which the next JVM writes its list of classes; empty for a usual start."""


@contextmanager
def classes_listed_in(path: Path) -> Iterator[None]:
    """JVMs that are started meanwhile use no archive and list their classes."""
    _LISTS.append(path)
    try:
        yield
    finally:
        _LISTS.remove(path)


def java_options(archive: Path | None, written: str) -> str:
    """The options of Java, `written` by the config, for a start from the archive, where there is one."""
    if _LISTS:
        return f"{written} {options_that_list(_LISTS[-1])}".strip()
    if archive is None or not is_own(archive) or "-Xshare" in written or "SharedArchive" in written:
        return written
    return f"{written} {options_from(archive)}".strip()


# -- the making --------------------------------------------------------------------------------------------------------


def make(archive: Path, classes: Path, java: Path, class_path: str) -> None:
    """Make the archive of the listed classes. It appears at once and complete, or not at all.

    Args:
        java: the program of the JVM that listed the classes.
        class_path: the class path of that JVM.

    Raises:
        MachineError: the folder cannot be written, or Java makes no archive.
    """
    try:
        archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix=_MAKING) as folder:
            fresh = Path(folder) / archive.name
            _dump(fresh, classes, java, class_path)
            fresh.chmod(0o600)
            fresh.replace(archive)
    except OSError as error:
        found = error.strerror or type(error).__name__
        advice = "Let XDG_CACHE_HOME name a folder that this user can write. Runs start without an archive until then."
        raise MachineError(str(archive.parent), "a folder for Java's archive", found, advice) from None
    _remove_old(archive)


def _dump(fresh: Path, classes: Path, java: Path, class_path: str) -> None:
    files = (f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={fresh}")
    command = [str(java), _DUMP_MEMORY, "-Xshare:dump", *files, "-cp", class_path]
    try:
        done = subprocess.run(command, timeout=DUMP_SECONDS_MAX, check=False, preexec_fn=_end_with_parent)  # noqa: S603
        code = done.returncode
        found = f"none; Java ended with {code}"
    except subprocess.TimeoutExpired:
        code, found = 1, f"none after {DUMP_SECONDS_MAX} s"
    if code or not fresh.is_file():
        raise MachineError(str(java), "an archive of classes", found, _ADVICE)


def _end_with_parent() -> None:
    """Let the system end this process with the one that started it, also where that one is killed (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _remove_old(archive: Path) -> None:
    """Remove all but the newest archives, and what killed processes left."""
    with suppress(OSError):  # another process removes them too
        others = sorted(archive.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in others[KEPT_MAX:]:
            old.unlink(missing_ok=True)
        for left in archive.parent.glob(f"{_MAKING}*"):
            if left.stat().st_mtime < time.time() - 2 * DUMP_SECONDS_MAX:
                shutil.rmtree(left, ignore_errors=True)
