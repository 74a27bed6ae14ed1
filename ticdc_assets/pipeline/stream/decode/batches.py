"""Decodes the rows of whole batches of messages to typed changes, with the bulk decoder of their protocol.

For whole arrays it makes the decisions that `stream.decode.worker` makes for one row: its name, its schema period in
the table's history, and whether this run needs it. If any row of a message cannot be decided here, the whole message
goes to the reference decoder, so that no row is decoded twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.changes.identity import may_have_faults
from ticdc_assets.changes.typed import TypedChanges, with_types
from ticdc_assets.errors import DecodeError
from ticdc_assets.names.folding import fold
from ticdc_assets.pipeline.stream.decode.message_batch import Bools, Ints, MessageBatch
from ticdc_assets.pipeline.stream.decode.row_schemas import is_of_keys, missing_column, sample_is_unlike
from ticdc_assets.pipeline.stream.decode.row_values import spelt, unknown_column
from ticdc_assets.pipeline.stream.decode.task import MessageTask, VersionClock
from ticdc_assets.pipeline.tasks import Target
from ticdc_assets.protocols.columnar.message_rows import Bulk, TableRows, take
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.history.source_table import SchemaGap, SchemaPeriod, SourceName, Timeline, fold_name
from ticdc_assets.tso import LOGICAL_BITS

REFERENCE_DECIDES: Final = "The reference decoder reads it."


@dataclass(frozen=True, slots=True)
class Piece:
    """Typed changes of one name, schema period and delivery. `position` is a row's ordinal among its message's events.
    A `late` piece has rows at or below its table's watermark."""

    name: SourceName
    period: SchemaPeriod
    epoch: int
    position: Ints
    changes: TypedChanges
    late: bool = False


@dataclass(slots=True)
class RowCounts:
    """Counts of one source name in a batch."""

    rows: int = 0
    above: int = 0
    repeats: int = 0


@dataclass(slots=True)
class BulkOutcome:
    """The result of a batch: typed changes, counts by name, and the indices of messages for the reference decoder."""

    pieces: list[Piece] = field(default_factory=list)
    row_counts: dict[SourceName, RowCounts] = field(default_factory=dict)
    left: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows of one table under one name, before they are typed. `number` is the schema period of each row in `timeline`,
    -1 where it is not decided."""

    name: SourceName
    timeline: Timeline
    table: TableRows
    number: Ints

    def targets(self, task: MessageTask, numbers: Ints) -> Iterator[tuple[int, SchemaPeriod, Target]]:
        """The schema periods among these numbers that the run writes, with their numbers and targets."""
        for number in np.unique(numbers):
            period = self.timeline[number]
            target = task.targets.get(period.source_table_id) if isinstance(period, SchemaPeriod) else None
            if isinstance(period, SchemaPeriod) and target is not None:
                yield number, period, target


def decode_in_bulk(task: MessageTask, bulk: Bulk, batch: MessageBatch) -> BulkOutcome:
    """What the bulk decoder can decode of a batch."""
    decoded = bulk.rows(batch.keys_and_values, task.decoding.options)
    found = [found for table in decoded.tables for found in _by_name(task, batch, table)]
    fallback = decoded.left.copy()
    for rows in found:
        fallback[_messages_of(rows.table)[rows.number < 0]] = True
    outcome, read = BulkOutcome(), batch.was_read(task)
    typed = [one for rows in found for one in _typed(task, bulk, batch, rows, fallback, read)]
    for rows in found:
        _count(task, outcome.row_counts, batch, rows, fallback, read)
    outcome.pieces = [piece for piece in (_without(piece, batch, fallback) for piece in typed) if len(piece.changes)]
    outcome.left = [int(index) for index in np.flatnonzero(fallback)]
    return outcome


def _messages_of(table: TableRows) -> Ints:
    return np.asarray(table.rows.line.to_numpy(zero_copy_only=False), np.int64)


# -- names and schema periods ------------------------------------------------------------------------------------------


def _by_name(task: MessageTask, batch: MessageBatch, table: TableRows) -> Iterator[_Found]:
    """The rows of a table by name; where only the topic determines the table, by topic."""
    if not any(key[1:] == (table.schema, table.table) for key in task.schemas.names):
        yield _found(task, batch, table, fold_name(table.schema, table.table))
        return
    topics = np.array([topic for topic, _ in batch.block.partitions], object)[batch.block.owners[_messages_of(table)]]
    for topic in dict.fromkeys(topics):
        rows = take(table, pa.array(np.flatnonzero(topics == topic)))
        true = task.schemas.names.get((topic, table.schema, table.table)) or (table.schema, table.table)
        yield _found(task, batch, rows, fold_name(*true))


def _found(task: MessageTask, batch: MessageBatch, table: TableRows, name: SourceName) -> _Found:
    timeline = task.schemas.timelines.get(name, ())
    numbers = _numbers(task, batch, table, name, timeline) if timeline else np.full(len(table), -1)
    is_gap = np.array([isinstance(period, SchemaGap) for period in timeline] or [True])
    return _Found(name, timeline, table, np.where(is_gap[numbers], -1, numbers))


def _numbers(task: MessageTask, batch: MessageBatch, table: TableRows, name: SourceName, timeline: Timeline) -> Ints:
    """The schema period of each row: the last one whose `after_ts` is below the row's time."""
    after = np.array([period.after_ts for period in timeline], np.int64)
    if task.schemas.clock is VersionClock.POSITION:
        known = task.schemas.versions.get((name, table.schema_version or 0))
        own = batch.ordinals[_messages_of(table)] if known is None else np.full(len(table), known)
        return np.maximum(np.searchsorted(after, own + 1, side="left").astype(np.int64) - 1, 0)
    if (
        task.decoding.protocol == "simple"
        and (name, table.schema_version) not in task.schemas.versions
        and name not in task.schemas.given
    ):
        return np.full(len(table), -1)
    if not table.rows.commit_ts.null_count:
        ts = np.asarray(table.rows.commit_ts.to_numpy(), np.int64)
        return np.searchsorted(after, ts, side="left").astype(np.int64) - 1
    if table.rows.commit_ts.null_count < len(table):
        return np.full(len(table), -1)
    if task.schemas.clock is VersionClock.COMMIT_MS:
        return _by_millisecond(table, after)
    return _by_delete(task, batch.ordinals[_messages_of(table)], timeline)


