"""Kafka messages, captured or landed, as a source of changes.

The first pass over the messages finds watermarks, statements and schemas. The cursor of a partition stays at the first
message that is not fully consumed: rows above the watermark, statements above it, rows whose schema has not arrived.
Later runs read these messages again, so they wait without a copy and survive restarts.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ticdc_assets.pipeline.commit_range import CommitRange, commit_ranges, with_holds
from ticdc_assets.pipeline.late_statements import LateStatements, lacks_messages, late_statements, without_dropped
from ticdc_assets.pipeline.late_tables import messages_gone, not_followed_yet
from ticdc_assets.pipeline.load.progress import behind_the_load, require_finished
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets.pipeline.source import ChangeSource, Missing
from ticdc_assets.pipeline.stream.advance import gone
from ticdc_assets.pipeline.stream.batch import StreamBatch
from ticdc_assets.pipeline.stream.blocked_topics import (
    CaptureHolds,
    awaited,
    behind,
    faulty,
    foreign_topics,
    with_topic_faults,
)
from ticdc_assets.pipeline.stream.context import DdlLog, StreamContext, ddl_log, require_statements
from ticdc_assets.pipeline.stream.decode.official_canal import StatementPositions
from ticdc_assets.pipeline.stream.decode.task import VersionClock
from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.pipeline.stream.pending import StreamPending
from ticdc_assets.pipeline.stream.scan.inferred_schemas import SchemaGuesses
from ticdc_assets.pipeline.stream.scan.result import StreamScan
from ticdc_assets.pipeline.stream.scan.scan import scan_readable, without_known_bootstraps
from ticdc_assets.pipeline.stream_options import keep_schemas
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.source_table import History, SourceName, SourceTable, fold_name
from ticdc_assets.tables.control.records import WatermarkRecord

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake


class StreamChanges(ChangeSource[StreamPending]):
    """The changes in one changefeed's messages, up to the TSO `until` where given."""

    def __init__(self, lake: Lake, until: int | None = None) -> None:
        self._lake = lake
        self._changefeed = lake.changefeed
        self._until = until
        self._context = StreamContext(lake)

    # -- scan ---------------------------------------------------------------------------------------------------------

    def scan(self) -> StreamPending:
        """Read all messages once, for watermarks and statements; from the first one for newly selected tables."""
        self._context.refresh()
        record = self._lake.control.newest()
        require_finished(self._changefeed.name, record)
        cursor = StreamCursor.from_json(record.cursor if record else "")
        log = ddl_log(self._lake.config, self._changefeed)
        pending = self._scanned(record, cursor, log)
        statements = late_statements(self._lake, pending.plan)
        late = self._late(pending, statements)
        partition = gone(cursor, pending.scan)
        if (late or statements.again) and partition is None:
            fresh = statements.again.union(source_table.id for source_table in late)
            pending = replace(self._scanned(record, cursor.rewound(), log), fresh=fresh, again=statements.again)
            return self._with_faults(pending.with_held(late_statements(self._lake, pending.plan).held))
        held = dict(statements.held)
        if partition is not None:
            begin, now = cursor.begins.get(partition, 0), pending.scan.offsets.begins.get(partition)
            held |= {source_table.id: messages_gone(source_table, partition, begin, now) for source_table in late}
            lacking = (pending.commit_ranges[i].source_table for i in statements.again)
            held |= {n.id: lacks_messages(n, partition, begin, now) for n in lacking}
            held = without_dropped(held, pending.commit_ranges)
        return self._with_faults(pending.with_held(held))

    def _with_faults(self, pending: StreamPending) -> StreamPending:
        """The same, with the tables held whose messages the capture lacks."""
        scan, sink = pending.scan, self._changefeed.sink
        known = pending.record.tso if pending.record is not None else 0
        shared = self._shared(scan)
        held = faulty(scan, pending.commit_ranges, shared, is_dated=not self._lake.by_arrival)
        if not self._lake.by_arrival:
            waiting = behind(scan, pending.commit_ranges, shared, self._live(pending.history), pending.high)
            held = replace(held, known={**waiting, **held.known})
        if held == CaptureHolds() and pending.high <= known and not self._lake.by_arrival:
            absent = sorted(
                scan.counted(self._live(pending.history), sink.dispatch.partition_num) - scan.offsets.ledger.partitions
            )
            held = awaited(scan, pending.commit_ranges, absent, known, sink.dispatch.partition_num or 0)
        held = replace(held, unread={name: why for name, why in held.unread.items() if self._lake.follows(*name)})
        return replace(pending.with_held(held.known), faults=held)

    def _shared(self, scan: StreamScan) -> set[str]:
        """The topics that may have statements of any table."""
        topics = {topic for topic, _ in scan.offsets.partitions} - scan.offsets.foreign
        return topics if len(topics) < 2 else topics - set(scan.tables.by_topic) | {self._changefeed.default_topic}

    def _late(self, pending: StreamPending, statements: LateStatements) -> list[SourceTable]:
        """The tables that lack rows: a run passed messages that may be of them before they were selected, or their rows
        went to another table before a statement came late."""
        tso = pending.record.tso if pending.record is not None else 0
        late = [n for n in not_followed_yet(pending.record, pending.commit_ranges) if n.first_event_ts < tso]
        known = self._lake.history().by_id() if late else {}  # a table that is new in this scan was not passed
        return [n for n in late if n.id in known or statements.took_rows_of(n)]

    def _scanned(self, record: WatermarkRecord | None, cursor: StreamCursor, log: DdlLog | None) -> StreamPending:
        kept_events = self._lake.control.ddl_events()
        require_statements(self._changefeed, kept_events, record)
        form = self._context.form(record if cursor.has_consumed else None, log, kept_events)
        found = scan_readable(
            self._context.log,
            form,
            cursor,
            self._changefeed.bad_input.skip_offsets,
            in_order=self._lake.by_arrival,
            in_place=self._lake.by_arrival and self._context.is_appended_to and self._context.log.can_be_rewritten,
        )
        if not self._lake.by_arrival:  # without commit_ts, no table waits for another topic
            found.offsets.foreign = foreign_topics(found, self._changefeed.default_topic)
            with_topic_faults(found, self._context.log.topic_faults, self._shared(found))
        stated = without_known_bootstraps([*kept_events, *found.statements, *(log.events if log else ())])
        names = self._context.names(found, self._lake.folds.of(stated))
        guesses = SchemaGuesses(self._lake.folds, found, names)
        events = guesses.added_to(stated)
        reached = self._reached(found, events)
        high = max(record.tso if record else 0, reached)
        if not self._lake.by_arrival:
            events = guesses.as_of(high, events)
        kept = {_identity(event) for event in kept_events}
        statements = [event for event in events if _identity(event) not in kept]
        history = self._lake.history(statements)
        chosen = [source_table for source_table in history.source_tables if self._lake.asks_for(source_table)]
        ranges = commit_ranges(chosen, self._lake.lows(record), high, {})
        held_ranges = with_holds(ranges, behind_the_load(events, ranges, reached))
        return StreamPending(
            run_id=uuid.uuid4().hex,
            high=high,
            plan=Plan.of(self._lake, record, history, {i: _up_to_empty(one, log) for i, one in held_ranges.items()}),
            cursor=cursor,
            scan=found,
            new_events=tuple(statements),
            names=names,
            follows=self._lake.follows,
            log=log,
            statement_positions=StatementPositions.of([*kept_events, *statements]),
        )

    def _reached(self, scan: StreamScan, events: Sequence[DdlEvent]) -> int:
        """The TSO that the stream has reached: without watermarks the newest commit_ts, without commit_ts a count of
        messages."""
        if self._lake.by_arrival:
            return scan.messages if self._context.clock is VersionClock.POSITION else scan.commits.newest
        live = self._live(self._lake.folds.of(events))
        watermark = scan.watermark(live, self._changefeed.sink.dispatch.partition_num) or 0
        return watermark if self._until is None else min(watermark, self._until)

    @staticmethod
    def _live(history: History) -> set[SourceName]:
        return {
            fold_name(*source_table.name) for source_table in history.source_tables if source_table.dropped_ts is None
        }

    # -- decode -------------------------------------------------------------------------------------------------------

    def prepare(self, pending: StreamPending) -> StreamPending:
        """Keep the schemas that the registry gave, so that a replay does not need it."""
        keep_schemas(self._context.options, self._lake.control)
        return pending

    def batch(self, pending: StreamPending, tables: dict[str, Table]) -> StreamBatch:
        """The pending messages, in parts of about equal length."""
        return StreamBatch(self._context, pending, tables)

    # -- rebuild ------------------------------------------------------------------------------------------------------

    def missing_since(self, cursor: str, pending: StreamPending) -> Missing | None:
        """The messages that a partition no longer has."""
        kept = StreamCursor.from_json(cursor)
        partition = gone(kept, pending.scan)
        if partition is None:
            return None
        begin, there = kept.begins.get(partition, 0), pending.scan.offsets.begins.get(partition)
        expected = f"the messages of {partition[0]}[{partition[1]}] from offset {begin} on"
        return Missing(expected, "none" if there is None else f"those from {there} on")


def _identity(event: DdlEvent) -> tuple[int, str, str, str, int | None]:
    return (event.commit_ts, event.schema, event.table, event.query, event.hints.version)


def _up_to_empty(commit_range: CommitRange, log: DdlLog | None) -> CommitRange:
    """The commit range, extended to the last statement that leaves no earlier row."""
    if log is None or commit_range.hold is not None:
        return commit_range
    return replace(commit_range, high=max(commit_range.high, log.last_without_rows(commit_range.source_table)))
