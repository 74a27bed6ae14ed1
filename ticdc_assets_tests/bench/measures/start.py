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
_CLI: Final = (sys.executable, "-m", "ticdc_assets.cli")
_BARE: Final = "from pyspark.sql import SparkSession; SparkSession.builder.getOrCreate().stop()"


def measure(ground: BenchContext, turns: int) -> None:
    """Print seconds and processor time of each in each turn, and the verdicts.

    The first run is measured without an archive of Java's classes and with one (`doctor --prepare`). It has a cache
    folder of its own, where no archive of the user is, and compiled code is warm.
    """
    source = ground.scratch / "start-bucket"
    many_tables.spread(ground.bucket(JSON), source, 1, CHANGES)
    without, prepared = ground.scratch / "cache", ground.scratch / "prepared-cache"
    _spent(ground, "warm-up", _first_run(ground, source, "warm-up", without))
    _spent(ground, "doctor --prepare", [*_in_cache(prepared), *_CLI, "doctor", "--prepare"])
    ground.on_progress("\nThe first run of a few rows, and a bare SparkSession: seconds (of processor time)")
    excess: dict[targets.Target, list[float]] = {targets.FIRST_RUN: [], targets.FIRST_RUN_PREPARED: []}
    for turn in range(turns):
        bare_s = _spent(ground, f"bare session {turn}", [sys.executable, "-c", _BARE])
        for target, name, cache in (
            (targets.FIRST_RUN, f"no archive {turn}", without),
            (targets.FIRST_RUN_PREPARED, f"archive {turn}", prepared),
        ):
            run_s = _spent(ground, name, _first_run(ground, source, name.replace(" ", "-"), cache))
            excess[target].append((run_s - targets.FIRST_RUN_SPARE_S) / bare_s)
    for target, found in excess.items():
        ground.judge(target, statistics.median(found))


def _first_run(ground: BenchContext, source: Path, name: str, cache: Path) -> list[str]:
    config = ours.config_file(FORMS[JSON], source, ground.scratch / f"start-lake-{name}")
    return [*_in_cache(cache), *_CLI, "run", "--config", str(config)]


def _in_cache(cache: Path) -> list[str]:
    return ["env", f"XDG_CACHE_HOME={cache}"]


def _spent(ground: BenchContext, name: str, command: list[str]) -> float:
    scratch = ground.scratch / f"start-{name.replace(' ', '-')}"
    answer = child.run("ticdc_assets_tests.bench.children.whole_process", scratch, command=command).answer
    ground.on_progress(f"{name:>18} {answer['wall_s']:>8.1f} ({answer['cpu_s']:.1f})")
    return float(answer["wall_s"])
