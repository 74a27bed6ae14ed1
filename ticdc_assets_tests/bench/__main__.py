"""Runs all measurements: `python -m ticdc_assets_tests.bench FOLDER` (`make bench BENCH=FOLDER`).

FOLDER holds the recorded streams. Ratios are of things run one after the other on the same input, and every result
is compared with the true rows before its figure is shown. A busy machine shifts seconds more than ratios.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from ticdc_assets_tests.bench.ground import BenchContext
from ticdc_assets_tests.bench.measures import (
    bulk as measure_bulk,
)
from ticdc_assets_tests.bench.measures import (
    growth as measure_growth,
)
from ticdc_assets_tests.bench.measures import (
    initial_load as measure_initial_load,
)
from ticdc_assets_tests.bench.measures import (
    kafka as measure_kafka,
)
from ticdc_assets_tests.bench.measures import (
    loads as measure_loads,
)
from ticdc_assets_tests.bench.measures import (
    messages as measure_messages,
)
from ticdc_assets_tests.bench.measures import (
    rounds as measure_rounds,
)
from ticdc_assets_tests.bench.measures import (
    small_files as measure_small_files,
)
from ticdc_assets_tests.bench.measures import (
    start as measure_start,
)
from ticdc_assets_tests.bench.measures import (
    tables as measure_tables,
)
from ticdc_assets_tests.bench.streams.copies import EVENTS_RECORDED
from ticdc_assets_tests.bench.targets import MESSAGES

EVENTS_FULL = 1_000_000
_PARTS = ("loads", "messages", "bulk", "rounds", "tables", "files", "growth", "kafka", "start", "initial")


def main() -> int:
    """Measure what was asked for; 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=EVENTS_FULL, help="of each load; 100000 for a short look")
    parser.add_argument("--growth", type=int, nargs="*", help="numbers of events (default: a tenth, all)")
    parser.add_argument("--tables", type=int, nargs="*", help="numbers of tables (default: 1 10 100 500, or 1 10 50)")
    parser.add_argument("--turns", type=int, help="how often everybody loads (default: 3, or 1)")
    parser.add_argument("--only", nargs="*", choices=_PARTS)
    parser.add_argument("--forms", nargs="*", choices=MESSAGES, default=MESSAGES, help="of topics (default: all)")
    parser.add_argument("--scratch", type=Path, help="where streams and lakes are made; default: a temporary folder")
    asked = parser.parse_args()
    is_full = asked.events >= EVENTS_FULL
    sizes = asked.growth or sorted({max(EVENTS_RECORDED, asked.events // 10), asked.events})
    tables = asked.tables or ([1, 10, 100, 500] if is_full else [1, 10, 50])
    turns = asked.turns or (3 if is_full else 1)
    with tempfile.TemporaryDirectory(dir=asked.scratch) as scratch:
        ground = BenchContext(asked.folder, Path(scratch), asked.events)
        parts: dict[str, Callable[[], None]] = {
            "loads": lambda: measure_loads.measure(ground, turns),
            "messages": lambda: measure_messages.measure(ground, turns),
            "bulk": lambda: measure_bulk.measure(ground),
            "rounds": lambda: measure_rounds.measure(ground),
            "tables": lambda: measure_tables.measure(ground, tables),
            "files": lambda: measure_small_files.measure(ground, turns),
            "growth": lambda: measure_growth.measure(ground, sizes),
            "kafka": lambda: measure_kafka.measure(ground, asked.forms),
            "start": lambda: measure_start.measure(ground, turns),
            "initial": lambda: measure_initial_load.measure(ground, asked.events),
        }
        for name, part in parts.items():
            if not asked.only or name in asked.only:
                part()
        ground.on_progress("\n" + "\n".join(ground.verdicts))
        return 1 if ground.missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
