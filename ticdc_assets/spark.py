"""The Spark session, and how work reaches its workers.

Nothing here starts a JVM at import. `session` builds one session a process and gives it back when asked again;
`SparkWorkers` runs one picklable function over many payloads, one partition each.
"""

from __future__ import annotations

import atexit
import gc
import itertools
import os
import pickle
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeVar
from zipimport import zipimporter

import pyarrow as pa

from ticdc_assets.errors import ConfigError, TicdcAssetsError
from ticdc_assets.faults import DEBUG_VARIABLE, note_frames, plain
from ticdc_assets.spark_start import IVY, ivy_folder, packages_fetched_once, require_java, require_user, started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ticdc_assets.config import Config

ICEBERG_PACKAGE: Final = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
SQLITE_PACKAGE: Final = "org.xerial:sqlite-jdbc:3.54.1.0"
TASKS_PER_CORE_MAX: Final = 4  # to start one costs more than what there is to do for a small table

_SOCKET_FOLDER_MAX: Final = 60
"""Characters; a socket's whole path may have about a hundred, of which Spark's own names take 42."""

Payload = TypeVar("Payload")
Answer = TypeVar("Answer")


class Workers(Protocol):
    """Runs `work` over `payloads`, each on its own, and gives the answers in the order of the payloads."""

    def map(self, work: Callable[[Payload], Answer], payloads: Sequence[Payload]) -> list[Answer]: ...


class LocalWorkers:
    """Runs the work in this process, one payload after the other: for small inputs and for tests without Java."""

    def map(self, work: Callable[[Payload], Answer], payloads: Sequence[Payload]) -> list[Answer]:
        return [work(payload) for payload in payloads]


class SparkWorkers:
    """Runs the work in Spark's Python workers, which need this package installed where they run."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def map(self, work: Callable[[Payload], Answer], payloads: Sequence[Payload]) -> list[Answer]:
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
                pa.default_memory_pool().release_unused()  # the worker stays, and its next work may be another

        # Not a frame: to plan one takes longer than to send such work and its answers.
        found = context.parallelize(range(tasks), tasks).mapPartitionsWithIndex(run).collect()
        answers = [pickle.loads(answer) for _, answer in sorted(found)]  # noqa: S301  our own bytes
        for answer in answers:
            if isinstance(answer, TicdcAssetsError):
                raise answer
        return answers


def spare_archives() -> None:
    """Before every task a Python worker reads anew what is in the archives that it imports from, once for each package
    in them. They never change: those of Java leave the path, and the others are looked at when something is imported.

    With Iceberg's jar, which Spark puts on Python's path, a task would cost half a second of the processor more.
    """
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(".jar")]
    for entry, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[entry]


_TASKS_BEGUN = itertools.count()


def _keep_what_is_loaded() -> None:
    """After a task a Python worker looks through all its objects. What its first one has loaded stays, and need not be
    looked at again."""
    if next(_TASKS_BEGUN) == 1:
        gc.freeze()


def _answer(work: Callable[[Payload], Answer], payload: Payload) -> Answer | TicdcAssetsError:
    """What came of the payload, its error too: of one that is raised in a worker Spark's log tells every word."""
    try:
        return work(payload)
    except Exception as error:  # noqa: BLE001  the driver decides
        if not isinstance(error, TicdcAssetsError):
            note_frames(error)
        return plain(error).with_traceback(None)


_LOCK = threading.Lock()
_SESSIONS: dict[int, tuple[dict[str, str], SparkSession]] = {}


def session(config: Config) -> SparkSession:
    """This process's Spark session, started on first use with the catalog of `config` and kept for later runs.

    Raises MachineError without Java 17, and RuntimeError where a session with other settings is running already
    (Spark would silently keep the old ones).
    """
    wanted = session_conf(config)
    with _LOCK:
        held = _SESSIONS.get(os.getpid())
        if held is None:
            held = _SESSIONS[os.getpid()] = (wanted, _start(wanted))
        conf, spark = held
        _add_catalog(spark, conf, wanted)
        return spark


def stop() -> None:
    """Stop this process's session, if any."""
    with _LOCK:
        held = _SESSIONS.pop(os.getpid(), None)
        if held is not None:
            held[1].stop()


def is_running() -> bool:
    """Whether this process has started a session."""
    return os.getpid() in _SESSIONS


def _add_catalog(spark: SparkSession, running: dict[str, str], wanted: dict[str, str]) -> None:
    # A catalog can join a running session as long as Spark has not resolved that name yet; anything else cannot change.
    for key, value in wanted.items():
        if running.get(key) == value:
            continue
        if not key.startswith("spark.sql.catalog.") or key in running:
            raise RuntimeError(f"Spark is running already with another {key}; stop it first (ticdc_assets.spark.stop)")
        spark.conf.set(key, value)
        running[key] = value


