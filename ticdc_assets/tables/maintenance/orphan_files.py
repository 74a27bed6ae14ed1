"""Files that no table needs: those of killed or overtaken runs, and those of expired snapshots.

A file is an orphan if it is below a table's location, is older than a safe age, and no snapshot of any table of the
catalog that has files there references it. The order makes it safe: list the files first, then read the references, and
read them again where a table changed meanwhile. A location with anything unexpected is left unchanged.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow.fs as pafs
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from ticdc_assets.errors import SourceError
from ticdc_assets.store_answers import advice_for, store_code

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.snapshots import Snapshot

REQUESTS_AT_ONCE: Final = 16
"""Concurrent requests to a remote store."""

_METADATA: Final = ".metadata.json"
_OURS: Final = (".parquet", ".orc", ".avro", ".puffin", ".stats", _METADATA)
"""The suffixes of files that Iceberg's writers write; other files are never removed."""

Without = Mapping[str, Collection[int]]
"""By table uuid, snapshots to treat as expired."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file without references. `path` is its path in the file system that listed it."""

    uri: str
    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """The result for one location. `left_alone` is the reason where the location was left unchanged."""

    location: str
    leftovers: tuple[Leftover, ...] = ()
    left_alone: str = ""


class _UnexpectedError(Exception):
    """Raised when a location has something unexpected."""


# -- all tables of the catalog ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SharedTable:
    """A table of the catalog and the known folders of its files."""

    table: Table
    folders: frozenset[str]

    def reaches(self, folder: str) -> bool:
        """Whether `folder` is inside a folder of the table, or contains one."""
        return any(_within(place, folder) or _within(folder, place) for place in self.folders)


def neighbours(catalog: Catalog) -> list[SharedTable]:
    """Every table of the catalog. Raises SourceError where one cannot be read: it may reference any file."""
    found = []
    for namespace in _namespaces(catalog, ()):
        for identifier in catalog.list_tables(namespace):
            with suppress(NoSuchTableError):
                table = _loaded(catalog, tuple(identifier))
                found.append(SharedTable(table, frozenset(_folders(table))))
    return found


def _folders(table: Table) -> Iterator[str]:
    yield name_of(table.location())
    for name in ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"):
        if name in table.properties:
            yield name_of(table.properties[name])
    for uri in (table.metadata_location, *(snapshot.manifest_list for snapshot in table.metadata.snapshots)):
        yield name_of(uri).rpartition("/")[0]


def _within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith(f"{outer}/")


def _loaded(catalog: Catalog, identifier: tuple[str, ...]) -> Table:
    try:
        return catalog.load_table(identifier)
    except NoSuchTableError:
        raise
    except Exception as error:
        advice = "Repair or drop it: while it cannot be read, its files are not known, and none is removed."
        raise SourceError(".".join(identifier), "a table that can be read", type(error).__name__, advice) from error


def _namespaces(catalog: Catalog, parent: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    with suppress(NoSuchNamespaceError):
        for namespace in map(tuple, catalog.list_namespaces(parent)):
            if len(namespace) > len(parent):
                yield namespace
                yield from _namespaces(catalog, namespace)


# -- what tables name --------------------------------------------------------------------------------------------------


class References:
    """The files that tables reference; each manifest is read once."""

    def __init__(self) -> None:
        self._manifests: dict[str, frozenset[str]] = {}

    def of(self, table: Table, without: Collection[int] = ()) -> set[str]:
        """Metadata, manifest lists, manifests, data and delete files, statistics; of snapshots not in `without`."""
        metadata = table.metadata
        uris = [table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)]
        statistics = [*metadata.statistics, *metadata.partition_statistics]
        uris.extend(file.statistics_path for file in statistics if file.snapshot_id not in without)
        named = {name_of(uri) for uri in uris}
        for snapshot in metadata.snapshots:
            if snapshot.snapshot_id not in without:
                named |= self.of_snapshot(table, snapshot)
        return named

    def of_snapshot(self, table: Table, snapshot: Snapshot) -> set[str]:
        """The files that one snapshot references."""
        named = {name_of(snapshot.manifest_list)}
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in self._manifests:
                self._manifests[manifest.manifest_path] = _live(table, manifest)
            named.add(name_of(manifest.manifest_path))
            named |= self._manifests[manifest.manifest_path]
        return named


