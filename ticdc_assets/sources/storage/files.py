"""Finds the data files of one table version after a cursor by TiCDC's index files.

`meta/CDC.index` names the last file of its folder, and files are numbered from 1. So the names of new files follow from
the cursor and the index, and data folders are usually not listed. A folder is listed if it has no index (old clusters
wrote none, and it may be lost), if names are not as wide as in the index, or if most of the folder is new. Beyond the
index only the next file is requested, since TiCDC continues if it cannot write an index. Deviations from TiCDC's output
are raised for the whole table: NotYetError if the file may still come, HeldError if a user must act.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import translate
from typing import Final

from ticdc_assets.errors import NotYetError, TicdcAssetsError
from ticdc_assets.plurals import counted
from ticdc_assets.sources.filesystem import Entry, Root
from ticdc_assets.sources.storage.cursor import VersionState
from ticdc_assets.sources.storage.folders import can_be_followed, listing, looks_like_data
from ticdc_assets.sources.storage.paths import (
    META,
    OLD_INDEX,
    OLD_SCHEMA,
    DataName,
    Layout,
    SourceFile,
    below,
    data_name,
    index_dispatcher,
    numeral,
    separator_of,
)
from ticdc_assets.sources.storage.scan_result import Done, FolderScan, Place

INDEX_BYTES_MAX: Final = 4096
"""An index holds one file name."""

LISTED_AT_ONCE: Final = 900
"""An object store lists up to 1000 objects in one request."""

ASKED_ONE_BY_ONE: Final = 16
"""Up to this number, files are measured by name in a folder of any size; above it, listings may be cheaper."""

_NOTHING: Final = Done(0, 0)
_ADVICE_FILE: Final = "Restore the file, or name it in skip_files if its rows may be lost."
_ADVICE_LAYOUT: Final = (
    "Its rows are not read. Give the changefeed's own {} in its configuration here: `ticdc-assets inspect` on the "
    "bucket prints it."
)
_ADVICE_ORDER: Final = (
    "Its rows are not read. If they are repeats, name the files in skip_files; else read the source in a changefeed of "
    "another name, with another `target`."
)
_ADVICE_SEPARATOR: Final = _ADVICE_LAYOUT.format("date-separator")


class HeldError(TicdcAssetsError):
    """Raised when a table's files differ from what TiCDC writes; that table stops, the others go on."""


class Skip:
    """The paths that the user skips, as globs over the path below the root."""

    def __init__(self, globs: Sequence[str] = ()) -> None:
        self._patterns = [re.compile(translate(glob)) for glob in globs]

    def __contains__(self, path: str) -> bool:
        return any(pattern.match(path) for pattern in self._patterns)


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A folder of data files below a version's folder: "" or partition and date."""

    path: str
    partition: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class _Sequence:
    """The files of one folder with a common numbering, up to `last`; `listed` if the folder was listed."""

    dispatcher: str | None
    last: int
    digits: int
    listed: Mapping[int, tuple[str, int]] | None = None


