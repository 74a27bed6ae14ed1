"""The folder of one version of one table, as a scan begins to read it, and the folders of its data files: by partition,
by date, both, or the version's folder itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Final

from ticdc_assets.advice import Advice
from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.sources.filesystem import Entry, Root
from ticdc_assets.sources.storage.cursor import VersionState
from ticdc_assets.sources.storage.folders import can_be_followed, listing, looks_like_data
from ticdc_assets.sources.storage.paths import (
    META,
    OLD_INDEX,
    OLD_SCHEMA,
    DataName,
    Layout,
    data_name,
    numeral,
    path_below,
    separator_of,
)

LISTED_AT_ONCE: Final = 900
"""An object store lists up to 1000 objects in one request."""


class HeldError(TicdcAssetsError):
    """Raised when a table's files differ from what TiCDC writes; that table stops, the others continue."""


class Skip:
    """The paths that the user skips, as globs over the path below the root."""

    def __init__(self, globs: Sequence[str] = ()) -> None:
        self._patterns = [re.compile(translate(glob)) for glob in globs]

    def __contains__(self, path: str) -> bool:
        return any(pattern.match(path) for pattern in self._patterns)


@dataclass(frozen=True, slots=True)
class VersionFolder:
    """The folder of one version of one table.

    version_ts: the version's TSO, which is the folder's name.
    state: the folder in the cursor.
    relist: whether the layout has changed since the cursor, so that every folder is listed.
    recognises_repeats: whether rows have what identifies repeats, so that a file may be read twice.
    notes: what a scan found that TiCDC does not write; a scan adds to them.
    """

    root: Root
    layout: Layout
    skip: Skip
    folder: str
    version_ts: int
    schema: str
    table: str
    state: VersionState
    relist: bool = False
    recognises_repeats: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The version's folder."""
        return f"{self.folder}/{self.version_ts}"

    def entries(self, place: str) -> list[Entry]:
        path = path_below(self.path, place)
        entries = listing(self.root, path)
        links = [e.name for e in entries if e.outside]
        if links:
            where = self.root.where(f"{path}/{links[0]}")
            raise HeldError(where, "a file or folder inside the root", "a link that leaves it", Advice.REMOVE_LINK)
        return entries

    def own(self, entry: Entry) -> DataName | None:
        name = None if entry.is_dir else data_name(entry.name)
        return name if name and name.extension == self.layout.extension else None

    def note_strays(self, path: str, entries: list[Entry], folders: set[str]) -> None:
        files = {e.name for e in entries if not e.is_dir and not self.own(e)} - {OLD_SCHEMA, OLD_INDEX}
        for name in sorted(files | (folders - {META})):
            self.notes.append(f"{self.root.where(f'{path}/{name}')}: not something that TiCDC writes there")

    def other_layout(self, path: str, expected: str) -> HeldError:
        separator = separator_of(path.rpartition("/")[2])
        by = f"a folder by {separator}" if separator else "files that are in no folder of a date"
        expected = f"{expected}, since date-separator is {self.layout.date_separator}"
        found = f"{by}, as date-separator {separator or 'none'} makes them"
        return HeldError(self.root.where(path), expected, found, Advice.SET_DATE_SEPARATOR)


# -- data folders ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A folder of data files below a version's folder: "" or partition and date."""

    path: str
    partition: str = ""
    date: str = ""


def data_folders(version: VersionFolder) -> list[DataFolder]:
    """The folders that hold data files, without those of past dates."""
    known = {place for place, _ in version.state.done}
    if not version.layout.dated and known == {""} and not version.relist and _is_large(version, ""):
        return [DataFolder("")]
    entries = version.entries("")
    found = _dates(version, "", entries) if version.layout.dated else _undated(version, entries)
    return [folder for folder in found if not _is_over(version, folder.partition, folder.date)]


def _is_over(version: VersionFolder, partition: str, date: str) -> bool:
    return partition in version.state.over and date in version.state.over[partition]


