"""Where the rows of a batch belong: their names, their schema periods, whether this run writes them, and their
deliveries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ticdc_assets.pipeline.rows.fit import LeavesOut
from ticdc_assets.pipeline.rows.place import (
    NO_PERIOD,
    Bools,
    Ints,
    Wanted,
    by_period,
    have_schema,
    in_range,
    periods_at,
)
from ticdc_assets.pipeline.stream.decode.message_batch import MessageBatch
from ticdc_assets.pipeline.stream.decode.official_canal import PositionedRow, has_columns_of
from ticdc_assets.pipeline.stream.decode.task import MessageTask, VersionClock
from ticdc_assets.pipeline.tasks import Target
from ticdc_assets.protocols.columnar.message_rows import TableRows, take
from ticdc_assets.schema.history.source_table import SchemaGap, SchemaPeriod, SourceName, Timeline, fold_name
from ticdc_assets.schema.model import TableName
from ticdc_assets.tso import LOGICAL_BITS


@dataclass(frozen=True, slots=True)
class NamedRows:
    """Rows of one table under one name, before they are typed.

    source: the name of the table as it is spelt; None where messages cannot spell it and it may be one of several.
    periods: the index of each row's schema period or gap in `timeline`, `NO_PERIOD` where there is none.
    """

    name: SourceName
    source: TableName | None
    timeline: Timeline
    table: TableRows
    periods: Ints

    @property
    def messages(self) -> Ints:
        """The index of each row's message."""
        return messages_of(self.table)

    @property
    def has_schema(self) -> Bools:
        """Which rows are of a time at which their table has a schema."""
        return have_schema(self.timeline, self.periods)

    def of_targets(self, task: MessageTask, rows: Bools) -> Iterator[tuple[SchemaPeriod, Target, Ints]]:
        """The indices of these rows by the schema periods that the run writes."""
        for period, indices in by_period(self.timeline, self.periods, rows):
            target = task.targets.get(period.source_table_id)
            if target is not None:
                yield period, target, indices


def messages_of(table: TableRows) -> Ints:
    """The index of each row's message in its batch."""
    return np.asarray(table.rows.line.to_numpy(zero_copy_only=False), np.int64)


def by_name(task: MessageTask, batch: MessageBatch, table: TableRows) -> Iterator[NamedRows]:
    """The rows of a table by name; where only the topic determines the table, by topic."""
    sent = (table.schema, table.table)
    if not any(key[1:] == sent for key in task.schemas.names):
        yield _named(task, batch, table, sent)
        return
    topics = np.array([topic for topic, _ in batch.block.partitions], object)[batch.block.owners[messages_of(table)]]
    for topic in dict.fromkeys(topics):
        rows = take(table, pa.array(np.flatnonzero(topics == topic)))
        yield _named(task, batch, rows, task.schemas.names.get((topic, *sent), sent))


def _named(task: MessageTask, batch: MessageBatch, table: TableRows, source: TableName | None) -> NamedRows:
    name = fold_name(*(source or (table.schema, table.table)))
    timeline = task.schemas.timelines.get(name, ())
    nowhere = np.full(len(table), NO_PERIOD)
    return NamedRows(
        name, source, timeline, table, _periods(task, batch, table, name, timeline) if timeline else nowhere
    )


# -- schema periods ----------------------------------------------------------------------------------------------------


def _periods(task: MessageTask, batch: MessageBatch, table: TableRows, name: SourceName, timeline: Timeline) -> Ints:
    """The schema period or gap of each row, by its commit_ts or what stands for it."""
    nowhere = np.full(len(table), NO_PERIOD)
    if table.events and table.events[0].time.by_position:
        return _by_position(task, batch, table, timeline)
    if task.schemas.clock is VersionClock.POSITION:
        known = task.schemas.versions.get((name, table.schema_version or 0))
        own = batch.ordinals[messages_of(table)] if known is None else np.full(len(table), known)
        return np.maximum(periods_at(timeline, own + 1), 0)
    if (
        task.decoding.protocol == "simple"
        and (name, table.schema_version) not in task.schemas.versions
        and name not in task.schemas.given
    ):
        return nowhere
    if not table.rows.commit_ts.null_count:
        return periods_at(timeline, table.rows.commit_ts.to_numpy())
    if table.rows.commit_ts.null_count < len(table):
        return nowhere
    if task.schemas.clock is VersionClock.COMMIT_MS:
        return nowhere if table.rows.commit_ms.null_count else _by_millisecond(task, table, timeline)
    return _by_delete(task, batch.ordinals[messages_of(table)], timeline)


def _by_delete(task: MessageTask, ordinals: Ints, timeline: Timeline) -> Ints:
    """The newest schema period with a table, else the first later one."""
    numbers = np.array([n for n, period in enumerate(timeline) if isinstance(period, SchemaPeriod)], np.int64)
    if not len(numbers):
        return np.full(len(ordinals), NO_PERIOD)
    placed = np.array([task.order.placed.get(int(ordinal), 0) for ordinal in ordinals], np.int64)
    return numbers[np.maximum(periods_at(tuple(timeline[n] for n in numbers), placed), 0)]


