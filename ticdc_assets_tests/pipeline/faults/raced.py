"""Two processes that run one changefeed and meet just before a step that must happen once."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, Protocol

from ticdc_assets import failpoints as moments
from ticdc_assets import spark
from ticdc_assets.config import load
from ticdc_assets.errors import StaleRunError
from ticdc_assets.failpoints import Failpoint
from ticdc_assets.faults import redacted_error
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.pipeline.run.mirrors import run_mirrors
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets_tests.apart import CONTEXT

MEETING_SECONDS_MAX = 20
PUBLISHED, OVERTAKEN = "published", "overtaken"
Round = tuple[Path, Failpoint]


def races(rounds: Sequence[Round], mirrors: bool = False) -> list[tuple[str, str]]:
    """The outcomes of two runs of the changefeed `feed` of each config, which meet at the round's failpoint."""
    barriers = [CONTEXT.Barrier(2) for _ in rounds]
    runners = []
    for _ in range(2):
        reader, writer = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=_runs, args=(writer, rounds, barriers, mirrors))
        process.start()
        runners.append((reader, process))
    answers = [[reader.recv() for _ in rounds] for reader, _ in runners]
    for _, process in runners:
        process.join()
    return list(zip(*answers, strict=True))


def _runs(writer: Connection, rounds: Sequence[Round], barriers: Sequence[Barrier], mirrors: bool) -> None:
    for (path, moment), barrier in zip(rounds, barriers, strict=True):
        moments.LISTENERS[:] = [Meeting(moment, barrier)]
        writer.send(_run(path, mirrors))
        barrier.abort()  # nobody waits for one that is through


class Meeting:
    """Waits for the other one the first time that the moment is reached, by each process or by `each` of its parts."""

    def __init__(self, moment: Failpoint, barrier: Waiting, each: Callable[[], int] = os.getpid) -> None:
        self._moment = moment
        self._barrier = barrier
        self._each = each
        self._over: set[int] = set()
        self._lock = threading.Lock()

    def __call__(self, hit: Failpoint) -> None:
        if hit is not self._moment:
            return
        with self._lock:
            first = self._each() not in self._over
            self._over.add(self._each())
        if first:
            with suppress(threading.BrokenBarrierError):
                self._barrier.wait(MEETING_SECONDS_MAX)


class Waiting(Protocol):
    """A barrier of threads or of processes."""

    def wait(self, timeout: float | None = None) -> int: ...


def _run(path: Path, mirrors: bool) -> str:
    config = load(path, {})
    lake = Lake(config, config.changefeed("feed"))
    try:
        if mirrors:
            session = spark.session(config)
            run_mirrors(lake, uuid.uuid4().hex, lambda: JvmCatalog(session, config.catalog.name))
            return PUBLISHED
        run = run_of(lake)
        pending = run.scan()
        if not pending.is_empty:
            run.publish_changelogs(pending, LocalWorkers())  # type: ignore[arg-type]
    except StaleRunError:
        return OVERTAKEN
    except Exception as error:  # noqa: BLE001  the test says what may come
        return str(redacted_error(error))
    return PUBLISHED


@contextmanager
def at(moment: Failpoint, act: Callable[[], Any]) -> Iterator[None]:
    """Does something the first time that the moment is reached."""
    pending = [act]

    def listen(hit: Failpoint) -> None:
        if hit is moment and pending:
            pending.pop()()

    moments.LISTENERS.append(listen)
    try:
        yield
    finally:
        moments.LISTENERS.remove(listen)
