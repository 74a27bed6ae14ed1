"""Metadata of materializations: watermark, row counts, columns, location. Never a row value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from ticdc_assets.assets.metadata.clock import Clock
from ticdc_assets.assets.metadata.columns import changelog_lineage, column_schema, mirror_lineage
from ticdc_assets.assets.metadata.shown import shown
from ticdc_assets.assets.metadata.sparkline import chart_markdown, plain_seconds
from ticdc_assets.pipeline.report import Findings
from ticdc_assets.tso import is_tso, to_datetime

if TYPE_CHECKING:
    from ticdc_assets.assets.metadata.history_points import Point
    from ticdc_assets.assets.table_status import Reported
    from ticdc_assets.pipeline.report import ChangelogReport
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.tables.fields import LakeTable

Metadata = dict[str, Any]

OPS: Final = {"I": "run_rows_inserted", "U": "run_rows_updated", "D": "run_rows_deleted"}


def watermark_metadata(watermark: int, clock: Clock) -> Metadata:
    """The TSO as text (browsers round large numbers), its time, and its lag. Empty without a watermark."""
    if not watermark:
        return {}
    if not clock.measures_lag and not is_tso(watermark):
        return {"messages_read": watermark}
    place = {
        "watermark": str(watermark),
        "watermark_time": dg.MetadataValue.timestamp(to_datetime(watermark).astimezone(UTC)),
    }
    if not clock.measures_lag:
        return place
    return {
        **place,
        "lag_seconds": plain_seconds(clock.lag_s(watermark)),
        "behind_source_seconds": plain_seconds(clock.behind_source_s(watermark)),
    }


@dataclass(frozen=True, slots=True)
class ShownTable:
    """The table of the lake that an asset shows.

    identifier: its parts after the catalog; empty before the table is made.
    content: its columns and rows; None before the table is made.
    """

    catalog: str
    identifier: tuple[str, ...]
    location: str | None
    content: LakeTable | None

    def metadata(self, source_table: SourceTable) -> Metadata:
        """Its name, its location and its columns."""
        name = {"dagster/table_name": ".".join((self.catalog, *self.identifier))} if self.identifier else {}
        uri = {"dagster/uri": self.location} if self.identifier and self.location is not None else {}
        columns = {"dagster/column_schema": column_schema(self.content, source_table)} if self.content else {}
        return {**name, **uri, **columns}


def table_metadata(table: Reported, clock: Clock) -> Metadata:
    """The metadata that changelogs and mirrors have in common."""
    record, comment = table.record, table.source_table.newest.comment
    texts = {
        "source_table": f"{record.schema}.{record.table}",
        **({"comment": comment} if comment else {}),
        **({"key": ", ".join(record.key)} if record.key else {}),
        "state": record.state,
        **({"note": record.note} if record.note else {}),
    }
    return {
        **shown(texts),
        **({"quarantined": record.quarantined} if record.quarantined else {}),
        **({"quarantined_since": record.quarantined_since} if record.quarantined_since is not None else {}),
        **({"discarded": record.discarded} if record.discarded else {}),
        **watermark_metadata(record.watermark, clock),
    }


def changelog_metadata(
    table: Reported, shown: ShownTable, source: dg.AssetKey, report: ChangelogReport | None, clock: Clock
) -> Metadata:
    """A run's changes to a changelog, if any."""
    source_table = table.source_table
    rows = report.rows_by_op.get(source_table.id, {}) if report else {}
    count = shown.content.rows if shown.content is not None else None
    return {
        **table_metadata(table, clock),
        **{name: rows.get(op, 0) for op, name in OPS.items()},
        **(_findings(report, source_table.id) if report else {}),
        **({"dagster/row_count": count} if count is not None else {}),
        **shown.metadata(source_table),
        "dagster/column_lineage": changelog_lineage(source_table, source),
    }


def _findings(report: ChangelogReport, source_table_id: str) -> Metadata:
    """What the run found in the rows of this table. A number is left out where it is 0: Dagster plots every number, and
    these are 0 in nearly every run."""
    found = report.findings.get(source_table_id, Findings())
    numbers = {
        "run_repeats_removed": found.repeats,
        "run_late_rows": report.late_rows.get(source_table_id, 0),
        "run_zero_dates": found.zero_dates,
        "run_ambiguous_times": found.ambiguous_times,
    }
    return {name: number for name, number in numbers.items() if number}


def mirror_metadata(
    table: Reported,
    shown: ShownTable,
    rows: Mapping[str, int],
    points: Sequence[Point],
    changelog_key: dg.AssetKey,
    clock: Clock,
) -> Metadata:
    """A mirror's state after a run, and the run's changes to it."""
    record = table.record
    return {
        **table_metadata(table, clock),
        **{name: rows.get(op, 0) for op, name in OPS.items()},
        **({"dagster/row_count": record.rows} if record.rows is not None else {}),
        **({"snapshot_id": str(record.mirror_snapshot_id)} if record.mirror_snapshot_id else {}),
        **shown.metadata(table.source_table),
        "dagster/column_lineage": mirror_lineage(table.source_table, changelog_key),
        **({"recent": dg.MetadataValue.md(chart_markdown(points))} if clock.measures_lag else {}),
    }


def history_metadata(table: Reported, shown: ShownTable, changelog_key: dg.AssetKey, clock: Clock) -> Metadata:
    """A history's state after a run."""
    record = table.record
    return {
        **table_metadata(table, clock),
        **({"snapshot_id": str(record.history_snapshot_id)} if record.history_snapshot_id else {}),
        **shown.metadata(table.source_table),
        "dagster/column_lineage": mirror_lineage(table.source_table, changelog_key),
    }
