"""Spark for expressions alone, over rows in a file."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from ticdc_assets import spark
from ticdc_assets.config import load
from ticdc_assets.tables.conversion.functions import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def frame_of(rows: pa.Table, folder: Path) -> DataFrame:
    """The rows, read from a file: so Spark runs expressions as it does on a table, and not as it plans the query."""
    config = folder / "changefeeds.yaml"
    config.write_text(
        "spark: {master: 'local[2]'}\n"  # as all tests: a process has one session
        f"catalog: {{name: lake_{uuid.uuid4().hex}}}\n"
        "changefeeds:\n  feed:\n    sink_uri: file:///bucket?protocol=csv\n    source: {storage: bucket}\n"
    )
    session = spark.session(load(config, {}))
    register(session)
    pq.write_table(rows, folder / "rows.parquet")
    return session.read.parquet(str(folder / "rows.parquet")).coalesce(1)