def _by_millisecond(task: MessageTask, table: TableRows, timeline: Timeline) -> Ints:
    """A row in the millisecond of a statement is from before it (no server writes rows of a new version so soon),
    unless it has the columns from after it."""
    ms = np.asarray(table.rows.commit_ms.to_numpy(), np.int64)
    periods, begins = periods_at(timeline, ms << LOGICAL_BITS), [period.after_ts >> LOGICAL_BITS for period in timeline]
    for shared in np.unique(ms[np.isin(ms, begins)]):
        first = int(periods[ms == shared][0])
        within = [number for number, begin in enumerate(begins) if begin == shared]
        candidates = (number for number in (first, *within) if number >= 0 and _fits(task, table, timeline[number]))
        periods[ms == shared] = next(candidates, first)
    return periods


def _fits(task: MessageTask, table: TableRows, period: SchemaPeriod | SchemaGap) -> bool:
    sent = table.events[0].wire if table.events else table.rows.columns
    return has_columns_of(period, set(sent), _left_out(task, table))


def _left_out(task: MessageTask, table: TableRows) -> LeavesOut:
    """Whether the changefeed leaves a column out of rows of the table."""
    return lambda column: task.schemas.selectors.leaves_out(table.schema, table.table, column)


def _by_position(task: MessageTask, batch: MessageBatch, table: TableRows, timeline: Timeline) -> Ints:
    """The schema period of rows that only their position orders."""
    positions, left_out = task.schemas.statement_positions, _left_out(task, table)
    found = []
    for index, event in zip(messages_of(table), table.events, strict=True):
        partition = batch.block.partitions[batch.block.owners[index]]
        row = PositionedRow.of(event, partition, int(batch.block.offsets[index]))
        period = positions.period(timeline, row, left_out)
        found.append(NO_PERIOD if period is None else timeline.index(period))
    return np.array(found, np.int64)


# -- what this run wants -----------------------------------------------------------------------------------------------


def wanted(task: MessageTask, target: Target, batch: MessageBatch, named: NamedRows, rows: Ints, read: Bools) -> Wanted:
    """What this run does with the rows at these indices. `read` marks the messages that an earlier run has read."""
    messages = named.messages[rows]
    ordinals = batch.ordinals[messages]
    none = np.zeros(len(rows), np.bool_)
    again = np.isin(ordinals, np.fromiter(task.order.repeated, np.int64)) if task.order.repeated else none
    if task.order.by_arrival:
        taken = (ordinals > target.low) & (ordinals <= target.high)
        if target.source_table_id in task.order.arrivals:
            taken &= batch.taken(task.order.arrivals[target.source_table_id])[messages]
        return Wanted(~again & taken, none, again, none)
    ts = named.table.rows.commit_ts.take(pa.array(rows)).to_numpy()
    known = none if target.source_table_id in task.order.fresh else read[messages]
    found = in_range(target.low, target.high, ts, known)
    return Wanted(found.now & ~again, found.above & ~again, found.again | again, found.late & ~again)


def to_write(
    task: MessageTask, batch: MessageBatch, named: NamedRows, sound: Bools, read: Bools
) -> Iterator[tuple[SchemaPeriod, int, bool, TableRows]]:
    """The rows of `sound` messages that this run writes, by schema period and delivery, those that may be late (True)
    apart."""
    for period, target, rows in named.of_targets(task, sound[named.messages]):
        found = wanted(task, target, batch, named, rows, read)
        for mask, late in ((found.late, True), (found.now, False)):
            for delivery, table in by_delivery(task, batch, part(named.table, rows[mask])):
                yield period, delivery, late, table


def counts(task: MessageTask, batch: MessageBatch, named: NamedRows, sound: Bools, read: Bools) -> tuple[int, int, int]:
    """Of the messages that are not left to another decoder, the rows, those above this run, and repeats."""
    rows_sound, above, repeats = sound[named.messages], 0, 0
    for _, target, rows in named.of_targets(task, rows_sound):
        found = wanted(task, target, batch, named, rows, read)
        above += int(found.above.sum())
        repeats += int(found.again.sum())
    return int(rows_sound.sum()), above, repeats


# -- deliveries --------------------------------------------------------------------------------------------------------


def by_delivery(task: MessageTask, batch: MessageBatch, table: TableRows) -> Iterator[tuple[int, TableRows]]:
    """The rows of a table by delivery."""
    if not len(table):
        return
    if not task.order.deliveries:
        yield 0, table
        return
    messages, block = messages_of(table), batch.block
    numbers = np.zeros(len(messages), np.int64)
    for code, partition in enumerate(block.partitions):
        in_partition = block.owners[messages] == code
        begins = np.array(task.order.deliveries.get(partition, ()), np.int64)
        numbers[in_partition] = np.searchsorted(begins, block.offsets[messages[in_partition]], side="right")
    for delivery in np.unique(numbers):
        yield int(delivery), part(table, np.flatnonzero(numbers == delivery))


def part(table: TableRows, rows: Ints) -> TableRows:
    """The rows with these ordinals, in ascending order."""
    return table if len(rows) == len(table) else take(table, pa.array(rows))
