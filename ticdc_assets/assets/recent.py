"""What the last records say of each table: for charts, from the control table alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tso import to_datetime

if TYPE_CHECKING:
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
    table = load_or_none(lake.catalog, (*lake.control.namespace, "watermarks"))
    if table is None:
        return {}
    records = table.scan(selected_fields=("recorded_at", "tso", "tables")).to_arrow().sort_by("recorded_at")
    newest = records.slice(max(0, len(records) - 2 * RECORDS_MAX)).to_pylist()  # a run leaves two: before and after
    by_tso = {record["tso"]: record for record in newest}
    found: dict[str, list[Point]] = {}
    for record in list(by_tso.values())[-RECORDS_MAX:]:
        for row in record["tables"] or ():
            lag = record["recorded_at"] - to_datetime(row["watermark"])
            found.setdefault(row["lineage"], []).append(Point(record["recorded_at"], row["rows"], lag.total_seconds()))
    return found
