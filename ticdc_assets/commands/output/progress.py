"""One stage of long work as a line on a terminal: its name, done and total, the rate, and the time left.

    open: decoding 251 messages in 8 tasks  3 of 8 tasks, 1.5 tasks/s, 0:03 left

The line is never longer than the terminal is wide: the name is cut first, then the rate and the time left are dropped.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

from ticdc_assets.plurals import counted
from ticdc_assets.printable import printable
from ticdc_assets.work_progress import Count, OnProgress

ESTIMATED_AFTER_S: Final = 2.0
"""A rate over less time is not meaningful."""
ASKED_EVERY_S: Final = 1.0
_GAP: Final = "  "
_NAME_WIDTH_MIN: Final = 24


class Stage:
    """A stage that has begun. Rich draws it again and again; it shows the newest count."""

    def __init__(
        self,
        name: str,
        width: Callable[[], int],
        now: Callable[[], float] = time.monotonic,
        tasks: Callable[[], Count | None] | None = None,
    ) -> None:
        """`width` returns the cells of a line; `tasks` the count of a stage that reports none."""
        self._name = printable(name)
        self._width = width
        self._now = now
        self._tasks = tasks or _tasks_of_spark
        self._began = self._asked = self._counted = now()
        self._first: Count | None = None
        self._count: Count | None = None
        self._is_reported = False

    def reached(self, count: Count) -> None:
        """Set the count that the work reports."""
        self._is_reported = True
        self._enter(count, from_zero=True)

    def line(self) -> str:
        """What there is to show now."""
        self._ask()
        return fitted(f"{self._name} ...", self._figures(), self._width())

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        yield Text(self.line(), no_wrap=True, overflow="ellipsis")

    def __rich_measure__(self, _console: Console, options: ConsoleOptions) -> Measurement:
        # The line is longer a moment later, and rich would cut it to what it has measured.
        width = min(self._width(), options.max_width)
        return Measurement(width, width)

    def _enter(self, count: Count, from_zero: bool) -> None:
        known = self._first
        if known is None or (known.total, known.unit) != (count.total, count.unit) or count.done < known.done:
            self._first = Count(0, count.total, count.unit) if from_zero else count
            self._began = self._began if from_zero and known is None else self._now()
        if self._count is None or self._count != count:
            self._counted = self._now()
        self._count = count

    def _ask(self) -> None:
        if self._is_reported or self._now() - self._asked < ASKED_EVERY_S:
            return
        self._asked = self._now()
        if (found := self._tasks()) is not None:
            self._enter(found, from_zero=False)

    def _figures(self) -> list[str]:
        """The count, the rate and the time left, as far as they are known."""
        count, first = self._count, self._first
        if count is None or first is None:
            return []
        figure = counted(count.done, count.unit) if count.total is None else f"{count.done:,} of {_all(count)}"
        taken_s, done = self._counted - self._began, count.done - first.done
        if taken_s < ESTIMATED_AFTER_S or done <= 0:
            return [figure]
        # As estimated when the count was reached, until the work takes longer than that. A rate that fell with each
        # moment between two counts would say nothing.
        since_s, per_s = self._now() - self._counted, rate(done / taken_s, count.unit)
        if count.total is None:
            return [figure, per_s] if since_s <= taken_s else [figure]
        left_s = (count.total - count.done) * taken_s / done - since_s
        return [figure, per_s, f"{clock(left_s)} left"] if left_s >= 0 and count.done < count.total else [figure]


def _all(count: Count) -> str:
    return counted(count.total or 0, count.unit)


def rate(per_s: float, unit: str) -> str:
    """A rate such as `1,200 files/s`; below one a second, by the minute."""
    per, time_unit = (per_s, "s") if per_s >= 1 else (per_s * 60, "min")
    return f"{per:,.0f} {unit}s/{time_unit}" if per >= 10 else f"{per:.1f} {unit}s/{time_unit}"


def clock(seconds: float) -> str:
    """A duration as `0:03`, or `1:02:03` from an hour on."""
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def fitted(name: str, figures: list[str], width: int) -> str:
    """The name and the figures in one line of at most `width` cells."""
    for shown in (figures, figures[:1] + figures[2:], figures[:1]):
        text = ", ".join(shown)
        room = width - cell_len(text) - len(_GAP) * bool(text)
        if cell_len(name) <= room or room >= _NAME_WIDTH_MIN:
            return f"{_cut(name, room)}{_GAP if text else ''}{text}"
    return _cut(name, width)


def _cut(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    kept = set_cell_size(text, max(width - 1, 0)).rstrip(" .")
    return f"{kept}…"


def _tasks_of_spark() -> Count | None:
    """The tasks of the job that Spark runs for this process; None where it runs none."""
    if "pyspark" not in sys.modules:
        return None
    from ticdc_assets.spark.workers import tasks_done  # it is imported already where there is a session

    found = tasks_done()
    return None if found is None else Count(*found, "task")


def named(name: str, on_progress: OnProgress) -> OnProgress:
    """Stages with the name of a changefeed before their own."""
    return lambda update: on_progress(f"{name}: {update}" if isinstance(update, str) else update)
