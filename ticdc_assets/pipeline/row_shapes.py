"""Rows of tables whose columns are inferred from rows: whether a row has the columns that are known, and what it tells
besides. What it tells holds from just before it; the table is then read again with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.pipeline.message_task import Dating, MessageTask
from ticdc_assets.pipeline.message_values import spelt, untold_column
from ticdc_assets.protocols import confluent_avro
from ticdc_assets.protocols.avro_names import Name
from ticdc_assets.protocols.events import DdlEvent, Op, RowEvent
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.lineage import SourceName, fold_name
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.schema.row_told import changed_column, widened
from ticdc_assets.sources.capture import Message
from ticdc_assets.tso import LOGICAL_BITS

SHAPES_MAX: Final = 100
"""Sets of columns of one table in one task; the others are told when these are known."""


@dataclass(frozen=True, slots=True)
class Unlike:
    """How a row is unlike its table, naming the column, and whether the row tells what the table is to have."""

    found: str
    tells: bool


@dataclass(slots=True)
class Shapes:
    """What rows of one name tell of their table, each set of columns and types once, from the earliest row."""

    _by_columns: dict[tuple[Any, ...], DdlEvent] = field(default_factory=dict)

    def add(self, told: DdlEvent) -> None:
        assert told.after is not None
        columns = tuple(sorted((column.name.lower(), str(column.type)) for column in told.after.columns))
        known = self._by_columns.get(columns)
        if (known is None and len(self._by_columns) < SHAPES_MAX) or (known and told.commit_ts < known.commit_ts):
            self._by_columns[columns] = told

    def events(self) -> tuple[DdlEvent, ...]:
        return tuple(self._by_columns.values())


def unlike(task: MessageTask, table: TableSchema, event: RowEvent) -> Unlike | None:
    """How a row is unlike the columns that its table has by now; None where it is like them."""
    column = untold_column(task, table, (*event.wire, *(event.before or ())))
    if column is not None:
        return Unlike(f"found {column!r}", tells=True)
    may_lack = event.op is Op.DELETE or event.handle_only
    column = None if may_lack else missing_column(task, table, event.wire)
    if column is not None:
        return Unlike(f"found no {column!r}", tells=False)
    column = changed_type(task, table, event)
    return None if column is None else Unlike(f"found another type of {column!r}", tells=True)


def missing_column(task: MessageTask, table: TableSchema, sent: Iterable[str]) -> str | None:
    """A column of the table, inferred from whole rows, that rows were sent without."""
    if not table.inferred or REGISTRY[task.protocol].infer is None:
        return None
    there = {name.lower() for name in sent}
    return next((column.name for column in table.stored_columns if spelt(task, column) not in there), None)


def changed_type(task: MessageTask, table: TableSchema, event: RowEvent) -> str | None:
    """A column that the row tells another type of than its table, inferred from rows, has by now."""
    infer = REGISTRY[task.protocol].infer
    if not table.inferred or infer is None or not event.column_hints:
        return None
    try:
        return changed_column(table, infer(event))
    except SchemaError:
        return None  # the row tells no types


def sample_is_unlike(task: MessageTask, table: TableSchema, name: SourceName, message: Message) -> bool:
    """Whether a message has a row of the table that tells another type: types stay as they are from row to row, so one
    row of a batch tells whether the others are to be asked."""
    if not table.inferred or REGISTRY[task.protocol].infer is None:
        return False
    events = REGISTRY[task.protocol].decode(message.key, message.value, message.where, task.options)
    rows = (event for event in events if isinstance(event, RowEvent) and fold_name(event.schema, event.table) == name)
    return any(changed_type(task, table, row) is not None for row in rows)


def told_by(task: MessageTask, name: Name, event: RowEvent, message: Message) -> DdlEvent | None:
    """What a row tells of its table, to hold from just before it; None where it tells nothing."""
    try:
        table = _table(task, event, message)
    except (SchemaError, DecodeError):
        return None
    if table is None or task.dating is Dating.PLACE:
        return None  # by place, the first pass has all that messages tell
    schema, own = name
    after = replace(table, schema=schema, name=own, inferred=True)
    return DdlEvent(_just_before(event), schema, own, "", after=after, where=message.where)


def _table(task: MessageTask, event: RowEvent, message: Message) -> TableSchema | None:
    infer = REGISTRY[task.protocol].infer
    if infer is not None:
        return infer(event) if event.column_hints else None
    if task.protocol != "avro":
        return None
    told = confluent_avro.schema_event(message.key, message.value, message.where, task.options)
    return told.after if told is not None else None


def _just_before(event: RowEvent) -> int:
    """Where only milliseconds are told, rows of this one are told apart by their columns."""
    if event.commit_ts is not None:
        return max(0, event.commit_ts - 1)
    return (event.commit_ms or 0) << LOGICAL_BITS


def together(told: Iterable[DdlEvent], known: Iterable[DdlEvent]) -> list[DdlEvent]:
    """What rows tell, once for each table and time; without that of which something is `known` already."""
    places = {(event.commit_ts, event.schema, event.table) for event in known if not event.query}
    found: dict[tuple[int, str, str], DdlEvent] = {}
    for event in sorted(told, key=lambda event: event.commit_ts):
        place = (event.commit_ts, event.schema, event.table)
        found[place] = _joined(found[place], event) if place in found else event
    return [event for place, event in found.items() if place not in places]


def _joined(one: DdlEvent, other: DdlEvent) -> DdlEvent:
    assert one.after is not None
    assert other.after is not None
    try:
        return replace(one, after=widened(one.after, other.after))
    except SchemaError:
        return one  # the rows of the other are held when these are known
