"""The Spark session, and the distribution of work to its workers.

Importing this module starts no JVM. `session` starts one session per process and returns the same one afterwards.
`SparkWorkers` runs one picklable function over many payloads, one partition per task.
"""

from __future__ import annotations

import atexit
import gc
import itertools
import os
import pickle
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar
from zipimport import zipimporter

import pyarrow as pa

from ticdc_assets.errors import ConfigError, MachineError, TicdcAssetsError
from ticdc_assets.faults import DEBUG_VARIABLE, note_frames, plain
from ticdc_assets.spark_packages import WITHOUT_DEPENDENCIES, packages_of
from ticdc_assets.spark_start import (
    IVY,
    class_archive,
    class_path,
    forget_jvm,
    is_alive,
    ivy_folder,
    packages_fetched_once,
    require_java,
    require_user,
    started,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ticdc_assets.config import Config

_CATALOGS: Final = "spark.sql.catalog."
_PACKAGES: Final = "spark.jars.packages"
_PYTHON: Final = "spark.pyspark.python"
_SENT_PACKAGES: Final = "spark.submit.pyFiles"
_IMPORT_PATH: Final = "spark.executorEnv.PYTHONPATH"
TASKS_PER_CORE_MAX: Final = 4  # starting a task costs more than the work for a small table

_SOCKET_FOLDER_MAX: Final = 60
"""Characters. The path of a socket can have about 100, of which Spark's own names take 42."""

Payload = TypeVar("Payload")
Answer = TypeVar("Answer")


class Workers(Protocol):
    """Runs `work` over `payloads` independently; returns the answers in the order of the payloads."""

    def map(self, work: Callable[[Payload], Answer], payloads: Sequence[Payload]) -> list[Answer]:
        """The results of `work`, in the order of `payloads`; both can be pickled. An error of one ends the call."""
        ...


class LocalWorkers:
    """Runs the work in this process, one payload after another: for small inputs and for tests without Java."""

    def map(self, work: Callable[[Payload], Answer], payloads: Sequence[Payload]) -> list[Answer]:
        """See `Workers`. Nothing is pickled."""
        return [work(payload) for payload in payloads]


class SparkWorkers:
    """Runs the work in Spark's Python workers, where this package must be installed."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def map(self, work: Callable[[Payload], Answer], payloads: Sequence[Payload]) -> list[Answer]:
        """See `Workers`. Above `TASKS_PER_CORE_MAX` payloads per core, several payloads share a Spark task."""
        if not payloads:
            return []
        context = self._spark.sparkContext
        pickled = [pickle.dumps(payload) for payload in payloads]
        count = len(pickled)
        tasks = min(count, TASKS_PER_CORE_MAX * context.defaultParallelism)

        def run(task: int, _: Iterable[int]) -> Iterator[tuple[int, bytes]]:
            spare_archives()
            _keep_what_is_loaded()
            for number in range(task, count, tasks):
                yield number, pickle.dumps(_answer(work, pickle.loads(pickled[number])))  # noqa: S301  our own bytes
                pa.default_memory_pool().release_unused()  # the worker stays alive, and its next task may be different

        # An RDD and not a DataFrame: planning a DataFrame takes longer than sending such work and its answers.
        with _unfit_workers_named():
            found = context.parallelize(range(tasks), tasks).mapPartitionsWithIndex(run).collect()
        answers = [pickle.loads(answer) for _, answer in sorted(found)]  # noqa: S301  our own bytes
        for answer in answers:
            if isinstance(answer, TicdcAssetsError):
                raise answer
        return answers


class LazySparkWorkers:
    """Spark's workers. The first call of `map` starts the session."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def map(self, work: Callable[[Payload], Answer], payloads: Sequence[Payload]) -> list[Answer]:
        """See `Workers`. Starts the session if there are payloads."""
        return SparkWorkers(session(self._config)).map(work, payloads) if payloads else []


def tasks_done() -> tuple[int, int] | None:
    """How many tasks of the present Spark job are done, and of how many; None where none runs, or Spark is stopping."""
    from pyspark import SparkContext  # imported only when needed

    context = SparkContext._active_spark_context  # noqa: SLF001  asking for one otherwise makes one
    try:
        tracker = None if context is None else context.statusTracker()
        stages = [] if tracker is None else [tracker.getStageInfo(i) for i in tracker.getActiveStageIds()]
        running = [stage for stage in stages if stage is not None]
    except Exception:  # noqa: BLE001  the session may end at any time; a figure less is no fault
        return None
    return (sum(s.numCompletedTasks for s in running), sum(s.numTasks for s in running)) if running else None


@contextmanager
def _unfit_workers_named() -> Iterator[None]:
    """Raise MachineError where a worker's Python lacks a module, or is of another version than the driver's."""
    try:
        yield
    except Exception as error:
        text = str(error)
        missing = re.search(r"No module named '([\w.]+)'", text)
        if missing is None and "PYTHON_VERSION_MISMATCH" not in text:
            raise
        host = re.search(r"\((\S+) executor", text)
        found = f"no module {missing[1]}" if missing else "another version of Python"
        expected = "a Python of the driver's version that has ticdc-assets and what it needs"
        advice = "docs/cluster.md has three ways to give workers this package."
        where = f"Spark's worker on {host[1]}" if host else "Spark's workers"
        raise MachineError(where, expected, found, advice) from None


def spare_archives() -> None:
    """Make Python workers skip reading archives before each task.

    Before every task a Python worker reads the index of each archive on its import path again, once for each package in
    it. Archives never change: those of Java are removed from the path, and the others are read when something is
    imported. With Iceberg's jar, which Spark puts on Python's path, each task would cost half a second more of CPU
    time.
    """
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(".jar")]
    for entry, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[entry]


