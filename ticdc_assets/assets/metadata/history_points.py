"""Rows and lag of each table in the newest records, read from the control table for charts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from pyiceberg.expressions import And, GreaterThanOrEqual, In

from ticdc_assets.tso import to_datetime

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake

RECORDS_MAX: Final = 40


@dataclass(frozen=True, slots=True)
class Point:
    """One table in one record: the rows of its mirror, and its lag behind the clock when the record was written."""

    recorded_at: datetime
    rows: int | None
    lag_s: float


def recent(lake: Lake) -> dict[str, list[Point]]:
    """By source table, its points in the newest records, oldest first.

    Of several records with one TSO only the last counts: it includes the mirrors.
    """
    table = lake.control.watermarks()
    heads = [] if table is None else _newest_heads(table)
    if table is None or not heads:
        return {}
    # A record lists every table and each run writes records, so only those that are shown are read in full.
    shown = And(In("tso", {tso for tso, _ in heads}), GreaterThanOrEqual("recorded_at", heads[0][1].isoformat()))
    rows = table.scan(row_filter=shown, selected_fields=("recorded_at", "tso", "tables")).to_arrow().to_pylist()
    whole = {(row["tso"], row["recorded_at"]): row["tables"] or () for row in rows}
    points: dict[str, list[Point]] = {}
    for tso, recorded_at in heads:
        for row in whole[(tso, recorded_at)]:
            lag = recorded_at - to_datetime(row["watermark"])
            points.setdefault(row["source_table"], []).append(Point(recorded_at, row["rows"], lag.total_seconds()))
    return points


def _newest_heads(table: Table) -> list[tuple[int, datetime]]:
    """TSO and time of the records to show, in the order they were written. A run writes two records with one TSO."""
    heads = table.scan(selected_fields=("recorded_at", "tso")).to_arrow().sort_by("recorded_at")
    newest = heads.slice(max(0, len(heads) - 2 * RECORDS_MAX)).to_pylist()
    by_tso = {head["tso"]: head["recorded_at"] for head in newest}
    return sorted(by_tso.items(), key=lambda head: head[1])[-RECORDS_MAX:]
