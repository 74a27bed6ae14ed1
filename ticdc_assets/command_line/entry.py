"""Parses the command line, runs one command, and makes a sentence and an exit code of every error."""

from __future__ import annotations

import argparse
import os
import select
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ticdc_assets import __version__
from ticdc_assets.command_line import diagnose, process, read, repair
from ticdc_assets.command_line.arguments import Parser
from ticdc_assets.commands.output.each import EXIT_NOT_READ, code_of, sentence_of
from ticdc_assets.faults import interrupted_by
from ticdc_assets.printable import printable


def run_command(argv: Sequence[str] | None) -> int:
    """Run one command and return its exit code. Raises KeyboardInterrupt if it is interrupted."""
    open_closed_streams()
    arguments = parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return int(arguments.command(arguments))
    except BrokenPipeError as error:
        if not reader_is_gone():  # the broken connection is not standard output
            return _failed(error)
        leave_output()
        return EXIT_NOT_READ
    except Exception as error:  # noqa: BLE001  every fault is one sentence
        return _failed(error)


def _failed(error: Exception) -> int:
    if interrupted_by(error):  # stopping Spark may fail after an interruption
        raise KeyboardInterrupt from None
    sentence = sentence_of(error)
    with suppress(BrokenPipeError):  # standard error may be the broken pipe
        print("\n".join(map(printable, sentence.split("\n"))), file=sys.stderr, flush=True)
    return code_of(error)


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    first = "Begin with `ticdc-assets demo`, or with `ticdc-assets init SINK_URI` on a stream of your own."
    made = Parser("ticdc-assets", description="TiCDC change streams as exact Apache Iceberg tables.", epilog=first)
    made.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    for group in (process, read, diagnose, repair):
        group.add_to(commands)
    return made


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
