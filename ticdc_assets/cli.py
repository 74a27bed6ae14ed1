"""`ticdc-assets`: every fault is one sentence, never a traceback.

Exit codes: 0 success, 1 something failed or is held, 2 the config or the command line is wrong, 130 interrupted, 141
the program that reads the output has ended.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import Final

from ticdc_assets import __version__
from ticdc_assets.command_line import diagnose, process, read, repair
from ticdc_assets.command_line.interruption import termination_as_interruption
from ticdc_assets.command_line.parser import Parser
from ticdc_assets.command_line.standard_streams import leave_output, open_closed_streams, reader_is_gone
from ticdc_assets.commands.each import code_of, sentence_of
from ticdc_assets.faults import interrupted_by

EXIT_INTERRUPTED: Final = 130
EXIT_NOT_READ: Final = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    open_closed_streams()
    arguments = _parser().parse_args(argv)
    try:
        with termination_as_interruption(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return int(arguments.command(arguments))
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError as error:
        if not reader_is_gone():  # the broken connection is not standard output
            return _failed(sentence_of(error), code_of(error))
        leave_output()
        return EXIT_NOT_READ
    except Exception as error:  # noqa: BLE001  every fault is one sentence
        # Stopping Spark may fail after an interruption.
        return _interrupted() if interrupted_by(error) else _failed(sentence_of(error), code_of(error))


def _interrupted() -> int:
    return _failed("Interrupted. No partial result is visible. Run the command again to continue.", EXIT_INTERRUPTED)


def _failed(sentence: str, code: int) -> int:
    print(sentence, file=sys.stderr)
    return code


# -- the command line --------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    first = "Begin with `ticdc-assets demo`, or with `ticdc-assets inspect PLACE` on a stream of your own."
    parser = Parser("ticdc-assets", description="TiCDC change streams as exact Apache Iceberg tables.", epilog=first)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for group in (process, read, diagnose, repair):
        group.add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
