"""SIGTERM ends a command as Ctrl-C does: what it opened is closed, and temporary folders are removed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def termination_as_interruption() -> Iterator[None]:
    """Raise KeyboardInterrupt for SIGTERM too while the body runs. A process that handles or ignores it is left so.

    Dagster does the same during its runs, so both signals have one exit code.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def forget_interruption() -> None:
    """Let this process end with the exit code that it returns, after an interruption that was handled.

    CPython notes an interruption inside `exec` of a text, with which libraries make classes. Because of that note it
    sends itself SIGINT at its end. The next `exec` removes the note.
    """
    exec("")  # noqa: S102
