"""`ticdc-assets run --follow`: reads the sources repeatedly in one process with one Spark session.

A fault that may pass is reported, and the changefeed is tried again after a pause; the other changefeeds continue. A
changefeed whose config or machine is wrong is given up, and the command ends when none is left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ticdc_assets import spark
from ticdc_assets.assets.known_tables import state_folder
from ticdc_assets.commands.each import code_of, sentence_of
from ticdc_assets.commands.output.terminal import Terminal, noise_kept_in
from ticdc_assets.commands.process.follow.backoff import Backoff
from ticdc_assets.commands.process.follow.changefeed import FollowedChangefeed, ThroughDagster
from ticdc_assets.commands.process.follow.metrics import Metrics
from ticdc_assets.commands.process.follow.metrics_server import Address, served
from ticdc_assets.commands.process.follow.report import Report
from ticdc_assets.commands.process.follow.stopping import StopSignal
from ticdc_assets.errors import ConfigError, MachineError
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.spark.jvm import end_jvm, kill_jvm
from ticdc_assets.spark.settings import for_a_long_session

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """The options of `run --follow`. `interval_s` is the time from the beginning of one run to that of the next."""

    interval_s: float
    as_json: bool = False
    metrics: Address | None = None


def follow(config: Config, chosen: Sequence[Changefeed], options: FollowOptions, environ: Mapping[str, str]) -> int:
    """Follow the changefeeds until SIGTERM or SIGINT.

    Returns:
        The exit code: the worst of the changefeeds that were given up; 0 where none was, after a signal.

    Raises:
        ConfigError: the metrics cannot be served, or DAGSTER_HOME names no folder.
    """
    config = for_a_long_session(config)
    stop = StopSignal(kill_jvm)
    report = Report(Terminal(), options.as_json)
    metrics = Metrics({feed.name: Lake(config, feed).measures_lag for feed in chosen})
    with noise_kept_in(state_folder(config) / "run.log"), ExitStack() as opened:
        opened.enter_context(stop.handling_signals())
        opened.callback(end_jvm)
        opened.callback(spark.stop)
        url = opened.enter_context(served(metrics, options.metrics))
        if url:
            report.note(f"metrics: {url}")
        through_dagster = _through_dagster(config, environ, opened)
        loop = _Loop(stop, metrics, report)
        for feed in sorted(chosen, key=lambda feed: feed.schemas.ddl_from is not None):
            followed = FollowedChangefeed(config, feed, lambda: stop.is_requested, through_dagster)
            loop.add(followed, options.interval_s)
        return loop.run()


def _through_dagster(config: Config, environ: Mapping[str, str], opened: ExitStack) -> ThroughDagster | None:
    if not environ.get("DAGSTER_HOME"):
        return None
    from ticdc_assets.commands.process import through_dagster

    instance = opened.enter_context(through_dagster.instance_of(environ))
    return lambda feed, on_progress: through_dagster.run_changefeed(config, feed, None, on_progress, instance)


class _Loop:
    """Runs each changefeed when it is due."""

    def __init__(self, stop: StopSignal, metrics: Metrics, report: Report) -> None:
        self._stop = stop
        self._metrics = metrics
        self._report = report
        self._feeds: list[tuple[FollowedChangefeed, Backoff]] = []
        self._worst = 0

    def add(self, followed: FollowedChangefeed, interval_s: float) -> None:
        self._feeds.append((followed, Backoff(interval_s)))

    def run(self) -> int:
        """Run until a stop is requested or no changefeed is left. Returns the exit code."""
        while self._feeds and not self._stop.is_requested:
            for followed, backoff in tuple(self._feeds):
                if not self._stop.is_requested and backoff.due_s <= time.monotonic():
                    self._run(followed, backoff)
            next_s = min((backoff.due_s for _, backoff in self._feeds), default=0.0)
            self._stop.wait(next_s - time.monotonic())
        return self._worst

    def _run(self, followed: FollowedChangefeed, backoff: Backoff) -> None:
        name, began_s = followed.changefeed.name, time.monotonic()
        try:
            spark.forget_dead_session()
            with self._report.working(name):
                run = followed.run(self._report.progress_of(name))
                files = followed.upkeep.files
                self._metrics.add(run, files)
                self._report.ran(run, self._metrics.lag_ms(name), files)
                if not self._stop.is_requested:
                    followed.keep_up()
            backoff.succeeded(began_s)
        except KeyboardInterrupt:  # Dagster raises it: it handles the signals during its run
            self._stop.request()
        except (ConfigError, MachineError) as error:
            self._give_up(followed, error)
        except Exception as error:  # noqa: BLE001  an error in one changefeed must not stop the others
            self._metrics.add_fault(name)
            self._report.failed(name, sentence_of(error), backoff.failed(time.monotonic()))

    def _give_up(self, followed: FollowedChangefeed, error: Exception) -> None:
        name = followed.changefeed.name
        self._metrics.add_fault(name, given_up=True)
        self._report.failed(name, sentence_of(error), None)
        self._worst = max(self._worst, code_of(error))
        self._feeds = [pair for pair in self._feeds if pair[0] is not followed]
