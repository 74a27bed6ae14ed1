"""The processor time of what is tested, without that of Numba: the first call of a compiled function compiles it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from numba.core.event import Event, Listener, register, unregister

_AT_WORK = "numba:compiler_lock"  # held while a function is compiled, or taken from the files that keep it


class Stopwatch(Listener):
    """The processor seconds of this process, and whether Numba is compiling."""

    def __init__(self) -> None:
        self._depth = 0
        self._began = 0.0
        self._compiling_seconds = 0.0

    def seconds(self) -> float:
        return time.process_time() - self._compiling_seconds

    @property
    def is_compiling(self) -> bool:
        return self._depth > 0

    def on_start(self, event: Event) -> None:
        if not self._depth:
            self._began = time.process_time()
        self._depth += 1

    def on_end(self, event: Event) -> None:
        self._depth -= 1
        if not self._depth:
            self._compiling_seconds += time.process_time() - self._began


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """A stopwatch that hears of Numba."""
    made = Stopwatch()
    register(_AT_WORK, made)
    try:
        yield made
    finally:
        unregister(_AT_WORK, made)
