"""The values of single rows: from what was sent, column by column, to typed changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ticdc_assets.changes.keys import fault_in_key, key_columns
from ticdc_assets.changes.typed import TypedChanges
from ticdc_assets.errors import DecodeError
from ticdc_assets.pipeline.message_task import MessageTask
from ticdc_assets.protocols.avro_names import sanitised
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.registry import Value
from ticdc_assets.protocols.text_values import DATE_KINDS
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.model import Column, TableSchema

Kept = tuple[int, RowEvent, list[Any], list[Any] | None]
"""A row's message, what happened, and its values now and before."""


def spelt(task: MessageTask, column: Column) -> str:
    """The name that rows have a column under, without regard to case."""
    return (sanitised(column.name) if task.protocol == "avro" else column.name).lower()


def untold_column(task: MessageTask, table: TableSchema, sent: Iterable[str]) -> str | None:
    """A column that rows were sent with and no schema of their version has."""
    told = {spelt(task, column) for column in table.columns}
    return next((name for name in sent if name.lower() not in told), None)


class RowValues:
    """Reads the values of rows; `read` is the protocol's `value`, or that of whatever else the cells come from."""

    def __init__(self, task: MessageTask, read: Value) -> None:
        self._task = task
        self._read = read

    def of(self, columns: Sequence[Column], wire: Mapping[str, Any]) -> list[Any]:
        """The lake's values of a row, NULL for a column that was not sent."""
        lowered = {name.lower(): value for name, value in wire.items()}
        return [self._read(c, lowered.get(spelt(self._task, c)), self._task.zone) for c in columns]

    def zero_dates(self, columns: Sequence[Column], wire: Mapping[str, Any], now: Sequence[Any]) -> int:
        """How many of the dates that were sent no calendar has. DecodeError where none is allowed."""
        sent = {name.lower() for name, value in wire.items() if value is not None}
        dates = [
            c.name for c, value in zip(columns, now, strict=True)
            if value is None and c.type.kind in DATE_KINDS and spelt(self._task, c) in sent
        ]  # fmt: skip
        if dates and not self._task.zero_dates_allowed:
            todo = "Set `zero_dates: null` to take such dates as NULL; the message is kept."
            raise DecodeError("", "a date of the calendar", "a zero date", todo)
        return len(dates)

    def check_key(self, table: TableSchema, wire: Mapping[str, Any], values: Sequence[Any]) -> None:
        """DecodeError, naming the column, where the key of a row is none that the lake can hold."""
        columns = table.stored_columns
        numbers = key_columns(columns, table.key)
        sent = {name.lower(): value for name, value in wire.items()} if numbers else {}
        for number in numbers:
            column = columns[number]
            fault = fault_in_key(column, sent.get(spelt(self._task, column)), values[number])
            if fault is not None:
                todo = "The message is kept; give the row another key at the source."
                raise DecodeError("", f"a value in column {column.name!r}, which is of the key", fault, todo)


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
        pa.array([e.commit_ms for e in events], pa.int64()),
        pa.array([row[0] for row in kept], pa.int64()),
        pa.array(np.zeros(len(kept), np.int64)),
        tuple(pa.array([values[n] for values in now], t) for n, t in enumerate(types)),
        tuple(pa.array([values[n] for values in before], t) for n, t in enumerate(types)),
        pa.array([row[3] is not None for row in kept], pa.bool_()),
        0,
    )
