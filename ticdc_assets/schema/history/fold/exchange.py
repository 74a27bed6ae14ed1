"""The two tables and the rows of an EXCHANGE PARTITION, where they are known exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ticdc_assets.errors import SchemaError
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.ddl import parser as ddl
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.evolution.promotion import lake_type
from ticdc_assets.schema.history.builder import SourceTableBuilder
from ticdc_assets.schema.history.schema_compare import same_columns
from ticdc_assets.schema.history.session_names import candidates, exchanged_names
from ticdc_assets.schema.history.source_table import SourceName
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.schema.partitions.rows import PartitionRows, partition_rows

_ADVICE: Final = "EXCHANGE PARTITION moves rows that the stream does not send; load both tables again."


@dataclass(frozen=True, slots=True)
class ExchangePair:
    """A partitioned table, the table that it exchanges a partition with, and the rows of the partition."""

    partitioned: SourceTableBuilder
    table: SourceTableBuilder
    rows: PartitionRows


def pair_of(live: Mapping[SourceName, SourceTableBuilder], event: DdlEvent, statement: ddl.AlterTable) -> ExchangePair:
    """The pair of a statement. Raises SchemaError where its tables or rows are not known."""
    actions = [action for action in statement.actions if isinstance(action, ddl.ExchangePartition)]
    if len(statement.actions) != 1 or not actions:
        raise _fault(event, "EXCHANGE PARTITION alone in its statement", "other actions too")
    partitioned, table = _both(live, event, statement)
    one, other = partitioned.shape.table, table.shape.table
    stopped = [each.name for each, of in ((one, partitioned), (other, table)) if of.stop is not None]
    if stopped:
        raise _fault(event, "two tables that are not stopped", f"{' and '.join(stopped)} stopped")
    if not same_columns(one, other, ordered=False) or any(
        (found := other.column(c.name)) is None or lake_type(c.type) != lake_type(found.type) for c in one.columns
    ):
        raise _fault(event, f"the columns of {one.name} in {other.name}", "other columns")
    if not one.key or sorted(fold(n) for n in one.key) != sorted(fold(n) for n in other.key):
        raise _fault(event, f"one key in {one.name} and {other.name}", f"{_key_text(one)} and {_key_text(other)}")
    [rows] = partition_rows(one, (actions[0].name,))
    return ExchangePair(partitioned, table, rows)


def _both(
    live: Mapping[SourceName, SourceTableBuilder], event: DdlEvent, statement: ddl.AlterTable
) -> tuple[SourceTableBuilder, SourceTableBuilder]:
    _, first, second = exchanged_names(event, statement)
    # A name without a database refers to the only table of that name with the other table's columns.
    of_first, of_second = candidates(live, first, None), candidates(live, second, None)
    if len(of_first) == 1:
        of_second = candidates(live, second, of_first[0].shape.table, ordered=False)
    elif len(of_second) == 1:
        of_first = candidates(live, first, of_second[0].shape.table, ordered=False)
    if len(of_first) != 1 or len(of_second) != 1 or of_first[0] is of_second[0]:
        raise _fault(event, "two tables that the stream has sent", "one that is not known, or several of its name")
    return of_first[0], of_second[0]


def _key_text(table: TableSchema) -> str:
    return f"({', '.join(table.key)})" if table.key else "no key"


def _fault(event: DdlEvent, expected: str, found: str) -> SchemaError:
    return SchemaError(f"EXCHANGE PARTITION of {event.schema}.{event.table}", expected, found, _ADVICE)
