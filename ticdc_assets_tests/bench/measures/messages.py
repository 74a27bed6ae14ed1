"""Whole loads of captured messages, changelog and mirror, beside this project's own load of Canal-JSON files."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from ticdc_assets_tests.bench import targets
from ticdc_assets_tests.bench.child import Outcome
from ticdc_assets_tests.bench.ground import BenchContext, events_of
from ticdc_assets_tests.bench.measures.loads import JSON, own_load, print_line


def measure(ground: BenchContext, turns: int) -> None:
    """Print each protocol's load in so many turns, and its rows a second as a ratio to the files', by processor time
    and by the wall.

    Every turn loads the files and all protocols one after the other, and the middle one of the turns' ratios counts. A
    busy machine shifts seconds by the wall more.
    """
    ground.on_progress(f"\nLoads of {events_of(ground.events):,} events from files and from messages")
    ground.on_progress(f"{'':22}{'rows/s':>10}{'CPU us/row':>12}{'start s':>9}  rows  memory")
    found = [_turn(ground, turn) for turn in range(turns)]
    for form, target in targets.MESSAGES.items():
        for spent, named in (("cpu_s", "by processor time"), ("wall_s", "by the wall")):
            ratios = [_ratio(turn, form, spent) for turn in found]
            ground.judge(replace(target, what=f"{target.what}, {named}"), median(ratios))
            ground.on_progress(f"   the middle one of {', '.join(f'{ratio:.2f}' for ratio in ratios)}")


def _turn(ground: BenchContext, turn: int) -> dict[str, Outcome]:
    outcomes = {}
    for form in (JSON, *targets.MESSAGES):
        outcomes[form] = own_load(ground, form, name=f"messages-{turn}")
        print_line(ground, form, outcomes[form], "right")
    return outcomes


def _ratio(turn: dict[str, Outcome], form: str, spent: str) -> float:
    return float(turn[JSON].answer[spent] / turn[form].answer[spent])
