"""Which record belongs to which asset: lineages of a history under the names that their assets bear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ticdc_assets.assets.known_tables import asset_names
from ticdc_assets.schema.lineage import SourceName, fold_name

if TYPE_CHECKING:
    from ticdc_assets.schema.lineage import History, Lineage
    from ticdc_assets.tables.control import TableRecord, WatermarkRecord


@dataclass(frozen=True, slots=True)
class Reported:
    """One lineage to report: under which name its assets are, and what the newest record says of it."""

    name: SourceName
    lineage: Lineage
    record: TableRecord


def reported(history: History, record: WatermarkRecord | None) -> dict[SourceName, Reported]:
    """By folded asset name, every lineage that the record has."""
    names = asset_names(history)
    records = {table.lineage: table for table in record.tables} if record else {}
    return {
        fold_name(*names[lineage.id]): Reported(names[lineage.id], lineage, records[lineage.id])
        for lineage in history.lineages
        if lineage.id in records
    }
