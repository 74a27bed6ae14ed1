"""How partitionings change where no row leaves its table."""

from __future__ import annotations

from dataclasses import replace

from ticdc_assets.names.folding import fold
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.model import PartitionDefinition, Partitioning, TableSchema
from ticdc_assets.schema.partitions.rows import place_of


def recut(partitioning: Partitioning, action: ddl.Action, table: TableSchema) -> Partitioning:
    """The partitioning after an action that moves no row out of the table."""
    match action:
        case ddl.AddPartitions():
            return _with_added(partitioning, action)
        case ddl.CoalescePartitions(count=count):
            left = max(1, partitioning.count - count)
            return replace(partitioning, count=left, partitions=partitioning.partitions[:left])
        case ddl.ReorganizePartitions(names=names, partitions=partitions) if names and partitioning.partitions:
            places = sorted(place_of(table, name) for name in names)
            return replace(partitioning, partitions=_replaced(partitioning.partitions, places, partitions))
    return partitioning


def _with_added(partitioning: Partitioning, action: ddl.AddPartitions) -> Partitioning:
    if partitioning.method in ("HASH", "KEY"):
        return _with_more_hashed(partitioning, action)
    if not partitioning.partitions:
        return partitioning  # the existing partitions are not known, so the added ones would be taken for the lowest
    known = {fold(partition.name) for partition in partitioning.partitions}
    added = [p for p in action.partitions if not (action.if_not_exists and fold(p.name) in known)]
    return replace(partitioning, partitions=(*partitioning.partitions, *added))


def _with_more_hashed(partitioning: Partitioning, action: ddl.AddPartitions) -> Partitioning:
    """HASH and KEY partitions are counted until one has its own name; then all are listed."""
    count = partitioning.count + (action.count or len(action.partitions))
    if not (partitioning.partitions or action.partitions):
        return replace(partitioning, count=count)
    before = partitioning.partitions or tuple(PartitionDefinition(f"p{place}") for place in range(partitioning.count))
    added = action.partitions or tuple(PartitionDefinition(f"p{place}") for place in range(partitioning.count, count))
    return replace(partitioning, count=count, partitions=(*before, *added))


def _replaced(
    partitions: tuple[PartitionDefinition, ...], places: list[int], new: tuple[PartitionDefinition, ...]
) -> tuple[PartitionDefinition, ...]:
    kept_before = tuple(p for i, p in enumerate(partitions) if i < places[0])
    kept_after = tuple(p for i, p in enumerate(partitions) if i > places[0] and i not in places)
    return (*kept_before, *new, *kept_after)
