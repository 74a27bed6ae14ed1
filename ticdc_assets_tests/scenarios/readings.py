"""The rows that engines read from a lake, compared with the true rows."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pyarrow as pa

from ticdc_assets.assets.lake_resource import LakeResource
from ticdc_assets.pipeline.recorded.table import RecordedTable
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.truth import table_rows, truth_rows, truth_types


def readings_that_differ(lake: FeedLake, ts: int) -> dict[str, list[str]]:
    """By table, the engines that read other rows than the truth at a recorded TSO."""
    recorded = LakeResource(config_path=str(lake.config.path), at=str(ts)).recorded()
    assert recorded.tso == ts
    entries = [entry for entry in lake.workload.truth if entry["ts"] == ts and entry["key"]]
    assert entries
    found = {}
    for entry in entries:
        name, names = f"{entry['schema']}.{entry['table']}", list(truth_types(entry))
        wanted = truth_rows(entry, lake.workload.time_zone)
        read = {engine: table_rows(rows.to_pylist(), names) for engine, rows in readings(recorded.mirror(name))}
        wrong = [engine for engine, rows in read.items() if rows != wanted]
        if wrong:
            found[name] = wrong
    return found


def readings(table: RecordedTable) -> Iterator[tuple[str, pa.Table]]:
    """The rows that each engine reads; polars where it is installed."""
    yield "pyiceberg", table.to_pyiceberg().scan(snapshot_id=table.snapshot_id).to_arrow()
    yield "arrow", table.to_arrow()
    yield "duckdb", table.to_duckdb().to_arrow_table()
    yield "spark", table.to_spark().toArrow()
    if importlib.util.find_spec("polars") is not None:
        yield "polars", table.to_polars().to_arrow()
