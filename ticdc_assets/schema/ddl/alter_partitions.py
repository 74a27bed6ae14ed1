"""The actions of ALTER TABLE on partitions."""

from __future__ import annotations

from typing import Final

from ticdc_assets.schema.ddl.create import skip_option_value
from ticdc_assets.schema.ddl.partitions import read_partitioning, read_partitions
from ticdc_assets.schema.ddl.statements import (
    Action,
    AddPartitions,
    CoalescePartitions,
    ExchangePartition,
    NoEffect,
    ReorganizePartitions,
    Repartition,
    TruncatePartitions,
)
from ticdc_assets.schema.ddl.token_cursor import TokenCursor
from ticdc_assets.schema.ddl.without_effect import ActionReader, compact


def partition_names(cursor: TokenCursor) -> tuple[str, ...]:
    """Names with commas between them."""
    return cursor.comma_list(cursor.identifier)


def add_partitions(cursor: TokenCursor) -> Action:
    """Read what follows ADD PARTITION."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    cursor.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if cursor.accept("PARTITIONS"):
        return AddPartitions(count=cursor.integer(), if_not_exists=if_not_exists)
    return AddPartitions(read_partitions(cursor), if_not_exists=if_not_exists)


def _truncate(cursor: TokenCursor, schema: str) -> list[Action]:
    cursor.expect("PARTITION")
    return [TruncatePartitions(None if cursor.accept("ALL") else partition_names(cursor))]


def _coalesce(cursor: TokenCursor, schema: str) -> list[Action]:
    cursor.expect("PARTITION")
    cursor.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    return [CoalescePartitions(cursor.integer())]


def _exchange(cursor: TokenCursor, schema: str) -> list[Action]:
    cursor.expect("PARTITION")
    name = cursor.identifier()
    cursor.expect("WITH", "TABLE")
    other = cursor.table_name(schema)
    if cursor.accept_any("WITH", "WITHOUT"):
        cursor.expect("VALIDATION")
    return [ExchangePartition(name, other)]


def _reorganize(cursor: TokenCursor, schema: str) -> list[Action]:
    cursor.expect("PARTITION")
    cursor.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if cursor.done:
        return [ReorganizePartitions((), ())]
    names = partition_names(cursor)
    cursor.expect("INTO")
    return [ReorganizePartitions(names, read_partitions(cursor))]


def _remove(cursor: TokenCursor, schema: str) -> list[Action]:
    if cursor.accept("TTL"):
        return [NoEffect("TTL")]
    cursor.expect("PARTITIONING")
    return [Repartition(None)]


def _partition(cursor: TokenCursor, schema: str) -> list[Action]:
    if cursor.at("BY"):
        cursor.position -= 1
        return [Repartition(read_partitioning(cursor))]
    cursor.identifier()
    if cursor.accept("ATTRIBUTES") or cursor.accept("PLACEMENT", "POLICY"):
        skip_option_value(cursor)
        return [NoEffect("a partition's placement")]
    if cursor.accept("COMPACT"):
        return compact(cursor, schema)
    raise cursor.fault("BY, ATTRIBUTES, PLACEMENT or COMPACT")


def _partition_upkeep(cursor: TokenCursor, schema: str) -> list[Action]:
    """ANALYZE, CHECK, OPTIMIZE, REBUILD, REPAIR PARTITION ..."""
    cursor.expect("PARTITION")
    cursor.skip_all()
    return [NoEffect("upkeep of partitions")]


PARTITION_ACTIONS: Final[dict[str, ActionReader]] = {
    "TRUNCATE": _truncate,
    "COALESCE": _coalesce,
    "EXCHANGE": _exchange,
    "REORGANIZE": _reorganize,
    "REMOVE": _remove,
    "PARTITION": _partition,
    "ANALYZE": _partition_upkeep,
    "CHECK": _partition_upkeep,
    "OPTIMIZE": _partition_upkeep,
    "REBUILD": _partition_upkeep,
    "REPAIR": _partition_upkeep,
}
"""How to read the actions on partitions, by the word that begins each."""
