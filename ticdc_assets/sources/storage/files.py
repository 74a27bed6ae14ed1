"""Finds the data files of one table version after a cursor by TiCDC's index files.

`meta/CDC.index` names the last file of its folder, and files are numbered from 1. So the names of new files follow from
the cursor and the index, and data folders are usually not listed. A folder is listed if it has no index (old clusters
wrote none, and it may be lost), if names are not as wide as in the index, or if most of the folder is new. Beyond the
index only the next file is requested, since TiCDC continues if it cannot write an index. Deviations from TiCDC's output
are raised for the whole table: NotYetError if the file may still come, HeldError if a user must act.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ticdc_assets.advice import Advice
from ticdc_assets.errors import NotYetError, TicdcAssetsError
from ticdc_assets.plurals import counted
from ticdc_assets.sources.filesystem import Entry
from ticdc_assets.sources.storage.folders import listing
from ticdc_assets.sources.storage.paths import (
    META,
    DataName,
    SourceFile,
    data_name,
    index_dispatcher,
    numeral,
    path_below,
)
from ticdc_assets.sources.storage.scan_result import Done, FolderScan, Place
from ticdc_assets.sources.storage.version_folder import DataFolder, HeldError, VersionFolder, data_folders

ASKED_ONE_BY_ONE: Final = 16
"""Up to this number, files are measured by name in a folder of any size; above it, listings may be cheaper."""
INDEX_BYTES_MAX: Final = 4096
"""An index holds one file name."""

NOTHING_DONE: Final = Done(0, 0)


def new_files(version: VersionFolder) -> tuple[FolderScan, ...]:
    """The new files of every folder that can still get files."""
    folders = data_folders(version)
    newest = {folder.partition: folder for folder in sorted(folders, key=lambda folder: folder.date)}
    found = tuple(
        _scan_sequence(version, folder, each)
        for folder in folders
        for each in sequences(version, folder, folder == newest[folder.partition])
    )
    if not version.recognises_repeats:
        over = version.state.over
        check_order(
            version, (f for f in found if f.partition in over and over[f.partition].passed(f.date)), "a later date"
        )
    return found


def _scan_sequence(version: VersionFolder, folder: DataFolder, sequence: FileSequence) -> FolderScan:
    place = (folder.path, sequence.dispatcher)
    done = version.state.done.get(place, NOTHING_DONE)
    path = path_below(version.path, folder.path)
    seen = version.state.seen.get(place, NOTHING_DONE)
    sequence, named, done = _after_index(version, place, sequence, done)
    if sequence.last < done.number:
        done = seen = _begun_again(version, path, sequence, done)
    sequence = _with_unnamed(version, path, folder, sequence)
    sizes = _sizes(version, path, folder, sequence, done)
    if _has_changed(version, done, sizes):
        done = _before_changed(version, done, sizes)
        sizes = _sizes(version, path, folder, sequence, done)
    skipped: dict[int, int] = {}
    files: list[SourceFile] = []
    for number in range(done.number + 1, sequence.last + 1):
        file, size = sizes.get(number) or (f"{path}/{file_name(version, sequence, number)}", None)
        if file in version.skip:
            skipped[number] = size or 0
        elif size:
            files.append(_file(version, folder, sequence, number, file, size))
        else:
            raise _absent(version, file, size, number, sequence, sizes)
    last, is_listed = sequence.last, sequence.listed is not None
    return FolderScan(place, folder.partition, folder.date, done, last, tuple(files), skipped, seen, is_listed, named)


def _after_index(
    version: VersionFolder, place: Place, sequence: FileSequence, done: Done
) -> tuple[FileSequence, int | None, Done]:
    """The sequence, the number in its index, and the last file that need not be read again.

    If a run read files that the index did not name, TiCDC may have restarted and written their numbers a second time.
    Then they are read again as soon as the index changes.
    """
    if sequence.listed is not None:
        return sequence, None, done
    named, before = sequence.last, version.state.named.get(place)
    if before is not None and before == named:
        sequence = replace(sequence, last=max(named, done.number))
    elif before is not None and version.recognises_repeats and before < done.number:
        done = Done(before, 0)
    return sequence, named, done


def _begun_again(version: VersionFolder, path: str, sequence: FileSequence, done: Done) -> Done:
    """The place before all files, where the index fell back: TiCDC lost it, and writes old numbers again with other
    rows. Raises HeldError if repeats in them cannot be recognised."""
    if version.recognises_repeats:
        return NOTHING_DONE
    found = f"an index that fell back to {sequence.last}"
    expected = f"file {done.number} or a later one"
    raise HeldError(version.root.where(path), expected, found, Advice.RESTORE_FILES_AND_INDEX)


def _sizes(
    version: VersionFolder, path: str, folder: DataFolder, sequence: FileSequence, done: Done
) -> Mapping[int, tuple[str, int | None]]:
    """Path and size of each existing file, from the last consumed one on."""
    if sequence.listed is not None:
        return sequence.listed
    new = sequence.last - done.number
    if new <= ASKED_ONE_BY_ONE or new < sequence.last // 1000:
        numbers = range(max(done.number, 1), sequence.last + 1)
        names = {number: f"{path}/{file_name(version, sequence, number)}" for number in numbers}
        sizes = version.root.sizes(list(names.values()))
        found = {number: (name, sizes[name]) for number, name in names.items()}
        if all(size is not None for number, (_, size) in found.items() if done.number < number < sequence.last):
            return found
    return files_by_number(version, path, version.entries(folder.path), sequence.dispatcher)


def _with_unnamed(version: VersionFolder, path: str, folder: DataFolder, sequence: FileSequence) -> FileSequence:
    """The sequence with the files directly after the one in the index: TiCDC continues if it cannot write an index.

    One file is requested; if it exists, the folder is listed.
    """
    following = f"{path}/{file_name(version, sequence, sequence.last + 1)}"
    if sequence.listed is not None or not version.root.sizes([following])[following]:
        return sequence
    listed, last = files_by_number(version, path, version.entries(folder.path), sequence.dispatcher), sequence.last
    while listed.get(last + 1, ("", 0))[1]:
        last += 1
    return replace(sequence, last=last)


def _has_changed(version: VersionFolder, done: Done, sizes: Mapping[int, tuple[str, int | None]]) -> bool:
    """Whether the last consumed file now has another size. A deleted file has not changed."""
    file, size = sizes.get(done.number, ("", None))
    return bool(size and done.size and size != done.size and file not in version.skip)


def _before_changed(version: VersionFolder, done: Done, sizes: Mapping[int, tuple[str, int | None]]) -> Done:
    """The place before the last consumed file, so that it is read again; before all files if it is smaller than it was:
    then it is another file, as those before it may be.

    A larger file was incomplete or is another one. Raises HeldError if repeats in it cannot be recognised.
    """
    file, size = sizes[done.number]
    if version.recognises_repeats:
        return Done(done.number - 1, 0) if size is not None and size > done.size else NOTHING_DONE
    expected = f"{done.size} bytes, as when it was read"
    raise HeldError(version.root.where(file), expected, f"{size} bytes", Advice.RESTORE_REWRITTEN_FILE)


def _absent(
    version: VersionFolder,
    file: str,
    size: int | None,
    number: int,
    sequence: FileSequence,
    sizes: Mapping[int, tuple[str, int | None]],
) -> TicdcAssetsError:
    where, found = version.root.where(file), "no such file" if size is None else "an empty file"
    later = [n for n, (_, later_size) in sizes.items() if number < n <= sequence.last and later_size]
    if later:
        return HeldError(where, f"a file, since there is number {min(later)}", found, Advice.RESTORE_FILE)
    return NotYetError(where, "the file that the index names", found, Advice.AWAIT_FILE)


def _file(
    version: VersionFolder, folder: DataFolder, sequence: FileSequence, number: int, path: str, size: int
) -> SourceFile:
    return SourceFile(
        path=path,
        size=size,
        schema=version.schema,
        table=version.table,
        version=version.version_ts,
        partition_id=numeral(folder.partition),
        date=folder.date or None,
        dispatcher=sequence.dispatcher,
        number=number,
    )


def check_order(version: VersionFolder, folders: Iterable[FolderScan], other: str) -> None:
    """Raise HeldError for new files in folders that should have none, where the order of arrival is that of the rows.

    Args:
        other: the folder whose files were read before.
    """
    for folder in folders:
        if folder.files:
            where = version.root.where(folder.files[0].path)
            expected = f"no new file there, since files of {other} were read and rows without commit_ts are in order"
            found = f"{counted(len(folder.files), 'file')} that came later"
            raise HeldError(where, expected, found, Advice.SKIP_REPEATED_FILES)


# -- the numbered files of a data folder; each node that writes a table has an index and numbers of its own ------------


@dataclass(frozen=True, slots=True)
class FileSequence:
    """The files of one folder with a common numbering, up to `last`; `listed` if the folder was listed."""

    dispatcher: str | None
    last: int
    digits: int
    listed: Mapping[int, tuple[str, int]] | None = None


def sequences(version: VersionFolder, folder: DataFolder, is_newest: bool) -> list[FileSequence]:
    known = {dispatcher for place, dispatcher in version.state.done if place == folder.path}
    path = path_below(version.path, folder.path)
    found: list[FileSequence] = []
    # In the newest folders indexes are listed: one with a dispatcher shows that the table is spread over nodes.
    if known == {None} and not version.relist and not version.layout.across_nodes and not is_newest:
        found = _indexed(version, path, [None])
    if not found:
        names = [index_dispatcher(e.name) for e in listing(version.root, f"{path}/{META}") if not e.is_dir]
        indexed = [dispatcher for is_index, dispatcher in names if is_index]
        known |= {dispatcher for dispatcher in indexed if _index_path(path, dispatcher) in version.skip}
        found = _indexed(version, path, indexed)
    lost = known - {sequence.dispatcher for sequence in found}
    return found if found and not lost else found + _unindexed(version, path, folder, lost if found else None)


def _indexed(version: VersionFolder, path: str, dispatchers: list[str | None]) -> list[FileSequence]:
    found = []
    for dispatcher in sorted(dispatchers, key=lambda d: d or ""):
        index = _index_path(path, dispatcher)
        if index in version.skip:
            continue
        try:
            content = version.root.read_bytes(index, INDEX_BYTES_MAX)
        except NotYetError:
            continue
        last = _index(version, content, version.root.where(index), dispatcher)
        found.append(FileSequence(dispatcher, last.number, last.digits))
    return found


def _index_path(path: str, dispatcher: str | None) -> str:
    return f"{path}/{META}/CDC{'' if dispatcher is None else f'_{dispatcher}'}.index"


def _index(version: VersionFolder, content: bytes, where: str, dispatcher: str | None) -> DataName:
    last = data_name(content.decode(errors="replace").removesuffix("\n"))
    if last is None:
        raise NotYetError(where, "the name of a data file", "half of one or another text", Advice.READ_AGAIN)
    if last.extension != version.layout.extension:
        expected = f"a .{version.layout.extension} file"
        raise HeldError(where, expected, f"one of .{last.extension}", Advice.SET_PROTOCOL)
    if last.dispatcher != dispatcher:
        raise HeldError(where, "the index of its own files", "the name of another's", Advice.RESTORE_INDEX)
    return last


def _unindexed(
    version: VersionFolder, path: str, folder: DataFolder, wanted: set[str | None] | None
) -> list[FileSequence]:
    entries = version.entries(folder.path)
    names = {name.dispatcher for e in entries if (name := version.own(e))}
    sequences = []
    for dispatcher in sorted(names if wanted is None else names & wanted, key=lambda d: d or ""):
        listed = files_by_number(version, path, entries, dispatcher)
        done = version.state.done.get((folder.path, dispatcher), NOTHING_DONE)
        sequences.append(FileSequence(dispatcher, max(done.number, *listed), version.layout.index_digits, listed))
    version.note_strays(path, entries, {e.name for e in entries if e.is_dir} if folder.date else set())
    return sequences


def files_by_number(
    version: VersionFolder, path: str, entries: list[Entry], dispatcher: str | None
) -> dict[int, tuple[str, int]]:
    found: dict[int, tuple[str, int]] = {}
    for entry in entries:
        name = version.own(entry)
        if name is None or name.dispatcher != dispatcher:
            continue
        if name.number in found and f"{path}/{entry.name}" in version.skip:
            continue
        if name.number in found and found[name.number][0] not in version.skip:
            two = f"{found[name.number][0].rpartition('/')[2]} and {entry.name}"
            raise HeldError(version.root.where(path), f"one file of number {name.number}", two, Advice.REMOVE_ONE_FILE)
        found[name.number] = (f"{path}/{entry.name}", entry.size)
    return found


def file_name(version: VersionFolder, sequence: FileSequence, number: int) -> str:
    # A number as wide as its name may have outgrown the width; names of the files before it are then narrower.
    digits = min(sequence.digits, version.layout.index_digits) if _outgrown(version, sequence) else sequence.digits
    return version.layout.data_name(sequence.dispatcher, number, digits)


def _outgrown(version: VersionFolder, sequence: FileSequence) -> bool:
    return len(str(sequence.last)) == sequence.digits
