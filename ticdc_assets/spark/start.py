"""Starts Spark: how its JVM is started, how it reaches workers on this machine, and what it writes to its log."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from ticdc_assets.config.reading.secrets import redacted
from ticdc_assets.errors import EngineError, MachineError
from ticdc_assets.faults import DEBUG_VARIABLE, interrupted_by, is_outage, log_named, note_frames
from ticdc_assets.spark import class_archive
from ticdc_assets.spark.jvm import killed_while_starting, started
from ticdc_assets.spark.packages import (
    IVY,
    WITHOUT_DEPENDENCIES,
    ivy_folder,
    may_be_on_class_path,
    packages_fetched_once,
    require_jars,
)
from ticdc_assets.spark.requirements import KILLED, require_java, require_user
from ticdc_assets.spark.settings import CATALOGS, PACKAGES, is_local, session_conf
from ticdc_assets.spark.worker_process import spare_archives
from ticdc_assets.stack_frames import java_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ticdc_assets.config import Config


_PYTHON: Final = "spark.pyspark.python"
_TEMPORARY_FOLDER: Final = "java.io.tmpdir"
_DEFAULT_TEMPORARY_FOLDER: Final = "/tmp"  # noqa: S108  of Java
_SOCKET_FOLDER_MAX: Final = 60
"""Characters. The path of a socket can have about 100, of which Spark's own names take 42."""

_QUOTING_LOGGERS: Final = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.datasources.v2",
    "org.apache.spark.util.Utils",
)
_QUOTING_PYTHON_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_SOURCE: Final = "LocalFiles.java"
_CLASS: Final = "ticdc_assets.LocalFiles"
_SETTING: Final = "fs.file.impl"
_ROOT: Final = "file:///"
_INTERRUPTED: Final = "KeyboardInterrupt while sending command."


def start(conf: dict[str, str]) -> SparkSession:
    require_user()
    require_java()
    _choose_python_of_workers(conf)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("ticdc_assets")
    folder = conf.get(IVY) or ivy_folder()
    if folder is not None:
        builder = builder.config(IVY, folder)
    with packages_fetched_once(conf[PACKAGES], folder) as found, interrupts_as_before():
        java = _java_start(conf, found)
        for key, value in {**_sockets(conf["spark.master"]), **conf, **java.conf(conf)}.items():
            if not key.startswith(CATALOGS):
                builder = builder.config(key, value)
        # An error is read before the JVM is ended, which then would not answer.
        return started(lambda: _built(lambda: _with_settings(builder.getOrCreate(), conf), conf, folder), java.jars)


