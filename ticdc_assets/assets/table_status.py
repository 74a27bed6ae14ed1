"""Matches records to assets by the source tables of a history.

A quarantined record has the name that its table had when the record was written. Its source table follows from the
history, not from the table that has this name now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from ticdc_assets.assets.known_tables import asset_names
from ticdc_assets.schema.history.source_table import SourceName, fold_name
from ticdc_assets.tso import to_datetime

if TYPE_CHECKING:
    from ticdc_assets.schema.history.source_table import History, SourceTable
    from ticdc_assets.tables.control.records import QuarantinedRecord, TableRecord, WatermarkRecord

CLOCKS_APART_MAX: Final = timedelta(minutes=10)
"""Maximum clock difference between TiDB and this machine."""


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


# -- quarantined records -----------------------------------------------------------------------------------------------


def quarantined_by_table(history: History, records: Iterable[QuarantinedRecord]) -> dict[str, list[QuarantinedRecord]]:
    """The records of each source table. A record with several possible tables counts for each of them, so that no check
    passes by mistake."""
    by_table: dict[str, list[QuarantinedRecord]] = {}
    for record in records:
        for source_table_id in _owners(history, record):
            by_table.setdefault(source_table_id, []).append(record)
    return by_table


def _owners(history: History, record: QuarantinedRecord) -> set[str]:
    """The ids of the source tables to which the record may belong.

    The path of a file has the table's version. A message that cannot be decoded has no TSO, so it may belong to any
    table that had the name before it was read.
    """
    if record.version is not None:
        version = history.as_of(record.schema, record.table, record.version + 1)
        if version is not None:
            return {version[0].id}
    name, read_at = fold_name(record.schema, record.table), record.recorded_at + CLOCKS_APART_MAX
    return {
        source_table.id
        for source_table in history.source_tables
        for name_period in source_table.name_periods
        if fold_name(name_period.schema, name_period.table) == name and to_datetime(name_period.after_ts) <= read_at
    }