def _by_delete(task: MessageTask, ordinals: Ints, timeline: Timeline) -> Ints:
    """The newest schema period with a table, else the first later one."""
    periods = [(number, period) for number, period in enumerate(timeline) if isinstance(period, SchemaPeriod)]
    if not periods:
        return np.full(len(ordinals), -1)
    placed = np.array([task.order.placed.get(int(ordinal), 0) for ordinal in ordinals], np.int64)
    numbers = np.array([number for number, _ in periods], np.int64)
    after = np.array([period.after_ts for _, period in periods], np.int64)
    return numbers[np.maximum(np.searchsorted(after, placed, side="left") - 1, 0)]


def _by_millisecond(table: TableRows, after: Ints) -> Ints:
    """The schema period of each row by the millisecond of its commit, -1 for rows in the millisecond of a statement:
    the reference decoder decides these."""
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


def _wanted(
    task: MessageTask, target: Target, commit_ts: pa.Array, batch: MessageBatch, lines: Ints, read: Bools
) -> _Wanted:
    ordinals = batch.ordinals[lines]
    none = np.zeros(len(lines), np.bool_)
    again = np.isin(ordinals, np.fromiter(task.order.repeated, np.int64)) if task.order.repeated else none
    if task.order.by_arrival:
        taken = (ordinals > target.low) & (ordinals <= target.high)
        if target.source_table_id in task.order.arrivals:
            taken &= batch.taken(task.order.arrivals[target.source_table_id])[lines]
        return _Wanted(~again & taken, none, again, none)
    ts = commit_ts.to_numpy()
    above = ~again & (ts > target.high)
    below = ~again & ~above & (ts <= target.low)
    known = none if target.source_table_id in task.order.fresh else read[lines]
    return _Wanted(~above & ~again & ~below, above, again | below & known, below & ~known)


def _count(
    task: MessageTask,
    row_counts: dict[SourceName, RowCounts],
    batch: MessageBatch,
    found: _Found,
    fallback: Bools,
    read: Bools,
) -> None:
    lines = _messages_of(found.table)
    sound = ~fallback[lines]
    counts = row_counts.setdefault(found.name, RowCounts())
    counts.rows += int(sound.sum())
    for number, _, target in found.targets(task, found.number[sound]):
        rows = np.flatnonzero(sound & (found.number == number))
        commit_ts = found.table.rows.commit_ts.take(pa.array(rows))
        wanted = _wanted(task, target, commit_ts, batch, lines[rows], read)
        counts.above += int(wanted.above.sum())
        counts.repeats += int(wanted.again.sum())


# -- values -----------------------------------------------------------------------------------------------------------