def _with_settings(spark: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    for key, value in conf.items():
        if key.startswith(CATALOGS):  # only now: Java's command line would show credentials to all users
            spark.conf.set(key, value)
    context = spark.sparkContext
    abandon_interrupted_calls(context._gateway._gateway_client)  # noqa: SLF001
    context.setLogLevel("ERROR")
    write_files_without_processes(spark)
    spare_archives()
    context._python_includes = [name for name in context._python_includes if not name.endswith(".jar")]  # noqa: SLF001
    if not os.environ.get(DEBUG_VARIABLE):
        _keep_rows_out_of_the_log(spark)
    return spark


def _built(build: Callable[[], SparkSession], conf: Mapping[str, str], folder: str | None) -> SparkSession:
    from pyspark.errors import PySparkRuntimeError

    try:
        return build()
    except Exception as error:
        if interrupted_by(error):
            raise
        where = f"Spark's session of {redacted(conf['spark.master'])}"
        signal = killed_while_starting()
        if signal is not None:
            raise EngineError(where, "to start", f"signal {signal}, which ended its JVM", KILLED) from None
        if isinstance(error, PySparkRuntimeError):  # Java has ended: perhaps since it could not download packages
            require_jars(conf[PACKAGES], folder, log_named())
        note_frames(error)
        found = java_place(error) or type(error).__name__
        advice = f"Check spark.master and spark.conf, and that the cluster runs; {log_named()} has the reason."
        raise (EngineError if is_outage(error) else MachineError)(where, "to start", found, advice) from None


@dataclass(frozen=True, slots=True)
class JavaStart:
    """How Spark's JVM starts: the packages' jars on its class path, and where its archive of classes is or would be."""

    jars: tuple[Path, ...]
    archive: Path | None

    def conf(self, conf: Mapping[str, str]) -> dict[str, str]:
        """The settings that change for it."""
        written = _with_temporary_folder(conf.get(class_archive.JAVA_OPTIONS, ""))
        options = {class_archive.JAVA_OPTIONS: class_archive.java_options(self.archive, written)}
        return {**options, PACKAGES: ""} if self.jars else options


def _with_temporary_folder(options: str) -> str:
    """Java's options with this process's folder for temporary files: Java itself does not read TMPDIR."""
    folder = tempfile.gettempdir()
    if folder == _DEFAULT_TEMPORARY_FOLDER or _TEMPORARY_FOLDER in options:
        return options
    return f'{options} "-D{_TEMPORARY_FOLDER}={folder}"'.strip()


def java_start(config: Config) -> JavaStart:
    """How the next JVM of this config starts."""
    conf = session_conf(config)
    with packages_fetched_once(conf[PACKAGES], conf.get(IVY) or ivy_folder()) as found:
        return _java_start(conf, found)


def _java_start(conf: Mapping[str, str], found: tuple[Path, ...]) -> JavaStart:
    packages = conf[PACKAGES].split(",")
    jars = found if may_be_on_class_path(conf, packages, WITHOUT_DEPENDENCIES, os.environ) else ()
    # An archive fits where its class path is the beginning of Java's: so one archive serves all catalogs.
    archive = class_archive.archive_of(jars[:1], os.environ) if is_local(conf["spark.master"]) else None
    return JavaStart(jars, archive)


def _choose_python_of_workers(conf: dict[str, str]) -> None:
    # PySpark reads this variable only; spark-submit would set it from the setting.
    os.environ["PYSPARK_PYTHON"] = conf.get(_PYTHON) or os.environ.get("PYSPARK_PYTHON") or sys.executable


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
    """Silence loggers that quote rows of a failed task. The driver gets the error too, and shows its class."""
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j  # noqa: SLF001
    for name in _QUOTING_LOGGERS:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
    from pyspark.logger import PySparkLogger

    for name in _QUOTING_PYTHON_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True


# Hadoop's file system of local files, without the processes that it starts.
#
# For each file that it creates, Hadoop starts the command `chmod`, and it does the same for a file of checksums. For
# the six files of a small commit this takes longer than all other work. The file system here starts no process and
# writes no checksums: files have the permissions of the process's umask, as those that Python writes.


def write_files_without_processes(spark: SparkSession) -> None:
    """Replace the file system of local files in the JVM of `spark` alone, unless the settings name one.

    Janino, with which Spark compiles queries, compiles the class. Where that fails, Hadoop's file system stays.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    shared = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    if shared.get(_SETTING) is not None:
        return
    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
        compiler.cook(files(__package__).joinpath(_SOURCE).read_text())
        # Only this copy names the class: other JVMs do not have it.
        own = jvm.org.apache.hadoop.conf.Configuration(shared)
        own.setClassLoader(compiler.getClassLoader())
        own.set(_SETTING, _CLASS)
        root = jvm.java.net.URI.create(_ROOT)
        systems = jvm.org.apache.hadoop.fs.FileSystem
        systems.get(root, shared).close()  # removes it from Hadoop's cache
        systems.get(root, own)
    except (Py4JJavaError, TypeError):  # py4j raises TypeError where Java lacks a class
        return


@contextmanager
def interrupts_as_before() -> Iterator[None]:
    """Keep the current handler of Ctrl-C, also while Spark starts.

    Spark would replace it: its handler asks Java to cancel all jobs. During another call to Java that fails, and the
    step would end with a Spark error and not as interrupted.
    """
    from pyspark.core import context

    true_signal, context.signal = context.signal, SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda *_: None)
    try:
        yield
    finally:
        context.signal = true_signal


def abandon_interrupted_calls(client: Any) -> None:
    """Let a client of Py4J close the connection on which a call was interrupted.

    Py4J has one connection for each thread, and closes it after KeyboardInterrupt only. After Dagster's exception the
    next call, such as the one that PySpark makes when it leaves a job, would wait until Java has ended the interrupted
    one, and would take the answer of that one for its own.
    """
    _log_no_interruption()
    if not hasattr(client, "get_thread_connection"):
        return  # without a connection for each thread, an interrupted one is not used again
    send_command = client.send_command

    def send_or_abandon(*arguments: Any, **options: Any) -> Any:
        try:
            return send_command(*arguments, **options)
        except BaseException as error:
            if not isinstance(error, Exception):
                _close(client.get_thread_connection())
            raise

    client.send_command = send_or_abandon


def _log_no_interruption() -> None:
    """Py4J raises what it logs, and writes the trace of KeyboardInterrupt to the root logger."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    root = logging.getLogger()
    if _is_no_interruption not in root.filters:
        root.addFilter(_is_no_interruption)


def _is_no_interruption(record: logging.LogRecord) -> bool:
    return record.msg != _INTERRUPTED


def _close(connection: Any) -> None:
    if connection is not None:
        connection.close()
