"""Whole loads side by side: this project from Canal-JSON and CSV, and its peers from the same Canal-JSON."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow.parquet as pq

from ticdc_assets_tests.bench import child, ours, targets
from ticdc_assets_tests.bench.child import ChildFailedError, Outcome
from ticdc_assets_tests.bench.ground import BenchContext, events_of
from ticdc_assets_tests.bench.streams import copies
from ticdc_assets_tests.bench.targets import Target

JSON: Final = "storage-canal-json"
CSV: Final = "storage-csv"

_NEEDS: Final = {
    "duckdb_parquet": ("cores",),
    "plain_python": (),
    "pyspark_by_hand": ("cores", "warm_up"),
    "spark_reading": ("cores", "warm_up"),
    "sail_sql": ("warm_up",),
    "flink_sql": ("cores", "warm_up", "jars"),
}
"""Each peer, and its arguments after the source."""
_INSTALLED: Final = {
    "sail_sql": ("TICDC_ASSETS_BENCH_SAIL", "interpreter with pysail and pyspark-client"),
    "flink_sql": ("TICDC_ASSETS_BENCH_FLINK", "folder with the jars of Flink and Iceberg"),
}
"""The peers that need what this project does not install: the variable that names it, and what it is."""


def measure(ground: BenchContext, turns: int) -> None:
    """Print rows a second of everybody, in so many turns, and the ratios against the targets.

    Who is compared is measured within minutes, and the middle one of the turns' ratios counts: a virtual machine may
    be half as fast for a while.
    """
    rows = events_of(ground.events)
    ground.on_progress(f"\nLoads of {rows:,} events into a fresh lake; Spark started and warmed up before the clock")
    ground.on_progress(f"{'':22}{'rows/s':>10}{'CPU us/row':>12}{'start s':>9}  rows  memory")
    seconds = [_turn(ground, turn) for turn in range(turns)]
    _judge(ground, targets.CSV, [turn[JSON] / turn[CSV] for turn in seconds])
    for name, target in targets.PEERS.items():
        if all(name in turn for turn in seconds):
            _judge(ground, target, [turn[name] / turn[JSON] for turn in seconds])


def _turn(ground: BenchContext, turn: int) -> dict[str, float]:
    """One load by each tool, in seconds."""
    seconds = {}
    for form in (JSON, CSV):
        outcome = own_load(ground, form, name=f"own-{turn}")
        print_line(ground, f"ticdc-assets {form.removeprefix('storage-')}", outcome, "right")
        ground.on_progress("   " + ", ".join(f"{name} {s:.1f} s" for name, s in outcome.answer["phases"].items()))
        seconds[form] = outcome.answer["wall_s"]
    for name in _NEEDS:
        found = peer(ground, name, turn)
        if found is not None:
            seconds[name] = found.answer["wall_s"]
    return seconds


def _judge(ground: BenchContext, target: Target, ratios: list[float]) -> None:
    ground.judge(target, median(ratios))
    if len(ratios) > 1:
        ground.on_progress("   the middle one of " + ", ".join(f"{ratio:.2f}" for ratio in ratios))


def own_load(ground: BenchContext, form: str, events: int | None = None, name: str = "own") -> Outcome:
    """This project's load, its rows compared with the true ones."""
    scratch = ground.scratch / f"{name}-{form}-{events or ground.events}"
    source = str(ground.stream(form, events))
    warm_up = str(ground.recorded(form))
    outcome = child.run("ticdc_assets_tests.bench.children.load", scratch, form=form, source=source, warm_up=warm_up)
    wanted = copies.shifted_rows(ground.true_rows, copies.shifts(events or ground.events))
    copies.check(ours.mirror_rows(ours.lake_in(scratch / "lake")), wanted, form)
    return outcome


def peer(ground: BenchContext, name: str, turn: int = 0) -> Outcome | None:
    """A peer's load, and whether its rows are correct; None if it cannot run here."""
    variable, what = _INSTALLED.get(name, ("", ""))
    installed = os.environ.get(variable, "")
    if variable and not installed:
        ground.on_progress(f"{name:22} not run: {variable} names no {what}")
        return None
    python = installed if name == "sail_sql" else sys.executable
    known = {"cores": ground.cores, "warm_up": str(ground.recorded(JSON)), "jars": installed}
    given: dict[str, Any] = {key: known[key] for key in _NEEDS[name]}
    source, scratch = str(ground.stream(JSON)), ground.scratch / f"peer-{name}-{turn}"
    try:
        outcome = child.run(f"ticdc_assets_tests.bench.peers.{name}", scratch, python, source=source, **given)
    except ChildFailedError as error:
        ground.on_progress(f"{name:22} failed: {error}")
        return None
    print_line(ground, name, outcome, _verdict(ground, outcome))
    return outcome


def _verdict(ground: BenchContext, outcome: Outcome) -> str:
    if "rows" not in outcome.answer:
        return "none kept"
    wanted = copies.shifted_rows(ground.rows_as_sent, copies.shifts(ground.events))
    return copies.fault(pq.read_table(Path(outcome.answer["rows"])), wanted) or "right"


def print_line(ground: BenchContext, name: str, outcome: Outcome, rows: str) -> None:
    """One line of the table."""
    count, answer = events_of(ground.events), outcome.answer
    start = f"{answer['start_s']:.1f}" if "start_s" in answer else "-"
    speed, cpu_us = count / answer["wall_s"], answer["cpu_s"] / count * 1e6
    ground.on_progress(f"{name:22}{speed:>10,.0f}{cpu_us:>12.1f}{start:>9}  {rows}  {outcome.peaks.line()}")
