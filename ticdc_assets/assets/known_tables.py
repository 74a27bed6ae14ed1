"""Which tables have assets: a small file that each run updates, so definitions load without catalog, network or JVM.

The file is only a hint. Every run processes every table. A table that is not in the file yet is reported too, and gets
its asset when the code location is reloaded. Without a file, the schema files of a local source folder are read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ticdc_assets.config import PACKAGED_SAMPLE, StorageSource
from ticdc_assets.errors import NotYetError, SchemaError, SourceError
from ticdc_assets.pipeline.user_schemas import known_of
from ticdc_assets.plurals import counted
from ticdc_assets.protocols.storage.schema_file import parse_schema_file
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.source_table import History, SourceName, SourceTable, fold_name
from ticdc_assets.sources.filesystem import Root, open_root
from ticdc_assets.sources.storage.folders import find_folders
from ticdc_assets.sources.storage.paths import Layout, path_below
from ticdc_assets.sources.storage.root_level import SCHEMA_BYTES_MAX
from ticdc_assets.sources.storage.scan import read_checkpoint

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config
    from ticdc_assets.schema.ddl_event import DdlEvent

STATE_FOLDER: Final = ".ticdc_assets"
MARKER: Final = "ticdc-assets-demo"
_FORMAT: Final = 1
_NAMES_MAX: Final = 5
_FILE_BYTES_MAX: Final = 64 << 20


@dataclass(frozen=True, slots=True, order=True)
class KnownTable:
    """A source table that has assets, under its current name. A table without a key has no mirror."""

    schema: str
    table: str
    has_key: bool = True

    @property
    def name(self) -> SourceName:
        return self.schema, self.table


# -- which source table an asset means --------------------------------------------------------------------------------


def asset_names(history: History) -> dict[str, SourceName]:
    """The asset name of each source table: the table's name, with the TSO of its DROP where a later table has that
    name."""
    by_name: dict[SourceName, SourceTable] = {}
    for source_table in history.source_tables:
        name = fold_name(*source_table.name)
        bearer = by_name.get(name)
        if bearer is None or _age(source_table) > _age(bearer):
            by_name[name] = source_table
    return {
        source_table.id: source_table.name
        if by_name[fold_name(*source_table.name)] is source_table
        else _retired_name(source_table)
        for source_table in history.source_tables
    }


def _age(source_table: SourceTable) -> tuple[bool, int]:
    return source_table.dropped_ts is None, source_table.dropped_ts or 0


def _retired_name(source_table: SourceTable) -> SourceName:
    schema, table = source_table.name
    return schema, f"{table}__dropped_{source_table.dropped_ts}"


def tables_with_assets(history: History, follows: Callable[[str, str], bool]) -> tuple[KnownTable, ...]:
    """The tables of a history that get assets: all but those whose name a later table has taken."""
    names = asset_names(history)
    return tuple(
        sorted(
            KnownTable(*source_table.name, has_mirror(source_table))
            for source_table in history.source_tables
            if names[source_table.id] == source_table.name
            and source_table.was_ever(follows)
            and not source_table.is_contained
        )
    )


def has_mirror(source_table: SourceTable) -> bool:
    """Whether the table ever had a key, and so has a mirror."""
    return any(version.table.key for version in source_table.versions)


# -- the file ----------------------------------------------------------------------------------------------------------


def state_folder(config: Config) -> Path:
    """Next to the config; for the packaged sample next to its lake, in the working directory."""
    return (Path.cwd() if is_packaged_sample(config) else config.path.parent) / STATE_FOLDER


def is_packaged_sample(config: Config) -> bool:
    """Whether this is the config inside the package, which is read where no other is given."""
    return config.path == PACKAGED_SAMPLE / "changefeeds.yaml"


def is_sample(config: Config) -> bool:
    """Whether its sources are the sample's streams, which ended long ago."""
    return is_packaged_sample(config) or (config.path.parent / MARKER).is_file()


def remember(config: Config, changefeed: str, tables: Iterable[KnownTable]) -> str | None:
    """Write the file if it changes. Returns the reason where it cannot be written: that must not fail a run."""
    path = state_folder(config) / f"{changefeed}.tables.json"
    rows = [{"schema": t.schema, "table": t.table, "has_key": t.has_key} for t in sorted(tables)]
    text = json.dumps({"format": _FORMAT, "tables": rows}, ensure_ascii=False, indent=1) + "\n"
    try:
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        return f"{path} cannot be written ({type(error).__name__}); new tables get no assets until it can"
    return None


def known_tables(config: Config, changefeed: Changefeed) -> tuple[KnownTable, ...]:
    """The tables that get assets: from one small file, else from the schema files of a local folder, else none."""
    path = state_folder(config) / f"{changefeed.name}.tables.json"
    remembered = _read(path)
    if remembered is not None:
        return tuple(t for t in remembered if changefeed.tables.matches(t.schema, t.table))
    return _from_folder(changefeed)


def not_loaded(now: Iterable[SourceName], loaded: Iterable[KnownTable]) -> str:
    """A sentence on the tables that have no asset because the code location loaded before them; "" without one."""
    known = {fold_name(table.schema, table.table) for table in loaded}
    names = sorted(".".join(name) for name in now if fold_name(*name) not in known)
    if not names:
        return ""
    more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    have = "has" if len(names) == 1 else "have"
    listed = ", ".join(names[:_NAMES_MAX])
    advice = "Runs process them; reload the code location to see them."
    return f"{counted(len(names), 'table')} {have} no asset yet: {listed}{more}. {advice}"


def _read(path: Path) -> tuple[KnownTable, ...] | None:
    try:
        if path.stat().st_size > _FILE_BYTES_MAX:
            return None
        whole = json.loads(path.read_text(encoding="utf-8"))
        if whole["format"] != _FORMAT:
            return None
        return tuple(sorted(KnownTable(str(t["schema"]), str(t["table"]), bool(t["has_key"])) for t in whole["tables"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # the next run rewrites it


# -- a local folder ----------------------------------------------------------------------------------------------------


def _from_folder(changefeed: Changefeed) -> tuple[KnownTable, ...]:
    source = changefeed.source
    if not isinstance(source, StorageSource) or "://" in source.storage.location:
        return ()
    try:
        root = open_root(source.storage.uri)
        layout = Layout.of(changefeed.sink)
        history = fold(_events(root, layout), known_of(changefeed))
    except (SourceError, NotYetError):
        return ()  # the folder does not exist yet; a run reports that
    return tables_with_assets(history, changefeed.tables.matches)


def _events(root: Root, layout: Layout) -> Sequence[DdlEvent]:
    checkpoint_ts = read_checkpoint(root) or 0
    events = []
    for folder in find_folders(root, layout, {}).folders:
        for (version, _), name in sorted(folder.schemas.items()):
            path = path_below(folder.path, name)
            try:
                file = parse_schema_file(root.read_bytes(path, SCHEMA_BYTES_MAX), path)
            except (NotYetError, SchemaError):
                continue  # the run reports the table and the reason
            if version <= checkpoint_ts:
                events.append(file.to_ddl_event())
    return events
