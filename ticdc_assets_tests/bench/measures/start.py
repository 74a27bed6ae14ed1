"""A first run of a few rows from the command line, beside the start of a bare SparkSession, in turns."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Final

from ticdc_assets_tests.bench import child, ours, targets
from ticdc_assets_tests.bench.children import many_tables
from ticdc_assets_tests.bench.ground import BenchContext
from ticdc_assets_tests.bench.measures.loads import JSON
from ticdc_assets_tests.bench.streams.recorded import FORMS

CHANGES: Final = 5
_BARE: Final = "from pyspark.sql import SparkSession; SparkSession.builder.getOrCreate().stop()"


def measure(ground: BenchContext, turns: int) -> None:
    """Print seconds and processor time of both in each turn, and the verdict."""
    source = ground.scratch / "start-bucket"
    many_tables.spread(ground.bucket(JSON), source, 1, CHANGES)
    ground.on_progress("\nThe first run of a few rows, and a bare SparkSession: seconds (of processor time)")
    excess = []
    for turn in range(turns):
        bare_s = _spent(ground, f"bare-start-{turn}", [sys.executable, "-c", _BARE])
        run_s = _spent(ground, f"first-run-{turn}", _first_run(ground, source, turn))
        excess.append((run_s - targets.FIRST_RUN_SPARE_S) / bare_s)
    ground.judge(targets.FIRST_RUN, statistics.median(excess))


def _first_run(ground: BenchContext, source: Path, turn: int) -> list[str]:
    config = ours.config_file(FORMS[JSON], source, ground.scratch / f"start-lake-{turn}")
    return [sys.executable, "-m", "ticdc_assets.cli", "run", "--config", str(config)]


def _spent(ground: BenchContext, name: str, command: list[str]) -> float:
    answer = child.run("ticdc_assets_tests.bench.children.whole_process", ground.scratch / name, command=command).answer
    ground.on_progress(f"{name:>14} {answer['wall_s']:>8.1f} ({answer['cpu_s']:.1f})")
    return float(answer["wall_s"])
