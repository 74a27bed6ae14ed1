"""What the tables of a changefeed lack because of records in quarantine.

A quarantined record has the name that its table had when the record was written. Its source table follows from the
history, not from the table that has this name now. A message that names no table may belong to any table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.plurals import counted
from ticdc_assets.schema.history.source_table import History, fold_name
from ticdc_assets.tso import is_tso, to_datetime

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.tables.control.records import QuarantinedRecord, TableRecord

CLOCKS_APART_MAX: Final = timedelta(minutes=10)
"""Maximum clock difference between TiDB and this machine."""

DISCARDED: Final = "discarded"
"""The resolution of a record that was given up."""

READ_AGAIN: Final = "read again"
"""The resolution of a record that a rebuild from the source could read."""

_DROPPED: Final = "dropped"
_CODES: Final = (NoteCode.QUARANTINE, NoteCode.DISCARDED)


def quarantined_by_table(history: History, records: Iterable[QuarantinedRecord]) -> dict[str, list[QuarantinedRecord]]:
    """The records of each source table. A record with several possible tables counts for each of them, so that no check
    passes by mistake; one that names no table counts for none."""
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
    name = fold_name(record.schema, record.table)
    return {
        source_table.id
        for source_table in history.source_tables
        for name_period in source_table.name_periods
        if name_period.folded == name and _was_there(name_period.after_ts, record)
    }


# -- what a record says of its tables ----------------------------------------------------------------------------------


def with_quarantine(
    lake: Lake, tables: Sequence[TableRecord], history: History | None = None
) -> tuple[TableRecord, ...]:
    """The tables with the present counts of their records in quarantine, and of those that were given up."""
    records = [one for one in lake.control.ever_quarantined(with_raw=False) if one.resolution in (None, DISCARDED)]
    if not records:
        return tuple(_marked(table, ()) for table in tables)
    known = history or lake.history()
    by_table, by_id = quarantined_by_table(known, records), known.by_id()
    unnamed = [one for one in records if not one.table]

    def may_have(table: TableRecord, record: QuarantinedRecord) -> bool:
        source_table = by_id.get(table.source_table)
        return table.state != _DROPPED and (source_table is None or _was_there(source_table.first_event_ts, record))

    return tuple(
        _marked(
            table,
            [*by_table.get(table.source_table, ()), *(one for one in unnamed if may_have(table, one))],
        )
        for table in tables
    )


def _was_there(ts: int, record: QuarantinedRecord) -> bool:
    """Whether the record may have been written after this TSO."""
    return to_datetime(ts) <= record.recorded_at + CLOCKS_APART_MAX


def _marked(table: TableRecord, records: Sequence[QuarantinedRecord]) -> TableRecord:
    still_there = [one for one in records if one.resolution is None]
    given_up = len(records) - len(still_there)
    notes = [note for note in table.notes if note.code not in _CODES]
    since = min((one.since_tso or 0 for one in still_there), default=None)
    if since is not None:
        notes.append(Note(NoteCode.QUARANTINE, _lacking(still_there, since)))
    if given_up:
        notes.append(Note(NoteCode.DISCARDED, f"{counted(given_up, 'record')} given up with --discard"))
    return replace(
        table,
        notes=tuple(notes),
        quarantined=len(still_there) or None,
        quarantined_since=since,
        discarded=given_up or None,
    )


def _lacking(records: Sequence[QuarantinedRecord], since: int) -> str:
    unnamed = sum(not one.table for one in records)
    of_any = f", {unnamed:,} of them of an unknown table" if unnamed else ""
    first = f"{since} ({to_datetime(since):%Y-%m-%d %H:%M:%S} UTC)" if is_tso(since) else str(since)
    return (
        f"{counted(len(records), 'record')} in quarantine{of_any}, the first at {first} or later: its changes are "
        "missing until `ticdc-assets replay --quarantine`"
    )


# -- readers that stay before them -------------------------------------------------------------------------------------


def last_whole(lake: Lake, stays_before_quarantine: bool | None = None) -> int | None:
    """The last TSO before the first record in quarantine, at which readers stay; None where they need not.

    Args:
        stays_before_quarantine: whether they stay; None for what the config says.
    """
    stays = lake.changefeed.bad_input.stays_before_quarantine
    if stays_before_quarantine is not None:
        stays = stays_before_quarantine
    records = lake.control.ever_quarantined(with_raw=False) if stays else []
    return min((max(one.since_tso or 0, 1) - 1 for one in records if one.resolution is None), default=None)