_TASKS_BEGUN = itertools.count()


def _keep_what_is_loaded() -> None:
    """Exclude the objects of the first task from garbage collection, which a Python worker runs after each task: they
    stay anyway."""
    if next(_TASKS_BEGUN) == 1:
        gc.freeze()


def _answer(work: Callable[[Payload], Answer], payload: Payload) -> Answer | TicdcAssetsError:
    """The result of the payload, or its error: Spark's log would quote the message of an error raised in a worker."""
    try:
        return work(payload)
    except Exception as error:  # noqa: BLE001  the driver handles it
        if not isinstance(error, TicdcAssetsError):
            note_frames(error)
        return plain(error).with_traceback(None)


_LOCK = threading.Lock()
_SESSIONS: dict[int, tuple[dict[str, str], SparkSession]] = {}
_FAILED_AHEAD: dict[int, Exception] = {}


def start_ahead(config: Config) -> None:
    """Begin to start the session and one Python worker in another thread, and return at once.

    `session` waits for the start. An error of it is raised by the next call of `session`.
    """
    if not is_running():
        threading.Thread(target=_start_ahead, args=(config,), name="spark-start", daemon=True).start()


def _start_ahead(config: Config) -> None:
    try:
        spark = session(config)
    except Exception as error:  # noqa: BLE001  the thread that needs the session raises it
        _FAILED_AHEAD[os.getpid()] = error
        return
    with suppress(Exception):  # the session may be stopped meanwhile
        SparkWorkers(spark).map(len, [()])


def session(config: Config) -> SparkSession:
    """This process's Spark session, started on first use with the catalog of `config` and kept for later runs.

    Raises:
        MachineError: Java 17 is missing.
        RuntimeError: a session with other settings is running (Spark would silently keep the old ones).
    """
    wanted = session_conf(config)
    with _LOCK:
        if failed := _FAILED_AHEAD.pop(os.getpid(), None):
            raise failed
        held = _SESSIONS.get(os.getpid())
        if held is None:
            held = _SESSIONS[os.getpid()] = (wanted, _start(wanted))
        conf, spark = held
        _add_catalog(spark, conf, wanted)
        return spark


def stop() -> None:
    """Stop this process's session, if any."""
    with _LOCK:
        _FAILED_AHEAD.pop(os.getpid(), None)
        held = _SESSIONS.pop(os.getpid(), None)
        if held is not None:
            held[1].stop()


def is_running() -> bool:
    """Whether this process has started a session."""
    return os.getpid() in _SESSIONS


def forget_dead_session() -> None:
    """Forget this process's session where its JVM has ended, so that `session` starts another."""
    if not is_running() or is_alive():
        return  # without the lock, which a start holds for seconds
    with _LOCK:
        held = _SESSIONS.get(os.getpid())
        if held is not None and not is_alive():
            del _SESSIONS[os.getpid()]
            with suppress(Exception):  # whatever it would ask of Java fails; what it holds in Python is released
                held[1].stop()
            forget_jvm()


