"""The distribution of work to Spark's Python workers: one picklable function over many payloads.

Importing this module starts no JVM.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import pyarrow as pa

from ticdc_assets.errors import MachineError, TicdcAssetsError
from ticdc_assets.faults import note_frames, redacted_error
from ticdc_assets.spark.worker_process import keep_what_is_loaded, spare_archives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS_PER_CORE_MAX: Final = 4  # starting a task costs more than the work for a small table
_LAST_WORK: Final[list[Callable[[Any], Any]]] = []
Payload = TypeVar("Payload")
Answer = TypeVar("Answer")


class Workers(Protocol):
    """Runs `work` over `payloads` independently; returns the answers in the order of the payloads."""

    def map(self, work: Callable[[Payload], Answer], payloads: Sequence[Payload]) -> list[Answer]:
        """The results of `work`, in the order of `payloads`; both can be pickled. An error of one ends the call."""
        ...


class LocalWorkers:
    """Runs the work in this process: for small inputs, and where Java is missing. One payload after another, or several
    at a time in threads."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads

    def map(self, work: Callable[[Payload], Answer], payloads: Sequence[Payload]) -> list[Answer]:
        """See `Workers`. Nothing is pickled."""
        if self._threads == 1:
            return [work(payload) for payload in payloads]
        with ThreadPoolExecutor(self._threads) as pool:
            return list(pool.map(work, payloads))


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
            keep_what_is_loaded()
            _free_memory_of_other(work)
            for number in range(task, count, tasks):
                yield number, pickle.dumps(_answer(work, pickle.loads(pickled[number])))  # noqa: S301  our own bytes

        # An RDD and not a DataFrame: planning a DataFrame takes longer than sending such work and its answers.
        with _unfit_workers_named():
            found = context.parallelize(range(tasks), tasks).mapPartitionsWithIndex(run).collect()
        answers = [pickle.loads(answer) for _, answer in sorted(found)]  # noqa: S301  our own bytes
        for answer in answers:
            if isinstance(answer, TicdcAssetsError):
                raise answer
        return answers


def _free_memory_of_other(work: Callable[[Any], Any]) -> None:
    """Return free memory to the system where this worker did other work before. After each payload it would cost more:
    the next one of the same work asks for it again, page by page."""
    if [work] != _LAST_WORK:
        _LAST_WORK[:] = [work]
        pa.default_memory_pool().release_unused()


def _answer(work: Callable[[Payload], Answer], payload: Payload) -> Answer | TicdcAssetsError:
    """The result of the payload, or its error: Spark's log would quote the message of an error raised in a worker."""
    try:
        return work(payload)
    except Exception as error:  # noqa: BLE001  the driver handles it
        if not isinstance(error, TicdcAssetsError):
            note_frames(error)
        return redacted_error(error).with_traceback(None)


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
