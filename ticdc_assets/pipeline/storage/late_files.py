"""Files that were added to folders after these were closed: found by listing all of them, and read by the next run.

A run does not list folders of past dates and older versions, so that its time does not grow with them. Once a day a run
that has new input compares these folders with their last known files (`closed_folders`), and opens those with more
files again. Maintenance does the same at any time, and writes a record with that cursor. The rows of late
files are compared with the changelog: late rows or repeats.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from ticdc_assets.config import StorageSource
from ticdc_assets.errors import StaleRunError, TicdcAssetsError
from ticdc_assets.sources.filesystem import Root, open_root
from ticdc_assets.sources.storage.cursor import Cursor, TableCursor, VersionState, is_over
from ticdc_assets.sources.storage.folders import listing
from ticdc_assets.sources.storage.past_dates import PastDates
from ticdc_assets.sources.storage.paths import Layout, data_name, numeral, path_below
from ticdc_assets.sources.storage.scan_result import Done, Place, Scan
from ticdc_assets.sources.storage.version_folder import Skip, VersionFolder, data_folders
from ticdc_assets.tables.control.records import ClosedFolder
from ticdc_assets.tso import now

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.ddl_event import DdlEvent

COMPARED_AFTER: Final = timedelta(hours=24)
"""The time from one comparison by runs to the next."""

COMPARED_MAX: Final = 10_000
"""How many closed folders a run compares; each is a request. With more of them only maintenance compares."""

FolderVersion = tuple[str, int]
"""A table's folder and a version."""

Closed = Mapping[FolderVersion, Mapping[Place, Done]]
"""The last file of each closed folder."""

FolderNames = Mapping[FolderVersion, tuple[str, str]]
"""Schema and table in the schema file of each version."""

_NOTHING: Final = Done(0, 0)
"""An entry of it makes a scan list a folder's dispatchers."""


# -- what closed folders held, and how a cursor opens them again -------------------------------------------------------
#
# A folder of a past date or of an older version leaves the cursor once its files are consumed, and runs do not list
# it any more. The control table `closed_folders` keeps its last file, so that a comparison finds files that were
# added later.


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