def _live(table: Table, manifest: ManifestFile) -> frozenset[str]:
    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    return frozenset(name_of(entry.data_file.file_path) for entry in entries)


def name_of(uri: str) -> str:
    """The URI in one spelling: writers differ in file:/a, file:///a and /a, and in s3:// and s3a://."""
    scheme, colon, rest = uri.partition(":")
    path = rest if colon and scheme.isalnum() else uri
    return "/".join(part for part in path.split("/") if part)


# -- one location ------------------------------------------------------------------------------------------------------


def sweep(
    catalog: Catalog, table: Table, others: Sequence[SharedTable], older_than: datetime, without: Without, remove: bool
) -> CleanupReport:
    """Find the orphan files below a table's location, and remove them if `remove`.

    Args:
        others: all tables of the catalog, as loaded before; each is loaded again here.
        older_than: younger files stay.
        without: snapshots whose files count as orphans, by table uuid.

    Returns:
        The files, or the reason why the location was left unchanged.
    """
    location = table.location().rstrip("/")
    sharing = [other.table for other in others if other.reaches(name_of(location))]
    try:
        files, filesystem = _listed(table, location)
        references = References()
        _check_names(table, references, files)
        now = [fresh for fresh in (_again(catalog, other) for other in sharing) if fresh is not None]
        _check_owners(filesystem, files, references, now)
        found = _unnamed(files, _named(references, now, without), older_than)
        _check_links(filesystem, location, found)
        if remove and found:
            later = [fresh for fresh in (_again(catalog, other) for other in now) if fresh is not None]
            if [t.metadata_location for t in later] != [t.metadata_location for t in now]:
                found = _unnamed(files, _named(references, later, without), older_than)
            _remove(filesystem, found)
    except _UnexpectedError as error:
        return CleanupReport(location, left_alone=str(error))
    except (OSError, ValueError) as error:
        return CleanupReport(location, left_alone=_ended_with(error))
    return CleanupReport(
        location, tuple(Leftover(f"{location}{key}", i.path, i.size or 0) for key, i in sorted(found.items()))
    )


def _ended_with(error: OSError | ValueError) -> str:
    """What a store or a library refused, as a reason. Files may be gone already: no table needs those."""
    code = store_code(error) if isinstance(error, OSError) else None
    todo = advice_for(code) if code else None
    reason = f"reading it or removing files ended with {code or type(error).__name__}"
    return f"{reason}. {todo} Then run maintain again" if todo else reason


def _again(catalog: Catalog, table: Table) -> Table | None:
    """The table's current state, also after a rename; None where it was dropped since."""
    try:
        return catalog.load_table(table.name())
    except NoSuchTableError:
        uuid = table.metadata.table_uuid
        return next((n.table for n in neighbours(catalog) if n.table.metadata.table_uuid == uuid), None)


class _Files(dict[str, pafs.FileInfo]):
    """Files by their path below a location, as listed at one moment."""

    def __init__(self, location: str, found: Mapping[str, pafs.FileInfo]) -> None:
        super().__init__(found)
        self.location = location

    def named(self, key: str) -> str:
        """The URI by which a table references this file; that of a checksum file is its data file's."""
        folder, _, base = key.rpartition("/")
        if base.startswith(".") and base.endswith(".crc"):
            base = base[1:].removesuffix(".crc")
        return name_of(f"{self.location}{folder}/{base}")


def _listed(table: Table, location: str) -> tuple[_Files, pafs.FileSystem]:
    filesystem, base = _filesystem(table.io, location)
    found = filesystem.get_file_info(pafs.FileSelector(base, recursive=True))
    if any(not info.path.startswith(f"{base}/") for info in found):
        raise _UnexpectedError("the store lists its files under another path")
    files = {info.path[len(base) :]: info for info in found if info.type == pafs.FileType.File}
    return _Files(location, files), filesystem


