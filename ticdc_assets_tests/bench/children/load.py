"""This project's load of a stream, in a child: Spark started and warmed up by another load, then the clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ticdc_assets import spark
from ticdc_assets_tests.bench import ours
from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import timed
from ticdc_assets_tests.bench.streams.recorded import FORMS


def load(scratch: Path, form: str, source: str, warm_up: str) -> dict[str, Any]:
    """Seconds to changelogs and mirrors of a fresh lake, and where that lies.

    Its rows are not read here: they would count for memory.
    """
    started, _ = timed(lambda: ours.run(FORMS[form], Path(warm_up), scratch / "warm_up"))
    spent, run = timed(lambda: ours.run(FORMS[form], Path(source), scratch / "lake"))
    spark.stop()
    return {
        **spent.as_dict(),
        "start_s": started.wall_s,
        "changelog_s": run.changelog_s,
        "phases": run.phases.seconds,
        "tasks": run.phases.tasks,
        "lake": str(scratch / "lake"),
    }


if __name__ == "__main__":
    serve(load)
