"""`ticdc-assets doctor`: tests what a run needs: the machine, the catalog, the sources, Spark's workers."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.fs as pafs
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO

from ticdc_assets import __version__, spark
from ticdc_assets.commands.jvm import spark_stopped_after
from ticdc_assets.commands.output.each import EXIT_FAILED, sentence_of
from ticdc_assets.commands.output.terminal import Terminal, moment
from ticdc_assets.commands.process.demo import prepare as prepare_sample
from ticdc_assets.commands.process.run import run_all
from ticdc_assets.config import load
from ticdc_assets.errors import MachineError
from ticdc_assets.pipeline.lake import Lake, read_only_config
from ticdc_assets.pipeline.sources import state_of_source
from ticdc_assets.plurals import counted
from ticdc_assets.spark import class_archive
from ticdc_assets.spark.jvm import end_jvm, jvm_property
from ticdc_assets.spark.requirements import require_java, require_user
from ticdc_assets.spark.settings import is_local
from ticdc_assets.spark.start import java_start
from ticdc_assets.tso import is_tso, to_datetime

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config


FREE_BYTES_MIN: Final = 2 << 30
"""Spark writes its shuffles to the folder for temporary files."""
CLOCK_SLACK: Final = timedelta(minutes=1)
_LIBRARIES: Final = ("dagster", "pyspark", "pyiceberg", "pyarrow")
_TASKS: Final = 8
CHANGEFEED: Final = "storage_csv"
"""The changefeed of the sample that is loaded: it needs no other service."""

_END_SECONDS_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class Examination:
    """One requirement. `examine` returns what was found, as text; it raises where the requirement is not met."""

    name: str
    examine: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one examination. `sentence` says what was found, or what to do."""

    name: str
    passed: bool
    sentence: str


def doctor(config: Config, chosen: Sequence[Changefeed], as_json: bool, with_archive: bool = False) -> int:
    """Print one line for each requirement. Returns the exit code: 1 where one is not met.

    A requirement that is not met does not stop the others. Nothing is written to the source or the lake.

    Args:
        with_archive: make the archive from which Java starts.
    """
    terminal = Terminal()
    found = []
    with spark_stopped_after(config, "doctor.log"):
        for examination in examinations(config, chosen, with_archive):
            with terminal.working(f"looking at {examination.name}"):
                finding = _finding(examination)
            found.append(finding)
            if not as_json:
                terminal.result(f"{'ok  ' if finding.passed else 'FAIL'} {finding.name}: {finding.sentence}")
    if as_json:
        terminal.json([{"name": f.name, "passed": f.passed, "description": f.sentence} for f in found])
    return 0 if all(finding.passed for finding in found) else EXIT_FAILED


def _finding(examination: Examination) -> Finding:
    try:
        return Finding(examination.name, True, examination.examine())
    except Exception as error:  # noqa: BLE001  what is not met is the finding
        return Finding(examination.name, False, sentence_of(error))


def examinations(config: Config, chosen: Sequence[Changefeed], with_archive: bool = False) -> Iterator[Examination]:
    """Every requirement of a run, cheap ones first."""
    yield Examination("versions", _versions)
    yield Examination("Java", _java)
    yield Examination("temporary files", lambda: _room(Path(tempfile.gettempdir())))
    warehouse = Path(config.catalog.warehouse or "")
    if config.catalog.type == "sql" and warehouse.is_absolute():
        yield Examination("warehouse", lambda: _room(warehouse))
    yield Examination(f"catalog {config.catalog.name}", lambda: _catalog(config, chosen[0]))
    if config.catalog.store_type is not None and config.catalog.root_uri is not None:
        yield Examination("warehouse", lambda: _store(config, chosen[0], str(config.catalog.root_uri)))
    for changefeed in chosen:
        yield Examination(f"source of {changefeed.name}", lambda changefeed=changefeed: _source(config, changefeed))  # type: ignore[misc]
    yield Examination("start of Java", lambda: prepare(config) if with_archive else archive_found(config))
    yield Examination("Spark", lambda: _spark(config))


# -- the machine -------------------------------------------------------------------------------------------------------


def _versions() -> str:
    python = ".".join(map(str, sys.version_info[:3]))
    libraries = (f"{name} {version(name)}" for name in _LIBRARIES)
    return f"{', '.join((f'ticdc-assets {__version__}', f'Python {python}', *libraries))}."


def _java() -> str:
    require_java()
    require_user()
    return "Spark can start it."


def _room(folder: Path) -> str:
    """The free space of the disk on which the folder is, or will be. It must be writable."""
    there = _writable(folder)
    free = shutil.disk_usage(there).free
    if free < FREE_BYTES_MIN:
        advice = "Free some space, or name another disk with TMPDIR or in the config."
        raise MachineError(str(there), f"{FREE_BYTES_MIN >> 20:,} MiB of free space", f"{free >> 20:,}", advice)
    return f"{free >> 20:,} MiB are free at {there}."


def _writable(place: Path) -> Path:
    """The place, or the folder in which it will be made. Raises MachineError where this user cannot write it."""
    there = next(path for path in (place, *place.parents) if path.exists())
    if not os.access(there, os.W_OK | (os.X_OK if there.is_dir() else 0)):
        advice = "Give this user the right to write it, or mount it writable."
        raise MachineError(str(there), "a place that this process's user can write", "one that it cannot", advice)
    return there


# -- catalog and sources -----------------------------------------------------------------------------------------------


