"""Which tables have assets: a small file that runs rewrite, so that definitions load without catalog, network or JVM.

It is a hint. Every run processes every table, known or not; a table that is not in the file yet is reported all the
same and gets its asset when the code location is loaded again. Where there is no file yet and the source is a local
folder, the schema files in it are read instead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ticdc_assets.config import StorageSource
from ticdc_assets.errors import NotYetError, SchemaError, SourceError
from ticdc_assets.pipeline.known import known_of
from ticdc_assets.protocols.storage_schema import parse_schema_file
from ticdc_assets.schema.history import fold
from ticdc_assets.schema.lineage import History, Lineage, SourceName, fold_name
from ticdc_assets.sources.filesystem import Root, open_root
from ticdc_assets.sources.storage import SCHEMA_BYTES_MAX, read_checkpoint
from ticdc_assets.sources.storage_folders import find_folders
from ticdc_assets.sources.storage_paths import Layout, below

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config
    from ticdc_assets.protocols.events import DdlEvent

STATE_FOLDER: Final = ".ticdc_assets"
MARKER: Final = "ticdc-assets-demo"
_FORMAT: Final = 1
_FILE_BYTES_MAX: Final = 64 << 20


@dataclass(frozen=True, slots=True, order=True)
class KnownTable:
    """A source table that has assets, under the name it bears now; without a key it has no mirror."""

    schema: str
    table: str
    has_key: bool = True


# -- which lineage an asset means --------------------------------------------------------------------------------------


def asset_names(history: History) -> dict[str, SourceName]:
    """By lineage, the name of its assets: the table's own, with the drop's TSO where another table has taken it."""
    bearers: dict[SourceName, Lineage] = {}
    for lineage in history.lineages:
        name = fold_name(*lineage.name)
        bearer = bearers.get(name)
        if bearer is None or _age(lineage) > _age(bearer):
            bearers[name] = lineage
    return {
        lineage.id: lineage.name if bearers[fold_name(*lineage.name)] is lineage else _retired_name(lineage)
        for lineage in history.lineages
    }


def _age(lineage: Lineage) -> tuple[bool, int]:
    return lineage.dropped_ts is None, lineage.dropped_ts or 0


def _retired_name(lineage: Lineage) -> SourceName:
    schema, table = lineage.name
    return schema, f"{table}__dropped_{lineage.dropped_ts}"


def tables_of(history: History, follows: Callable[[str, str], bool]) -> tuple[KnownTable, ...]:
    """The tables of a history that get assets: those whose name no later table has taken."""
    names = asset_names(history)
    return tuple(
        sorted(
            KnownTable(*lineage.name, has_mirror(lineage))
            for lineage in history.lineages
            if names[lineage.id] == lineage.name and lineage.was_ever(follows)
        )
    )


def has_mirror(lineage: Lineage) -> bool:
    """Whether the table ever had a key, and so has a mirror."""
    return any(version.table.key for version in lineage.versions)


# -- the file ----------------------------------------------------------------------------------------------------------


def state_folder(config: Config) -> Path:
    """Next to the config; for the packaged sample next to its lake, in the working directory."""
    return (Path.cwd() if is_packaged_sample(config) else config.path.parent) / STATE_FOLDER


def is_packaged_sample(config: Config) -> bool:
    return config.path == Path(__file__).parents[1] / "sample" / "changefeeds.yaml"


def is_sample(config: Config) -> bool:
    """Whether its streams are the sample's, which ended long ago."""
    return is_packaged_sample(config) or (config.path.parent / MARKER).is_file()


def remember(config: Config, changefeed: str, tables: Iterable[KnownTable]) -> str | None:
    """Write the file if it changes. Returns why that was impossible, if so: a run does not fail for a hint."""
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
    return _told_by_folder(changefeed)


def _read(path: Path) -> tuple[KnownTable, ...] | None:
    try:
        if path.stat().st_size > _FILE_BYTES_MAX:
            return None
        whole = json.loads(path.read_text(encoding="utf-8"))
        if whole["format"] != _FORMAT:
            return None
        return tuple(sorted(KnownTable(str(t["schema"]), str(t["table"]), bool(t["has_key"])) for t in whole["tables"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # the next run writes it anew


# -- a local folder ----------------------------------------------------------------------------------------------------


def _told_by_folder(changefeed: Changefeed) -> tuple[KnownTable, ...]:
    source = changefeed.source
    if not isinstance(source, StorageSource) or "://" in source.storage.location:
        return ()
    try:
        root = open_root(source.storage.uri)
        layout = Layout.of(changefeed.sink)
        history = fold(_events(root, layout), known_of(changefeed))
    except (SourceError, NotYetError):
        return ()  # nothing is there yet; a run says so, loading does not
    return tables_of(history, changefeed.tables.matches)


def _events(root: Root, layout: Layout) -> Sequence[DdlEvent]:
    checkpoint_ts = read_checkpoint(root) or 0
    events = []
    for folder in find_folders(root, layout, {}).folders:
        for (version, _), name in sorted(folder.schemas.items()):
            path = below(folder.path, name)
            try:
                file = parse_schema_file(root.read_bytes(path, SCHEMA_BYTES_MAX), path)
            except (NotYetError, SchemaError):
                continue  # the run says why, and for which table
            if version <= checkpoint_ts:
                events.append(file.to_ddl_event())
    return events
