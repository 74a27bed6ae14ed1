"""Which tables have assets: those of the lake when the code location loads, or when a component's state is refreshed.

They are only a hint. Every run processes every table. A table that is newer is reported too, and gets its asset when
the code location is reloaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ticdc_assets.config import PACKAGED_SAMPLE
from ticdc_assets.errors import NotYetError, SourceError
from ticdc_assets.pipeline.lake import Lake, read_only_config
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.plurals import counted
from ticdc_assets.schema.history.source_table import History, SourceName, SourceTable, fold_name

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config

LOG_FOLDER: Final = ".ticdc_assets"
MARKER: Final = "ticdc-assets-demo"
_NAMES_MAX: Final = 5


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


# -- the lake ----------------------------------------------------------------------------------------------------------


def tables_of_lake(config: Config, changefeed: Changefeed) -> tuple[KnownTable, ...]:
    """The tables of the lake; before the first run those of the source, none where it cannot be read.

    Raises:
        SourceError: the catalog cannot be opened.
    """
    lake = Lake(read_only_config(config), changefeed)
    if lake.control.newest() is not None:
        return tables_with_assets(lake.history(), lake.follows)
    try:
        return tables_with_assets(run_of(lake).scan().history, lake.follows)
    except (NotYetError, SourceError):
        return ()  # a run reports that


def as_state(tables: Mapping[str, Iterable[KnownTable]]) -> str:
    """The tables of each changefeed as text."""
    return json.dumps({name: [asdict(table) for table in sorted(found)] for name, found in tables.items()}, indent=1)


def of_state(text: str) -> dict[str, tuple[KnownTable, ...]]:
    """The tables in such a text."""
    return {name: tuple(KnownTable(**table) for table in found) for name, found in json.loads(text).items()}


# -- beside the config -------------------------------------------------------------------------------------------------


def log_folder(config: Config) -> Path:
    """Next to the config; for the packaged sample next to its lake, in the working directory."""
    return (Path.cwd() if is_packaged_sample(config) else config.path.parent) / LOG_FOLDER


def is_packaged_sample(config: Config) -> bool:
    """Whether this is the config inside the package, which is read where no other is given."""
    return config.path == PACKAGED_SAMPLE / "changefeeds.yaml"


def is_sample(config: Config) -> bool:
    """Whether its sources are the sample's streams, which ended long ago."""
    return is_packaged_sample(config) or (config.path.parent / MARKER).is_file()


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
