"""Decides the schema version of one row; `stream.decode.batches` decides it for whole arrays."""

from __future__ import annotations

from bisect import bisect_left

from ticdc_assets.pipeline.stream.decode.task import MessageTask, VersionClock
from ticdc_assets.pipeline.stream.official_canal import PositionedRow
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.schema.history.source_table import SchemaGap, SchemaPeriod, SourceName, Timeline
from ticdc_assets.sources.capture import Message
from ticdc_assets.tso import LOGICAL_BITS


def period_of(
    task: MessageTask,
    name: SourceName,
    timeline: Timeline,
    event: RowEvent,
    message: Message,
    ordinal: int,
) -> SchemaPeriod | None:
    """The schema period of the row; None in a gap, and where the row's schema is not known."""
    period = _entry_of(task, name, timeline, event, message, ordinal) if timeline else None
    return period if isinstance(period, SchemaPeriod) else None


def _entry_of(
    task: MessageTask,
    name: SourceName,
    timeline: Timeline,
    event: RowEvent,
    message: Message,
    ordinal: int,
) -> SchemaPeriod | SchemaGap | None:
    """The period or gap of the row: the last one whose `after_ts` is below the row's time."""
    if event.time.by_position:
        placed = PositionedRow.of(event, (message.topic, message.partition), message.offset)
        return task.schemas.statement_positions.period(timeline, placed)
    if task.schemas.clock is VersionClock.POSITION:
        known = task.schemas.versions.get((name, event.hints.schema_version or 0), ordinal)
        return _last_below(timeline, known + 1) or timeline[0]
    if task.decoding.protocol == "simple" and (name, event.hints.schema_version) not in task.schemas.versions:
        return _last_below(timeline, event.commit_ts or 0) if name in task.schemas.given else None
    if event.commit_ts is not None:
        return _last_below(timeline, event.commit_ts)
    if task.schemas.clock is VersionClock.COMMIT_MS:
        return _of_millisecond(timeline, event)
    return _of_delete(timeline, task.order.placed.get(ordinal, 0))


def _last_below(timeline: Timeline, ts: int) -> SchemaPeriod | SchemaGap | None:
    number = bisect_left([period.after_ts for period in timeline], ts) - 1
    return timeline[number] if number >= 0 else None


def _of_delete(timeline: Timeline, placed: int) -> SchemaPeriod | None:
    """The newest schema period with a table, else the first later one."""
    periods = [period for period in timeline if isinstance(period, SchemaPeriod)]
    before = [period for period in periods if period.after_ts < placed]
    return before[-1] if before else next(iter(periods), None)


def _of_millisecond(timeline: Timeline, event: RowEvent) -> SchemaPeriod | SchemaGap | None:
    """A row in the millisecond of a statement is from before it (no server writes rows of a new version so soon),
    unless it has the columns from after it."""
    assert event.time.commit_ms is not None
    first = _last_below(timeline, event.time.commit_ms << LOGICAL_BITS)
    within = [period for period in timeline if period.after_ts >> LOGICAL_BITS == event.time.commit_ms]
    return next((period for period in (first, *within) if period is not None and _fits(period, event)), first)


def _fits(period: SchemaPeriod | SchemaGap, event: RowEvent) -> bool:
    if not isinstance(period, SchemaPeriod):
        return False
    return {c.name.lower() for c in period.version.table.stored_columns} == {name.lower() for name in event.wire}
