"""The storage sink as a source: finds the schema files and data files after a cursor.

The checkpoint in `metadata` is read before any listing, so all files that it covers are found: every row with a
commit_ts up to it is in the files of this scan or of earlier ones. A table whose files are not complete is held with a
`Problem` and delivers no files, so that no part of it is published; the others continue. The number of requests grows
with tables and new files, not with all files.

The old layout (`<version>/schema.json`, no index) and the current one are both read, also mixed below one root.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

from ticdc_assets.advice import Advice
from ticdc_assets.errors import NotYetError, SchemaError, SourceError
from ticdc_assets.protocols.storage.schema_file import SchemaFile, parse_schema_file
from ticdc_assets.sources.filesystem import OutsideError, Root
from ticdc_assets.sources.storage.cursor import Cursor, TableCursor, VersionState
from ticdc_assets.sources.storage.files import check_order, new_files
from ticdc_assets.sources.storage.folders import (
    NOTES_MAX,
    SCHEMA_BYTES_MAX,
    Folder,
    check_root_level,
    find_folders,
    listing,
)
from ticdc_assets.sources.storage.paths import META, METADATA, Layout, go_path_join, numeral, path_below, schema_name
from ticdc_assets.sources.storage.scan_result import FolderScan, Problem, ProblemKind, Scan, TableScan
from ticdc_assets.sources.storage.version_folder import HeldError, Skip, VersionFolder

METADATA_BYTES_MAX: Final = 4096
"""The file holds one number."""

_ADVICE_METADATA: Final = (
    'A file system cannot hold both: leave the database out of the changefeed in TiCDC (rules "!metadata.*"), and send '
    "it through an object store or Kafka."
)
_HELD: Final = (NotYetError, SchemaError, HeldError, OutsideError)


def read_checkpoint(root: Root) -> int | None:
    """The TSO up to which the bucket is complete; None if TiCDC has not written one yet. Raises SourceError also where
    a database has the name of TiCDC's file, and the store cannot hold both."""
    where = root.where(METADATA)
    try:
        content = root.read_bytes(METADATA, METADATA_BYTES_MAX)
    except NotYetError:
        return None
    except SourceError as error:
        if any(entry.name == METADATA and entry.is_dir for entry in listing(root, "")):
            found = "the folder of a database named metadata"
            raise SourceError(where, "TiCDC's file with its checkpoint", found, _ADVICE_METADATA) from error
        raise
    try:
        checkpoint = json.loads(content)["checkpoint-ts"]
    except (ValueError, RecursionError):
        raise NotYetError(where, "JSON", "half of it or another text", Advice.READ_AGAIN) from None
    except (KeyError, TypeError):
        raise _not_metadata(where, "another JSON") from None
    if not isinstance(checkpoint, int) or isinstance(checkpoint, bool) or not 0 < checkpoint < 1 << 63:
        raise _not_metadata(where, "another value")
    return checkpoint


def scan(
    root: Root,
    layout: Layout,
    cursor: Cursor,
    *,
    checkpoint_ts: int | None = None,
    skip_files: Sequence[str] = (),
    recognises_repeats: bool = False,
    kept_schemas: Container[str] | None = None,
) -> Scan:
    """The files after the cursor.

    Args:
        checkpoint_ts: a checkpoint that was read (or lowered) before this call; by default it is read first.
        skip_files: globs over paths below the root; these files count as consumed, whether they exist or not.
        recognises_repeats: whether repeats are recognised, so that a consumed file that has changed can be read again.
        kept_schemas: the paths of all schema files that were ever delivered, if they are kept; then a late schema file
            of a finished version is delivered too.
    """
    checkpoint_ts = read_checkpoint(root) if checkpoint_ts is None else checkpoint_ts
    if checkpoint_ts is None:
        check_root_level(root)
        return Scan(None, layout)
    found = find_folders(root, layout, cursor.tables)
    scanner = _Scanner(root, layout, cursor, checkpoint_ts, Skip(skip_files), recognises_repeats, kept_schemas)
    tables = root.map(scanner.table, found.folders)
    # A file that TiCDC was still writing when its index was read may be complete now, so that its table need not wait.
    tables = root.map(lambda pair: _second_look(scanner, *pair), list(zip(tables, found.folders, strict=True)))
    notes = sorted({*found.notes, *(note for table in tables for note in table.notes)})
    return Scan(checkpoint_ts, layout, tuple(tables), tuple(notes[:NOTES_MAX]), recognises_repeats)


