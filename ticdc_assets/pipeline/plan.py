"""What the steps of a run have in common. It is made once and passed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ticdc_assets.pipeline.commit_range import CommitRange
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.history.source_table import History, SourceTable
    from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord
    from ticdc_assets.tables.locations import TableLocations


@dataclass(frozen=True, slots=True)
class Plan:
    """The newest record and the history, and what both say of each source table. Maps are by source table.

    record: None before the first run.
    history: of all statements that are known now.
    source_tables: those of the history.
    recorded: what the record has of a table.
    locations: where the tables of a source table are.
    commit_ranges: what the run adds to a changelog; empty where only mirrors follow.
    """

    record: WatermarkRecord | None
    history: History
    source_tables: Mapping[str, SourceTable]
    recorded: Mapping[str, TableRecord]
    locations: Mapping[str, TableLocations]
    commit_ranges: Mapping[str, CommitRange]

    @classmethod
    def of(
        cls,
        lake: Lake,
        record: WatermarkRecord | None,
        history: History,
        commit_ranges: Mapping[str, CommitRange] | None = None,
    ) -> Plan:
        """The plan from this record and this history."""
        locations = lake.table_locations(history)
        return cls(record, history, history.by_id(), lake.recorded(record), locations, commit_ranges or {})

    @property
    def newest(self) -> WatermarkRecord:
        """The record, of a lake that has one."""
        assert self.record is not None
        return self.record

    def with_ranges(self, commit_ranges: Mapping[str, CommitRange]) -> Plan:
        """The same plan, with other commit ranges."""
        return replace(self, commit_ranges=commit_ranges)

    def with_record(self, record: WatermarkRecord) -> Plan:
        """The same plan, from a record that this run has written."""
        return replace(self, record=record, recorded={table.source_table: table for table in record.tables})