def _typed(
    task: MessageTask, bulk: Bulk, batch: MessageBatch, found: _Found, fallback: Bools, read: Bools
) -> Iterator[Piece]:
    """The changes that this run writes. Messages whose values cannot be typed are marked in `fallback`."""
    lines = _messages_of(found.table)
    for number, period, target in found.targets(task, found.number[found.number >= 0]):
        rows = np.flatnonzero((found.number == number) & ~fallback[lines])
        commit_ts = found.table.rows.commit_ts.take(pa.array(rows))
        wanted = _wanted(task, target, commit_ts, batch, lines[rows], read)
        for mask, late in ((wanted.late, True), (wanted.now, False)):
            table = _part(found.table, rows[mask])
            if not len(table):
                continue
            try:
                _refuse_other_columns(task, batch, found.name, period, table)
                changes = _changes(task, bulk, period, table, batch.ordinals[_messages_of(table)])
            except DecodeError:
                fallback[_messages_of(table)] = True
                continue
            pieces = _by_epoch(task, batch, found.name, period, table, changes)
            yield from (replace(piece, late=late) for piece in pieces)


def _part(table: TableRows, rows: Ints) -> TableRows:
    """The rows with these ordinals, in ascending order."""
    return table if len(rows) == len(table) else take(table, pa.array(rows))


def _refuse_other_columns(
    task: MessageTask, batch: MessageBatch, name: SourceName, period: SchemaPeriod, table: TableRows
) -> None:
    """Raise DecodeError where rows have other columns than their version; the reference decoder then finds which."""
    known, columns = period.version.table, table.rows.columns
    unlike = unknown_column(task, known, columns)
    if unlike is None and not (is_of_keys(known, columns) and pc.all(pc.equal(table.rows.op, "D")).as_py()):
        as_written = (table.schema, table.table)
        unlike = missing_column(task, known, columns, as_written if fold_name(*as_written) == name else name)
    last = batch.block.message(int(_messages_of(table)[-1]))
    if unlike is not None or sample_is_unlike(task, known, name, last):
        raise DecodeError(table.table, "the columns of its version", "others", REFERENCE_DECIDES)


def _changes(task: MessageTask, bulk: Bulk, period: SchemaPeriod, table: TableRows, ordinals: Ints) -> TypedChanges:
    """The rows with the types of their period; `ordinals` are those of their messages. Raises DecodeError where a value
    cannot be typed, or a key may have no value in the lake: the reference decoder then finds the row and reports it."""
    columns, rows, zone = period.version.table.stored_columns, table.rows, task.decoding.zone
    places = {fold(name): place for place, name in enumerate(rows.columns)}
    zone_of_times = REGISTRY[task.decoding.protocol].zone_of_times(zone)
    changes = with_types(
        replace(rows, line=pa.array(ordinals)),
        columns,
        [places.get(spelt(task, column)) for column in columns],
        lambda column, sent: bulk.column(column, sent, zone),
        zone_of_times,
    )
    if changes.zero_dates and not task.decoding.zero_dates_allowed:
        raise DecodeError(table.table, "dates that exist", "zero dates", REFERENCE_DECIDES)
    names_zone = task.decoding.protocol == "simple"  # each TIMESTAMP then names its own
    if may_have_faults(changes, period.version.table.key, None if names_zone else zone_of_times):
        raise DecodeError(table.table, "keys that the lake can hold", "another", REFERENCE_DECIDES)
    return changes


# -- deliveries -------------------------------------------------------------------------------------------------------


def _by_epoch(
    task: MessageTask,
    batch: MessageBatch,
    name: SourceName,
    period: SchemaPeriod,
    table: TableRows,
    changes: TypedChanges,
) -> Iterator[Piece]:
    position = np.asarray(table.position.to_numpy(), np.int64)
    if not task.order.epochs:
        yield Piece(name, period, 0, position, changes)
        return
    lines, block = _messages_of(table), batch.block
    epochs, offsets = np.zeros(len(lines), np.int64), block.offsets
    for code, partition in enumerate(block.partitions):
        in_partition = block.owners[lines] == code
        begins = np.array(task.order.epochs.get(partition, ()), np.int64)
        epochs[in_partition] = np.searchsorted(begins, offsets[lines[in_partition]], side="right")
    for epoch in np.unique(epochs):
        rows = np.flatnonzero(epochs == epoch)
        yield Piece(name, period, int(epoch), position[rows], changes.take(pa.array(rows)))


def _without(piece: Piece, batch: MessageBatch, fallback: Bools) -> Piece:
    """The piece without rows of messages that go to the reference decoder."""
    if not fallback.any():
        return piece
    bad = batch.ordinals[np.flatnonzero(fallback)]
    kept = np.flatnonzero(~np.isin(piece.changes.line.to_numpy(), bad))
    if len(kept) == len(piece.changes):
        return piece
    return replace(piece, position=piece.position[kept], changes=piece.changes.take(pa.array(kept)))
