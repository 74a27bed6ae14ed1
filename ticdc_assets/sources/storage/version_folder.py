"""The folder of one version of one table, as a scan begins to read it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import translate

from ticdc_assets.advice import Advice
from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.sources.filesystem import Entry, Root
from ticdc_assets.sources.storage.cursor import VersionState
from ticdc_assets.sources.storage.folders import listing
from ticdc_assets.sources.storage.paths import (
    META,
    OLD_INDEX,
    OLD_SCHEMA,
    DataName,
    Layout,
    data_name,
    path_below,
    separator_of,
)


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
