"""A command with all processes that it starts, in a child: Java outlives the Python process that started it."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from ticdc_assets_tests.bench.child import serve

_PR_SET_CHILD_SUBREAPER: Final = 36


def work(scratch: Path, command: list[str]) -> dict[str, Any]:
    """Seconds until the command has ended, and processor time of it and its descendants until all have ended."""
    assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0  # orphans become children of this process
    begin = time.perf_counter()
    code = subprocess.call(command, stdout=subprocess.DEVNULL, cwd=scratch)
    wall_s = time.perf_counter() - begin
    assert code == 0, f"{command} ended with {code}"
    while _is_waited_for():
        pass
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"wall_s": wall_s, "cpu_s": used.ru_utime + used.ru_stime}


def _is_waited_for() -> bool:
    try:
        os.wait()
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    serve(work)
