"""Row events of a reference decoder as columns, in the form of a bulk decoder.

The cells of the columns are wire values of any form, which Arrow cannot hold. So an array has their indices in a list
of cells, which `Reading` reads value by value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ticdc_assets.names.folding import fold
from ticdc_assets.protocols.columnar.message_rows import TableRows
from ticdc_assets.protocols.columnar.raw_rows import RawRows
from ticdc_assets.protocols.events import Op, RowEvent

PlacedEvent = tuple[int, int, RowEvent]
"""The index of the message of a row, the ordinal of the row among the events of the message, and the row."""


def tables_of(rows: Iterable[PlacedEvent]) -> list[TableRows]:
    """The rows by table, schema version and column names, without their values: `with_values` adds these."""
    groups: dict[tuple[Any, ...], list[PlacedEvent]] = {}
    for row in rows:
        groups.setdefault(_kind(row[2]), []).append(row)
    return [_table(group) for group in groups.values()]


def _kind(event: RowEvent) -> tuple[Any, ...]:
    """Equal for rows that differ only in their values."""
    time, key = event.time, frozenset(event.hints.key or ())
    sent = frozenset(event.wire)  # as a set: messages order the columns freely
    only_old = frozenset(name for name in event.before or () if name not in sent)
    form = (event.handle_only, event.claim is None, event.op is Op.DELETE, key)
    has_time = (event.commit_ts is None, time.commit_ms is None, time.by_position)
    return (event.schema, event.table, event.hints.schema_version, sent, only_old, *form, *has_time)


def _table(rows: Sequence[PlacedEvent]) -> TableRows:
    events = tuple(event for _, _, event in rows)
    heads = RawRows(
        op=pa.array([str(event.op) for event in events], pa.string()),
        commit_ts=pa.array([event.commit_ts for event in events], pa.int64()),
        commit_ms=pa.array([event.time.commit_ms for event in events], pa.int64()),
        line=pa.array([message for message, _, _ in rows], pa.int64()),
        columns=(),
        wire=(),
    )
    position = pa.array([position for _, position, _ in rows], pa.int64())
    first = events[0]
    return TableRows(first.schema, first.table, first.hints.schema_version, heads, position, events=events)


def with_values(table: TableRows) -> TableRows:
    """The rows of `tables_of` with the values of their events. Columns have folded names."""
    now = [_folded(event.wire) for event in table.events]
    full = [event.full_before for event in table.events]
    before = [None if image is None else _folded(image) for image in full]
    names = tuple(dict.fromkeys((*now[0], *(name for image in before if image for name in image))))
    cells: list[Any] = []
    raw = replace(
        table.rows,
        columns=names,
        wire=tuple(_indices(cells, [image.get(name) for image in now]) for name in names),
    )
    if any(image is not None for image in before):
        raw = replace(
            raw,
            before=tuple(_indices(cells, [image.get(name) if image else None for image in before]) for name in names),
            has_before=pa.array([image is not None for image in before], pa.bool_()),
        )
    return replace(table, rows=raw, cells=cells)


def _folded(image: Mapping[str, Any]) -> dict[str, Any]:
    return {fold(name): cell for name, cell in image.items()}


def _indices(cells: list[Any], column: Sequence[Any]) -> pa.Array:
    """The indices of a column's cells, which are added to `cells`; null for NULL."""
    begin = len(cells)
    cells.extend(column)
    return pa.array([None if cell is None else begin + number for number, cell in enumerate(column)], pa.int64())


def placed(table: TableRows) -> list[PlacedEvent]:
    """The rows of `tables_of` again."""
    return list(zip(table.rows.line.to_pylist(), table.position.to_pylist(), table.events, strict=True))
