"""`ticdc-assets run --follow`: reads the sources repeatedly in one process with one Spark session.

A fault that may pass is reported, and the changefeed is tried again after a pause; the other changefeeds continue. A
changefeed whose config or machine is wrong is given up, and the command ends when none is left.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Final

from ticdc_assets import spark
from ticdc_assets.assets.known_tables import log_folder
from ticdc_assets.commands.output.each import code_of, sentence_of
from ticdc_assets.commands.output.terminal import Terminal, noise_kept_in
from ticdc_assets.commands.process.follow.changefeed import FollowedChangefeed, ThroughDagster
from ticdc_assets.commands.process.follow.report import Address, Metrics, Report, served
from ticdc_assets.errors import ConfigError, MachineError
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.spark.jvm import end_jvm, kill_jvm
from ticdc_assets.spark.settings import for_a_long_session

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config

FIRST_PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 60.0
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_EXIT_BASE: Final = 128


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
    with noise_kept_in(log_folder(config) / "run.log"), ExitStack() as opened:
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
    return lambda feed, tables, on_progress: through_dagster.run_changefeed(
        config, feed, tables, None, on_progress, instance
    )


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


@dataclass(slots=True)
class Backoff:
    """When a changefeed is read next: after the interval, or after a pause that doubles with each fault in a row.

    All times are seconds of one monotonic clock.
    """

    interval_s: float
    due_s: float = 0.0
    faults: int = 0

    def succeeded(self, began_s: float) -> None:
        """A run without a fault began then: the next one begins an interval later, or at once if it took longer."""
        self.faults = 0
        self.due_s = began_s + self.interval_s

    def failed(self, now_s: float) -> float:
        """A run has failed. Returns the seconds until the next one: at least the interval, at most PAUSE_MAX_S where
        the interval is shorter."""
        pause_s = max(self.interval_s, min(PAUSE_MAX_S, FIRST_PAUSE_S * 2.0**self.faults))
        self.faults = min(self.faults + 1, 16)
        self.due_s = now_s + pause_s
        return pause_s


class StopSignal:
    """SIGTERM and SIGINT: the first one stops the process between commits, the second one ends it at once.

    Only a flag and a pipe: a signal handler must not take a lock that the interrupted code may hold.
    """

    def __init__(self, end_at_once: Callable[[], None]) -> None:
        self._end_at_once = end_at_once
        self._is_requested = False
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)

    @property
    def is_requested(self) -> bool:
        return self._is_requested

    def request(self) -> None:
        """Ask the process to stop. Safe in a signal handler."""
        self._is_requested = True
        with suppress(OSError):  # a full pipe wakes the reader just as well
            os.write(self._writing, b".")

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or as soon as a stop is requested."""
        if not self._is_requested:
            select.select([self._reading], [], [], max(0.0, seconds))

    @contextmanager
    def handling_signals(self) -> Iterator[None]:
        """Handle both signals while the body runs. The second signal calls `end_at_once` and ends the process."""
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._is_requested:
            self._end_at_once()
            os._exit(_EXIT_BASE + number)
        self.request()
