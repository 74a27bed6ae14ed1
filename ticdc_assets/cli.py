"""`ticdc-assets`: every fault is one sentence, never a traceback.

Exit codes: 0 success, 1 something failed or is held, 2 the config or the command line is wrong, 130 interrupted, 141
the program that reads the output has ended.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from ticdc_assets.command_line.interruption import forget_interruption, termination_as_interruption

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
