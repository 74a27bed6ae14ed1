"""The identifiers of each source table's tables in the catalog, and their move when the source table is renamed.

A dropped table keeps its name until another table gets it; then its name is `<name>__dropped_<tso>`. The names depend
on the history alone, so every run has the same ones. A table names its source table (`ticdc.source-table`), so a run
can finish a move that was interrupted at any step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pyiceberg.catalog import Catalog

from ticdc_assets import names
from ticdc_assets.config import Changefeed, Config
from ticdc_assets.schema.history.source_table import History, SourceTable, fold_name
from ticdc_assets.tables.catalog import Identifier, ensure_namespace, load_or_none
from ticdc_assets.tables.progress import source_table_of


@dataclass(frozen=True, slots=True)
class TableLocations:
    """The identifiers and folders of one source table's tables; no folders where the catalog chooses them."""

    mirror: Identifier
    changelog: Identifier
    mirror_location: str | None
    changelog_location: str | None
    history_table: Identifier
    history_location: str | None


def table_locations(config: Config, changefeed: Changefeed, history: History) -> dict[str, TableLocations]:
    """The locations of every source table by its id."""
    found = {
        source_table.id: _place(config, changefeed, history, source_table) for source_table in history.source_tables
    }
    mirrors = {place.mirror for place in found.values()}
    return {i: _with_free_history(place, i, mirrors) for i, place in found.items()}


def _place(config: Config, changefeed: Changefeed, history: History, source_table: SourceTable) -> TableLocations:
    schema, table = source_table.name
    suffix = f"__dropped_{source_table.dropped_ts}" if _name_taken(history, source_table) else ""
    target = changefeed.target
    mirror = names.mirror_identifier(target, changefeed.name, schema, table + suffix)
    changelog = names.changelog_identifier(target, changefeed.name, schema, table + suffix)
    # By source table, not by name: two tables with the same name never share a folder.
    digest = _digest(source_table.id)
    if config.catalog.root_uri is None:
        return TableLocations(mirror, changelog, None, None, history_of(mirror), None)
    root = f"{config.catalog.root_uri}/{names.encode(changefeed.name)}/{names.encode(schema)}/{digest}"
    return TableLocations(
        mirror, changelog, f"{root}/mirror", f"{root}/changelog", history_of(mirror), f"{root}/history"
    )


def history_of(mirror: Identifier) -> Identifier:
    """The identifier of the history beside a mirror, where no other table has it."""
    return (*mirror[:-1], f"{mirror[-1]}__history")


def _with_free_history(place: TableLocations, source_table_id: str, mirrors: Collection[Identifier]) -> TableLocations:
    """The locations, with another name for the history if a source table has that name."""
    if place.history_table not in mirrors:
        return place
    return replace(place, history_table=with_digest(place.history_table, source_table_id))


def with_digest(identifier: Identifier, source_table_id: str) -> Identifier:
    """The identifier with a digest of the source table, where another table has the plain one."""
    return (*identifier[:-1], f"{identifier[-1]}_{_digest(source_table_id)}")


def _name_taken(history: History, source_table: SourceTable) -> bool:
    if source_table.dropped_ts is None:
        return False
    name = fold_name(*source_table.name)
    return any(
        other.id != source_table.id and t.folded == name and t.after_ts >= source_table.dropped_ts
        for other in history.source_tables
        for t in other.name_periods
    )


@dataclass(frozen=True, slots=True)
class Move:
    """A table that must get another identifier."""

    source_table_id: str
    old: Identifier
    new: Identifier


