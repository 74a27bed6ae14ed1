"""Plans of a run without a lake."""

from __future__ import annotations

from collections.abc import Mapping

from ticdc_assets.pipeline.commit_range import CommitRange
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets.schema.history.source_table import History
from ticdc_assets.tables.control.records import WatermarkRecord


def plan_of(
    history: History, commit_ranges: Mapping[str, CommitRange] | None = None, record: WatermarkRecord | None = None
) -> Plan:
    """The plan from a history and a record. No table has a location."""
    recorded = {table.source_table: table for table in record.tables} if record is not None else {}
    return Plan(record, history, history.by_id(), recorded, {}, commit_ranges or {})
