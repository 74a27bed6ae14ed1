"""Runs in a separate process that is killed at a failpoint, or cancelled at any time."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from types import FrameType

from ticdc_assets import failpoints as moments
from ticdc_assets import spark
from ticdc_assets.config import load
from ticdc_assets.failpoints import Failpoint
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.pipeline.run.mirrors import run_mirrors
from ticdc_assets.spark import LocalWorkers, SparkWorkers
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets_tests.apart import CONTEXT

SECONDS_MAX = 240


def dies(config: Path, moment: Failpoint, occurrence: int = 1, mirrors: bool = False) -> bool:
    """Run the changefeed `feed` and kill it where it reaches a moment for the nth time; False where it never did."""
    process = CONTEXT.Process(target=_run, args=(config, moment, occurrence, mirrors))
    process.start()
    process.join(SECONDS_MAX)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"a run to be killed at {moment!r} took more than {SECONDS_MAX} s")
    assert process.exitcode in (0, -signal.SIGKILL), f"the run ended with {process.exitcode}"
    return process.exitcode != 0


def is_cancelled(config: Path, by: signal.Signals, after_seconds: float) -> bool:
    """Run the changefeed `feed`, and cancel it as the command line (SIGINT) or Dagster (SIGTERM) does; False where it
    was through before."""
    begun = CONTEXT.Event()
    process = CONTEXT.Process(target=_cancellable, args=(config, begun))
    process.start()
    assert begun.wait(SECONDS_MAX)
    process.join(after_seconds)
    assert process.pid is not None
    if process.is_alive():
        os.kill(process.pid, by)
    process.join(SECONDS_MAX)
    assert process.exitcode in (0, _CANCELLED, -by), f"the run ended with {process.exitcode}"
    return process.exitcode != 0


_CANCELLED = 130
_CANCELLING = (signal.SIGINT, signal.SIGTERM)


class Cancelled(BaseException):
    """Raised in the middle of anything."""


def _cancellable(path: Path, begun: Event) -> None:
    def cancel(number: int, frame: FrameType | None) -> None:
        raise Cancelled

    for each in _CANCELLING:
        signal.signal(each, cancel)
    begun.set()
    try:
        _whole_run(path, False)
    except BaseException as error:
        if any(isinstance(cause, Cancelled) or Cancelled.__name__ in str(cause) for cause in _chain(error)):
            os._exit(_CANCELLED)  # a library in native code may raise an error of its own that names the cause
        raise
    for each in _CANCELLING:
        signal.signal(each, signal.SIG_IGN)  # it would be raised in the end of the process


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and those in whose handling it was raised."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__context__


def _run(path: Path, moment: Failpoint, occurrence: int, mirrors: bool) -> None:
    seen = 0

    def listen(hit: Failpoint) -> None:
        nonlocal seen
        seen += hit is moment
        if seen == occurrence and hit is moment:
            os.kill(os.getpid(), signal.SIGKILL)

    moments.LISTENERS.append(listen)
    _whole_run(path, mirrors)


def _whole_run(path: Path, mirrors: bool) -> None:
    config = load(path, {})
    lake = Lake(config, config.changefeed("feed"))
    run = run_of(lake)
    pending = run.scan()
    session = spark.session(config) if mirrors else None
    run_id = pending.run_id
    if not pending.is_empty:
        run.publish_changelogs(pending, SparkWorkers(session) if session else LocalWorkers())  # type: ignore[arg-type]
    if session is not None:
        run_mirrors(lake, run_id, lambda: JvmCatalog(session, config.catalog.name))
