"""Rows of whole batches of messages as typed changes, by the bulk form of their protocol.

It decides for whole arrays what `message_decode` decides for one row: under which name, in which slot of the table's
history, whether this run wants it. A message of which any row is not settled here goes to the reference whole, so that
no row is told twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.changes.keys import may_have_faults
from ticdc_assets.changes.typed import TypedChanges
from ticdc_assets.errors import DecodeError
from ticdc_assets.pipeline.message_task import Arrival, Dating, MessageTask
from ticdc_assets.pipeline.message_values import spelt, untold_column
from ticdc_assets.pipeline.offset_ranges import Partition
from ticdc_assets.pipeline.row_shapes import missing_column, sample_is_unlike
from ticdc_assets.pipeline.task import Target
from ticdc_assets.protocols.message_rows import Bulk, Messages, TableRows, take
from ticdc_assets.protocols.text_values import DATE_KINDS
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.lineage import Slot, SourceName, fold_name
from ticdc_assets.schema.model import Column
from ticdc_assets.sources.capture import Message
from ticdc_assets.tso import LOGICAL_BITS

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
BATCH_MESSAGES: Final = 4096
"""How many messages are decoded together."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages with their ordinals in the capture."""

    ordinals: Ints
    messages: tuple[Message, ...]

    @property
    def partitions(self) -> tuple[list[Partition], Ints]:
        """The distinct partitions, and of each message which of them it is in."""
        numbers: dict[Partition, int] = {}
        codes = [numbers.setdefault((m.topic, m.partition), len(numbers)) for m in self.messages]
        return list(numbers), np.array(codes, np.int64)

    @property
    def offsets(self) -> Ints:
        return np.array([message.offset for message in self.messages], np.int64)

    def was_read(self, task: MessageTask) -> Bools:
        """The messages that an earlier run has read."""
        if not task.read:
            return np.zeros(len(self.messages), np.bool_)
        return np.array([task.was_read(message) for message in self.messages], np.bool_)

    def taken(self, arrival: Arrival) -> Bools:
        """The messages that a table takes."""
        return np.array([arrival.takes(message) for message in self.messages], np.bool_)


@dataclass(frozen=True, slots=True)
class Piece:
    """Typed changes of one name, slot and delivery; `position` is a row's ordinal among its message's events. They may
    be `late` where they are at or below their table's watermark."""

    name: SourceName
    slot: Slot
    epoch: int
    position: Ints
    changes: TypedChanges
    late: bool = False


@dataclass(slots=True)
class Tally:
    """What is counted of one source name in a batch."""

    rows: int = 0
    above: int = 0
    repeats: int = 0


@dataclass(slots=True)
class Settled:
    """What came of a batch: typed changes, counts by name, and the indices of the messages left to the reference."""

    pieces: list[Piece] = field(default_factory=list)
    tallies: dict[SourceName, Tally] = field(default_factory=dict)
    left: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows of one table under one name, before they are typed; `number` is the slot of each, -1 where unsettled."""

    name: SourceName
    slots: Sequence[Slot]
    table: TableRows
    number: Ints


def settle(task: MessageTask, bulk: Bulk, batch: Batch) -> Settled:
    """What the bulk form can settle of a batch."""
    wired = Messages.from_pairs((m.key, m.value) for m in batch.messages)
    told = bulk.rows(wired, task.options)
    found = [found for table in told.tables for found in _by_name(task, batch, table)]
    spoilt = told.left.copy()
    for rows in found:
        spoilt[_messages_of(rows.table)[rows.number < 0]] = True
    settled, read = Settled(), batch.was_read(task)
    typed = [one for rows in found for one in _typed(task, bulk, batch, rows, spoilt, read)]
    for rows in found:
        _count(task, settled.tallies, batch, rows, spoilt, read)
    settled.pieces = [piece for piece in (_without(piece, batch, spoilt) for piece in typed) if len(piece.changes)]
    settled.left = [int(index) for index in np.flatnonzero(spoilt)]
    return settled


def _messages_of(table: TableRows) -> Ints:
    return np.asarray(table.rows.line.to_numpy(zero_copy_only=False), np.int64)


# -- names and slots --------------------------------------------------------------------------------------------------


def _by_name(task: MessageTask, batch: Batch, table: TableRows) -> Iterator[_Found]:
    """The rows of a table as written; where topics name the table truly, by their topics."""
    if not any(key[1:] == (table.schema, table.table) for key in task.names):
        yield _found(task, batch, table, fold_name(table.schema, table.table))
        return
    topics = np.array([message.topic for message in batch.messages], object)[_messages_of(table)]
    for topic in dict.fromkeys(topics):
        rows = take(table, pa.array(np.flatnonzero(topics == topic)))
        true = task.names.get((topic, table.schema, table.table)) or (table.schema, table.table)
        yield _found(task, batch, rows, fold_name(*true))


def _found(task: MessageTask, batch: Batch, table: TableRows, name: SourceName) -> _Found:
    slots = task.timelines.get(name, ())
    numbers = _numbers(task, batch, table, name, slots) if slots else np.full(len(table), -1)
    nowhere = np.array([slot.lineage_id is None for slot in slots] or [True])
    return _Found(name, slots, table, np.where(nowhere[numbers], -1, numbers))


def _numbers(task: MessageTask, batch: Batch, table: TableRows, name: SourceName, slots: Sequence[Slot]) -> Ints:
    """Which slot each row falls in: the last whose `after_ts` is below the row's own time."""
    after = np.array([slot.after_ts for slot in slots], np.int64)
    if task.dating is Dating.PLACE:
        known = task.versions.get((name, table.schema_version or 0))
        own = batch.ordinals[_messages_of(table)] if known is None else np.full(len(table), known)
        return np.maximum(np.searchsorted(after, own + 1, side="left").astype(np.int64) - 1, 0)
    if task.protocol == "simple" and (name, table.schema_version) not in task.versions and name not in task.told:
        return np.full(len(table), -1)
    if not table.rows.commit_ts.null_count:
        ts = np.asarray(table.rows.commit_ts.to_numpy(), np.int64)
        return np.searchsorted(after, ts, side="left").astype(np.int64) - 1
    if table.rows.commit_ts.null_count < len(table):
        return np.full(len(table), -1)
    if task.dating is Dating.COMMIT_MS:
        return _by_millisecond(table, after)
    return _by_delete(task, batch.ordinals[_messages_of(table)], slots)


