"""Handles large rows. A row whose message holds only the handle key is completed from the upstream TiDB. For a row that
may be late, it finds out whether the changelog has the row.

The row after a change is read at its commit_ts, the row before it one TSO earlier; old values are read only where the
stream carries them. A deleted row needs only its key. A snapshot of TiDB does not change, so a repeated run reads the
same rows.

A repeat is recognised by its key. So a repeat opens no claim-check file, which may be deleted by then, and needs no
query of TiDB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from ticdc_assets.changes import layout
from ticdc_assets.config import Upstream
from ticdc_assets.errors import NotYetError, TicdcAssetsError
from ticdc_assets.names.folding import fold
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.changelog.late_rows import are_known
from ticdc_assets.pipeline.stream.decode.row_schemas import spelt
from ticdc_assets.pipeline.stream.decode.task import MessageTask
from ticdc_assets.pipeline.stream.decode.values import as_sent
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.schema.history.source_table import SchemaPeriod, SourceName
from ticdc_assets.schema.model import Column, TableSchema
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.upstream.rows import ROWS_MAX, UpstreamRows
from ticdc_assets.sources.upstream.sql import Row

_ADVICE = "Check that `upstream` is the TiDB that the changefeed reads from; the next run tries again."
_ADVICE_CLAIM_CHECK = 'Set `large-message-handle-option = "claim-check"` for the changefeed: then no row is cut.'


@dataclass(frozen=True, slots=True)
class CutRow:
    """A change whose row was cut to its handle key, with its position."""

    name: SourceName
    period: SchemaPeriod
    delivery: int
    at: tuple[int, int]
    event: RowEvent
    message: Message
    late: bool = False

    @property
    def table(self) -> TableSchema:
        return self.period.version.table


@dataclass(slots=True)
class Completed:
    """The result for cut rows of one table and delivery: the rows with all columns, or why they wait."""

    cut: Sequence[CutRow]
    events: list[RowEvent] = field(default_factory=list)
    problem: Note | None = None

    @property
    def size_bytes(self) -> int:
        """The approximate size of the rows in bytes."""
        images = (image for event in self.events for image in (event.wire, event.before) if image is not None)
        return sum(len(cell) for image in images for cell in image.values() if cell is not None)


def completed(task: MessageTask, upstream: Upstream, cut: Sequence[CutRow]) -> Iterator[Completed]:
    """The rows, a few at a time. After an error, one problem per table is enough to hold it."""
    held = set()
    with UpstreamRows(upstream) as rows:
        for some in _batches(cut):
            if some[0].name in held:
                continue
            done = Completed(some)
            try:
                done.events = _events(task, rows, some)
            except TicdcAssetsError as error:
                held.add(some[0].name)
                where = f"{some[0].message.where}, a row of which only the handle key was sent"
                done.problem = Note.of(NoteCode.INPUT, error, where)
            yield done


def _batches(cut: Sequence[CutRow]) -> Iterator[Sequence[CutRow]]:
    """Rows of one table, version, delivery and commit, in order of commit."""
    ordered = sorted(cut, key=_batch)
    for _, same in groupby(ordered, key=_batch):
        rows = list(same)
        yield from (rows[begin : begin + ROWS_MAX] for begin in range(0, len(rows), ROWS_MAX))


def _batch(row: CutRow) -> tuple[Any, ...]:
    keys = tuple(sorted(row.event.wire))
    place = (row.period.after_ts, row.delivery, row.late)
    return (row.name, row.event.commit_ts or 0, *place, row.event.schema, row.event.table, keys)


def _events(task: MessageTask, rows: UpstreamRows, cut: Sequence[CutRow]) -> list[RowEvent]:
    commit_ts = cut[0].event.commit_ts
    if commit_ts is None:
        raise NotYetError(".".join(cut[0].name), "a commit_ts to read upstream at", "none", _ADVICE_CLAIM_CHECK)
    key = _key(cut[0])
    after = _rows(task, rows, cut, key, [row.event.wire for row in cut], commit_ts)
    with_before = [row for row in cut if _wants_before(task, row.event)]
    wires = [{**row.event.wire, **(row.event.before or {})} for row in with_before]
    before = dict(
        zip((row.at for row in with_before), _rows(task, rows, with_before, key, wires, commit_ts - 1), strict=True)
    )
    return [_event(row, now, before.get(row.at), commit_ts) for row, now in zip(cut, after, strict=True)]


def _wants_before(task: MessageTask, event: RowEvent) -> bool:
    """Whether the stream carries old values of this change, or would if it were known to be an update."""
    if event.before is not None:
        return True
    return event.upsert and isinstance(task.decoding.options, DecoderOptions) and task.decoding.options.output_old_value


def _key(row: CutRow) -> list[Column]:
    """The columns that were sent: they identify the row."""
    found = [row.table.column(name) for name in row.event.wire]
    if not found or None in found:
        missing = "none" if not found else "a column that its schema lacks"
        raise NotYetError(".".join(row.name), "the handle key of the row", missing, _ADVICE_CLAIM_CHECK)
    return [column for column in found if column is not None]


def _rows(
    task: MessageTask,
    rows: UpstreamRows,
    cut: Sequence[CutRow],
    key: Sequence[Column],
    wires: Sequence[Any],
    tso: int,
) -> list[Row | None]:
    if not cut:
        return []
    wanted = [_key_values(task, ".".join(cut[0].name), key, wire) for wire in wires]
    event = cut[0].event
    return rows.rows((event.schema, event.table), cut[0].table.stored_columns, key, wanted, tso)


def _key_values(task: MessageTask, where: str, key: Sequence[Column], wire: Any) -> list[Any]:
    lowered = {fold(name): value for name, value in wire.items()}
    read = as_sent(task)
    values = [read(column, lowered[fold(column.name)], task.decoding.zone) for column in key]
    if None in values:
        raise NotYetError(
            where, "a value in each column of the handle key", "a NULL or a zero date", _ADVICE_CLAIM_CHECK
        )
    return values


def _event(cut: CutRow, now: Row | None, before: Row | None, commit_ts: int) -> RowEvent:
    event = cut.event
    if now is None or (before is None and event.before is not None):
        at = commit_ts if now is None else commit_ts - 1
        raise NotYetError(f"{event.schema}.{event.table}", f"the row upstream at {at}", "none of that key", _ADVICE)
    op = Op.UPDATE if before is not None else event.op
    return replace(
        event, op=op, wire=now, before=before, before_is_partial=False, handle_only=False, claim=None, upsert=False
    )


# -- rows that may be late --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LateLarge:
    """A change that may be late, with its position."""

    name: SourceName
    period: SchemaPeriod
    delivery: int
    event: RowEvent
    message: Message
    at: tuple[int, int]

    @property
    def version(self) -> tuple[str, int]:
        return (self.period.source_table_id, self.period.version.from_ts)

    def key(self, task: MessageTask) -> tuple[Column, ...] | None:
        """The key columns of its table; None for a table without a key, or where the message lacks one of them."""
        table = self.period.version.table
        key = tuple(column for column in table.stored_columns if column.name in table.key)
        sent = {fold(name) for name, value in self.event.wire.items() if value is not None}
        return key if key and all(spelt(task, column) in sent for column in key) else None


def with_known(task: MessageTask, rows: Sequence[LateLarge]) -> Iterator[tuple[LateLarge, bool]]:
    """Each row, and whether its changelog has it."""
    for _, some in groupby(sorted(rows, key=lambda row: (row.version, row.at)), key=lambda row: row.version):
        yield from _of_version(task, list(some))


def _of_version(task: MessageTask, rows: Sequence[LateLarge]) -> Iterator[tuple[LateLarge, bool]]:
    keyed = [row for row in rows if row.key(task) is not None]
    yield from ((row, False) for row in rows if row.key(task) is None)
    if keyed:
        target = task.targets[keyed[0].version[0]]
        try:
            known = are_known(target.metadata_uri, task.io_properties, _identities(task, keyed))
        except TicdcAssetsError:  # the key cannot be read; the row's own fault is reported when the row is decoded
            known = np.zeros(len(keyed), np.bool_)
        yield from ((row, bool(is_known)) for row, is_known in zip(keyed, known, strict=True))


def _identities(task: MessageTask, rows: Sequence[LateLarge]) -> pa.Table:
    """The identity columns of the rows, under their names in the changelog."""
    version, key = rows[0].period.version, rows[0].key(task)
    assert key is not None
    schema = task.targets[rows[0].version[0]].schemas[version.from_ts]
    stored = version.table.stored_columns
    first = schema.get_field_index(layout.BEFORE) + 1
    fields = [schema.field(first + stored.index(column)) for column in key]
    cells = zip(*(_values(task, key, row.event) for row in rows), strict=True)
    keys = {field.name: pa.array(list(column), field.type) for field, column in zip(fields, cells, strict=True)}
    ops = ["D" if row.event.op is Op.DELETE else "I" for row in rows]
    place = {
        layout.COMMIT_TS: pa.array([row.event.commit_ts for row in rows], pa.int64()),
        layout.OP: pa.array(ops, pa.string()),
    }
    return pa.table({**place, **keys})


def _values(task: MessageTask, columns: Sequence[Column], event: RowEvent) -> list[Any]:
    sent, read = {fold(name): cell for name, cell in event.wire.items()}, as_sent(task)
    return [read(column, sent.get(spelt(task, column)), task.decoding.zone) for column in columns]
