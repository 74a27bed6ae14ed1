"""What a bucket's closed folders held when no more files were expected, and how a cursor opens them again.

A folder of a past date or of an older version leaves the cursor once its files are consumed, and runs do not list it
any more. The control table `closed_folders` keeps its last file, so that a comparison finds files that were added
later. These functions do no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from ticdc_assets.sources.storage.cursor import Cursor, TableCursor, VersionState, is_over
from ticdc_assets.sources.storage.past_dates import PastDates
from ticdc_assets.sources.storage.scan_result import Done, Place, Scan
from ticdc_assets.tables.control.records import ClosedFolder
from ticdc_assets.tso import now

FolderVersion = tuple[str, int]
"""A table's folder and a version."""

Closed = Mapping[FolderVersion, Mapping[Place, Done]]
"""The last file of each closed folder."""

FolderNames = Mapping[FolderVersion, tuple[str, str]]
"""Schema and table in the schema file of each version."""

_NOTHING: Final = Done(0, 0)
"""An entry of it makes a scan list a folder's dispatchers."""


def newly_closed(before: Cursor, scan: Scan, after: Cursor) -> Iterator[ClosedFolder]:
    """The folders that were open in `before`, or that the scan found, and that are closed in `after`."""
    found = {table.folder: table.versions for table in scan.tables}
    for folder, state in after.tables.items():
        known = _last_files(before.tables.get(folder)) | {
            (version, each.place): each.after({file.path for file in each.files})
            for version, folders in found.get(folder, {}).items()
            for each in folders
        }
        for (version, (place, dispatcher)), done in known.items():
            if done.number and is_closed(state, version, place):
                yield ClosedFolder(now(), folder, version, place, dispatcher, done.number, done.size)


def _last_files(state: TableCursor | None) -> dict[tuple[int, Place], Done]:
    opened = state.open if state is not None else {}
    return {(version, place): done for version, each in opened.items() for place, done in each.done.items()}


def is_closed(state: TableCursor, version: int, place: str) -> bool:
    """Whether runs do not list this data folder any more."""
    return not state.is_open(version) or (version in state.open and is_over(place, state.open[version].over))


def last_files(rows: Iterable[ClosedFolder]) -> Closed:
    """The last file of each closed folder; of one that was closed several times, at the last time."""
    found: dict[FolderVersion, dict[Place, Done]] = {}
    for row in sorted(rows, key=lambda row: row.recorded_at):
        found.setdefault((row.folder, row.version), {})[row.place, row.dispatcher] = Done(row.last, row.size_bytes)
    return found


def reopened(
    cursor: Cursor, late: Mapping[FolderVersion, Collection[Place]], closed: Closed, names: FolderNames
) -> Cursor:
    """The cursor with these data folders open, after the last file that each had when it was closed."""
    tables = dict(cursor.tables)
    for key, places in late.items():
        folder, version = key
        state, known = tables[folder], closed.get(key, {})
        work = _with_open_dates if state.is_open(version) else _with_open_version
        tables[folder] = work(state, version, places, known, names.get(key))
    return replace(cursor, tables=tables)


def _with_open_dates(
    state: TableCursor, version: int, places: Collection[Place], known: Mapping[Place, Done], _: object
) -> TableCursor:
    opened = state.open[version]
    over = dict(opened.over)
    for partition, _, date in (place.rpartition("/") for place, _ in places):
        over[partition] = over.get(partition, PastDates()).without(date)
    folders = {place for place, _ in places}
    done = {**opened.done, **dict.fromkeys(places, _NOTHING), **{p: d for p, d in known.items() if p[0] in folders}}
    return replace(state, open={**state.open, version: replace(opened, done=done, over=over)})


def _with_open_version(
    state: TableCursor,
    version: int,
    places: Collection[Place],
    known: Mapping[Place, Done],
    names: tuple[str, str] | None,
) -> TableCursor:
    """All folders of the version: a scan lists them together."""
    other = {version: names} if names not in (None, (state.schema, state.table)) else {}
    return replace(
        state,
        schemas={**state.schemas, version: ()},
        open={**state.open, version: VersionState(done={**dict.fromkeys(places, _NOTHING), **known})},
        renamed={**state.renamed, **other},
    )
