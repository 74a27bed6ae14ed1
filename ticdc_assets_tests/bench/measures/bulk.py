"""Message protocols: bulk against reference in the same pipeline, and against each other."""

from __future__ import annotations

from typing import Final

from ticdc_assets_tests.bench import child, targets
from ticdc_assets_tests.bench.ground import BenchContext

MESSAGES_MIN: Final = 5_000
MESSAGES_MAX: Final = 25_000
"""Of each of four partitions: the reference forms take minutes for more."""


def measure(ground: BenchContext) -> None:
    """Print rows a second of both forms of every protocol."""
    ground.on_progress("\nCaptured messages to changelogs, one thread")
    ground.on_progress(f"{'':20}{'rows':>9}{'reference rows/s':>18}{'bulk rows/s':>14}")
    per_partition = min(MESSAGES_MAX, max(MESSAGES_MIN, ground.events // 40))
    speeds = {}
    for form, target in targets.BULK.items():
        scratch = ground.scratch / f"bulk-{form}"
        source = str(ground.recorded(form))
        answer = child.run(
            "ticdc_assets_tests.bench.children.bulk", scratch, form=form, source=source, per_partition=per_partition
        ).answer
        reference_s, bulk_s = answer["reference"]["wall_s"], answer["bulk"]["wall_s"]
        speeds[form] = answer["rows"] / bulk_s
        ground.on_progress(f"{form:20}{answer['rows']:>9,}{answer['rows'] / reference_s:>18,.0f}{speeds[form]:>14,.0f}")
        ground.judge(target, reference_s / bulk_s)
    ground.judge(targets.SLOWEST, min(speeds.values()) / speeds["canal-json-tidb"])
