"""The numbered files of a data folder, by TiCDC's index files, or by a listing where these cannot be used.

`meta/CDC.index` names the last file of its folder; each node that writes a table has an index and numbers of its own.
A folder is listed if it has no index (old clusters wrote none, and it may be lost).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ticdc_assets.advice import Advice
from ticdc_assets.errors import NotYetError
from ticdc_assets.sources.filesystem import Entry
from ticdc_assets.sources.storage.data_folders import DataFolder
from ticdc_assets.sources.storage.folders import listing
from ticdc_assets.sources.storage.paths import META, DataName, data_name, index_dispatcher, path_below
from ticdc_assets.sources.storage.scan_result import Done
from ticdc_assets.sources.storage.version_folder import HeldError, VersionFolder

INDEX_BYTES_MAX: Final = 4096
"""An index holds one file name."""

NOTHING_DONE: Final = Done(0, 0)


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
