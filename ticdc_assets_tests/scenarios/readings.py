"""The rows that engines read from a lake, compared with the true rows."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pyarrow as pa

from ticdc_assets import spark
from ticdc_assets.assets.lake_resource import LakeResource
from ticdc_assets.names import encode, quote_path
from ticdc_assets.pipeline.recorded.lake import RecordedTable
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


def views_that_differ(lake: FeedLake, ts: int) -> list[str]:
    """The views that show other rows than the truth at a TSO; there is one for each table with a key."""
    views = {view.source_table: tuple(view.view) for view in lake.lake.control.views()}
    entries = [entry for entry in lake.workload.truth if entry["ts"] == ts and entry["key"]]
    assert len(entries) == len(views) > 0
    records, session = lake.records(), spark.session(lake.config)
    wrong = []
    for entry in entries:
        record = records[entry["schema"], entry["table"]]
        view = views[record.source_table]
        assert view == (f"{encode(record.schema)}__recorded", encode(record.table))
        rows = session.table(quote_path((lake.catalog_name, *view))).toArrow().to_pylist()
        if table_rows(rows, list(truth_types(entry))) != truth_rows(entry, lake.workload.time_zone):
            wrong.append(".".join(view))
    return wrong


def readings(table: RecordedTable) -> Iterator[tuple[str, pa.Table]]:
    """The rows that each engine reads; polars where it is installed."""
    yield "pyiceberg", table.to_pyiceberg().scan(snapshot_id=table.snapshot_id).to_arrow()
    yield "arrow", table.to_arrow()
    yield "duckdb", table.to_duckdb().to_arrow_table()
    yield "spark", table.to_spark().toArrow()
    if importlib.util.find_spec("polars") is not None:
        yield "polars", table.to_polars().to_arrow()
