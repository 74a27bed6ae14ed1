"""What the last records say of each table: for charts, from the control table alone."""

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
    """One table in one record: its mirror's rows, and how far it was behind the clock when the record was made."""

    recorded_at: datetime
    rows: int | None
    lag_s: float


def recent(lake: Lake) -> dict[str, list[Point]]:
    """By lineage, its points in the newest records, oldest first; of one TSO only the last, which knows the mirrors."""
    table = lake.control.watermarks()
    heads = [] if table is None else _newest_heads(table)
    if table is None or not heads:
        return {}
    # A record lists every table, so only those that are shown are read whole; there are as many as there were runs.
    shown = And(In("tso", {tso for tso, _ in heads}), GreaterThanOrEqual("recorded_at", heads[0][1].isoformat()))
    rows = table.scan(row_filter=shown, selected_fields=("recorded_at", "tso", "tables")).to_arrow().to_pylist()
    whole = {(row["tso"], row["recorded_at"]): row["tables"] or () for row in rows}
    found: dict[str, list[Point]] = {}
    for tso, recorded_at in heads:
        for row in whole[(tso, recorded_at)]:
            lag = recorded_at - to_datetime(row["watermark"])
            found.setdefault(row["lineage"], []).append(Point(recorded_at, row["rows"], lag.total_seconds()))
    return found


def _newest_heads(table: Table) -> list[tuple[int, datetime]]:
    """TSO and time of the records that are shown, in the order they were made; a run leaves two of one TSO."""
    heads = table.scan(selected_fields=("recorded_at", "tso")).to_arrow().sort_by("recorded_at")
    newest = heads.slice(max(0, len(heads) - 2 * RECORDS_MAX)).to_pylist()
    by_tso = {head["tso"]: head["recorded_at"] for head in newest}
    return sorted(by_tso.items(), key=lambda head: head[1])[-RECORDS_MAX:]