def _filesystem(io: Any, location: str) -> tuple[pafs.FileSystem, str]:
    """The file system that reads the table's own files, and the location's path in it."""
    if isinstance(io, PyArrowFileIO):
        scheme, netloc, path = io.parse_location(location, io.properties)
        return io.fs_by_scheme(scheme, netloc), path.rstrip("/")
    if hasattr(io, "get_fs"):
        scheme, _, rest = location.partition("://")
        filesystem = io.get_fs(scheme, rest.partition("/")[0].rpartition("@")[2])
        base = str(filesystem._strip_protocol(location)).rstrip("/")  # noqa: SLF001  fsspec has no public function for it
        return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem)), base
    raise _UnexpectedError(f"files of {type(io).__name__} cannot be listed")


# -- what makes a location one that can be judged ----------------------------------------------------------------------


def _check_names(table: Table, references: References, files: _Files) -> None:
    """Check that the listing has the table's own files; else URIs are spelled differently, and all seem unused."""
    snapshot = table.current_snapshot()
    wanted = references.of_snapshot(table, snapshot) if snapshot else set()
    seen = {files.named(key) for key in files}
    if not wanted | {name_of(table.metadata_location)} <= seen:
        raise _UnexpectedError("files that its table names are not listed there")


def _check_owners(filesystem: pafs.FileSystem, files: _Files, references: References, tables: Iterable[Table]) -> None:
    """Metadata of a table that this catalog does not have: another catalog may use the same folder."""
    known = {str(table.metadata.table_uuid) for table in tables}
    named = {name_of(uri) for table in tables for uri in _metadata_files(table)}
    for key, info in files.items():
        if key.endswith(_METADATA) and files.named(key) not in named and _owner(filesystem, info) not in known:
            raise _UnexpectedError("it also holds metadata of a table that is not in this catalog")


def _metadata_files(table: Table) -> list[str]:
    return [table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]


def _owner(filesystem: pafs.FileSystem, info: pafs.FileInfo) -> str:
    compression = "gzip" if info.path.endswith(f".gz{_METADATA}") else None
    with filesystem.open_input_stream(info.path, compression=compression) as stream:
        return str(json.loads(stream.read()).get("table-uuid", ""))


def _check_links(filesystem: pafs.FileSystem, location: str, found: Mapping[str, pafs.FileInfo]) -> None:
    """Refuse a link inside a local folder: it may lead to files of another owner."""
    if not isinstance(filesystem, pafs.LocalFileSystem):
        return
    for key, info in found.items():
        base = info.path.removesuffix(key)
        if os.path.realpath(info.path) != os.path.realpath(base) + key:
            raise _UnexpectedError("a link in it leads elsewhere")


# -- which, and away ---------------------------------------------------------------------------------------------------


def _named(references: References, tables: Iterable[Table], without: Without) -> set[str]:
    named: set[str] = set()
    for table in tables:
        named |= references.of(table, without.get(str(table.metadata.table_uuid), ()))
    return named


def _unnamed(files: _Files, named: Collection[str], older_than: datetime) -> dict[str, pafs.FileInfo]:
    found = {
        key: info
        for key, info in files.items()
        if key.removesuffix(".crc").endswith(_OURS) and files.named(key) not in named
    }
    if any(info.mtime is None for info in found.values()):
        raise _UnexpectedError("its store does not show how old files are")
    return {key: info for key, info in found.items() if info.mtime < older_than}


def _remove(filesystem: pafs.FileSystem, found: Mapping[str, pafs.FileInfo]) -> None:
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        list(pool.map(partial(_delete, filesystem), [info.path for info in found.values()]))


def _delete(filesystem: pafs.FileSystem, path: str) -> None:
    with suppress(FileNotFoundError):
        filesystem.delete_file(path)
