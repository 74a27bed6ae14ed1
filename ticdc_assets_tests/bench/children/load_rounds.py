"""This project's runs over a mirror that is there already, in a child: the base, then round after round of changes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ticdc_assets import spark
from ticdc_assets_tests.bench import ours
from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import timed
from ticdc_assets_tests.bench.streams.recorded import FORMS


def load(scratch: Path, form: str, source: str, stages: list[str]) -> dict[str, Any]:
    """Seconds of the last stage; `stages` are folders whose files join the bucket one after the other."""
    bucket = Path(source)
    shutil.copytree(stages[0], bucket)
    config = ours.config_of(FORMS[form], bucket, scratch / "lake")
    base, run = timed(lambda: ours.again(config))
    pq.write_table(ours.mirror_rows(run.lake), scratch / "base.parquet")
    for stage in stages[1:]:
        shutil.copytree(stage, bucket, dirs_exist_ok=True)
        spent, run = timed(lambda: ours.again(config))
    pq.write_table(ours.mirror_rows(run.lake), scratch / "rows.parquet")
    spark.stop()
    return {**spent.as_dict(), "base_s": base.wall_s, "changelog_s": run.changelog_s, "phases": run.phases.seconds}


if __name__ == "__main__":
    serve(load)
