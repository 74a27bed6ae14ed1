"""Compares history tables with the true rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.changes.layout import IS_CURRENT, VALID_FROM, VALID_TO
from ticdc_assets.pipeline.history.tables import version_after
from ticdc_assets.pipeline.history_tables.pending import refusal
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets.tables.progress import field_ids_by_uid
from ticdc_assets_tests.fixtures import Workload
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.truth import comparable, truth_rows, truth_types


def compared(lake: FeedLake, workload: Workload, up_to: int | None = None) -> list[tuple[Any, ...]]:
    """The truth entries, up to a TSO, that a history does not have; there must be some that it has, and rows that
    ended."""
    wrong, rows_compared, ended, histories = [], 0, 0, {}
    for entry in (entry for entry in workload.truth if up_to is None or entry["ts"] <= up_to):
        named = lake.history.ever_called(entry["schema"], entry["table"])
        source_table = next(t for t in named if t.name_at(entry["ts"]) == (entry["schema"], entry["table"]))
        record = next(r for r in lake.lake.control.newest().tables if r.source_table == source_table.id)
        if record.history_table is None:
            assert not lake.lake.keeps_history(source_table) or refusal(lake.lake, source_table, record.watermark), (
                entry["table"]
            )
            continue
        table = lake.lake.catalog.load_table(tuple(record.history_table))
        if source_table.id not in histories:
            histories[source_table.id] = table.scan(snapshot_id=record.history_snapshot_id).to_arrow()
        rows = histories[source_table.id]
        places = {
            uid: table.schema().find_field(ids[0]).name for uid, ids in field_ids_by_uid(table.properties).items()
        }
        if rows_at(source_table, rows, places, entry) != truth_rows(entry, workload.time_zone):
            wrong.append((entry["schema"], entry["table"], entry["ts"]))
        rows_compared += len(entry["rows"])
        ended += pc.sum(pc.invert(rows[IS_CURRENT])).as_py() or 0
    assert rows_compared
    assert ended
    return wrong


def rows_at(
    source_table: SourceTable, rows: pa.Table, places: dict[int, str], entry: dict[str, Any]
) -> Counter[tuple[Any, ...]]:
    at = entry["ts"]
    is_open = pc.or_(pc.is_null(rows[VALID_TO]), pc.fill_null(pc.greater(rows[VALID_TO], at), False))
    rows = rows.filter(pc.and_(pc.less_equal(rows[VALID_FROM], at), is_open))
    there = {c.name: places.get(c.uid) for c in version_after(source_table, at).table.columns}
    columns = [rows[name].to_pylist() if (name := there[n]) else [None] * len(rows) for n in truth_types(entry)]
    return Counter(tuple(comparable(cell) for cell in row) for row in zip(*columns, strict=True))