def _by_delete(task: MessageTask, ordinals: Ints, slots: Sequence[Slot]) -> Ints:
    """The newest that has a table, else the first there will be."""
    borne = np.array([number for number, slot in enumerate(slots) if slot.lineage_id is not None], np.int64)
    if not len(borne):
        return np.full(len(ordinals), -1)
    placed = np.array([task.placed.get(int(ordinal), 0) for ordinal in ordinals], np.int64)
    after = np.array([slots[number].after_ts for number in borne], np.int64)
    return borne[np.maximum(np.searchsorted(after, placed, side="left") - 1, 0)]


def _by_millisecond(table: TableRows, after: Ints) -> Ints:
    """As the reference does, but for rows of a millisecond in which a statement was committed: those it must weigh."""
    if table.rows.commit_ms.null_count:
        return np.full(len(table), -1)
    ms = np.asarray(table.rows.commit_ms.to_numpy(), np.int64)
    numbers = np.searchsorted(after, ms << LOGICAL_BITS, side="left").astype(np.int64) - 1
    return np.where(np.isin(ms, after >> LOGICAL_BITS), -1, numbers)


# -- what this run wants ----------------------------------------------------------------------------------------------


class _Wanted(NamedTuple):
    """The rows to write, those above this run, those that were written before, and those that may be late."""

    now: Bools
    above: Bools
    again: Bools
    late: Bools


def _wanted(task: MessageTask, target: Target, table: TableRows, batch: Batch, lines: Ints, read: Bools) -> _Wanted:
    ordinals = batch.ordinals[lines]
    none = np.zeros(len(table), np.bool_)
    again = np.isin(ordinals, np.fromiter(task.repeated, np.int64)) if task.repeated else none
    if task.by_arrival:
        taken = (ordinals > target.low) & (ordinals <= target.high)
        if target.lineage_id in task.arrivals:
            taken &= batch.taken(task.arrivals[target.lineage_id])[lines]
        return _Wanted(~again & taken, none, again, none)
    ts = table.rows.commit_ts.to_numpy()
    above = ~again & (ts > target.high)
    below = ~again & ~above & (ts <= target.low)
    known = none if target.lineage_id in task.fresh else read[lines]
    return _Wanted(~above & ~again & ~below, above, again | below & known, below & ~known)


def _count(
    task: MessageTask,
    tallies: dict[SourceName, Tally],
    batch: Batch,
    found: _Found,
    spoilt: Bools,
    read: Bools,
) -> None:
    lines = _messages_of(found.table)
    sound = ~spoilt[lines]
    tally = tallies.setdefault(found.name, Tally())
    tally.rows += int(sound.sum())
    for number in np.unique(found.number[sound]):
        target = task.targets.get(found.slots[number].lineage_id or "")
        if target is not None:
            rows = np.flatnonzero(sound & (found.number == number))
            wanted = _wanted(task, target, take(found.table, pa.array(rows)), batch, lines[rows], read)
            tally.above += int(wanted.above.sum())
            tally.repeats += int(wanted.again.sum())


# -- values -----------------------------------------------------------------------------------------------------------


def _typed(task: MessageTask, bulk: Bulk, batch: Batch, found: _Found, spoilt: Bools, read: Bools) -> Iterator[Piece]:
    """The changes that this run writes; messages of values that cannot be had are marked in `spoilt`."""
    lines = _messages_of(found.table)
    for number in np.unique(found.number[found.number >= 0]):
        slot = found.slots[number]
        target = task.targets.get(slot.lineage_id or "")
        if target is None:
            continue
        rows = np.flatnonzero((found.number == number) & ~spoilt[lines])
        wanted = _wanted(task, target, take(found.table, pa.array(rows)), batch, lines[rows], read)
        for mask, late in ((wanted.late, True), (wanted.now, False)):
            table = take(found.table, pa.array(rows[mask]))
            if not len(table):
                continue
            try:
                _refuse_other_columns(task, batch, found.name, slot, table)
                changes = _changes(task, bulk, slot, table, batch.ordinals)
            except DecodeError:
                spoilt[_messages_of(table)] = True
                continue
            pieces = _by_epoch(task, batch, found.name, slot, table, changes)
            yield from (replace(piece, late=late) for piece in pieces)