def _start(conf: dict[str, str]) -> SparkSession:
    require_user()
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("ticdc_assets")
    for key, value in {**_sockets(conf["spark.master"]), **conf}.items():
        builder = builder.config(key, value)
    folder = conf.get(IVY) or ivy_folder()
    if folder is not None:
        builder = builder.config(IVY, folder)
    packages = conf["spark.jars.packages"]
    with packages_fetched_once(packages, folder), _interrupts_as_before():
        spark = started(builder.getOrCreate)
    context = spark.sparkContext
    context.setLogLevel("ERROR")
    spare_archives()
    context._python_includes = [name for name in context._python_includes if not name.endswith(".jar")]  # noqa: SLF001
    if not os.environ.get(DEBUG_VARIABLE):
        _keep_rows_out_of_the_log(spark)
    return spark


@contextmanager
def _interrupts_as_before() -> Iterator[None]:
    """Who was told of Ctrl-C stays so. Spark would put itself there: it asks Java to cancel all jobs, and where Java is
    just being asked something else that fails, so that the step ended with a fault of Spark and not as interrupted."""
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
    """How Spark speaks to workers on this machine: by sockets in a folder that is this user's alone.

    By TCP every task would wait 40 ms, for an acknowledgement that the other side puts off.
    """
    if not is_local(master) or not hasattr(socket, "AF_UNIX"):
        return {}
    folder = tempfile.mkdtemp(prefix="ticdc-assets-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if len(folder) > _SOCKET_FOLDER_MAX:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder}


def _keep_rows_out_of_the_log(spark: SparkSession) -> None:
    """What a failed task says may quote a row. It comes to the driver as an error too, of which the kind is told."""
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j  # noqa: SLF001
    for name in _QUOTING_LOGGERS:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
    from pyspark.logger import PySparkLogger

    for name in _QUOTING_PYTHON_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True


def session_conf(config: Config) -> dict[str, str]:
    """Everything Spark is told, the user's `spark.conf` last."""
    jars = [ICEBERG_PACKAGE, *([SQLITE_PACKAGE] if config.catalog.type == "sql" else [])]
    extra = dict(config.spark.conf)
    if "spark.jars.packages" in extra:
        jars.append(extra.pop("spark.jars.packages"))
    return {
        "spark.master": config.spark.master,
        "spark.jars.packages": ",".join(jars),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        **_CONF,
        **(_LOCAL_CONF if is_local(config.spark.master) else {}),
        **catalog_conf(config),
        **extra,
    }


_QUOTING_LOGGERS: Final = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.datasources.v2",
    "org.apache.spark.util.Utils",
)
_QUOTING_PYTHON_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_LOCAL_CONF: Final[dict[str, str]] = {  # workers elsewhere could not reach this
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
    # What a run asks of Java is over before optimised code pays: much of Java's time went into making it. Loops that
    # stay hot, as in a large MERGE, still get it.
    "spark.driver.extraJavaOptions": (
        "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
        "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
    ),
    "spark.python.daemon.module": "ticdc_assets.pipeline.python_daemon",
    # What a worker frees goes back to the system, so that it does not grow with what it has done, but not page by page.
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    "spark.executorEnv.GLIBC_TUNABLES": ":".join(
        (
            f"glibc.malloc.mmap_threshold={16 << 20}",
            f"glibc.malloc.trim_threshold={64 << 20}",
            "glibc.malloc.hugetlb=1",
        )
    ),
    "spark.log.structuredLogging.enabled": "false",
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|credential|uri",
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
    if catalog.warehouse_uri is not None:
        conf[f"{prefix}.warehouse"] = catalog.warehouse_uri
    if catalog.type == "sql":
        conf[f"{prefix}.jdbc.schema-version"] = "V1"
        conf.update({f"{prefix}.{key}": value for key, value in _jdbc(catalog.uri or "").items()})
    elif catalog.uri is not None:
        conf[f"{prefix}.uri"] = catalog.uri
    conf.update({f"{prefix}.{key}": str(value) for key, value in catalog.properties.items()})
    return conf


def _jdbc(uri: str) -> dict[str, str]:
    """How Java opens the database that SQLAlchemy opens by this URI."""
    from sqlalchemy import URL, make_url

    url = make_url(uri)
    kind = url.get_backend_name()
    if kind == "sqlite":
        if url.database in {None, "", ":memory:"}:
            todo = "Name a file: uri: sqlite:////folder/catalog.db."
            raise ConfigError("catalog.uri", "a database that Spark can open too", "one in this process's memory", todo)
        return {"uri": f"jdbc:sqlite:{url.database}?busy_timeout=30000"}  # a busy writer makes the other wait, not fail
    bare = URL.create(kind, host=url.host, port=url.port, database=url.database, query=url.query).render_as_string()
    login = {"jdbc.user": url.username, "jdbc.password": url.password}
    return {"uri": f"jdbc:{bare}", **{key: str(value) for key, value in login.items() if value is not None}}
