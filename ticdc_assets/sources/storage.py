"""The storage sink as a source: which schema files and data files have come since a cursor.

In go a root, the changefeed's layout and a cursor; out comes a `Scan`. The checkpoint in `metadata` is read before
anything is listed, so that all files it speaks for are seen: every row with a commit_ts up to it is in the files of
this scan or of earlier ones. A table whose files are not complete is held with a `Problem` that says why, and offers
no files, so that nobody publishes a part of it; the others go on. Requests grow with tables and new files, not with
all files.

The old layout (`<version>/schema.json`, no index) and today's are both read, mixed below one root if need be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

from ticdc_assets.errors import NotYetError, SchemaError, SourceError
from ticdc_assets.protocols.storage_schema import SchemaFile, parse_schema_file
from ticdc_assets.sources.filesystem import OutsideError, Root
from ticdc_assets.sources.storage_cursor import (
    Cursor,
    FolderScan,
    Problem,
    ProblemKind,
    Scan,
    TableScan,
    TableState,
    VersionState,
)
from ticdc_assets.sources.storage_files import HeldError, Skip, VersionReader
from ticdc_assets.sources.storage_folders import NOTES_MAX, Folder, find_folders, listing
from ticdc_assets.sources.storage_paths import META, METADATA, Layout, below, joined, numeral, schema_name

METADATA_BYTES_MAX: Final = 4096
"""The file holds one number."""

SCHEMA_BYTES_MAX: Final = 16 << 20
"""4096 columns with long defaults stay far below."""

_HELD: Final = (NotYetError, SchemaError, HeldError, OutsideError)


def read_checkpoint(root: Root) -> int | None:
    """The TSO up to which everything is in the bucket; None where TiCDC has not written one yet."""
    try:
        content = root.read_bytes(METADATA, METADATA_BYTES_MAX)
    except NotYetError:
        return None
    where = root.where(METADATA)
    try:
        checkpoint = json.loads(content)["checkpoint-ts"]
    except (ValueError, RecursionError):
        raise NotYetError(where, "JSON", "half of it or another text", "It is read again at the next run.") from None
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
    tells_repeats: bool = False,
) -> Scan:
    """What has come since the cursor.

    A `checkpoint_ts` that is given must have been read (or lowered) before this call; without one it is read here,
    first. `skip_files` are globs over paths below the root: such files count as consumed, whether they exist or not.
    `tells_repeats` where rows that are read twice are known: then a consumed file that has changed is offered again.
    """
    checkpoint_ts = read_checkpoint(root) if checkpoint_ts is None else checkpoint_ts
    if checkpoint_ts is None:
        return Scan(None, layout)
    found = find_folders(root, layout, cursor.tables)
    scanner = _Scanner(root, layout, cursor, checkpoint_ts, Skip(skip_files), tells_repeats)
    tables = root.map(scanner.table, found.folders)
    # a file that TiCDC was just writing when its index was read is there by now, and need not hold the table till later
    tables = root.map(lambda pair: _second_look(scanner, *pair), list(zip(tables, found.folders, strict=True)))
    notes = sorted({*found.notes, *(note for table in tables for note in table.notes)})
    return Scan(checkpoint_ts, layout, tuple(tables), tuple(notes[:NOTES_MAX]))


def peek(root: Root, layout: Layout) -> tuple[int | None, str]:
    """The checkpoint, and a digest that changes when a table gets a version or a file; a hint for a sensor.

    It costs at most three requests a table (one more for each partition), and reads no file that grows.
    """
    checkpoint_ts = read_checkpoint(root)
    schemas = [e.name for e in listing(root, "") if e.is_dir]
    level = schemas if layout.table_id_as_path else _children(root, schemas)
    lines = root.map(lambda schema: _meta_line(root, schema), [] if layout.table_id_as_path else schemas)
    while level:
        glimpses = root.map(lambda path: _glimpse(root, layout, path), level)
        lines += [glimpse.line for glimpse in glimpses]
        level = [child for glimpse in glimpses for child in glimpse.children]
    return checkpoint_ts, blake2b("\n".join(sorted(filter(None, lines))).encode(), digest_size=16).hexdigest()


def tables(root: Root, layout: Layout | None = None) -> list[tuple[str, str]]:
    """Schema and table of every table folder, as its newest readable schema file names them."""
    found = find_folders(root, layout or Layout(), {})
    names = root.map(lambda folder: _newest_names(root, folder), found.folders)
    return sorted({name for name in names if name and name[1]})


@dataclass(frozen=True, slots=True)
class _Scanner:
    """One scan's view of one table folder after another."""

    root: Root
    layout: Layout
    cursor: Cursor
    checkpoint_ts: int
    skip: Skip
    tells_repeats: bool = False

    def table(self, folder: Folder) -> TableScan:
        """What is new in a table's folder, or why it is held."""
        state = self.cursor.tables.get(folder.path)
        found, problems = self._schema_files(folder, state)
        schema, table = _names(folder, state, found)
        told = TableScan(folder.path, schema, table, tuple(file for file, _ in found), _checksums(found))
        problems += self._unreadable(folder, told, state)
        if problems or not table:
            return replace(told, problems=tuple(problems))
        return self._with_files(folder, told, state)

    def _with_files(self, folder: Folder, told: TableScan, state: TableState | None) -> TableScan:
        versions: dict[int, tuple[FolderScan, ...]] = {}
        notes = [f"{file.where}: not the checksum of its name" for file in told.schema_files if not file.checksum_ok]
        closed_below = state.closed_below if state else 0
        for version in sorted(v for v in folder.versions if closed_below <= v <= self.checkpoint_ts):
            reader = self._reader(told, state, version)
            try:
                versions[version] = reader.scan()
            except _HELD as error:
                return replace(told, problems=(Problem.of(error, reader.schema, reader.table),))
            notes += reader.notes
        return replace(told, versions=versions, notes=tuple(notes[:NOTES_MAX]))

    def _reader(self, told: TableScan, state: TableState | None, version: int) -> VersionReader:
        by_version = {file.version: (file.schema, file.table) for file in told.schema_files}
        schema, table = by_version.get(version) or (state.names(version) if state else (told.schema, told.table))
        opened = state.open.get(version) if state else None
        return VersionReader(
            root=self.root,
            layout=self.layout,
            skip=self.skip,
            folder=told.folder,
            version=version,
            schema=schema,
            table=table,
            state=opened or VersionState(),
            relist=self.cursor.layout != self.layout.token,
            tells_repeats=self.tells_repeats,
        )

    def _schema_files(
        self, folder: Folder, state: TableState | None
    ) -> tuple[list[tuple[SchemaFile, str]], list[Problem]]:
        """New schema files with the checksums of their names, by version."""
        found: list[tuple[SchemaFile, str]] = []
        problems: list[Problem] = []
        for (version, checksum), name in sorted(folder.schemas.items()):
            path = below(folder.path, name)
            if version > self.checkpoint_ts or path in self.skip or _is_known(state, version, checksum):
                continue
            try:
                file = parse_schema_file(self.root.read_bytes(path, SCHEMA_BYTES_MAX), path)
                self._check_names(folder, state, [*(f for f, _ in found), file])
                found.append((file, checksum))
            except _HELD as error:
                problems.append(Problem.of(error, *_names(folder, state, found)))
        return found, problems

    def _check_names(self, folder: Folder, state: TableState | None, files: list[SchemaFile]) -> None:
        """Names are believed only where TiCDC would have put them into this very folder."""
        if self.layout.table_id_as_path and numeral(folder.path):
            return
        newest = files[-1]
        if joined(newest.schema, newest.table) != folder.path:
            todo = "Move the file to its own table's folder, or name it in skip_files."
            raise HeldError(self.root.where(newest.where), "names that lead to this folder", "other names", todo)
        names = {(file.schema, file.table) for file in files} | ({(state.schema, state.table)} if state else set())
        if len(names) > 1:
            todo = "Their slashes make the paths equal: send one of them to another bucket."
            raise HeldError(self.root.where(newest.where), "one table in this folder", "two tables", todo)

    def _unreadable(self, folder: Folder, told: TableScan, state: TableState | None) -> list[Problem]:
        """Rows that no schema file explains, and links."""
        readable = {*told.checksums, *(state.schemas if state else ())}
        unexplained = folder.orphans | (folder.versions - readable if told.table else frozenset())
        problems = []
        for version in sorted(v for v in unexplained if v <= self.checkpoint_ts):
            path = f"{folder.path}/{version}"
            if f"{path}/" not in self.skip:
                todo = "Restore the schema file, or name the folder with /* behind it in skip_files."
                where = self.root.where(path)
                error = NotYetError(where, f"{META}/schema_{version}_*.json for its rows", "no readable one", todo)
                problems.append(Problem.of(error, told.schema, told.table))
        for name in folder.outside:
            where = self.root.where(below(folder.path, name))
            held = HeldError(where, "a folder inside the root", "a link that leaves it", "Remove the link.")
            problems.append(Problem.of(held, told.schema, told.table))
        return problems


