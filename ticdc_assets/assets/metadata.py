"""Metadata of materializations: watermark, row counts, columns, location. Never a row value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from ticdc_assets.assets.clock import Clock
from ticdc_assets.assets.sparkline import chart_markdown, plain_seconds
from ticdc_assets.changes.layout import changelog_columns, mirror_columns
from ticdc_assets.schema.mysql_types import format_type
from ticdc_assets.tso import is_tso, to_datetime

if TYPE_CHECKING:
    from ticdc_assets.assets.history_points import Point
    from ticdc_assets.pipeline.report import ChangelogReport
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.tables.control import TableRecord
    from ticdc_assets.tables.fields import Fields, LakeField

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


def table_metadata(record: TableRecord, clock: Clock) -> Metadata:
    """The metadata that changelogs and mirrors have in common."""
    return {
        "source_table": f"{record.schema}.{record.table}",
        "state": record.state,
        **({"note": record.note} if record.note else {}),
        **watermark_metadata(record.watermark, clock),
    }


def changelog_metadata(
    catalog: str,
    record: TableRecord,
    source_table: SourceTable,
    location: str | None,
    fields: Fields | None,
    report: ChangelogReport | None,
    clock: Clock,
) -> Metadata:
    """A run's changes to a changelog, if any. Without `fields`, no columns are listed."""
    rows = report.rows_by_op.get(source_table.id, {}) if report else {}
    return {
        **table_metadata(record, clock),
        **{name: rows.get(op, 0) for op, name in OPS.items()},
        "run_repeats_removed": report.repeats if report else 0,
        "run_late_rows": report.late_rows.get(source_table.id, 0) if report else 0,
        "run_zero_dates": report.zero_dates if report else 0,
        "run_ambiguous_times": report.ambiguous_times if report else 0,
        "run_quarantined": report.quarantined if report else 0,
        **(_place(catalog, record.changelog, location) if record.changelog else {}),
        **({"dagster/column_schema": column_schema(fields, source_table)} if fields else {}),
    }


def mirror_metadata(
    catalog: str,
    record: TableRecord,
    source_table: SourceTable,
    location: str | None,
    fields: Fields | None,
    rows: Mapping[str, int],
    points: Sequence[Point],
    changelog_key: dg.AssetKey,
    clock: Clock,
) -> Metadata:
    """A mirror's state after a run, and the run's changes to it. Without `fields`, no columns are listed."""
    return {
        **table_metadata(record, clock),
        **{name: rows.get(op, 0) for op, name in OPS.items()},
        "key": ", ".join(record.key),
        **({"dagster/row_count": record.rows} if record.rows is not None else {}),
        **({"snapshot_id": str(record.mirror_snapshot_id)} if record.mirror_snapshot_id else {}),
        **(_place(catalog, record.mirror, location) if record.mirror else {}),
        **({"dagster/column_schema": column_schema(fields, source_table)} if fields else {}),
        "dagster/column_lineage": mirror_lineage(source_table, changelog_key),
        **({"recent": dg.MetadataValue.md(chart_markdown(points))} if clock.measures_lag else {}),
    }


def _place(catalog: str, identifier: Iterable[str], location: str | None) -> Metadata:
    uri = {} if location is None else {"dagster/uri": location}
    return {"dagster/table_name": ".".join((catalog, *identifier)), **uri}


# -- columns -----------------------------------------------------------------------------------------------------------


def column_schema(fields: Fields, source_table: SourceTable) -> dg.TableSchema:
    """The columns of a lake table. Source columns have the source's types, added columns those of Iceberg."""
    types = {c.uid: format_type(c.type) for version in source_table.versions for c in version.table.stored_columns}
    return dg.TableSchema(columns=[_column(field, types.get(field.uid or 0, field.type)) for field in fields])


def _column(field: LakeField, type_text: str) -> dg.TableColumn:
    return dg.TableColumn(field.name, type_text, constraints=dg.TableColumnConstraints(nullable=not field.required))


def mirror_lineage(source_table: SourceTable, changelog: dg.AssetKey) -> dg.TableColumnLineage:
    """Maps each mirror column to the changelog column of the same source column."""
    names = {c.uid: c.name for c in changelog_columns(source_table)}
    return dg.TableColumnLineage(
        {
            c.name: [dg.TableColumnDep(changelog, names[c.uid])]
            for c in mirror_columns(source_table.newest.stored_columns, source_table.newest.key)
        }
    )
