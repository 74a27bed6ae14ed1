"""Converts the values of single rows, column by column, to typed changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ticdc_assets.changes.keys import fault_in_key, key_columns
from ticdc_assets.changes.typed import TypedChanges
from ticdc_assets.errors import DecodeError
from ticdc_assets.pipeline.stream.decode.task import MessageTask
from ticdc_assets.protocols.avro.table_names import sanitised
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.protocol import Value
from ticdc_assets.protocols.values.ambiguous_times import is_ambiguous
from ticdc_assets.protocols.values.text import DATE_KINDS
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.model import Column, TableSchema

Kept = tuple[int, RowEvent, list[Any], list[Any] | None]
"""A row's message ordinal, its event, and its values after and before."""


def spelt(task: MessageTask, column: Column) -> str:
    """The name of a column in rows, in lower case."""
    return (sanitised(column.name) if task.decoding.protocol == "avro" else column.name).lower()


def unknown_column(task: MessageTask, table: TableSchema, sent: Iterable[str]) -> str | None:
    """A column in the rows that no schema of their version has."""
    known = {spelt(task, column) for column in table.columns}
    return next((name for name in sent if name.lower() not in known), None)


class RowValues:
    """Reads the values of rows. `read` is the protocol's `value`, or that of another origin of the cells. TIMESTAMPs
    without a zone are in `zone`."""

    def __init__(self, task: MessageTask, read: Value, zone: str) -> None:
        self._task = task
        self._read = read
        self._zone = zone

    def of(self, columns: Sequence[Column], wire: Mapping[str, Any]) -> list[Any]:
        """The lake's values of a row, NULL for a column that was not sent."""
        lowered = {name.lower(): value for name, value in wire.items()}
        return [self._read(c, lowered.get(spelt(self._task, c)), self._task.decoding.zone) for c in columns]

    def zero_dates(self, columns: Sequence[Column], wire: Mapping[str, Any], now: Sequence[Any]) -> int:
        """The number of sent dates that are not in the calendar. DecodeError where such dates are not allowed."""
        sent = {name.lower() for name, value in wire.items() if value is not None}
        dates = [
            c.name for c, value in zip(columns, now, strict=True)
            if value is None and c.type.kind in DATE_KINDS and spelt(self._task, c) in sent
        ]  # fmt: skip
        if dates and not self._task.decoding.zero_dates_allowed:
            advice = "Set `zero_dates: null` to take such dates as NULL; the message is kept."
            raise DecodeError("", "a date that exists", "a zero date", advice)
        return len(dates)

    def ambiguous_times(self, columns: Sequence[Column], wire: Mapping[str, Any], now: Sequence[Any]) -> int:
        """The number of sent TIMESTAMPs that may be either of two times."""
        sent = {name.lower(): value for name, value in wire.items()}
        pairs = zip(columns, now, strict=True)
        return sum(is_ambiguous(c, sent.get(spelt(self._task, c)), value, self._zone) for c, value in pairs)

    def check_key(self, table: TableSchema, wire: Mapping[str, Any], values: Sequence[Any]) -> None:
        """DecodeError, naming the column, where the lake cannot hold the key of a row."""
        columns = table.stored_columns
        numbers = key_columns(columns, table.key)
        sent = {name.lower(): value for name, value in wire.items()} if numbers else {}
        for number in numbers:
            column = columns[number]
            fault = fault_in_key(column, sent.get(spelt(self._task, column)), values[number], self._zone)
            if fault is not None:
                advice = "The message is kept; give the row another key at the source."
                raise DecodeError("", f"a value in column {column.name!r}, which is of the key", fault, advice)


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
