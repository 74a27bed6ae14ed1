"""The file layout of a storage sink, detected from the names in some of its version folders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ticdc_assets.sources.filesystem import Entry, Root
from ticdc_assets.sources.storage.folders import Folder, find_folders, listing
from ticdc_assets.sources.storage.paths import META, Layout, data_name, index_dispatcher, numeral, path_below

FOLDERS_MAX: Final = 200
"""Version folders that are listed; all of a bucket have the same layout."""

_SEPARATORS: Final = ("day", "month", "year")


@dataclass(slots=True)
class LayoutSeen:
    """Counts of what the names show."""

    extensions: Counter[str] = field(default_factory=Counter)
    separators: Counter[str] = field(default_factory=Counter)
    digits: Counter[int] = field(default_factory=Counter)
    partitions: int = 0
    dispatchers: int = 0
    by_table_id: bool = False

    @property
    def is_known(self) -> bool:
        """Whether any data file was seen."""
        return bool(self.extensions)

    def layout(self) -> Layout:
        """The layout of most names; TiCDC's defaults if there is no data file yet."""
        extension = self.extensions.most_common(1)
        separator = self.separators.most_common(1)
        return Layout(
            date_separator=separator[0][0] if separator else "day",
            extension=extension[0][0] if extension else "csv",
            index_digits=self.digits.most_common(1)[0][0] if self.digits else 20,
            table_id_as_path=self.by_table_id,
            across_nodes=self.dispatchers > 0,
        )


def see_layout(root: Root) -> LayoutSeen:
    """List some version folders of every kind of table."""
    seen = LayoutSeen()
    folders = find_folders(root, Layout(), {}).folders
    seen.by_table_id = bool(folders) and all(numeral(f.path) for f in folders if "/" not in f.path) and _ids(folders)
    if seen.by_table_id:
        folders = find_folders(root, Layout(table_id_as_path=True), {}).folders
    for path in _spread(folders):
        _version_folder(root, path, seen)
    return seen


def _ids(folders: tuple[Folder, ...]) -> bool:
    """Whether folders are named by table id: at the top level, directly above their versions."""
    return any("/" not in f.path and (f.versions or f.schemas) for f in folders)


def _spread(folders: tuple[Folder, ...]) -> Iterator[str]:
    """Version folders, starting with the newest of every table."""
    queues = [sorted(folder.versions, reverse=True) for folder in folders]
    left = FOLDERS_MAX
    for turn in range(max((len(queue) for queue in queues), default=0)):
        for folder, queue in zip(folders, queues, strict=True):
            if turn < len(queue) and left > 0:
                left -= 1
                yield f"{folder.path}/{queue[turn]}"


def _version_folder(root: Root, path: str, seen: LayoutSeen) -> None:
    entries = listing(root, path)
    _files(seen, entries, "none")
    for entry in entries:
        if not entry.is_dir or entry.name == META:
            continue
        inner = listing(root, path_below(path, entry.name))
        separator = _date(entry.name)
        if separator and _has_files(inner):
            _files(seen, inner, separator)
        elif numeral(entry.name):
            seen.partitions += 1
            _files(seen, inner, "none")
            _dated(root, path_below(path, entry.name), inner, seen)


def _dated(root: Root, path: str, entries: list[Entry], seen: LayoutSeen) -> None:
    for entry in entries:
        separator = _date(entry.name) if entry.is_dir else None
        if separator:
            _files(seen, listing(root, path_below(path, entry.name)), separator)


def _date(name: str) -> str | None:
    """The date separator with this form of folder name; four digits may also be a partition id."""
    if name[:2] != "20":
        return None
    return next((s for s in _SEPARATORS if Layout(date_separator=s).is_date(name)), None)


def _has_files(entries: list[Entry]) -> bool:
    return any(e.name == META if e.is_dir else data_name(e.name) is not None for e in entries)


def _files(seen: LayoutSeen, entries: list[Entry], separator: str) -> None:
    names = [name for e in entries if not e.is_dir and (name := data_name(e.name))]
    for name in names:
        seen.extensions[name.extension] += 1
        seen.digits[name.digits] += 1
        seen.dispatchers += name.dispatcher is not None
    if names or any(index_dispatcher(e.name)[0] for e in entries):
        seen.separators[separator] += 1