def _refuse_other_columns(task: MessageTask, batch: Batch, name: SourceName, slot: Slot, table: TableRows) -> None:
    """DecodeError where rows have other columns than their version, which the reference then tells one by one."""
    assert slot.version is not None
    known, columns = slot.version.table, table.rows.columns
    odd = untold_column(task, known, columns)
    if odd is None and known.inferred and not pc.all(pc.equal(table.rows.op, "D")).as_py():
        odd = missing_column(task, known, columns)
    last = batch.messages[int(_messages_of(table)[-1])]
    if odd is not None or sample_is_unlike(task, known, name, last):
        raise DecodeError(table.table, "the columns of its version", "others", "The reference tells what to do.")


def _changes(task: MessageTask, bulk: Bulk, slot: Slot, table: TableRows, ordinals: Ints) -> TypedChanges:
    assert slot.version is not None
    columns = slot.version.table.stored_columns
    rows = table.rows
    places = {name.lower(): number for number, name in enumerate(rows.columns)}
    now = _columns(task, bulk, columns, places, rows.wire, len(rows))
    before = _columns(task, bulk, columns, places, rows.before, len(rows))
    zero_dates = _zero_dates(task, columns, places, rows.wire, now)
    if zero_dates and not task.zero_dates_allowed:
        raise DecodeError(table.table, "dates that a calendar has", "zero dates", "The reference tells which.")
    changes = TypedChanges(
        columns,
        rows.op.cast(pa.string()),
        rows.commit_ts,
        rows.commit_ms,
        pa.array(ordinals[_messages_of(table)]),
        pa.array(np.zeros(len(rows), np.int64)),
        now,
        before,
        rows.has_before if rows.has_before is not None else pa.array(np.zeros(len(rows), np.bool_)),
        zero_dates,
    )
    if may_have_faults(changes, slot.version.table.key):
        raise DecodeError(table.table, "keys that the lake can hold", "another", "The reference tells which.")
    return changes


def _columns(
    task: MessageTask,
    bulk: Bulk,
    columns: Sequence[Column],
    places: Mapping[str, int],
    wire: tuple[pa.Array, ...] | None,
    length: int,
) -> tuple[pa.Array, ...]:
    arrays = []
    for column in columns:
        place = places.get(spelt(task, column))
        if wire is None or place is None:
            arrays.append(pa.nulls(length, arrow_type(column.type)))
        else:
            arrays.append(bulk.column(column, wire[place], task.zone))
    return tuple(arrays)


def _zero_dates(
    task: MessageTask,
    columns: Sequence[Column],
    places: Mapping[str, int],
    wire: tuple[pa.Array, ...],
    now: tuple[pa.Array, ...],
) -> int:
    """How many dates were sent that no calendar has: they became NULL."""
    sent = ((values, places.get(spelt(task, c))) for c, values in zip(columns, now, strict=True) if _is_date(c))
    return sum(values.null_count - wire[place].null_count for values, place in sent if place is not None)


def _is_date(column: Column) -> bool:
    return column.type.kind in DATE_KINDS


# -- deliveries -------------------------------------------------------------------------------------------------------


def _by_epoch(
    task: MessageTask, batch: Batch, name: SourceName, slot: Slot, table: TableRows, changes: TypedChanges
) -> Iterator[Piece]:
    position = np.asarray(table.position.to_numpy(), np.int64)
    if not task.epochs:
        yield Piece(name, slot, 0, position, changes)
        return
    partitions, codes = batch.partitions
    lines, offsets = _messages_of(table), batch.offsets
    epochs = np.zeros(len(lines), np.int64)
    for code, partition in enumerate(partitions):
        mine = codes[lines] == code
        begins = np.array(task.epochs.get(partition, ()), np.int64)
        epochs[mine] = np.searchsorted(begins, offsets[lines[mine]], side="right")
    for epoch in np.unique(epochs):
        rows = np.flatnonzero(epochs == epoch)
        yield Piece(name, slot, int(epoch), position[rows], changes.take(pa.array(rows)))


def _without(piece: Piece, batch: Batch, spoilt: Bools) -> Piece:
    """The piece without rows of messages that turned out to be for the reference."""
    if not spoilt.any():
        return piece
    bad = batch.ordinals[np.flatnonzero(spoilt)]
    kept = np.flatnonzero(~np.isin(piece.changes.line.to_numpy(), bad))
    if len(kept) == len(piece.changes):
        return piece
    return replace(piece, position=piece.position[kept], changes=piece.changes.take(pa.array(kept)))
