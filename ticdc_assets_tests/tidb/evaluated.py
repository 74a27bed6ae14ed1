"""Evaluates many expressions in one Spark session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ticdc_assets.names import column_name
from ticdc_assets_tests.tables.expressions import frame_of
from ticdc_assets_tests.tidb.replayed import Evaluation

AT_ONCE = 25


def evaluate(evaluations: Sequence[Evaluation], folder: Path) -> None:
    """Fill in what each finds: a value for each of its rows."""
    session = frame_of(pa.table({"x": [1]}), folder).sparkSession
    for begin in range(0, len(evaluations), AT_ONCE):
        batch = evaluations[begin : begin + AT_ONCE]
        height = max((len(values) for e in batch for _, values in e.inputs.values()), default=0)
        columns = {
            column_name(name): pa.array([*values, *[None] * (height - len(values))], of)
            for evaluation in batch
            for name, (of, values) in evaluation.inputs.items()
        }
        path = folder / f"{begin}.parquet"
        pq.write_table(pa.table(columns), path)
        frame = session.read.parquet(str(path)).coalesce(1)
        selected = [f"{evaluation.expression} AS e{place}" for place, evaluation in enumerate(batch)]
        found = frame.selectExpr(*selected).toArrow()
        for evaluation, column in zip(batch, found.columns, strict=True):
            count = max((len(values) for _, values in evaluation.inputs.values()), default=0)
            evaluation.found = column.to_pylist()[:count]