def peek(root: Root, layout: Layout) -> tuple[int | None, str]:
    """The checkpoint, and a digest that changes when a table gets a version or a file; a hint for sensors.

    It takes at most three requests per table (one more per partition) and reads no file that grows.
    """
    checkpoint_ts = read_checkpoint(root)
    if checkpoint_ts is None:
        check_root_level(root)
    schemas = [e.name for e in listing(root, "") if e.is_dir]
    level = schemas if layout.table_id_as_path else _children(root, schemas)
    lines = root.map(lambda schema: _meta_line(root, schema), [] if layout.table_id_as_path else schemas)
    while level:
        states = root.map(lambda path: _folder_state(root, layout, path), level)
        lines += [state.line for state in states]
        level = [child for state in states for child in state.children]
    return checkpoint_ts, blake2b("\n".join(sorted(filter(None, lines))).encode(), digest_size=16).hexdigest()


def tables(root: Root, layout: Layout | None = None) -> list[tuple[str, str]]:
    """Schema and table of every table folder, from its newest readable schema file."""
    found = find_folders(root, layout or Layout(), {})
    names = root.map(lambda folder: _newest_names(root, folder), found.folders)
    return sorted({name for name in names if name and name[1]})


@dataclass(frozen=True, slots=True)
class _Scanner:
    """The parameters of one scan, which visits one table folder after another."""

    root: Root
    layout: Layout
    cursor: Cursor
    checkpoint_ts: int
    skip: Skip
    recognises_repeats: bool = False
    kept_schemas: Container[str] | None = None

    def table(self, folder: Folder) -> TableScan:
        """The new files of a table folder, or why the table is held."""
        state = self.cursor.tables.get(folder.path)
        files, problems = self._schema_files(folder, state)
        schema, table = _names(folder, state, files)
        found = TableScan(folder.path, schema, table, tuple(file for file, _ in files), _checksums(files))
        problems += self._unreadable(folder, found, state)
        if problems or not table:
            return replace(found, problems=tuple(problems))
        return self._with_files(folder, found, state)

    def _with_files(self, folder: Folder, found: TableScan, state: TableCursor | None) -> TableScan:
        versions: dict[int, tuple[FolderScan, ...]] = {}
        notes = [f"{file.where}: not the checksum of its name" for file in found.schema_files if not file.checksum_ok]
        closed_below = state.closed_below if state is not None else 0
        for version in sorted(v for v in folder.versions if v <= self.checkpoint_ts):
            version_folder = self._version_folder(found, state, version)
            try:
                versions[version] = new_files(version_folder)
                if version < closed_below and not self.recognises_repeats:
                    check_order(version_folder, versions[version], "a newer version of its table")
            except _HELD as error:
                return replace(found, problems=(Problem(error, version_folder.schema, version_folder.table),))
            notes += version_folder.notes
        return replace(found, versions=versions, notes=tuple(notes[:NOTES_MAX]))

    def _version_folder(self, found: TableScan, state: TableCursor | None, version: int) -> VersionFolder:
        by_version = {file.version: (file.schema, file.table) for file in found.schema_files}
        schema, table = by_version.get(version) or (state.names(version) if state else (found.schema, found.table))
        opened = state.open.get(version) if state else None
        return VersionFolder(
            root=self.root,
            layout=self.layout,
            skip=self.skip,
            folder=found.folder,
            version_ts=version,
            schema=schema,
            table=table,
            state=opened or VersionState(),
            relist=self.cursor.layout != self.layout.token,
            recognises_repeats=self.recognises_repeats,
        )

    def _schema_files(
        self, folder: Folder, state: TableCursor | None
    ) -> tuple[list[tuple[SchemaFile, str]], list[Problem]]:
        """New schema files with the checksums in their names, by version."""
        found: list[tuple[SchemaFile, str]] = []
        problems: list[Problem] = []
        for (version, checksum), name in sorted(folder.schemas.items()):
            path = path_below(folder.path, name)
            if version > self.checkpoint_ts or path in self.skip or self._is_known(state, version, checksum, path):
                continue
            file: SchemaFile | None = None
            try:
                file = parse_schema_file(self.root.read_bytes(path, SCHEMA_BYTES_MAX), path)
                self._check_names(folder, state, [*(f for f, _ in found), file])
                found.append((file, checksum))
            except _HELD as error:
                by_id = file is not None and numeral(folder.path) is not None and file.table
                names = (file.schema, file.table) if file is not None and by_id else _names(folder, state, found)
                problems.append(Problem(error, *names))
        return found, problems

    def _is_known(self, state: TableCursor | None, version: int, checksum: str, path: str) -> bool:
        if state is None:
            return False
        if version < state.closed_below:
            return self.kept_schemas is None or path in self.kept_schemas
        return checksum in state.schemas.get(version, ())

    def _check_names(self, folder: Folder, state: TableCursor | None, files: list[SchemaFile]) -> None:
        """Accept names only if TiCDC would have put them into this folder. Raises HeldError otherwise."""
        if self.layout.table_id_as_path and numeral(folder.path):
            return
        newest = files[-1]
        if numeral(folder.path) and newest.table:
            expected, found = "a database's folder", f"the table {newest.schema}.{newest.table} in a folder by its id"
            raise HeldError(self.root.where(newest.where), expected, found, Advice.SET_TABLE_ID_PATHS)
        if go_path_join(newest.schema, newest.table) != folder.path:
            expected = "names that lead to this folder"
            raise HeldError(self.root.where(newest.where), expected, "other names", Advice.MOVE_FILE)
        names = {(file.schema, file.table) for file in files} | ({(state.schema, state.table)} if state else set())
        if len(names) > 1:
            expected = "one table in this folder"
            raise HeldError(self.root.where(newest.where), expected, "two tables", Advice.SEPARATE_BUCKETS)

    def _unreadable(self, folder: Folder, found: TableScan, state: TableCursor | None) -> list[Problem]:
        """Problems of rows without a schema file, and of links."""
        readable = {*found.checksums, *(state.schemas if state else ())}
        unexplained = folder.orphans | (folder.versions - readable if found.table else frozenset())
        problems = []
        for version in sorted(v for v in unexplained if v <= self.checkpoint_ts):
            path = f"{folder.path}/{version}"
            if f"{path}/" not in self.skip:
                where, expected = self.root.where(path), f"{META}/schema_{version}_*.json for its rows"
                error = NotYetError(where, expected, "no readable one", Advice.RESTORE_SCHEMA_FILE)
                problems.append(Problem(error, found.schema, found.table))
        for name in folder.outside:
            where = self.root.where(path_below(folder.path, name))
            held = HeldError(where, "a folder inside the root", "a link that leaves it", Advice.REMOVE_LINK)
            problems.append(Problem(held, found.schema, found.table))
        return problems


