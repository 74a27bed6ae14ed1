"""Finds the table folders of a bucket by their schema files, not by their names.

A walk goes from the root down to table folders, with one listing per folder, and never into data folders. A folder is a
table's (or a database's) if it contains `meta/schema_<version>_<checksum>.json`, or `<version>/schema.json` of old
clusters. A table folder may contain another one, since names may contain slashes, and any level may consist of digits
or be named `meta`. Anything else is noted, and followed only as deep as names can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ticdc_assets.errors import NotYetError, SchemaError, SourceError
from ticdc_assets.protocols.storage.schema_file import parse_schema_file
from ticdc_assets.sources.filesystem import Entry, Root
from ticdc_assets.sources.storage.cursor import TableCursor
from ticdc_assets.sources.storage.paths import (
    META,
    METADATA,
    OLD_SCHEMA,
    Layout,
    data_name,
    go_path_join,
    index_dispatcher,
    numeral,
    path_below,
    schema_name,
)

FOLDER_DEPTH_MAX: Final = 8
"""A name of 64 characters can hold more slashes, but none does in practice; the limit ends the walk of other trees."""

NOTES_MAX: Final = 100

SCHEMA_BYTES_MAX: Final = 16 << 20
"""A schema with 4096 columns and long defaults is far smaller."""

_FOLDERS_MAX: Final = 20
"""Folders below the root that are looked into."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder with schema files, by version and checksum; `orphans` are versions with rows but without a schema."""

    path: str
    schemas: Mapping[tuple[int, str], str]
    versions: frozenset[int] = frozenset()
    orphans: frozenset[int] = frozenset()
    outside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Folders:
    """All table and database folders of a bucket, by path, and notes on other content."""

    folders: tuple[Folder, ...]
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Visit:
    """A folder to visit, and the result."""

    path: str
    depth: int
    entries: list[Entry] | None = None
    folder: Folder | None = None
    children: list[_Visit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find_folders(root: Root, layout: Layout, known: Mapping[str, TableCursor]) -> Folders:
    """Every table and database folder below the root; with `known`, finished versions are not listed."""
    found: list[Folder] = []
    notes: list[str] = []
    level = [_Visit("", 0)]
    while level:
        visited = root.map(lambda visit: _visited(root, layout, known, visit), level)
        found += [visit.folder for visit in visited if visit.folder is not None]
        notes += [note for visit in visited for note in visit.notes]
        level = [child for visit in visited for child in visit.children]
    return Folders(tuple(sorted(found, key=lambda folder: folder.path)), tuple(sorted(notes)[:NOTES_MAX]))


def listing(root: Root, path: str) -> list[Entry]:
    """The content of a folder; empty if the folder does not exist."""
    try:
        return root.list_dir(path)
    except NotYetError:
        return []


def looks_like_data(root: Root, path: str, entries: list[Entry], levels: int = 2) -> bool:
    """Whether a folder with these entries has data files, directly or up to `levels` folders by partition and date
    below it."""
    if any(data_name(e.name) and not e.is_dir for e in entries):
        return True
    folders = [e.name for e in entries if e.is_dir]
    meta = listing(root, f"{path}/{META}") if META in folders else []
    if any(schema_name(e.name) for e in meta):
        return False  # a separate table
    if any(index_dispatcher(e.name)[0] for e in meta):
        return True
    dated = [name for name in folders if name[:1].isdigit()]
    return levels > 0 and any(
        looks_like_data(root, f"{path}/{name}", listing(root, f"{path}/{name}"), levels - 1) for name in dated
    )


def _visited(root: Root, layout: Layout, known: Mapping[str, TableCursor], visit: _Visit) -> _Visit:
    entries = listing(root, visit.path) if visit.entries is None else visit.entries
    strays = [e for e in entries if not e.is_dir and not _belongs(visit, e.name)][:NOTES_MAX]
    visit.notes += [_foreign(root, path_below(visit.path, e.name), e.outside) for e in strays]
    if visit.depth == 0:
        for e in entries:
            if e.is_dir:
                _go_down(root, visit, e.name)
        return visit
    folders = {e.name for e in entries if e.is_dir}
    meta = listing(root, f"{visit.path}/{META}") if META in folders else []
    schemas = {named: f"{META}/{e.name}" for e in meta if not e.is_dir and (named := schema_name(e.name))}
    outside = tuple(e.name for e in entries if e.outside and (numeral(e.name) or e.name == META))
    if any(e.is_dir for e in meta):
        _go_down(root, visit, META, meta)
    if visit.depth == 1 and not (layout.table_id_as_path and numeral(visit.path)):
        _schema_folder(root, visit, folders, schemas, outside)
    else:
        _table_folder(root, visit, folders, schemas, outside, known.get(visit.path))
    return visit


def _schema_folder(
    root: Root, visit: _Visit, folders: set[str], schemas: dict[tuple[int, str], str], outside: tuple[str, ...]
) -> None:
    """A database's folder: everything in it except its own schema files belongs to a table, whatever its name."""
    for name in sorted(folders - {META}):
        _go_down(root, visit, name)
    if schemas:
        versions = frozenset(number for name in folders if (number := numeral(name)))
        visit.folder = Folder(visit.path, schemas, versions, outside=outside)


def _table_folder(
    root: Root,
    visit: _Visit,
    folders: set[str],
    schemas: dict[tuple[int, str], str],
    outside: tuple[str, ...],
    state: TableCursor | None,
) -> None:
    announced = {version for version, _ in schemas} | set(state.schemas if state else ())
    versions = {
        number: name for name in folders if (number := numeral(name)) and (state is None or state.is_open(number))
    }
    orphans = set()
    for number, name in sorted(versions.items()):
        if number not in announced and not _is_version(root, visit, number, name, schemas):
            orphans.add(number)
    for name in sorted(folders - {META}):
        if numeral(name) is None:
            _go_down(root, visit, name)
    if schemas or state or orphans or outside:
        real = frozenset(number for number in versions if number in announced or (number, OLD_SCHEMA) in schemas)
        visit.folder = Folder(visit.path, schemas, real, frozenset(orphans), outside)


def _is_version(root: Root, visit: _Visit, number: int, name: str, schemas: dict[tuple[int, str], str]) -> bool:
    """Classify a folder of digits without a schema file; False if it holds rows, which then cannot be read."""
    path = f"{visit.path}/{name}"
    entries = listing(root, path)
    if any(e.name == OLD_SCHEMA and not e.is_dir for e in entries):
        schemas[number, OLD_SCHEMA] = f"{name}/{OLD_SCHEMA}"
        return True
    if looks_like_data(root, path, entries):
        return False
    if entries:
        _go_down(root, visit, name, entries)
    return True


def _go_down(root: Root, visit: _Visit, name: str, entries: list[Entry] | None = None) -> None:
    path = path_below(visit.path, name)
    if visit.depth >= FOLDER_DEPTH_MAX or not can_be_followed(name):
        visit.notes.append(_foreign(root, path))
    else:
        visit.children.append(_Visit(path, visit.depth + 1, entries))


def can_be_followed(name: str) -> bool:
    """Whether a name can be in a path: object stores may have empty levels, and old file systems invalid UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return name not in (".", "..") and "\0" not in name


def _belongs(visit: _Visit, name: str) -> bool:
    """Whether a file may be in a folder of this walk: in a folder named `meta`, the schema files of its parent."""
    return name == METADATA if visit.depth == 0 else schema_name(name) is not None


def _foreign(root: Root, path: str, outside: bool = False) -> str:
    found = "a link that leaves the root" if outside else "not something that TiCDC writes there"
    return f"{root.where(path)!a}: {found}"


# -- a configured folder that is one level above or below the root -----------------------------------------------------


def check_root_level(root: Root) -> None:
    """For a folder without TiCDC's file `metadata`.

    Raises:
        SourceError: a folder below it has the file, or the folders below it are tables, not databases.
    """
    folders = (entry.name for entry in listing(root, "") if entry.is_dir and can_be_followed(entry.name))
    for name in islice(folders, _FOLDERS_MAX):
        if any(entry.name == METADATA and not entry.is_dir for entry in listing(root, name)):
            advice = f"Set the path in the config to the folder {name}."
            raise SourceError(
                root.where(METADATA), "TiCDC's file with its checkpoint", f"it one level below, in {name}", advice
            )
        database = _database_of_table(root, name)
        if database is not None:
            advice = (
                f"Set the path in the config to the folder that holds the folder {database} and the file {METADATA}."
            )
            raise SourceError(
                root.where(name), "the folder of a database", f"a table of the database {database}", advice
            )


def _database_of_table(root: Root, folder: str) -> str | None:
    """The database of the table whose schema files are in this folder, if TiCDC would write them one level deeper."""
    files = [entry.name for entry in listing(root, f"{folder}/{META}") if schema_name(entry.name)]
    for path in (f"{folder}/{META}/{name}" for name in files[:1]):
        try:
            file = parse_schema_file(root.read_bytes(path, SCHEMA_BYTES_MAX), path)
        except (NotYetError, SchemaError):
            continue
        if file.table and go_path_join(file.schema, file.table) == go_path_join(file.schema, folder):
            return file.schema
    return None
