"""The Spark session of this process: there is at most one, and `session` returns it each time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ticdc_assets.spark.jvm import end_start, forget_jvm, is_alive
from ticdc_assets.spark.settings import CATALOGS, session_conf
from ticdc_assets.spark.start import start
from ticdc_assets.spark.workers import Answer, LocalWorkers, Payload, SparkWorkers, Workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ticdc_assets.config import Config

_LOCK = threading.Lock()
_SESSIONS: dict[int, tuple[dict[str, str], SparkSession]] = {}
_FAILED_AHEAD: dict[int, Exception] = {}
_WANTED_AHEAD: set[int] = set()


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
            held = _SESSIONS[os.getpid()] = (wanted, start(wanted))
        conf, spark = held
        _add_catalog(spark, conf, wanted)
        return spark


def start_ahead(config: Config) -> None:
    """Begin to start the session and one Python worker in another thread, and return at once.

    `session` waits for the start. An error of it is raised by the next call of `session`.
    """
    if not is_running():
        _WANTED_AHEAD.add(os.getpid())
        threading.Thread(target=_start_ahead, args=(config,), name="spark-start", daemon=True).start()


def _start_ahead(config: Config) -> None:
    try:
        spark = session(config)
    except Exception as error:  # noqa: BLE001  the thread that needs the session raises it
        if os.getpid() in _WANTED_AHEAD:
            _FAILED_AHEAD[os.getpid()] = error
        return
    with suppress(Exception):  # the session may be stopped meanwhile
        SparkWorkers(spark).map(len, [()])


def stop() -> None:
    """Stop this process's session, if any.

    A start in another thread fails at once: it takes seconds, for which an interrupted command would wait.
    """
    _WANTED_AHEAD.discard(os.getpid())
    end_start()
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
            with suppress(Exception):  # its calls to Java fail; its objects in Python are released
                held[1].stop()
            forget_jvm()


def _add_catalog(spark: SparkSession, running: dict[str, str], wanted: dict[str, str]) -> None:
    # A catalog can be added while Spark has not resolved its name yet. Other settings of a session cannot change.
    for key, value in wanted.items():
        if running.get(key) == value:
            continue
        if not key.startswith(CATALOGS) or key in running:
            raise RuntimeError(f"Spark is running already with another {key}; stop it first (ticdc_assets.spark.stop)")
        spark.conf.set(key, value)
        running[key] = value


class LazySparkWorkers:
    """Spark's workers. The first call of `map` starts the session."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def map(self, work: Callable[[Payload], Answer], payloads: Sequence[Payload]) -> list[Answer]:
        """See `Workers`. Starts the session if there are payloads."""
        return SparkWorkers(session(self._config)).map(work, payloads) if payloads else []


def workers_of(config: Config, threads: int) -> Workers:
    """Workers for work that needs no Java: Spark's if the config names a cluster, else so many threads of this
    process, which read a table of TiDB before a session on the same machine has started."""
    is_local = config.spark.master.partition("[")[0] == "local"
    return LocalWorkers(threads) if is_local else LazySparkWorkers(config)