def _second_look(scanner: _Scanner, table: TableScan, folder: Folder) -> TableScan:
    waits = table.problems and all(problem.kind is ProblemKind.WAITING for problem in table.problems)
    return scanner.table(folder) if waits else table


def _is_known(state: TableState | None, version: int, checksum: str) -> bool:
    return state is not None and (version < state.closed_below or checksum in state.schemas.get(version, ()))


def _checksums(found: Iterable[tuple[SchemaFile, str]]) -> dict[int, tuple[str, ...]]:
    by_version: dict[int, tuple[str, ...]] = {}
    for file, checksum in found:
        by_version[file.version] = (*by_version.get(file.version, ()), checksum)
    return by_version


def _names(folder: Folder, state: TableState | None, found: list[tuple[SchemaFile, str]]) -> tuple[str, str]:
    """The newest names; where no schema file was readable, a guess that only a Problem shows."""
    if found:
        return found[-1][0].schema, found[-1][0].table
    if state:
        return state.schema, state.table
    schema, _, table = folder.path.partition("/")
    return schema, table


def _newest_names(root: Root, folder: Folder) -> tuple[str, str] | None:
    for _, name in sorted(folder.schemas.items(), reverse=True):
        path = below(folder.path, name)
        try:
            file = parse_schema_file(root.read_bytes(path, SCHEMA_BYTES_MAX), path)
        except (NotYetError, SchemaError):
            continue
        return file.schema, file.table
    return None


@dataclass(frozen=True, slots=True)
class _Glimpse:
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


def _glimpse(root: Root, layout: Layout, path: str) -> _Glimpse:
    newest = _newest_schema(root, path)
    if newest is not None:
        return _Glimpse(f"{path}\0{newest}\0{_newest_indexes(root, layout, f'{path}/{newest[0]}')}")
    entries = listing(root, path)
    versions = [e.name for e in entries if e.is_dir and numeral(e.name)]
    others = [f"{path}/{e.name}" for e in entries if e.is_dir and not numeral(e.name) and e.name != META]
    # only the old layout and names with slashes come here
    files = listing(root, f"{path}/{max(versions, key=int)}") if versions else []
    return _Glimpse(f"{path}\0{versions}\0{[(e.name, e.size) for e in files]}", tuple(others[:NOTES_MAX]))


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