@dataclass(frozen=True, slots=True)
class VersionReader:
    """Finds the new files of one version of one table.

    relist: ignores what the cursor says of files with an earlier layout.
    recognises_repeats: rows have what identifies repeats, so that a file may be read twice.
    """

    root: Root
    layout: Layout
    skip: Skip
    folder: str
    version: int
    schema: str
    table: str
    state: VersionState
    relist: bool = False
    recognises_repeats: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The version's folder."""
        return f"{self.folder}/{self.version}"

    def scan(self) -> tuple[FolderScan, ...]:
        """The new files of every folder that can still get files."""
        data_folders = self.data_folders()
        newest = {folder.partition: folder for folder in sorted(data_folders, key=lambda folder: folder.date)}
        found = tuple(
            self._scan_sequence(folder, each)
            for folder in data_folders
            for each in self._sequences(folder, folder == newest[folder.partition])
        )
        if not self.recognises_repeats:
            over = self.state.over
            check_order(
                self, (f for f in found if f.partition in over and over[f.partition].passed(f.date)), "a later date"
            )
        return found

    def data_folders(self) -> list[DataFolder]:
        """The folders that hold data files, without those of past dates."""
        known = {place for place, _ in self.state.done}
        if not self.layout.dated and known == {""} and not self.relist and self._is_large(""):
            return [DataFolder("")]
        entries = self._entries("")
        found = self._dates("", entries) if self.layout.dated else self._undated(entries)
        return [folder for folder in found if not self._is_over(folder.partition, folder.date)]

    def _is_over(self, partition: str, date: str) -> bool:
        return partition in self.state.over and date in self.state.over[partition]

    def _is_large(self, place: str) -> bool:
        """Whether listing a folder takes more than one request.

        Such a folder is not listed just to detect files that TiCDC would write with other options.
        """
        return self.state.done[place, None].number > LISTED_AT_ONCE if (place, None) in self.state.done else False

    def _undated(self, entries: list[Entry]) -> list[DataFolder]:
        folders = {e.name for e in entries if e.is_dir}
        partitions = sorted((n for n in folders if numeral(n)), key=int)
        others = folders - set(partitions) - {META}
        dates = sorted(name for name in others if _is_any_date(name))
        self._note_strays(self.path, entries, others - set(dates))
        has_changed = self.recognises_repeats and _has_files(entries)
        for name in sorted(others):
            read = has_changed or self._was_read(name) or self._is_over("", name)
            if not (read if name in dates else not self._has_data(name)):
                raise self._other_layout(f"{self.path}/{name}", "no folders but a partition's")
        here = [DataFolder("")] if _holds_files(entries) else []
        return here + [DataFolder(name, name) for name in partitions] + [DataFolder(name, "", name) for name in dates]

    def _was_read(self, place: str) -> bool:
        """Whether files of a folder were consumed, with the options that the changefeed had before."""
        return any(place == known for known, _ in self.state.done)

    def _has_data(self, place: str) -> bool:
        path = below(self.path, place)
        return can_be_followed(place.rpartition("/")[2]) and looks_like_data(self.root, path, listing(self.root, path))

    def _dates(self, partition: str, entries: list[Entry]) -> list[DataFolder]:
        """The folders by date. Where some have the form in the changefeed's configuration, those of another form are
        from before the option was changed: they are read, if rows need not be in order of arrival."""
        has_changed = self.recognises_repeats and any(e.is_dir and self.layout.is_date(e.name) for e in entries)
        before: list[DataFolder] = []
        if _has_files(entries):
            if not (has_changed or self._was_read(partition)):
                raise self._other_layout(below(self.path, partition), f"folders by {self.layout.date_separator}")
            before = [DataFolder(partition, partition)]
        data_folders = before
        folders = sorted(e.name for e in entries if e.is_dir and e.name != META)
        for name in folders:
            inner = None if partition or not numeral(name) else self._partition_entries(name)
            if inner is not None:
                data_folders += self._dates(name, inner)
            elif self.layout.is_date(name) or (
                _is_any_date(name)
                and (has_changed or self._was_read(below(partition, name)) or self._is_over(partition, name))
            ):
                data_folders.append(DataFolder(below(partition, name), partition, name))
            elif _is_any_date(name) or self._has_data(below(partition, name)):
                raise self._other_layout(below(self.path, partition, name), f"folders by {self.layout.date_separator}")
            else:
                self.notes.append(f"{self.root.where(below(self.path, partition, name))}: not a date or partition")
        self._note_strays(below(self.path, partition), entries, set())
        return data_folders

    def _partition_entries(self, name: str) -> list[Entry] | None:
        """The content of a partition. Four digits may be a year instead: then the folder has files and their index."""
        if not self.layout.is_date(name):
            return self._entries(name)
        known = {place for place, _ in self.state.done}
        if name in known or not self.layout.partition_separator:
            return None
        entries = self._entries(name)
        return None if _holds_files(entries) or not any(e.is_dir for e in entries) else entries

    def _sequences(self, folder: DataFolder, is_newest: bool) -> list[_Sequence]:
        known = {dispatcher for place, dispatcher in self.state.done if place == folder.path}
        path = below(self.path, folder.path)
        found: list[_Sequence] = []
        # In the newest folders indexes are listed: one with a dispatcher shows that the table is spread over nodes.
        if known == {None} and not self.relist and not self.layout.across_nodes and not is_newest:
            found = self._indexed(path, [None])
        if not found:
            names = [index_dispatcher(e.name) for e in listing(self.root, f"{path}/{META}") if not e.is_dir]
            found = self._indexed(path, [dispatcher for is_index, dispatcher in names if is_index])
        lost = known - {sequence.dispatcher for sequence in found}
        return found if found and not lost else found + self._unindexed(path, folder, lost if found else None)

    def _indexed(self, path: str, dispatchers: list[str | None]) -> list[_Sequence]:
        found = []
        for dispatcher in sorted(dispatchers, key=lambda d: d or ""):
            index = f"{path}/{META}/CDC{'' if dispatcher is None else f'_{dispatcher}'}.index"
            try:
                content = self.root.read_bytes(index, INDEX_BYTES_MAX)
            except NotYetError:
                continue
            last = self._index(content, self.root.where(index), dispatcher)
            found.append(_Sequence(dispatcher, last.number, last.digits))
        return found

    def _index(self, content: bytes, where: str, dispatcher: str | None) -> DataName:
        last = data_name(content.decode(errors="replace").removesuffix("\n"))
        if last is None:
            advice = "The next run reads it again."
            raise NotYetError(where, "the name of a data file", "half of one or another text", advice)
        if last.extension != self.layout.extension:
            advice = _ADVICE_LAYOUT.format("protocol")
            raise HeldError(where, f"a .{self.layout.extension} file", f"one of .{last.extension}", advice)
        if last.dispatcher != dispatcher:
            raise HeldError(where, "the index of its own files", "the name of another's", _ADVICE_FILE)
        return last

    def _unindexed(self, path: str, folder: DataFolder, wanted: set[str | None] | None) -> list[_Sequence]:
        entries = self._entries(folder.path)
        names = {name.dispatcher for e in entries if (name := self._own(e))}
        sequences = []
        for dispatcher in sorted(names if wanted is None else names & wanted, key=lambda d: d or ""):
            listed = self._numbered(path, entries, dispatcher)
            done = self.state.done.get((folder.path, dispatcher), _NOTHING)
            sequences.append(_Sequence(dispatcher, max(done.number, *listed), self.layout.index_digits, listed))
        self._note_strays(path, entries, {e.name for e in entries if e.is_dir} if folder.date else set())
        return sequences

    def _scan_sequence(self, folder: DataFolder, sequence: _Sequence) -> FolderScan:
        place = (folder.path, sequence.dispatcher)
        done = self.state.done.get(place, _NOTHING)
        path = below(self.path, folder.path)
        sequence, named, done = self._after_index(place, sequence, done)
        if sequence.last < done.number:
            found = f"an index that fell back to {sequence.last}"
            advice = "Files are written again under old numbers: read this table from another folder."
            raise HeldError(self.root.where(path), f"file {done.number} or a later one", found, advice)
        sequence = self._with_unnamed(path, folder, sequence)
        sizes = self._sizes(path, folder, sequence, done)
        if self._has_changed(done, sizes):
            done = self._before_changed(done, sizes)
        skipped: dict[int, int] = {}
        files: list[SourceFile] = []
        for number in range(done.number + 1, sequence.last + 1):
            file, size = sizes.get(number) or (f"{path}/{self._name(sequence, number)}", None)
            if file in self.skip:
                skipped[number] = size or 0
            elif size:
                files.append(self._file(folder, sequence, number, file, size))
            else:
                raise self._absent(file, size, number, sequence, sizes)
        seen = self.state.seen.get(place, _NOTHING)
        last, is_listed = sequence.last, sequence.listed is not None
        return FolderScan(
            place, folder.partition, folder.date, done, last, tuple(files), skipped, seen, is_listed, named
        )

    def _after_index(self, place: Place, sequence: _Sequence, done: Done) -> tuple[_Sequence, int | None, Done]:
        """The sequence, the number in its index, and the last file that need not be read again.

        Where files were read that the index does not name, TiCDC may have been started again and have written their
        numbers a second time: they are read again once the index is another one.
        """
        if sequence.listed is not None:
            return sequence, None, done
        named, before = sequence.last, self.state.named.get(place)
        if before is not None and before == named:
            sequence = replace(sequence, last=max(named, done.number))
        elif before is not None and self.recognises_repeats and before < done.number:
            done = Done(before, 0)
        return sequence, named, done

    def _sizes(
        self, path: str, folder: DataFolder, sequence: _Sequence, done: Done
    ) -> Mapping[int, tuple[str, int | None]]:
        """Path and size of each existing file, from the last consumed one on."""
        if sequence.listed is not None:
            return sequence.listed
        new = sequence.last - done.number
        if new <= ASKED_ONE_BY_ONE or new < sequence.last // 1000:
            numbers = range(max(done.number, 1), sequence.last + 1)
            names = {number: f"{path}/{self._name(sequence, number)}" for number in numbers}
            sizes = self.root.sizes(list(names.values()))
            found = {number: (name, sizes[name]) for number, name in names.items()}
            if all(size is not None for number, (_, size) in found.items() if done.number < number < sequence.last):
                return found
        return self._numbered(path, self._entries(folder.path), sequence.dispatcher)

    def _with_unnamed(self, path: str, folder: DataFolder, sequence: _Sequence) -> _Sequence:
        """The sequence with the files directly after the one in the index: TiCDC continues if it cannot write an index.

        One file is requested; if it exists, the folder is listed.
        """
        following = f"{path}/{self._name(sequence, sequence.last + 1)}"
        if sequence.listed is not None or not self.root.sizes([following])[following]:
            return sequence
        listed, last = self._numbered(path, self._entries(folder.path), sequence.dispatcher), sequence.last
        while listed.get(last + 1, ("", 0))[1]:
            last += 1
        return replace(sequence, last=last)

    def _numbered(self, path: str, entries: list[Entry], dispatcher: str | None) -> dict[int, tuple[str, int]]:
        found: dict[int, tuple[str, int]] = {}
        for entry in entries:
            name = self._own(entry)
            if name is None or name.dispatcher != dispatcher:
                continue
            if name.number in found:
                two = f"{found[name.number][0].rpartition('/')[2]} and {entry.name}"
                raise HeldError(self.root.where(path), f"one file of number {name.number}", two, _ADVICE_FILE)
            found[name.number] = (f"{path}/{entry.name}", entry.size)
        return found

    def _has_changed(self, done: Done, sizes: Mapping[int, tuple[str, int | None]]) -> bool:
        """Whether the last consumed file now has another size. A deleted file has not changed."""
        file, size = sizes.get(done.number, ("", None))
        return bool(size and done.size and size != done.size and file not in self.skip)

    def _before_changed(self, done: Done, sizes: Mapping[int, tuple[str, int | None]]) -> Done:
        """The place before the last consumed file, so that it is read again.

        The file was incomplete or was written again. Raises HeldError if repeats in it cannot be recognised.
        """
        if self.recognises_repeats:
            return Done(done.number - 1, 0)
        file, size = sizes[done.number]
        advice = (
            "It was written again after it was read, and without commit_ts its rows cannot be compared with the "
            "changelog: restore it, or read the source in a changefeed of another name, with another `target`."
        )
        raise HeldError(self.root.where(file), f"{done.size} bytes, as when it was read", f"{size} bytes", advice)

    def _absent(
        self,
        file: str,
        size: int | None,
        number: int,
        sequence: _Sequence,
        sizes: Mapping[int, tuple[str, int | None]],
    ) -> TicdcAssetsError:
        where, found = self.root.where(file), "no such file" if size is None else "an empty file"
        later = [n for n, (_, later_size) in sizes.items() if number < n <= sequence.last and later_size]
        if later:
            return HeldError(where, f"a file, since there is number {min(later)}", found, _ADVICE_FILE)
        advice = (
            "TiCDC is still writing it, or stopped before the file was complete, and the date has changed since. "
            "If the file does not arrive, restore it or name it in skip_files."
        )
        return NotYetError(where, "the file that the index names", found, advice)

    def _file(self, folder: DataFolder, sequence: _Sequence, number: int, path: str, size: int) -> SourceFile:
        return SourceFile(
            path=path,
            size=size,
            schema=self.schema,
            table=self.table,
            version=self.version,
            partition_id=numeral(folder.partition),
            date=folder.date or None,
            dispatcher=sequence.dispatcher,
            number=number,
        )

    def _name(self, sequence: _Sequence, number: int) -> str:
        # A number as wide as its name may have outgrown the width; names of the files before it are then narrower.
        digits = min(sequence.digits, self.layout.index_digits) if self._outgrown(sequence) else sequence.digits
        return self.layout.data_name(sequence.dispatcher, number, digits)

    def _outgrown(self, sequence: _Sequence) -> bool:
        return len(str(sequence.last)) == sequence.digits

    def _own(self, entry: Entry) -> DataName | None:
        name = None if entry.is_dir else data_name(entry.name)
        return name if name and name.extension == self.layout.extension else None

    def _entries(self, place: str) -> list[Entry]:
        path = below(self.path, place)
        entries = listing(self.root, path)
        links = [e.name for e in entries if e.outside]
        if links:
            where = self.root.where(f"{path}/{links[0]}")
            raise HeldError(where, "a file or folder inside the root", "a link that leaves it", "Remove the link.")
        return entries

    def _note_strays(self, path: str, entries: list[Entry], folders: set[str]) -> None:
        files = {e.name for e in entries if not e.is_dir and not self._own(e)} - {OLD_SCHEMA, OLD_INDEX}
        for name in sorted(files | (folders - {META})):
            self.notes.append(f"{self.root.where(f'{path}/{name}')}: not something that TiCDC writes there")

    def _other_layout(self, path: str, expected: str) -> HeldError:
        separator = separator_of(path.rpartition("/")[2])
        by = f"a folder by {separator}" if separator else "files that are in no folder of a date"
        expected = f"{expected}, since date-separator is {self.layout.date_separator}"
        found = f"{by}, as date-separator {separator or 'none'} makes them"
        return HeldError(self.root.where(path), expected, found, _ADVICE_SEPARATOR)


def check_order(reader: VersionReader, folders: Iterable[FolderScan], other: str) -> None:
    """Raise HeldError for new files in folders that should have none, where the order of arrival is that of the rows.

    Args:
        other: what has files that were read before.
    """
    for folder in folders:
        if folder.files:
            where = reader.root.where(folder.files[0].path)
            expected = f"no new file there, since files of {other} were read and rows without commit_ts are in order"
            raise HeldError(where, expected, f"{counted(len(folder.files), 'file')} that came later", _ADVICE_ORDER)


def _is_any_date(name: str) -> bool:
    return separator_of(name) is not None


def _has_files(entries: list[Entry]) -> bool:
    return any(data_name(e.name) and not e.is_dir for e in entries)


def _holds_files(entries: list[Entry]) -> bool:
    return any(e.name == META if e.is_dir else data_name(e.name) is not None for e in entries)