def rename_tables(
    catalog: Catalog,
    wanted: Mapping[str, Identifier],
    recorded: Mapping[str, Identifier],
    former: Mapping[str, Identifier],
) -> dict[str, Identifier]:
    """Rename every table of `wanted` (by source table) from its recorded or parked identifier to the wanted one.

    All tables that move are parked first, so that tables may swap names. Glue has no atomic rename: a run that ended
    within one leaves the table under both names, and the next one removes the older name. `former` is where the newest
    record has the tables.

    Returns: by source table, the wanted identifiers that another table keeps; these tables are not renamed.
    """
    for i, new in wanted.items():
        if recorded.get(i) == new and former.get(i, new) != new:
            _remove_copy(catalog, parked(i, former[i]), new)
    moves = [Move(i, recorded[i], new) for i, new in wanted.items() if i in recorded and recorded[i] != new]
    stuck = _stuck(catalog, moves)
    for move in (move for move in moves if move not in stuck):
        _rename_if_ours(catalog, move.source_table_id, move.old, parked(move.source_table_id, move.old))
    for move in (move for move in moves if move not in stuck):
        ensure_namespace(catalog, move.new[:-1])
        _rename_if_ours(catalog, move.source_table_id, parked(move.source_table_id, move.old), move.new)
    kept = {move.old: move.source_table_id for move in stuck}
    behind = {i: new for i, new in wanted.items() if kept.get(new, i) != i}
    return behind | {move.source_table_id: move.new for move in stuck}


def _stuck(catalog: Catalog, moves: Sequence[Move]) -> list[Move]:
    """The moves to an identifier whose table does not move."""
    stuck: list[Move] = []
    while True:
        leaving = {move.old: move.source_table_id for move in moves if move not in stuck}
        more = [move for move in moves if move not in stuck and not _is_free(catalog, move, leaving)]
        if not more:
            return stuck
        stuck += more


def _is_free(catalog: Catalog, move: Move, leaving: Mapping[Identifier, str]) -> bool:
    table = load_or_none(catalog, move.new)
    return table is None or source_table_of(table) in (
        move.source_table_id,
        leaving.get(move.new, move.source_table_id),
    )


def _rename_if_ours(catalog: Catalog, source_table_id: str, old: Identifier, new: Identifier) -> None:
    table = load_or_none(catalog, old)
    if table is None or source_table_of(table) != source_table_id:
        return
    copy = load_or_none(catalog, new)
    if copy is not None and copy.metadata.table_uuid == table.metadata.table_uuid:
        if copy.metadata.last_updated_ms >= table.metadata.last_updated_ms:
            catalog.drop_table(old)  # only the name: the files are those of the other one
            return
        catalog.drop_table(new)
    catalog.rename_table(old, new)


def _remove_copy(catalog: Catalog, copy: Identifier, name: Identifier) -> None:
    """Remove the name `copy` if it belongs to the table `name`."""
    found, table = load_or_none(catalog, copy), load_or_none(catalog, name)
    if found is not None and table is not None and found.metadata.table_uuid == table.metadata.table_uuid:
        catalog.drop_table(copy)


def set_aside(catalog: Catalog, source_table_id: str, name: Identifier) -> Identifier:
    """Rename the table of a source table that the history no longer has to a free name. Returns the new identifier."""
    aside = _replaced(source_table_id, name)
    for old in (name, parked(source_table_id, name)):
        if old != aside:
            _rename_if_ours(catalog, source_table_id, old, aside)
    return aside if load_or_none(catalog, aside) is not None else name


def _replaced(source_table_id: str, name: Identifier) -> Identifier:
    suffix = f"__replaced_{_digest(source_table_id)}"
    return name if name[-1].endswith(suffix) else (*name[:-1], f"{name[-1][:80]}{suffix}")


def parked(source_table_id: str, old: Identifier) -> Identifier:
    """The temporary identifier of a table that moves."""
    digest = _digest(source_table_id)
    return (*old[:-1], f"{old[-1][:80]}__moving_{digest}")


def second_name(namespace: Identifier, kind: str, source_table_id: str, run_id: str) -> Identifier:
    """The second name, in the control namespace, of a table that a run makes of a source table; by the kind of use."""
    return (*namespace, _second_prefix(kind, source_table_id) + run_id.replace("-", ""))


def second_names(catalog: Catalog, namespace: Identifier, kind: str, *source_table_ids: str) -> list[Identifier]:
    """The second names of a kind that the catalog has of source tables, from all runs."""
    prefixes = tuple(_second_prefix(kind, source_table_id) for source_table_id in source_table_ids)
    return [tuple(found) for found in catalog.list_tables(namespace) if found[-1].startswith(prefixes)]


def _second_prefix(kind: str, source_table_id: str) -> str:
    return f"{kind}_{_digest(source_table_id)}_"


def _digest(source_table_id: str) -> str:
    return hashlib.sha256(source_table_id.encode()).hexdigest()[:12]