def _add_catalog(spark: SparkSession, running: dict[str, str], wanted: dict[str, str]) -> None:
    # A catalog can be added while Spark has not resolved its name yet. Other settings of a session cannot change.
    for key, value in wanted.items():
        if running.get(key) == value:
            continue
        if not key.startswith(_CATALOGS) or key in running:
            raise RuntimeError(f"Spark is running already with another {key}; stop it first (ticdc_assets.spark.stop)")
        spark.conf.set(key, value)
        running[key] = value


def _start(conf: dict[str, str]) -> SparkSession:
    require_user()
    require_java()
    _choose_python_of_workers(conf)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("ticdc_assets")
    folder = conf.get(IVY) or ivy_folder()
    if folder is not None:
        builder = builder.config(IVY, folder)
    with packages_fetched_once(conf[_PACKAGES], folder) as found, _interrupts_as_before():
        start = _java_start(conf, found)
        for key, value in {**_sockets(conf["spark.master"]), **conf, **start.conf(conf)}.items():
            if not key.startswith(_CATALOGS):
                builder = builder.config(key, value)
        spark = started(builder.getOrCreate, start.jars)
    for key, value in conf.items():
        if key.startswith(_CATALOGS):  # only now: Java's command line would show credentials to all users
            spark.conf.set(key, value)
    context = spark.sparkContext
    context.setLogLevel("ERROR")
    spare_archives()
    context._python_includes = [name for name in context._python_includes if not name.endswith(".jar")]  # noqa: SLF001
    if not os.environ.get(DEBUG_VARIABLE):
        _keep_rows_out_of_the_log(spark)
    return spark


@dataclass(frozen=True, slots=True)
class JavaStart:
    """How Spark's JVM starts: the packages' jars on its class path, and where its archive of classes is or would be."""

    jars: tuple[Path, ...]
    archive: Path | None

    def conf(self, conf: Mapping[str, str]) -> dict[str, str]:
        """The settings that change for it."""
        written = conf.get(class_archive.JAVA_OPTIONS, "")
        options = {class_archive.JAVA_OPTIONS: class_archive.java_options(self.archive, written)}
        return {**options, _PACKAGES: ""} if self.jars else options


def java_start(config: Config) -> JavaStart:
    """How the next JVM of this config starts."""
    conf = session_conf(config)
    with packages_fetched_once(conf[_PACKAGES], conf.get(IVY) or ivy_folder()) as found:
        return _java_start(conf, found)


def _java_start(conf: Mapping[str, str], found: tuple[Path, ...]) -> JavaStart:
    packages = conf[_PACKAGES].split(",")
    jars = found if class_path.is_possible(conf, packages, WITHOUT_DEPENDENCIES, os.environ) else ()
    # An archive fits where its class path is the beginning of Java's: so one archive serves all catalogs.
    archive = class_archive.archive_of(jars[:1], os.environ) if is_local(conf["spark.master"]) else None
    return JavaStart(jars, archive)


def _choose_python_of_workers(conf: dict[str, str]) -> None:
    # PySpark reads this variable only; spark-submit would set it from the setting.
    os.environ["PYSPARK_PYTHON"] = conf.get(_PYTHON) or os.environ.get("PYSPARK_PYTHON") or sys.executable


@contextmanager
def _interrupts_as_before() -> Iterator[None]:
    """Keep the current handler of Ctrl-C.

    Spark would replace it: its handler asks Java to cancel all jobs. During another call to Java that fails, and the
    step would end with a Spark error and not as interrupted.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


def is_local(master: str) -> bool:
    """Whether Spark's workers run on this machine."""
    return master.startswith("local")


