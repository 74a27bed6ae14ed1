"""How time and memory grow with the events, and the cost of a scan that finds nothing new."""

from __future__ import annotations

from pathlib import Path

from ticdc_assets_tests.bench import child, targets
from ticdc_assets_tests.bench.child import Outcome
from ticdc_assets_tests.bench.children.idle_run import idle_run
from ticdc_assets_tests.bench.ground import BenchContext, events_of
from ticdc_assets_tests.bench.measures.loads import JSON, own_load

TIMES: int = 10
"""The growth of events that memory is judged by."""


def measure(ground: BenchContext, sizes: list[int]) -> None:
    """Print a line for each number of events, and the verdicts on memory and on looking again after the last."""
    ground.on_progress("\nGrowth, storage Canal-JSON to changelog and mirror; each in processes of its own")
    ground.on_progress(f"{'events':>10}{'seconds':>10}{'rows/s':>10}  memory")
    found: dict[int, Outcome] = {}
    for events in sizes:
        outcome = found[events] = own_load(ground, JSON, events, "growth")
        wall_s = outcome.answer["wall_s"]
        ground.on_progress(f"{events:>10,}{wall_s:>10.1f}{events_of(events) / wall_s:>10,.0f}  {outcome.peaks.line()}")
    for small, large in ((s, s * TIMES) for s in sizes if s * TIMES in found):
        for name in ("driver_mb", "jvm_mb", "worker_max_mb", "at_once_mb"):
            ratio = getattr(found[large].peaks, name) / max(1.0, getattr(found[small].peaks, name))
            what = f"{targets.MEMORY.what}, {small:,} to {large:,}: {name.removesuffix('_mb').replace('_', ' ')}"
            ground.judge(targets.Target(what, "<=", targets.MEMORY.bound), ratio)
    _look_again(ground, Path(found[sizes[-1]].answer["lake"]) / "changefeeds.yaml")


def _look_again(ground: BenchContext, config: Path) -> None:
    tick = child.run("ticdc_assets_tests.bench.children.sensor_tick", ground.scratch / "tick", config=str(config))
    ground.on_progress(
        f"\nNothing new: a sensor's first tick {tick.answer['first_s']:.2f} s, which loads what it needs"
    )
    ground.judge(targets.TICK, tick.answer["idle_s"])
    seconds, has_jvm = idle_run(config)
    ground.judge(targets.IDLE_RUN, seconds)
    ground.judge(targets.IDLE_JVM, float(has_jvm or tick.peaks.jvm_mb > 0))
