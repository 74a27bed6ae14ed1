"""A run that finds nothing new, from the command line: how long it takes, and whether it starts a JVM."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from ticdc_assets_tests.bench.memory import Watch


def idle_run(config: Path) -> tuple[float, bool]:
    """Seconds of `ticdc-assets run`, start of the interpreter included, and whether a JVM was seen."""
    begin = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "ticdc_assets.cli", "run", "--config", str(config)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    with Watch(child.pid) as watch:
        _, fault = child.communicate()
    seconds = time.perf_counter() - begin
    if child.returncode:
        raise AssertionError(f"a run with nothing new failed: {fault.decode(errors='replace')[-300:]}")
    return seconds, watch.peaks.jvm_mb > 0