def _sockets(master: str) -> dict[str, str]:
    """Settings for communication with workers on this machine: by sockets in a folder that only this user can read.

    By TCP every task would take 40 ms longer, as the other side delays its acknowledgement.
    """
    if not is_local(master) or not hasattr(socket, "AF_UNIX"):
        return {}
    folder = tempfile.mkdtemp(prefix="ticdc-assets-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if len(folder) > _SOCKET_FOLDER_MAX:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder}


def _keep_rows_out_of_the_log(spark: SparkSession) -> None:
    """Silence loggers that quote rows of a failed task. The driver gets the error too, and shows its kind."""
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j  # noqa: SLF001
    for name in _QUOTING_LOGGERS:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
    from pyspark.logger import PySparkLogger

    for name in _QUOTING_PYTHON_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True


def session_conf(config: Config) -> dict[str, str]:
    """All settings of Spark, with the user's `spark.conf` last."""
    extra = dict(config.spark.conf)
    return {
        "spark.master": config.spark.master,
        _PACKAGES: ",".join(packages_of(config.catalog, extra.pop(_PACKAGES, ""))),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        **_CONF,
        **(_LOCAL_CONF if is_local(config.spark.master) else {}),
        **catalog_conf(config),
        **extra,
        **_path_to_sent_packages(extra),
    }


def _path_to_sent_packages(conf: Mapping[str, str]) -> dict[str, str]:
    """The import path with the packages that Spark sends to workers, which find them in their working folder.

    Spark adds them after a worker has started. The process that starts workers already needs this package.

    Raises:
        ConfigError: a package is no zip file, so that Python would not import it.
    """
    files = [entry.strip() for entry in conf.get(_SENT_PACKAGES, "").split(",") if entry.strip()]
    for entry in files:
        if not entry.endswith((".zip", ".egg")):
            advice = "Copy a wheel to a name that ends in .zip, and name that."
            raise ConfigError(f"spark.conf.{_SENT_PACKAGES}", "names of .zip or .egg files", repr(entry), advice)
    paths = [entry.rpartition("/")[2] for entry in files] + [conf.get(_IMPORT_PATH, "")]
    return {_IMPORT_PATH: ":".join(filter(None, paths))} if files else {}


_QUOTING_LOGGERS: Final = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.datasources.v2",
    "org.apache.spark.util.Utils",
)
_QUOTING_PYTHON_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_LOCAL_CONF: Final[dict[str, str]] = {  # workers on other machines could not reach this address
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_CONF: Final[dict[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.driver.memory": "2g",
    # A run ends before Java's optimised code pays off: compiling it took much of Java's time. Loops that stay hot, as
    # in a large MERGE, are still optimised.
    "spark.driver.extraJavaOptions": (
        "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
        "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
    ),
    "spark.python.daemon.module": "ticdc_assets.pipeline.python_daemon",
    # A worker returns free memory to the system, so that it does not grow with each task, but not page by page.
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    "spark.executorEnv.GLIBC_TUNABLES": ":".join(
        (
            f"glibc.malloc.mmap_threshold={16 << 20}",
            f"glibc.malloc.trim_threshold={64 << 20}",
            "glibc.malloc.hugetlb=1",
        )
    ),
    "spark.log.structuredLogging.enabled": "false",
    "spark.redaction.regex": "(?i)secret|password|token|(access|account)[.-]?key|credential|uri",
}


def catalog_conf(config: Config) -> dict[str, str]:
    """Spark's settings for the catalog that pyiceberg opens from the same config."""
    catalog = config.catalog
    prefix = f"spark.sql.catalog.{catalog.name}"
    conf = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": {"sql": "jdbc"}.get(catalog.type, catalog.type),
        f"{prefix}.cache-enabled": "false",  # else Spark reads stale tables until REFRESH TABLE
    }
    if catalog.iceberg_warehouse is not None:
        conf[f"{prefix}.warehouse"] = catalog.iceberg_warehouse
    if catalog.type == "sql":
        conf[f"{prefix}.jdbc.schema-version"] = "V1"
        conf.update({f"{prefix}.{key}": value for key, value in _jdbc(catalog.uri or "").items()})
    elif catalog.uri is not None:
        conf[f"{prefix}.uri"] = catalog.uri
    conf.update({f"{prefix}.{key}": str(value) for key, value in catalog.java_properties.items()})
    return conf


def _jdbc(uri: str) -> dict[str, str]:
    """The JDBC URI of the database that SQLAlchemy opens by this URI."""
    from sqlalchemy import URL, make_url

    url = make_url(uri)
    kind = url.get_backend_name()
    if kind == "sqlite":
        if url.database in {None, "", ":memory:"}:
            advice = "Name a file: uri: sqlite:////folder/catalog.db."
            raise ConfigError(
                "catalog.uri", "a database that Spark can open too", "one in this process's memory", advice
            )
        return {"uri": f"jdbc:sqlite:{url.database}?busy_timeout=30000"}  # wait for another writer instead of failing
    bare = URL.create(kind, host=url.host, port=url.port, database=url.database, query=url.query).render_as_string()
    login = {"jdbc.user": url.username, "jdbc.password": url.password}
    return {"uri": f"jdbc:{bare}", **{key: str(value) for key, value in login.items() if value is not None}}
