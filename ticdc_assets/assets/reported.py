"""Which record belongs to which asset: lineages of a history under the names that their assets bear.

A quarantined record names its table as it was called when the record was written. Whose it is follows from the history,
not from who bears that name now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ticdc_assets.assets.known_tables import asset_names
from ticdc_assets.schema.lineage import SourceName, fold_name
from ticdc_assets.tso import to_datetime

if TYPE_CHECKING:
    from ticdc_assets.schema.lineage import History, Lineage
    from ticdc_assets.tables.control import QuarantinedRecord, TableRecord, WatermarkRecord

CLOCKS_APART_MAX: Final = timedelta(minutes=10)
"""By how much the clocks of TiDB and of this machine may differ."""


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


# -- quarantined records -----------------------------------------------------------------------------------------------


def kept_aside(history: History, records: Iterable[QuarantinedRecord]) -> dict[str, list[QuarantinedRecord]]:
    """By lineage, the records that are its; one that may be of several is under each, rather red than green."""
    found: dict[str, list[QuarantinedRecord]] = {}
    for record in records:
        for lineage_id in _owners(history, record):
            found.setdefault(lineage_id, []).append(record)
    return found


def _owners(history: History, record: QuarantinedRecord) -> set[str]:
    """Files tell the version of the table that wrote them. Messages that cannot be read tell no time: theirs is any
    table that bore the name before they were read."""
    if record.version is not None:
        told = history.as_of(record.schema, record.table, record.version + 1)
        if told is not None:
            return {told[0].id}
    name, read_at = fold_name(record.schema, record.table), record.recorded_at + CLOCKS_APART_MAX
    return {
        lineage.id
        for lineage in history.lineages
        for tenure in lineage.tenures
        if fold_name(tenure.schema, tenure.table) == name and to_datetime(tenure.after_ts) <= read_at
    }
