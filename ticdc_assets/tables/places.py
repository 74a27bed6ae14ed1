"""Where each lineage's tables are in the catalog, and moving them when the source table is renamed.

A dropped table keeps its name until another table takes it; from then on it is called `<name>__dropped_<tso>`. The
rule looks at the history alone, so every run finds the same names. A table knows its lineage (`ticdc.lineage`), so a
move that was cut short is found again wherever it stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ticdc_assets import names
from ticdc_assets.schema.lineage import History, Lineage, fold_name
from ticdc_assets.tables.catalog import Identifier, ensure_namespace, load_or_none
from ticdc_assets.tables.progress import lineage_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from ticdc_assets.config import Changefeed, Config


@dataclass(frozen=True, slots=True)
class Place:
    """The identifiers and data folders of one lineage's two tables."""

    mirror: Identifier
    changelog: Identifier
    mirror_location: str
    changelog_location: str


def places(config: Config, changefeed: Changefeed, history: History) -> dict[str, Place]:
    """The place of every lineage."""
    return {lineage.id: _place(config, changefeed, history, lineage) for lineage in history.lineages}


def _place(config: Config, changefeed: Changefeed, history: History, lineage: Lineage) -> Place:
    schema, table = lineage.name
    suffix = f"__dropped_{lineage.dropped_ts}" if _name_taken(history, lineage) else ""
    target = changefeed.target
    mirror = names.mirror_identifier(target, changefeed.name, schema, table + suffix)
    changelog = names.changelog_identifier(target, changefeed.name, schema, table + suffix)
    # By lineage, not by name: two tables that bore one name never share a folder.
    digest = hashlib.sha256(lineage.id.encode()).hexdigest()[:12]
    root = f"{_warehouse_uri(config)}/{names.encode(changefeed.name)}/{names.encode(schema)}/{digest}"
    return Place(mirror, changelog, f"{root}/mirror", f"{root}/changelog")


def _warehouse_uri(config: Config) -> str:
    return config.catalog.warehouse_uri or ""


def _name_taken(history: History, lineage: Lineage) -> bool:
    if lineage.dropped_ts is None:
        return False
    name = fold_name(*lineage.name)
    return any(
        other.id != lineage.id and fold_name(t.schema, t.table) == name and t.after_ts >= lineage.dropped_ts
        for other in history.lineages
        for t in other.tenures
    )


@dataclass(frozen=True, slots=True)
class Move:
    """A table that is not where it belongs."""

    lineage_id: str
    old: Identifier
    new: Identifier


def settle(
    catalog: Catalog, wanted: Mapping[str, Identifier], recorded: Mapping[str, Identifier]
) -> dict[str, Identifier]:
    """Bring every table of `wanted` (by lineage) to its identifier, from where it was recorded or parked.

    All that move are parked first, so that tables may swap names; each rename is atomic in the catalog. Gives, by
    lineage, the identifiers that another table has and keeps: what belongs there stays where it is.
    """
    moves = [Move(i, recorded[i], new) for i, new in wanted.items() if i in recorded and recorded[i] != new]
    stuck = _stuck(catalog, moves)
    for move in (move for move in moves if move not in stuck):
        _rename_if_ours(catalog, move.lineage_id, move.old, parked(move.lineage_id, move.old))
    for move in (move for move in moves if move not in stuck):
        ensure_namespace(catalog, move.new[:-1])
        _rename_if_ours(catalog, move.lineage_id, parked(move.lineage_id, move.old), move.new)
    kept = {move.old: move.lineage_id for move in stuck}
    behind = {i: new for i, new in wanted.items() if kept.get(new, i) != i}
    return behind | {move.lineage_id: move.new for move in stuck}


def _stuck(catalog: Catalog, moves: Sequence[Move]) -> list[Move]:
    """The moves to a name of a table that does not move away."""
    stuck: list[Move] = []
    while True:
        leaving = {move.old: move.lineage_id for move in moves if move not in stuck}
        more = [move for move in moves if move not in stuck and not _is_free(catalog, move, leaving)]
        if not more:
            return stuck
        stuck += more


def _is_free(catalog: Catalog, move: Move, leaving: Mapping[Identifier, str]) -> bool:
    table = load_or_none(catalog, move.new)
    return table is None or lineage_of(table) in (move.lineage_id, leaving.get(move.new, move.lineage_id))


def _rename_if_ours(catalog: Catalog, lineage_id: str, old: Identifier, new: Identifier) -> None:
    table = load_or_none(catalog, old)
    if table is not None and lineage_of(table) == lineage_id:
        catalog.rename_table(old, new)


def parked(lineage_id: str, old: Identifier) -> Identifier:
    """What a table is called on its way from a name."""
    digest = hashlib.sha256(lineage_id.encode()).hexdigest()[:12]
    return (*old[:-1], f"{old[-1][:80]}__moving_{digest}")
