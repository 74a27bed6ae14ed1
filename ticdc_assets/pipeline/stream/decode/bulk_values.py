"""Types the values of rows that a bulk decoder has read: whole columns at once.

What cannot be typed is left to the reference decoder, which finds the row and reports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ticdc_assets.changes.keys import may_have_faults
from ticdc_assets.changes.typed import TypedChanges
from ticdc_assets.errors import DecodeError
from ticdc_assets.pipeline.stream.decode.row_values import spelt
from ticdc_assets.pipeline.stream.decode.task import MessageTask
from ticdc_assets.protocols.columnar.message_rows import Bulk, TableRows
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.protocols.values.ambiguous_times import count
from ticdc_assets.protocols.values.text import DATE_KINDS
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.history.source_table import SchemaPeriod
from ticdc_assets.schema.model import Column

REFERENCE_DECIDES: Final = "The reference decoder reads it."

_Sent = Sequence[tuple[Column, int | None]]
"""The columns of the table, each with its number among the sent ones."""


def typed_changes(
    task: MessageTask, bulk: Bulk, period: SchemaPeriod, table: TableRows, ordinals: npt.NDArray[np.int64]
) -> TypedChanges:
    """The rows of one table and schema period, with the types of the period.

    Args:
        ordinals: of the message of each row.

    Raises:
        DecodeError: a value cannot be typed, or a key may have no value in the lake.
    """
    columns, rows = period.version.table.stored_columns, table.rows
    numbers = {name.lower(): number for number, name in enumerate(rows.columns)}
    sent = [(column, numbers.get(spelt(task, column))) for column in columns]
    now = _columns(task, bulk, sent, rows.wire, len(rows))
    before = _columns(task, bulk, sent, rows.before, len(rows))
    zero_dates = _zero_dates(sent, rows.wire, now)
    if zero_dates and not task.decoding.zero_dates_allowed:
        raise DecodeError(table.table, "dates that exist", "zero dates", REFERENCE_DECIDES)
    zone = REGISTRY[task.decoding.protocol].zone_of_times(task.decoding.zone)
    changes = TypedChanges(
        columns,
        rows.op.cast(pa.string()),
        rows.commit_ts,
        rows.commit_ms,
        pa.array(ordinals),
        pa.array(np.zeros(len(rows), np.int64)),
        now,
        before,
        rows.has_before if rows.has_before is not None else pa.array(np.zeros(len(rows), np.bool_)),
        zero_dates,
        _ambiguous_times(sent, rows.wire, now, zone),
    )
    if may_have_faults(changes, period.version.table.key, None if task.decoding.protocol == "simple" else zone):
        raise DecodeError(table.table, "keys that the lake can hold", "another", REFERENCE_DECIDES)
    return changes


def _columns(
    task: MessageTask, bulk: Bulk, sent: _Sent, wire: tuple[pa.Array, ...] | None, length: int
) -> tuple[pa.Array, ...]:
    """The values by column; NULL where a column, or the whole image, was not sent."""
    return tuple(
        pa.nulls(length, arrow_type(column.type))
        if wire is None or number is None
        else bulk.column(column, wire[number], task.decoding.zone)
        for column, number in sent
    )


def _zero_dates(sent: _Sent, wire: tuple[pa.Array, ...], now: tuple[pa.Array, ...]) -> int:
    """The number of sent dates that are not in the calendar; they became NULL."""
    return sum(
        values.null_count - wire[number].null_count
        for (column, number), values in zip(sent, now, strict=True)
        if number is not None and column.type.kind in DATE_KINDS
    )


def _ambiguous_times(sent: _Sent, wire: tuple[pa.Array, ...], now: tuple[pa.Array, ...], zone: str) -> int:
    """The number of sent TIMESTAMPs that may be either of two times; the first was used."""
    return sum(
        count(column, wire[number], values, zone)
        for (column, number), values in zip(sent, now, strict=True)
        if number is not None
    )