def _second_look(scanner: _Scanner, table: TableScan, folder: Folder) -> TableScan:
    waits = table.problems and all(problem.kind is ProblemKind.WAITING for problem in table.problems)
    return scanner.table(folder) if waits else table


def _checksums(found: Iterable[tuple[SchemaFile, str]]) -> dict[int, tuple[str, ...]]:
    by_version: dict[int, tuple[str, ...]] = {}
    for file, checksum in found:
        by_version[file.version] = (*by_version.get(file.version, ()), checksum)
    return by_version


def _names(folder: Folder, state: TableCursor | None, found: list[tuple[SchemaFile, str]]) -> tuple[str, str]:
    """The newest names; without a readable schema file a guess, which is only shown in a Problem."""
    if found:
        return found[-1][0].schema, found[-1][0].table
    if state:
        return state.schema, state.table
    schema, _, table = folder.path.partition("/")
    return schema, table


def _newest_names(root: Root, folder: Folder) -> tuple[str, str] | None:
    for _, name in sorted(folder.schemas.items(), reverse=True):
        path = path_below(folder.path, name)
        try:
            file = parse_schema_file(root.read_bytes(path, SCHEMA_BYTES_MAX), path)
        except (NotYetError, SchemaError):
            continue
        if not file.is_of_view:
            return file.schema, file.table
    return None


