"""The cost of a run after many earlier ones: `python -m ticdc_assets_tests.bench.earlier_runs --runs 2010`.

One table gets a few new rows again and again, and one process reads them in one Spark session, as `run --follow` does,
with its upkeep or without. The figures are of the runs around each number of earlier ones: the median of whole runs,
and the mean of each stage. Upkeep works in some runs only, so its mean is that of all runs since the figures before.
At the end the mirror is compared with the stream.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ticdc_assets import spark
from ticdc_assets.commands.process.follow.changefeed import FollowedChangefeed
from ticdc_assets.failpoints import LISTENERS, Failpoint
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.work_progress import no_progress
from ticdc_assets_tests.bench.clock import cpu_s, family
from ticdc_assets_tests.bench.grown_tables import print_tables
from ticdc_assets_tests.bench.soak.stream import Stream
from ticdc_assets_tests.bench.soak.truth import differences
from ticdc_assets_tests.bench.targets import EARLIER_RUNS
from ticdc_assets_tests.bench.warm import config_in

AFTER: Final = (20, 200, 500, 1_000, 1_500, 2_000)
AROUND: Final = 10
"""So many runs before and after each number of earlier runs count."""

UPKEEP: Final = "upkeep"
_ENDS: Final = {
    Failpoint.SCANNED: "scan",
    Failpoint.DECODED: "decode",
    Failpoint.AFTER_CHANGELOG_COMMIT: "commit",
    Failpoint.AFTER_CURSOR: "cursor",
    Failpoint.AFTER_MIRROR_COMMIT: "merge",
    Failpoint.AFTER_RECORD: "record",
}
STAGES: Final = (*_ENDS.values(), "rest", UPKEEP)


@dataclass
class Stages:
    """Seconds of the stages of one run: by the wall, and of the processor, of all processes that it began with."""

    wall_s: dict[str, float] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._processes = family(os.getpid())  # to find them takes 3 ms
        self._since = self._now()

    def hit(self, moment: Failpoint) -> None:
        if moment in _ENDS:
            self.end(_ENDS[moment])

    def end(self, stage: str) -> None:
        """The stage has taken the time since the one before."""
        wall, cpu = self._now()
        self.wall_s[stage] = self.wall_s.get(stage, 0.0) + wall - self._since[0]
        self.cpu_s[stage] = self.cpu_s.get(stage, 0.0) + cpu - self._since[1]
        self._since = (wall, cpu)

    def _now(self) -> tuple[float, float]:
        return time.perf_counter(), sum(map(cpu_s, self._processes))


def timed_run(followed: FollowedChangefeed, with_upkeep: bool) -> Stages:
    """One run of what is pending, with its stages."""
    stages = Stages()
    LISTENERS.append(stages.hit)
    try:
        followed.run(no_progress)
    finally:
        LISTENERS.remove(stages.hit)
    stages.end("rest")
    if with_upkeep:
        followed.keep_up()
    stages.end(UPKEEP)
    return stages


def measure(folder: Path, runs: int, rows: int, with_upkeep: bool) -> bool:
    """Print the figures; whether the mirror has the rows of the stream and the target is met.

    With fewer runs than the target names, it is not judged.
    """
    config = config_in(folder, "earlier_runs")
    lake = Lake(config, config.changefeeds[0])
    stream = Stream(folder / "bucket", tables=1)
    followed = FollowedChangefeed(config, config.changefeeds[0], lambda: False)
    done: list[Stages] = []
    costs: list[float] = []
    reported = 0
    for number in range(1, runs + 1):
        stream.flush(rows, statement=False)
        done.append(timed_run(followed, with_upkeep))
        if number - AROUND in AFTER:
            costs.append(_print(number - AROUND, done[-2 * AROUND :], done[reported:]))
            print_tables(lake)
            print(f"upkeep: {followed.upkeep.totals}; load: {os.getloadavg()}", flush=True)
            reported = number
    wrong = differences(lake, stream)
    print("tables that differ from the stream:", wrong)
    if len(costs) < len(AFTER):
        return not wrong
    ratio = costs[-1] / costs[0]
    print(EARLIER_RUNS.line(ratio), flush=True)
    return not wrong and EARLIER_RUNS.met(ratio)


def _print(earlier: int, near: Sequence[Stages], since: Sequence[Stages]) -> float:
    """The processor time of a run after so many: the median of `near`, and the mean upkeep of all runs in `since`."""
    of = {stage: since if stage == UPKEEP else near for stage in STAGES}
    cpu_s = {stage: statistics.fmean(run.cpu_s.get(stage, 0.0) for run in runs) for stage, runs in of.items()}
    wall_s = {stage: statistics.fmean(run.wall_s.get(stage, 0.0) for run in runs) for stage, runs in of.items()}
    cost = statistics.median(sum(run.cpu_s.values()) - run.cpu_s[UPKEEP] for run in near) + cpu_s[UPKEEP]
    wall = statistics.median(sum(run.wall_s.values()) - run.wall_s[UPKEEP] for run in near) + wall_s[UPKEEP]
    print(f"\nafter {earlier:,} runs: {cost:.3f} s of the processor, {wall:.3f} s")
    print(f"{'':12}{'cpu ms':>10}{'wall ms':>10}")
    for stage in STAGES:
        print(f"{stage:12}{cpu_s[stage] * 1e3:>10.1f}{wall_s[stage] * 1e3:>10.1f}")
    return cost


def main() -> int:
    """1 where the target is missed or the mirror differs from the stream."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=AFTER[-1] + AROUND)
    parser.add_argument("--rows", type=int, default=5, help="new rows in each run")
    parser.add_argument("--no-upkeep", action="store_true", help="shows what grows")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        good = measure(Path(scratch), asked.runs, asked.rows, with_upkeep=not asked.no_upkeep)
    spark.stop()
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
