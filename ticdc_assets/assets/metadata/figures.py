"""Metadata of materializations: watermark, row counts, columns, location. Never a row value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from ticdc_assets.assets.clock import Clock
from ticdc_assets.assets.metadata.shown import shown
from ticdc_assets.assets.metadata.sparkline import chart_markdown, plain_seconds
from ticdc_assets.changes import layout
from ticdc_assets.changes.layout import changelog_columns, mirror_columns
from ticdc_assets.pipeline.record import Findings
from ticdc_assets.printable import printable
from ticdc_assets.schema.ddl.mysql_types import type_text
from ticdc_assets.tso import is_tso, to_datetime

if TYPE_CHECKING:
    from ticdc_assets.assets.metadata.history_points import Point
    from ticdc_assets.assets.table_status import Reported
    from ticdc_assets.pipeline.record import ChangelogReport
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.schema.model import Column
    from ticdc_assets.tables.fields import LakeField, LakeTable


Metadata = dict[str, Any]

OPS: Final = {"I": "run_rows_inserted", "U": "run_rows_updated", "D": "run_rows_deleted"}
DESCRIPTIONS: Final = {
    layout.OP: "I, U or D: an insert, an update or a delete.",
    layout.COMMIT_TS: "The TSO of the commit that made the change. NULL where the stream has none.",
    layout.COMMIT_TIME: "The time of the commit, with millisecond precision, in UTC.",
    layout.SEQ: "The order of changes inside one commit_ts. Without commit_ts, the order of arrival.",
    layout.TABLE_VERSION: "The TSO of the statement that gave the row its columns.",
    layout.BEFORE: "The old values of an update, where the stream sends them.",
    layout.VALID_FROM: "The TSO from which the table had the row: that of the commit that made it.",
    layout.VALID_TO: "The TSO from which the table no longer had the row. NULL where it still has it.",
    layout.VALID_FROM_TIME: "The time of `_ticdc_valid_from`, with millisecond precision, in UTC.",
    layout.VALID_TO_TIME: "The time of `_ticdc_valid_to`, with millisecond precision, in UTC.",
    layout.IS_CURRENT: "Whether the table still has the row.",
}
"""The descriptions of the columns that this project adds."""

_MEMBERS_MAX: Final = 100
"""A struct with more members is shown without them."""


def watermark_metadata(watermark: int, clock: Clock) -> Metadata:
    """The TSO as text (browsers round large numbers), its time, and its lag as numbers, which Dagster plots. Empty
    without a watermark."""
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
        "behind_clock_seconds": plain_seconds(clock.lag_s(watermark)),
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


def column_schema(table: LakeTable, source_table: SourceTable) -> dg.TableSchema:
    """The columns of a lake table with their types in Iceberg. The description of a source column has its type and
    COMMENT at the source, that of an added column is fixed."""
    known = {c.uid: c for version in source_table.versions for c in version.table.stored_columns}
    key = set(source_table.newest.key)
    columns = [_column(field, known, key) for field in table.fields]
    constraints = [printable(f"key: {', '.join(source_table.newest.key)}")] if key else []
    return dg.TableSchema(columns, dg.TableConstraints(other=constraints))


def _column(field: LakeField, known: Mapping[int, Column], key: set[str]) -> dg.TableColumn:
    column = known.get(field.uid or 0)
    is_key = column is not None and column.name in key
    described = DESCRIPTIONS.get(field.name)
    if column is not None:
        described = printable(". ".join(filter(None, (type_text(column.type), column.comment))))
    return dg.TableColumn(
        printable(field.name),
        printable(_type(field)),
        description=described,
        constraints=dg.TableColumnConstraints(nullable=not field.required, other=["key"] if is_key else []),
    )


def _type(field: LakeField) -> str:
    if not 0 < len(field.fields) <= _MEMBERS_MAX:
        return field.type
    return f"{field.type}<{', '.join(f'{member.name}: {_type(member)}' for member in field.fields)}>"


# -- lineage -----------------------------------------------------------------------------------------------------------


def changelog_lineage(source_table: SourceTable, source: dg.AssetKey) -> dg.TableColumnLineage:
    """Maps each changelog column to the column of the source, which is named `schema.table.column`."""
    prefix = ".".join(source_table.name)
    names = {c.uid: c.name for version in source_table.versions for c in version.table.stored_columns}
    return dg.TableColumnLineage(
        {
            printable(c.name): [dg.TableColumnDep(source, printable(f"{prefix}.{names[c.uid]}"))]
            for c in changelog_columns(source_table)
        }
    )


def mirror_lineage(source_table: SourceTable, changelog: dg.AssetKey) -> dg.TableColumnLineage:
    """Maps each mirror column to the changelog column of the same source column."""
    names = {c.uid: c.name for c in changelog_columns(source_table)}
    newest = source_table.newest
    of_source = {
        printable(c.name): [dg.TableColumnDep(changelog, printable(names[c.uid]))]
        for c in mirror_columns(newest.stored_columns, newest.key)
    }
    return dg.TableColumnLineage({**of_source, layout.COMMIT_TS: [dg.TableColumnDep(changelog, layout.COMMIT_TS)]})
