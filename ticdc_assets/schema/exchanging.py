"""Which two tables an EXCHANGE PARTITION is about, and which rows change places, where that is exactly known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ticdc_assets.errors import SchemaError
from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.schema import ddl
from ticdc_assets.schema.growing import Growing
from ticdc_assets.schema.lineage import SourceName
from ticdc_assets.schema.partition_rows import PartitionRows, rows_of
from ticdc_assets.schema.promotion import lake_type
from ticdc_assets.schema.session_names import bearers, exchanged
from ticdc_assets.schema.told import same_columns

_TODO: Final = "EXCHANGE PARTITION moves rows that the stream does not send; load both tables anew."


@dataclass(frozen=True, slots=True)
class Pair:
    """A partitioned table, the table that it exchanges a partition with, and the rows of the partition."""

    partitioned: Growing
    table: Growing
    rows: PartitionRows


def pair_of(live: Mapping[SourceName, Growing], event: DdlEvent, statement: ddl.AlterTable) -> Pair:
    """The pair of a statement. Raises SchemaError where the rows or the tables cannot be told."""
    actions = [action for action in statement.actions if isinstance(action, ddl.ExchangePartition)]
    if len(statement.actions) != 1 or not actions:
        raise _fault(event, "EXCHANGE PARTITION alone in its statement", "other actions beside it")
    partitioned, table = _both(live, event, statement)
    if partitioned.stop is not None or table.stop is not None:
        raise _fault(event, "two tables that go on", "one that has stopped")
    one, other = partitioned.shape.table, table.shape.table
    if not same_columns(one, other, ordered=False) or any(
        (found := other.column(c.name)) is None or lake_type(c.type) != lake_type(found.type) for c in one.columns
    ):
        raise _fault(event, "two tables of the same columns", "other columns")
    if not one.key or sorted(n.lower() for n in one.key) != sorted(n.lower() for n in other.key):
        raise _fault(event, "two tables with the same key", "another key, or none")
    [rows] = rows_of(one, (actions[0].name,))
    return Pair(partitioned, table, rows)


def _both(live: Mapping[SourceName, Growing], event: DdlEvent, statement: ddl.AlterTable) -> tuple[Growing, Growing]:
    _, first, second = exchanged(event, statement)
    # A name without its database means the only table of that name with the columns of the other.
    of_first, of_second = bearers(live, first, None), bearers(live, second, None)
    if len(of_first) == 1:
        of_second = bearers(live, second, of_first[0].shape.table, ordered=False)
    elif len(of_second) == 1:
        of_first = bearers(live, first, of_second[0].shape.table, ordered=False)
    if len(of_first) != 1 or len(of_second) != 1 or of_first[0] is of_second[0]:
        raise _fault(event, "two tables that the stream told of", "one that is not known, or several of its name")
    return of_first[0], of_second[0]


def _fault(event: DdlEvent, expected: str, found: str) -> SchemaError:
    return SchemaError(f"EXCHANGE PARTITION of {event.schema}.{event.table}", expected, found, _TODO)
