"""SIGTERM and SIGINT: the first one stops a process between commits, the second one ends it at once."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_EXIT_BASE: Final = 128


class StopSignal:
    """Whether the process was asked to stop.

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
