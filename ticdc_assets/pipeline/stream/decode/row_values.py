"""The values of single rows: their checksums verified, and column by column converted to typed changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ticdc_assets.changes.identity import fault_in_key, key_columns
from ticdc_assets.changes.typed import TypedChanges
from ticdc_assets.errors import DecodeError
from ticdc_assets.names.avro import sanitised
from ticdc_assets.names.folding import fold
from ticdc_assets.pipeline.stream.decode.task import MessageTask
from ticdc_assets.protocols.avro import decoder as confluent_avro
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.protocol import Value
from ticdc_assets.protocols.simple import decoder as simple
from ticdc_assets.protocols.values.ambiguous_times import is_ambiguous
from ticdc_assets.protocols.values.checksum import ChecksummedRow
from ticdc_assets.protocols.values.text import DATE_KINDS
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.history.source_table import fold_name
from ticdc_assets.schema.model import Column, TableSchema
from ticdc_assets.sources.capture import Message

Kept = tuple[int, RowEvent, list[Any], list[Any] | None]
"""A row's message ordinal, its event, and its values after and before."""


def spelt(task: MessageTask, column: Column) -> str:
    """The name of a column in rows, in lower case."""
    return fold(sanitised(column.name) if task.decoding.protocol == "avro" else column.name)


def unknown_column(task: MessageTask, table: TableSchema, sent: Iterable[str]) -> str | None:
    """A column in the rows that no schema of their version has."""
    known = {spelt(task, column) for column in table.columns}
    return next((name for name in sent if fold(name) not in known), None)


@dataclass(frozen=True, slots=True)
class RowValues:
    """Reads the values of rows. `read` is the protocol's `value`, or that of another origin of the cells. TIMESTAMPs
    without a zone are in `zone`."""

    task: MessageTask
    read: Value
    zone: str

    def of(self, columns: Sequence[Column], wire: Mapping[str, Any], key: Sequence[str] = ()) -> list[Any]:
        """The lake's values of a row, NULL for a column that was not sent. Raises DecodeError, which names the column,
        if the lake cannot hold a value of the key."""
        sent = {fold(name): value for name, value in wire.items()}
        cells = [sent.get(spelt(self.task, column)) for column in columns]
        values = [self.read(c, cell, self.task.decoding.zone) for c, cell in zip(columns, cells, strict=True)]
        for number in key_columns(columns, key) if key else ():
            fault = fault_in_key(columns[number], cells[number], values[number], self.zone)
            if fault is not None:
                advice = "The message is kept; give the row another key at the source."
                where = f"a value in column {columns[number].name!r}, which is of the key"
                raise DecodeError("", where, fault, advice)
        return values

    def counts(self, columns: Sequence[Column], wire: Mapping[str, Any], now: Sequence[Any]) -> tuple[int, int]:
        """The number of sent dates that are not in the calendar, and of sent TIMESTAMPs that may be either of two
        times. Raises DecodeError if such dates are not allowed."""
        sent = {fold(name): value for name, value in wire.items()}
        zero_dates = ambiguous = 0
        for column, value in zip(columns, now, strict=True):
            if column.type.kind in DATE_KINDS:
                cell = sent.get(spelt(self.task, column))
                zero_dates += value is None and cell is not None
                ambiguous += is_ambiguous(column, cell, value, self.zone)
        if zero_dates and not self.task.decoding.zero_dates_allowed:
            advice = "Set `zero_dates: null` to take such dates as NULL; the message is kept."
            raise DecodeError("", "a date that exists", "a zero date", advice)
        return zero_dates, ambiguous


def changes_of(columns: tuple[Column, ...], kept: Sequence[Kept]) -> TypedChanges:
    """The rows as typed changes, in their order."""
    empty: list[Any] = [None] * len(columns)
    now = [row[2] for row in kept]
    before = [row[3] or empty for row in kept]
    events = [row[1] for row in kept]
    types = [arrow_type(c.type) for c in columns]
    return TypedChanges(
        columns,
        pa.array([str(e.op) for e in events], pa.string()),
        pa.array([e.commit_ts for e in events], pa.int64()),
        pa.array([e.time.commit_ms for e in events], pa.int64()),
        pa.array([row[0] for row in kept], pa.int64()),
        pa.array(np.zeros(len(kept), np.int64)),
        tuple(pa.array([values[n] for values in now], t) for n, t in enumerate(types)),
        tuple(pa.array([values[n] for values in before], t) for n, t in enumerate(types)),
        pa.array([row[3] is not None for row in kept], pa.bool_()),
        0,
    )


# -- checksums --------------------------------------------------------------------------------------------------------


def verified(task: MessageTask, event: RowEvent, message: Message) -> RowEvent:
    """The row after its checksum is verified. A checksum also shows which of two equal wall times a TIMESTAMP is.

    Raises:
        DecodeError: the row does not match its checksum.
    """
    table = checked_schema(task, event)
    if table is None:
        return event
    is_simple = task.decoding.protocol == "simple"
    decoder = simple if is_simple else confluent_avro
    fault: str | None = decoder.verify(event, table, task.decoding.zone)
    if fault is not None:
        raise mismatch(message, fault)
    resolved: RowEvent = decoder.with_resolved_times(event, table, task.decoding.zone)
    return resolved


def checked_schema(task: MessageTask, event: RowEvent) -> TableSchema | None:
    """The schema over which the row's checksum is computed; None where there is none to check."""
    if not isinstance(event, ChecksummedRow) or event.hints.schema_version is None:
        return None
    return task.schemas.checked.get((fold_name(event.schema, event.table), event.hints.schema_version))


def mismatch(message: Message, fault: str) -> DecodeError:
    """The error of a row that does not match its checksum."""
    return DecodeError(message.where, "a row with the checksum it came with", fault, "Load the row again.")
