"""This project's load of a stream, in a child: Spark started and warmed up by another load, then the clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ticdc_assets import spark
from ticdc_assets_tests.bench import ours
from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import timed
from ticdc_assets_tests.bench.recorded import FORMS, TABLE


def load(scratch: Path, form: str, source: str, warm_up: str, tables: list[str] | None = None) -> dict[str, Any]:
    """Seconds to changelogs and mirrors of a fresh lake; the rows of these tables' mirrors as Parquet."""
    started, _ = timed(lambda: ours.run(FORMS[form], Path(warm_up), scratch / "warm_up"))
    spent, run = timed(lambda: ours.run(FORMS[form], Path(source), scratch / "lake"))
    for table in tables if tables is not None else [TABLE]:
        pq.write_table(ours.mirror_rows(run.lake, table), scratch / f"{table}.parquet")
    spark.stop()
    return {
        **spent.told(),
        "start_s": started.wall_s,
        "changelog_s": run.changelog_s,
        "phases": run.phases.seconds,
        "tasks": run.phases.tasks,
        "lake": str(scratch / "lake"),
    }


if __name__ == "__main__":
    serve(load)