def _catalog(config: Config, changefeed: Changefeed) -> str:
    database = (config.catalog.uri or "").removeprefix("sqlite:///")
    if Path(database).is_absolute():
        _writable(Path(database))
    namespaces = Lake(read_only_config(config), changefeed).catalog.list_namespaces()
    return f"it answers, with {counted(len(namespaces), 'namespace')}."


def _store(config: Config, changefeed: Changefeed, root: str) -> str:
    """List the folder of the warehouse as pyiceberg opens it; before the first run there is none."""
    catalog = Lake(read_only_config(config), changefeed).catalog
    io = load_file_io(catalog.properties, root)
    if not isinstance(io, PyArrowFileIO):
        return f"{type(io).__name__} opens it, which is not tested here."
    scheme, bucket, path = io.parse_location(root, io.properties)
    with suppress(FileNotFoundError):
        io.fs_by_scheme(scheme, bucket).get_file_info(pafs.FileSelector(path))
    return f"{root} can be listed; whether it can be written, the first run shows."


def _source(config: Config, changefeed: Changefeed) -> str:
    state = state_of_source(Lake(read_only_config(config), changefeed))
    if state.not_yet:
        return f"it answers. {state.not_yet}"
    if state.checkpoint is None or not is_tso(state.checkpoint):
        return "it answers."
    ahead = to_datetime(state.checkpoint).astimezone(UTC) - datetime.now(UTC)
    if ahead > CLOCK_SLACK:
        advice = "Set this machine's clock, or that of TiDB's placement driver: lags are wrong otherwise."
        found = f"one {ahead.total_seconds():,.0f} s after it"
        raise MachineError(f"clock, for {changefeed.name}", "a checkpoint before this machine's time", found, advice)
    return f"it answers, complete up to {moment(state.checkpoint)}."


# -- Spark -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker's host and versions."""

    host: str
    python: str
    package: str


def this_worker() -> Worker:
    """The host, the Python version (major.minor) and this package's version, all of this process."""
    return Worker(socket.gethostname(), ".".join(map(str, sys.version_info[:2])), __version__)


def worker_at(_: int) -> Worker:
    """The worker that runs this task."""
    return this_worker()


def _spark(config: Config) -> str:
    """Start a session and let workers import this package."""
    require_java()
    workers: spark.Workers = spark.SparkWorkers(spark.session(config))
    found: set[Worker] = set(workers.map(worker_at, range(_TASKS)))
    here = this_worker()
    for worker in found:
        if (worker.python, worker.package) != (here.python, here.package):
            seen = f"Python {worker.python} with {worker.package}"
            advice = "Give workers the same environment as the driver: docs/cluster.md."
            raise MachineError(
                f"worker {worker.host}", f"Python {here.python} with ticdc-assets {here.package}", seen, advice
            )
    hosts = counted(len({worker.host for worker in found}), "host")
    return f"a session of {config.spark.master} starts, and workers on {hosts} import this package."


# `ticdc-assets doctor --prepare`: makes the archive from which Java starts.
#
# It loads the sample into a lake in a temporary folder while Java lists its classes, then lets another JVM write the
# archive. Both JVMs end before the command does.


def archive_found(config: Config) -> str:
    """Whether Spark's JVM starts from an archive."""
    archive = java_start(config).archive
    if archive is None:
        needs = "Java and a folder for caches" if is_local(config.spark.master) else "a local master"
        return f"it starts without an archive of classes, which needs {needs}."
    if class_archive.is_own(archive):
        return f"it starts from the archive of classes {archive}."
    return "it starts without an archive of classes; `ticdc-assets doctor --prepare` makes one."


def prepare(config: Config) -> str:
    """Make the archive for this config, also where there is one. Returns what was done.

    Raises:
        MachineError: there is no Java, no place, or the sample or Java itself failed.
    """
    require_java()
    start = java_start(config)
    if start.archive is None:
        return archive_found(config)
    with tempfile.TemporaryDirectory(prefix="ticdc-assets-") as folder:
        classes = Path(folder) / "classes.list"
        java, class_path = _classes_listed(Path(folder) / "sample", classes)
        path = ":".join((class_path, *map(str, start.jars[:1])))
        class_archive.make(start.archive, classes, java, path)
    return f"the archive of classes {start.archive} is made ({start.archive.stat().st_size >> 20} MiB)."


def _classes_listed(folder: Path, classes: Path) -> tuple[Path, str]:
    """Run the sample in a JVM that lists its classes: the program of that JVM, and its class path without packages."""
    prepare_sample(folder)
    config = load(folder / "changefeeds.yaml", {})
    jars = java_start(config).jars or _downloaded(config)
    chosen = [config.changefeed(CHANGEFEED)]
    with class_archive.classes_listed_in(classes):
        [ran] = run_all(Terminal(), config, chosen, None, {}, folder / "run.log")
    if ran.faults:
        raise MachineError("the sample", "a run without faults", ran.faults[0], "Run `ticdc-assets demo`.")
    java, class_path = jvm_property("java.home"), jvm_property("java.class.path")
    end_jvm(_END_SECONDS_MAX)  # it writes the list when it ends
    return Path(java) / "bin" / "java", class_path.removesuffix(":" + ":".join(map(str, jars)))


def _downloaded(config: Config) -> tuple[Path, ...]:
    """The jars of the sample's packages, which Spark downloads when it starts."""
    spark.session(config)
    spark.stop()
    end_jvm()
    return java_start(config).jars
