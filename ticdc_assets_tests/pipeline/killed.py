"""Runs in a process of their own that is killed, as by the machine, at a named moment."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

from ticdc_assets import moments, spark
from ticdc_assets.config import load
from ticdc_assets.moments import Moment
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.mirror_run import run_mirrors
from ticdc_assets.pipeline.runs import run_of
from ticdc_assets.spark import LocalWorkers, SparkWorkers
from ticdc_assets.tables.iceberg_jvm import JvmCatalog

SECONDS_MAX = 240
_CONTEXT = multiprocessing.get_context("forkserver")  # imports once, and each process starts without threads
_CONTEXT.set_forkserver_preload([__name__])


def dies(config: Path, moment: Moment, occurrence: int = 1, mirrors: bool = False) -> bool:
    """Run the changefeed `feed` and kill it where it reaches a moment for the nth time; False where it never did."""
    process = _CONTEXT.Process(target=_run, args=(config, moment, occurrence, mirrors))
    process.start()
    process.join(SECONDS_MAX)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"a run to be killed at {moment!r} took more than {SECONDS_MAX} s")
    assert process.exitcode in (0, -signal.SIGKILL), f"the run ended with {process.exitcode}"
    return process.exitcode != 0


def _run(path: Path, moment: Moment, occurrence: int, mirrors: bool) -> None:
    seen = 0

    def listen(reached: Moment) -> None:
        nonlocal seen
        seen += reached is moment
        if seen == occurrence and reached is moment:
            os.kill(os.getpid(), signal.SIGKILL)

    moments.LISTENERS.append(listen)
    config = load(path, {})
    lake = Lake(config, config.changefeed("feed"))
    run = run_of(lake)
    pending = run.look()
    session = spark.session(config) if mirrors else None
    run_id = pending.run_id
    if not pending.is_empty:
        run.publish_changelogs(pending, SparkWorkers(session) if session else LocalWorkers())  # type: ignore[arg-type]
    if session is not None:
        run_mirrors(lake, run_id, lambda: JvmCatalog(session, config.catalog.name))