@dataclass(frozen=True, slots=True)
class _FolderState:
    """One folder's line of the digest, and folders below it that may be tables."""

    line: str
    children: tuple[str, ...] = ()


def _children(root: Root, folders: Sequence[str]) -> list[str]:
    inner = root.map(lambda path: [f"{path}/{e.name}" for e in listing(root, path) if e.is_dir], folders)
    return [path for paths in inner for path in paths]


def _meta_line(root: Root, path: str) -> str:
    newest = _newest_schema(root, path)
    return f"{path}\0{newest}" if newest else ""


def _newest_schema(root: Root, path: str) -> tuple[int, str] | None:
    names = (schema_name(entry.name) for entry in listing(root, f"{path}/{META}"))
    return max((name for name in names if name), default=None)


def _folder_state(root: Root, layout: Layout, path: str) -> _FolderState:
    newest = _newest_schema(root, path)
    if newest is not None:
        return _FolderState(f"{path}\0{newest}\0{_newest_indexes(root, layout, f'{path}/{newest[0]}')}")
    entries = listing(root, path)
    versions = [e.name for e in entries if e.is_dir and numeral(e.name)]
    others = [f"{path}/{e.name}" for e in entries if e.is_dir and not numeral(e.name) and e.name != META]
    # only for the old layout and for names with slashes
    files = listing(root, f"{path}/{max(versions, key=int)}") if versions else []
    return _FolderState(f"{path}\0{versions}\0{[(e.name, e.size) for e in files]}", tuple(others[:NOTES_MAX]))


def _newest_indexes(root: Root, layout: Layout, path: str) -> list[str]:
    """The index of the newest folder of each partition of a version."""
    if not layout.dated:
        index = _index_text(root, layout, path)
        if index:
            return [index]
        return [_index_text(root, layout, f"{path}/{e.name}") for e in listing(root, path) if numeral(e.name)]
    names = [e.name for e in listing(root, path) if e.is_dir]
    dates = [name for name in names if layout.is_date(name)]
    found = [max(dates) + _index_text(root, layout, f"{path}/{max(dates)}")] if dates else []
    for partition in (name for name in names if numeral(name) and name not in dates):
        inner = [e.name for e in listing(root, f"{path}/{partition}") if layout.is_date(e.name)]
        found += (
            [f"{partition}/{max(inner)}{_index_text(root, layout, f'{path}/{partition}/{max(inner)}')}"]
            if inner
            else []
        )
    return found


def _index_text(root: Root, layout: Layout, path: str) -> str:
    names = [e.name for e in listing(root, f"{path}/{META}")] if layout.across_nodes else ["CDC.index"]
    texts = []
    for name in names:
        try:
            texts.append(root.read_bytes(f"{path}/{META}/{name}", METADATA_BYTES_MAX).hex())
        except NotYetError:
            continue
    return "".join(texts)


def _not_metadata(where: str, found: str) -> SourceError:
    return SourceError(where, '{"checkpoint-ts": TSO}', found, "Check that this is the root of a TiCDC storage sink.")
