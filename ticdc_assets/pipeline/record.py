"""What a run did to the changelogs, and what it records of every table, whatever its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.plurals import counted
from ticdc_assets.schema.evolution.schema_state import FillColumn
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord
from ticdc_assets.tables.written_with import SETTINGS, written_history_of
from ticdc_assets.tso import now

if TYPE_CHECKING:
    from ticdc_assets.pipeline.commit_range import CommitRange, Hold
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.tables.locations import TableLocations


@dataclass(frozen=True, slots=True)
class Findings:
    """What a run removed from the rows of one table, or could not take as it was: numbers of rows and values."""

    repeats: int = 0
    zero_dates: int = 0
    ambiguous_times: int = 0

    def __add__(self, other: Findings) -> Findings:
        return Findings(
            self.repeats + other.repeats,
            self.zero_dates + other.zero_dates,
            self.ambiguous_times + other.ambiguous_times,
        )


@dataclass(frozen=True, slots=True)
class ChangelogReport:
    """What the changelogs gained: by source table, the number of rows by operation, and the findings.

    `late_rows` counts, by source table, the rows at or below the watermark that the table had before the run.
    `records_read` counts files or messages.
    """

    run_id: str
    high: int
    rows_by_op: dict[str, dict[str, int]] = field(default_factory=dict)
    findings: dict[str, Findings] = field(default_factory=dict)
    quarantined: int = 0
    records_read: int = 0
    late_rows: dict[str, int] = field(default_factory=dict)
    record: WatermarkRecord | None = None


# -- the record --------------------------------------------------------------------------------------------------------


def says_the_same(record: WatermarkRecord, other: WatermarkRecord) -> bool:
    """Whether two records agree on the source and its tables; their times and runs may differ."""
    return (record.tso, record.cursor, record.tables) == (other.tso, other.cursor, other.tables)


def table_record(
    commit_range: CommitRange,
    hold: Hold | None,
    old: TableRecord | None,
    place: TableLocations,
    table: Table | None,
    warnings: tuple[Note, ...],
) -> TableRecord:
    """The record of one table after the run. Its fields of the mirror and the history are unchanged until these
    advance.

    Args:
        hold: why the table does not advance; None if it does.
        old: its newest record.
        place: the identifiers of its tables.
        table: its changelog after the run; None if there is none.
        warnings: the warnings about it.
    """
    source_table = commit_range.source_table
    done = replace(commit_range, high=commit_range.low, hold=hold) if hold else commit_range
    snapshot = table.current_snapshot() if table is not None else None
    notes = [done.hold.note] if done.hold else [Note(NoteCode.COLUMNS, mark) for mark in source_table.marks]
    return TableRecord(
        source_table=source_table.id,
        schema=source_table.name[0],
        table=source_table.name[1],
        state=str(done.state),
        notes=(*notes, *_assumed_zones(source_table, done.high), *warnings),
        key=list(source_table.newest.key),
        watermark=done.high,
        mirror=old.mirror if old else None,
        mirror_snapshot_id=old.mirror_snapshot_id if old else None,
        changelog=list(place.changelog) if table is not None else old.changelog if old else None,
        changelog_snapshot_id=snapshot.snapshot_id if snapshot else old.changelog_snapshot_id if old else None,
        rows=old.rows if old else None,
        history=_history_digest(table) if table is not None else old.history if old else None,
        history_table=old.history_table if old else None,
        history_snapshot_id=old.history_snapshot_id if old else None,
        settings=table.properties.get(SETTINGS) if table is not None else old.settings if old else None,
    )


def _assumed_zones(source_table: SourceTable, watermark: int) -> list[Note]:
    """A warning where rows have times of defaults whose zone the stream does not have."""
    columns = {
        effect.name
        for version in source_table.versions
        for effect in version.effects
        if version.from_ts <= watermark and isinstance(effect, FillColumn) and effect.has_unknown_zone
    }
    if not columns:
        return []
    text = (
        f"in rows older than {counted(len(columns), 'TIMESTAMP column')} ({', '.join(sorted(columns))}), the default "
        "is taken in `time_zone`: the stream does not have the zone of the session that added the column"
    )
    return [Note(NoteCode.DEFAULT_ZONE, text)]


def _history_digest(changelog: Table) -> str | None:
    written = written_history_of(changelog)
    return written.digest if written is not None else None


def unknown_table(schema: str, table: str, state: str, note: Note) -> TableRecord:
    """The record of a table without a known schema. It holds back the recorded TSO like any other table."""
    return TableRecord(unknown_id(schema, table), schema, table, state, (note,), [], 0, None, None, None, None, None)


def unknown_id(schema: str, table: str) -> str:
    """The source table id of a table without a known schema."""
    return f"{schema}.{table}@unknown"


def record_changelogs(
    lake: Lake, run_id: str, changelogs: Mapping[str, Table], new: tuple[TableRecord, ...] = ()
) -> None:
    """Record the present snapshots of changelogs that gained changes outside of a run, and `new` tables. `complete` is
    set again when the mirrors have followed."""
    newest = lake.control.newest()
    if newest is None:
        return
    snapshots = {i: table.current_snapshot() for i, table in changelogs.items()}
    tables = tuple(
        replace(table, changelog_snapshot_id=snapshot.snapshot_id)
        if (snapshot := snapshots.get(table.source_table)) is not None
        else table
        for table in newest.tables
    )
    replaced = {table.source_table for table in new}
    tables = (*(table for table in tables if table.source_table not in replaced), *new)
    if tables != newest.tables:
        fresh = replace(newest, recorded_at=now(), run_id=run_id, tables=tables)
        lake.control.record(replace(fresh, complete=False, settled=False))
