"""Small runs in one Spark session: `python -m ticdc_assets_tests.bench.warm --tables 1 10 50 100`.

For each number of tables, a bucket gets a few new rows for every table and is read, again and again, as `run --follow`
reads it. The figures are of one such run, means of the first and of the last quarter of the runs: seconds by the
wall, and processor time by stage, of the driver, of the JVM and of the Python workers. At the end all mirrors are
compared with the stream.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from ticdc_assets import spark
from ticdc_assets.config import Config, load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.maintenance.upkeep import Upkeep
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.pipeline.run.mirrors import run_mirrors
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.spark.settings import for_a_long_session
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets_tests.bench.clock import cpu_s, family
from ticdc_assets_tests.bench.soak.stream import SCHEMA, Stream
from ticdc_assets_tests.bench.soak.truth import differences

STAGES: Final = ("scan", "changelogs", "mirrors", "upkeep")
OWNERS: Final = ("driver", "jvm", "workers")


@dataclass
class Clock:
    """Seconds of each stage of one run: by the wall, and of the processor by owner."""

    wall_s: dict[str, float] = field(default_factory=dict)
    cpu_s: dict[tuple[str, str], float] = field(default_factory=dict)

    def timed(self, stage: str, work: Callable[[], Any]) -> Any:
        before, began = _cpu_s(), time.perf_counter()
        answer = work()
        self.wall_s[stage] = time.perf_counter() - began
        for owner, spent in _cpu_s().items():
            self.cpu_s[stage, owner] = spent - before[owner]
        return answer


def _cpu_s() -> dict[str, float]:
    found = dict.fromkeys(OWNERS, 0.0)
    own = os.getpid()
    for pid in family(own):
        found["driver" if pid == own else "jvm" if _is_java(pid) else "workers"] += cpu_s(pid)
    return found


def _is_java(pid: int) -> bool:
    try:
        return "java" in Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return False


def run(config: Config, lake: Lake, upkeep: Upkeep) -> Clock:
    """One run, as a process that follows does it."""
    clock = Clock()
    source_run = run_of(lake)
    pending = clock.timed("scan", source_run.scan)
    workers = SparkWorkers(spark.session(config))
    report = clock.timed("changelogs", lambda: source_run.publish_changelogs(pending, workers))
    jvm = JvmCatalog(spark.session(config), config.catalog.name)
    clock.timed("mirrors", lambda: run_mirrors(lake, report.run_id, lambda: jvm))
    clock.timed("upkeep", lambda: upkeep.work(lake))
    return clock


def config_in(folder: Path, name: str) -> Config:
    """A changefeed of the bucket in the folder, and a lake of its own."""
    path = folder / "changefeeds.yaml"
    feed = {
        "sink_uri": "file:///x?protocol=csv",
        "config": {"sink": {"date-separator": "none", "csv": {"include-commit-ts": True}}},
        "source": {"storage": str(folder / "bucket")},
    }
    catalog = {
        "name": name,
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"{folder}/warehouse",
    }
    document = {"catalog": catalog, "spark": {"master": "local[2]"}, "changefeeds": {SCHEMA: feed}}
    path.write_text(yaml.safe_dump(document))
    return for_a_long_session(load(path, {}))


def measure(folder: Path, tables: int, rows: int, runs: int) -> bool:
    """Print the figures of so many tables; whether all mirrors have the rows of the stream."""
    folder.mkdir()
    config = config_in(folder, f"warm_{tables}")
    lake = Lake(config, config.changefeeds[0])
    stream = Stream(folder / "bucket", tables)
    upkeep = Upkeep(lambda: JvmCatalog(spark.session(config), config.catalog.name))
    clocks = []
    for _ in range(runs + 1):
        stream.flush(rows * tables, statement=False)
        clocks.append(run(config, lake, upkeep))
    wrong = differences(lake, stream)
    part = max(1, runs // 4)
    for name, some in {"first": clocks[1 : 1 + part], "last": clocks[-part:]}.items():
        _print(f"{tables} tables, the {name} {part} runs", some)
    print("upkeep:", upkeep.totals, "files:", upkeep.files)
    print("tables that differ from the stream:", wrong, flush=True)
    return not wrong


def _print(title: str, clocks: list[Clock]) -> None:
    wall_s = [sum(clock.wall_s.values()) for clock in clocks]
    total_s = [sum(clock.cpu_s.values()) for clock in clocks]
    print(f"\n{title}: {statistics.fmean(wall_s):.2f} s, {statistics.fmean(total_s):.2f} s of the processor")
    print(f"{'':12}{'wall s':>10}" + "".join(f"{owner:>10}" for owner in OWNERS))
    for stage in STAGES:
        spent = [statistics.fmean(clock.cpu_s[stage, owner] for clock in clocks) for owner in OWNERS]
        wall = statistics.fmean(clock.wall_s[stage] for clock in clocks)
        print(f"{stage:12}{wall:>10.2f}" + "".join(f"{seconds:>10.2f}" for seconds in spent), flush=True)


def main() -> int:
    """1 where a mirror differs from the stream."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, nargs="+", default=[1, 10, 50, 100])
    parser.add_argument("--rows", type=int, default=5, help="new rows of each table in each run")
    parser.add_argument("--runs", type=int, default=8)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        right = [measure(Path(scratch) / str(count), count, asked.rows, asked.runs) for count in asked.tables]
    print("load:", os.getloadavg())
    spark.stop()
    return 0 if all(right) else 1


if __name__ == "__main__":
    raise SystemExit(main())