@dataclass(frozen=True, slots=True)
class LateFiles:
    """The data folders that have late files, by table folder and version, and the paths of these files.

    `unread` says by folder why it was not compared, or why its files cannot be read.
    """

    places: Mapping[FolderVersion, Sequence[Place]] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A closed data folder."""

    version: FolderVersion
    place: str

    @property
    def path(self) -> str:
        return path_below(self.version[0], str(self.version[1]), self.place)


def take_in_late_files(lake: Lake, *, write: bool) -> LateFiles:
    """Find the late files of a bucket. With `write`, the next run reads them; a source of messages has none.

    Raises:
        SourceError: the bucket cannot be read.
        StaleRunError: a run recorded meanwhile; try again.
    """
    record = lake.control.newest()
    if record is None or not record.cursor or not isinstance(lake.changefeed.source, StorageSource):
        return LateFiles()
    closed = last_files(lake.control.closed_folders())
    found, cursor = _compared(lake, open_root(lake.storage_uri), Cursor.from_json(record.cursor), closed)
    if found.places and write:
        again = cursor.to_json()
        if lake.control.newest() != record:
            advice = "Its late files are still to be read: run `ticdc-assets maintain` again."
            raise StaleRunError(
                f"changefeed {lake.changefeed.name}", "no other writer", "a run that recorded meanwhile", advice
            )
        lake.control.record(replace(record, recorded_at=now(), run_id=uuid.uuid4().hex, complete=False, cursor=again))
    return found


def is_due(cursor: Cursor, at: datetime) -> bool:
    """Whether the last comparison by a run is a day ago."""
    return _ms(at) - cursor.compared_ms >= COMPARED_AFTER // timedelta(milliseconds=1)


def with_late_files(lake: Lake, root: Root, cursor: Cursor, at: datetime) -> tuple[LateFiles, Cursor]:
    """The late files of a bucket, and the cursor with their folders open. If the store cannot list an old folder, no
    table is held: `unread` has the reason, and the next run compares again. More than COMPARED_MAX folders are not
    compared."""
    closed = last_files(lake.control.closed_folders())
    if sum(map(len, closed.values())) > COMPARED_MAX:
        return LateFiles(), replace(cursor, compared_ms=_ms(at))
    try:
        found, opened = _compared(lake, root, cursor, closed)
    except TicdcAssetsError as error:
        return LateFiles(unread={error.where: f"closed folders were not compared: {error}"}), cursor
    return found, replace(opened, compared_ms=_ms(at))


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _compared(lake: Lake, root: Root, cursor: Cursor, closed: Closed) -> tuple[LateFiles, Cursor]:
    if not any(state.closed_below or any(v.over for v in state.open.values()) for state in cursor.tables.values()):
        return LateFiles(), cursor
    names = _names(lake.control.ddl_events())
    skip = Skip(lake.changefeed.bad_input.skip_files)
    found = _with_schemas(_Comparison(root, Layout.of(lake.changefeed.sink), skip, cursor, closed).late(), names)
    return found, reopened(cursor, found.places, closed, names)


def _names(events: Sequence[DdlEvent]) -> FolderNames:
    """By folder and version, the names in its schema file."""
    found = {}
    for event in events:
        parts = event.where.rpartition("/")[0].split("/")
        found["/".join(parts[:-1]), event.hints.version or event.commit_ts] = (event.schema, event.table)
    return found


def _with_schemas(found: LateFiles, names: FolderNames) -> LateFiles:
    """Without the versions that have no known schema file."""
    unknown = {f"{folder}/{version}" for folder, version in found.places if (folder, version) not in names}
    why = "it has files and no schema file: restore that"
    return replace(
        found,
        places={key: places for key, places in found.places.items() if key in names},
        paths=tuple(path for path in found.paths if not any(path.startswith(f"{folder}/") for folder in unknown)),
        unread={**found.unread, **dict.fromkeys(unknown, why)},
    )


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The parameters of one comparison. Requests grow with the number of closed folders."""

    root: Root
    layout: Layout
    skip: Skip
    cursor: Cursor
    closed: Closed

    def late(self) -> LateFiles:
        unread: dict[str, str] = {}
        listed = self.root.map(lambda item: self._places(*item, unread), list(self.cursor.tables.items()))
        places = [place for each in listed for place in each]
        late: dict[FolderVersion, set[Place]] = {}
        paths: list[str] = []
        for place, files in zip(places, self.root.map(self._late_in, places), strict=True):
            for path, dispatcher in files:
                late.setdefault(place.version, set()).add((place.place, dispatcher))
                paths.append(path)
        listed_places = {version: sorted(found, key=str) for version, found in late.items()}
        return LateFiles(listed_places, tuple(paths), unread)

    def _places(self, folder: str, state: TableCursor, unread: dict[str, str]) -> list[_Folder]:
        entries = listing(self.root, folder)
        versions = sorted(number for e in entries if e.is_dir and (number := numeral(e.name)))
        found: list[_Folder] = []
        for version in (v for v in versions if self._has_closed(state, v)):
            try:
                found += self._closed_in(folder, state, version)
            except TicdcAssetsError as error:
                unread[f"{folder}/{version}"] = f"it was not compared: {error}"
        return found

    @staticmethod
    def _has_closed(state: TableCursor, version: int) -> bool:
        if state.is_open(version):
            return version in state.open and bool(state.open[version].over)
        return version >= state.unlisted_below

    def _closed_in(self, folder: str, state: TableCursor, version: int) -> Iterator[_Folder]:
        known = self.closed.get((folder, version), {})
        opened = state.open.get(version, VersionState())
        read, over = VersionState(done={**opened.done, **known}), opened.over
        version_folder = VersionFolder(
            self.root, self.layout, self.skip, folder, version, state.schema, state.table, read
        )
        for data_folder in data_folders(version_folder):
            is_listed = data_folder.partition not in over or data_folder.date > over[data_folder.partition].unlisted
            if is_closed(state, version, data_folder.path) and is_listed:
                yield _Folder((folder, version), data_folder.path)

    def _late_in(self, place: _Folder) -> list[tuple[str, str | None]]:
        """The files that a closed folder did not have, and a last file that has another size since; with their
        dispatchers."""
        known = self.closed.get(place.version, {})
        found = []
        for entry in listing(self.root, place.path):
            name, path = data_name(entry.name), f"{place.path}/{entry.name}"
            if entry.is_dir or name is None or name.extension != self.layout.extension or path in self.skip:
                continue
            last = known.get((place.place, name.dispatcher), _NOTHING)
            is_changed = name.number == last.number and bool(last.size) and last.size != entry.size
            if name.number > last.number or is_changed:
                found.append((path, name.dispatcher))
        return found
