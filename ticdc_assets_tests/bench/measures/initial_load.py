"""A table from a Dumpling export, beside the same rows as inserts of a storage sink, in many commits and in one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ticdc_assets.config import load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets_tests.bench import child, targets
from ticdc_assets_tests.bench.ground import BenchContext
from ticdc_assets_tests.bench.streams import full_table

WARM_UP_ROWS: Final = 20_000


def measure(ground: BenchContext, count: int) -> None:
    """Print rows a second and memory of each, and the verdict on the ratio of the export to the inserts. All rows of
    each mirror are compared with the rows that were written."""
    ground.on_progress(f"\nInitial load of {count:,} rows to changelog and mirror")
    written = ground.scratch / "full_table"
    dump, small_dump = full_table.dump(written / "dump", count), full_table.dump(written / "small_dump", WARM_UP_ROWS)
    of_dump = _run(ground, "dump", count, dump=str(dump), bucket="", warm_up=str(small_dump))
    small = str(full_table.bucket(written / "small", WARM_UP_ROWS))
    bucket = full_table.bucket(written / "bucket", count)
    of_bucket = _run(ground, "bucket", count, dump="", bucket=str(bucket), warm_up=small)
    one_commit = full_table.bucket(written / "one_commit", count, one_commit=True)
    _run(ground, "one commit", count, dump="", bucket=str(one_commit), warm_up=small)
    ground.judge(targets.INITIAL_LOAD, of_bucket / of_dump)


def _run(ground: BenchContext, name: str, count: int, **given: Any) -> float:
    outcome = child.run("ticdc_assets_tests.bench.children.initial_load", ground.scratch / f"initial_{name}", **given)
    wall_s, cpu_s = outcome.answer["wall_s"], outcome.answer["cpu_s"]
    ground.on_progress(
        f"{name:12}{wall_s:>8.1f} s{count / wall_s:>12,.0f} rows/s{cpu_s / count * 1e6:>8.1f} us of the processor a row"
    )
    ground.on_progress(f"{name:12}{outcome.peaks.line()}")
    require_all_rows(Path(outcome.answer["config"]), count)
    return float(wall_s)


def require_all_rows(config: Path, count: int) -> None:
    """Raise AssertionError where the mirror does not have exactly these rows."""
    found = load(config, {})
    lake = Lake(found, found.changefeeds[0])
    record = lake.control.newest()
    assert record is not None
    mirror = lake.catalog.load_table(tuple(record.tables[0].mirror or ()))
    seen = np.zeros(count + 1, np.bool_)
    for batch in mirror.scan(selected_fields=tuple(full_table.COLUMNS)).to_arrow_batch_reader():
        rows = pa.Table.from_batches([batch])
        ids = rows.column("id").combine_chunks()
        if not rows.equals(full_table.rows(ids).cast(rows.schema)):
            raise AssertionError(f"{config}: the mirror has other rows")
        numbers = np.asarray(ids, np.int64)
        if seen[numbers].any():
            raise AssertionError(f"{config}: the mirror has a row twice")
        seen[numbers] = True
    if not seen[1:].all():
        raise AssertionError(f"{config}: the mirror lacks rows")
