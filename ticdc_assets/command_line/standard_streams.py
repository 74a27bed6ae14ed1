"""Handles standard streams that are closed, and a standard output whose reader has ended."""

from __future__ import annotations

import os
import select
import sys
from typing import Final

_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def open_closed_streams() -> None:
    """Open the null device in place of each standard stream that is closed. Otherwise the next file that this process
    or its JVM opens takes its descriptor, and is written to as if it were the stream."""
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def reader_is_gone() -> bool:
    """Whether standard output is a pipe that nobody reads any more."""
    poll = select.poll()
    try:
        poll.register(1, 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except OSError:
        return False


def leave_output() -> None:
    """Redirect standard output to the null device, so that buffered output is not written to a broken pipe."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
