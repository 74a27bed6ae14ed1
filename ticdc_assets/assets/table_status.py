"""Matches records to assets by the source tables of a history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ticdc_assets.assets.known_tables import asset_names
from ticdc_assets.schema.history.source_table import SourceName, fold_name

if TYPE_CHECKING:
    from ticdc_assets.schema.history.source_table import History, SourceTable
    from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord


@dataclass(frozen=True, slots=True)
class Reported:
    """One source table to report: the name of its assets, and its newest record with the time of it."""

    name: SourceName
    source_table: SourceTable
    record: TableRecord
    recorded_at: datetime


def reported(history: History, record: WatermarkRecord | None) -> dict[SourceName, Reported]:
    """Every source table in the record, by folded asset name."""
    if record is None:
        return {}
    names, records = asset_names(history), {table.source_table: table for table in record.tables}
    found = [table for table in history.source_tables if table.id in records]
    return {
        fold_name(*names[table.id]): Reported(names[table.id], table, records[table.id], record.recorded_at)
        for table in found
    }
