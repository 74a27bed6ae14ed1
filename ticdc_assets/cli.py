"""`ticdc-assets`: every fault is one sentence, never a traceback.

Exit codes: 0 success, 1 something failed or is held, 2 the config or the command line is wrong, 130 interrupted, 141
the program that reads the output has ended.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final


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


EXIT_INTERRUPTED: Final = 130
_INTERRUPTED: Final = "Interrupted. No partial result is visible. Run the command again to continue."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        with termination_as_interruption():
            # Imported here: the first second of a command is imports, and a signal may come during them.
            from ticdc_assets.command_line.entry import run_command

            return run_command(argv)
    except KeyboardInterrupt:
        forget_interruption()
        print(_INTERRUPTED, file=sys.stderr)
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