def _is_large(version: VersionFolder, place: str) -> bool:
    """Whether listing a folder takes more than one request.

    Such a folder is not listed just to detect files that TiCDC would write with other options.
    """
    return version.state.done[place, None].number > LISTED_AT_ONCE if (place, None) in version.state.done else False


def _undated(version: VersionFolder, entries: list[Entry]) -> list[DataFolder]:
    folders = {e.name for e in entries if e.is_dir}
    partitions = sorted((n for n in folders if numeral(n)), key=int)
    others = folders - set(partitions) - {META}
    dates = sorted(name for name in others if _is_any_date(name))
    version.note_strays(version.path, entries, others - set(dates))
    has_changed = version.recognises_repeats and _has_files(entries)
    for name in sorted(others):
        read = has_changed or _was_read(version, name) or _is_over(version, "", name)
        if not (read if name in dates else not _has_data(version, name)):
            raise version.other_layout(f"{version.path}/{name}", "no folders but a partition's")
    here = [DataFolder("")] if _holds_files(entries) else []
    return here + [DataFolder(name, name) for name in partitions] + [DataFolder(name, "", name) for name in dates]


def _was_read(version: VersionFolder, place: str) -> bool:
    """Whether files of a folder were consumed, with the options that the changefeed had before."""
    return any(place == known for known, _ in version.state.done)


def _has_data(version: VersionFolder, place: str) -> bool:
    path = path_below(version.path, place)
    if not can_be_followed(place.rpartition("/")[2]):
        return False
    return looks_like_data(version.root, path, listing(version.root, path))


def _dates(version: VersionFolder, partition: str, entries: list[Entry]) -> list[DataFolder]:
    """The folders by date. Where some have the form in the changefeed's configuration, those of another form are
    from before the option was changed: they are read, if rows need not be in order of arrival."""
    has_changed = version.recognises_repeats and any(e.is_dir and version.layout.is_date(e.name) for e in entries)
    by_date = f"folders by {version.layout.date_separator}"
    found: list[DataFolder] = []
    if _has_files(entries):
        if not (has_changed or _was_read(version, partition)):
            raise version.other_layout(path_below(version.path, partition), by_date)
        found = [DataFolder(partition, partition)]
    folders = sorted(e.name for e in entries if e.is_dir and e.name != META)
    for name in folders:
        inner = None if partition or not numeral(name) else _partition_entries(version, name)
        if inner is not None:
            found += _dates(version, name, inner)
        elif version.layout.is_date(name) or (
            _is_any_date(name)
            and (has_changed or _was_read(version, path_below(partition, name)) or _is_over(version, partition, name))
        ):
            found.append(DataFolder(path_below(partition, name), partition, name))
        elif _is_any_date(name) or _has_data(version, path_below(partition, name)):
            raise version.other_layout(path_below(version.path, partition, name), by_date)
        else:
            version.notes.append(
                f"{version.root.where(path_below(version.path, partition, name))}: not a date or partition"
            )
    version.note_strays(path_below(version.path, partition), entries, set())
    return found


def _partition_entries(version: VersionFolder, name: str) -> list[Entry] | None:
    """The content of a partition. Four digits may be a year instead: then the folder has files and their index."""
    if not version.layout.is_date(name):
        return version.entries(name)
    known = {place for place, _ in version.state.done}
    if name in known or not version.layout.partition_separator:
        return None
    entries = version.entries(name)
    return None if _holds_files(entries) or not any(e.is_dir for e in entries) else entries


def _is_any_date(name: str) -> bool:
    return separator_of(name) is not None


def _has_files(entries: list[Entry]) -> bool:
    return any(data_name(e.name) and not e.is_dir for e in entries)


def _holds_files(entries: list[Entry]) -> bool:
    return any(e.name == META if e.is_dir else data_name(e.name) is not None for e in entries)
