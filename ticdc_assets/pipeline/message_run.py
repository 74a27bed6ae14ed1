"""One run of a changefeed whose source is a capture of Kafka messages: look, decode, publish changelogs.

It goes the way of `storage_run`, with two differences. The first pass over the messages finds watermarks, statements
and schemas; and the cursor of a partition stays at the first message that is not wholly consumed: rows above the
watermark, statements above it, rows whose schema has not come yet. They are read again by later runs, so they wait
without a copy and survive restarts.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.amounts import counted
from ticdc_assets.config import CaptureSource
from ticdc_assets.moments import Moment, reached
from ticdc_assets.pipeline.avro_look import true_names
from ticdc_assets.pipeline.capture_holds import CaptureHolds, awaited, faulty
from ticdc_assets.pipeline.changelog_tables import settled_changelogs, target_of
from ticdc_assets.pipeline.ddl_log import DdlLog, ddl_log
from ticdc_assets.pipeline.interval import Hold, Interval, TableState, intervals, is_held, may_have_rows
from ticdc_assets.pipeline.late_tables import is_passed, messages_gone, not_followed_yet, with_holds
from ticdc_assets.pipeline.message_arrivals import arrival_of, consumed_with
from ticdc_assets.pipeline.message_guesses import SchemaGuesses
from ticdc_assets.pipeline.message_look import look_over, without_known_bootstraps
from ticdc_assets.pipeline.message_options import keep_schemas, options_of
from ticdc_assets.pipeline.message_pending import PendingMessages, StreamCursor
from ticdc_assets.pipeline.message_record import unknown_tables, unread_tables, with_waiting
from ticdc_assets.pipeline.message_task import Arrival, Dating, Mark, MessageTask, SchemaVersion, Told
from ticdc_assets.pipeline.offset_ranges import Partition
from ticdc_assets.pipeline.placed_rows import Places
from ticdc_assets.pipeline.publish import Published, late_rows, publish_all, remove_parts
from ticdc_assets.pipeline.row_shapes import together
from ticdc_assets.pipeline.storage_record import says_the_same, table_record
from ticdc_assets.pipeline.storage_run import ChangelogReport
from ticdc_assets.pipeline.stream_look import StreamForm, StreamLook
from ticdc_assets.pipeline.task import FileState, Target, TaskReport
from ticdc_assets.protocols.avro_names import Name
from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.schema.lineage import History, Lineage, SourceName, fold_name
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.sources.capture import is_appended_to, placed_messages
from ticdc_assets.tables.control import QuarantinedRecord, TableRecord, WatermarkRecord, now
from ticdc_assets.tables.progress import progress_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.spark import Workers

STRETCH_BATCHES_MAX: Final = 8
"""Rows of a stretch are held until it is sorted; a batch is of at most some 8 MiB."""

LESSONS_MAX: Final = 10
"""So often a run reads its messages again because rows have told of columns; what comes then is held."""


class MessageRun:
    """A run of one changefeed over one lake."""

    def __init__(self, lake: Lake, until: int | None = None) -> None:
        self._lake = lake
        self._changefeed = lake.changefeed
        self._until = until
        self._protocol = str(lake.changefeed.sink.protocol)
        self._options = options_of(lake.changefeed, lake.control)
        source = lake.changefeed.source
        assert isinstance(source, CaptureSource)
        self._capture = source.path
        self._lessons = 0

    @cached_property
    def _is_appended_to(self) -> bool:
        return is_appended_to(self._capture)

    # -- look -----------------------------------------------------------------------------------------------------

    def look(self) -> PendingMessages:
        """Read all messages once, for watermarks and statements; from the first again for tables asked for only now."""
        record = self._lake.control.newest()
        cursor = StreamCursor.from_json(record.cursor if record else "")
        log = ddl_log(self._lake.config, self._changefeed)
        pending = self._looked(record, cursor, log)
        late = self._late(pending)
        partition = cursor.gone(pending.look)
        if not late:
            return self._with_faults(pending)
        if partition is None:
            fresh = frozenset(lineage.id for lineage in late)
            return self._with_faults(replace(self._looked(record, cursor.rewound(), log), fresh=fresh))
        begin, now = cursor.begins.get(partition, 0), pending.look.begins.get(partition)
        held = {lineage.id: messages_gone(lineage, partition, begin, now) for lineage in late}
        return self._with_faults(replace(pending, intervals=with_holds(pending.intervals, held)))

    def _with_faults(self, pending: PendingMessages) -> PendingMessages:
        """With the tables held that the capture lacks messages of."""
        look, sink = pending.look, self._changefeed.sink
        known = pending.record.tso if pending.record is not None else 0
        topics = {topic for topic, _ in look.known | look.ledger.partitions}
        shared = topics if len(topics) < 2 else topics - set(look.carried) | {self._changefeed.default_topic}
        held = faulty(look, pending.intervals, shared)
        if held == CaptureHolds() and pending.high <= known and not self._lake.by_arrival:
            absent = sorted(look.counted(self._live(pending.history), sink.partition_num) - look.ledger.partitions)
            held = awaited(look, pending.intervals, absent, known, sink.partition_num or 0)
        held = replace(held, unread={name: why for name, why in held.unread.items() if self._lake.follows(*name)})
        return replace(pending, intervals=with_holds(pending.intervals, held.known), faults=held)

    def _late(self, pending: PendingMessages) -> list[Lineage]:
        """The tables that nobody asked for when messages were passed that may be theirs."""
        tso = pending.record.tso if pending.record is not None else 0
        late = [n for n in not_followed_yet(pending.record, pending.intervals) if n.told_ts < tso]
        known = self._lake.history().by_id() if late else {}  # what is first told of now was not passed
        return [lineage for lineage in late if lineage.id in known]

    def _looked(self, record: WatermarkRecord | None, cursor: StreamCursor, log: DdlLog | None) -> PendingMessages:
        kept_events = self._lake.control.ddl_events()
        form = self._form(record if any(cursor.offsets.values()) else None, log, kept_events)
        found = look_over(
            partial(placed_messages, self._capture),
            form,
            cursor,
            self._changefeed.skip_offsets,
            in_order=self._lake.by_arrival,
            in_place=self._lake.by_arrival and self._is_appended_to,
        )
        told = without_known_bootstraps([*kept_events, *found.statements, *(log.events if log else ())])
        names = self._names(found, self._lake.folds.of(told))
        guesses = SchemaGuesses(self._lake.folds, found, names)
        events = guesses.added_to(told)
        high = self._high(found, record, events)
        if not self._lake.by_arrival:
            events = guesses.as_of(high, events)
        kept = {_identity(event) for event in kept_events}
        statements = [event for event in events if _identity(event) not in kept]
        history = self._lake.history(statements)
        chosen = [lineage for lineage in history.lineages if self._lake.asks_for(lineage)]
        found_intervals = intervals(chosen, self._lake.lows(record), high, {})
        return PendingMessages(
            run_id=uuid.uuid4().hex,
            high=high,
            record=record,
            cursor=cursor,
            look=found,
            statements=tuple(statements),
            history=history,
            intervals={i: _settled(interval, log) for i, interval in found_intervals.items()},
            names=names,
            follows=self._lake.follows,
            log=log,
            places=Places.of([*kept_events, *statements]),
        )

    def _form(
        self, record: WatermarkRecord | None, log: DdlLog | None, kept_events: Sequence[DdlEvent] = ()
    ) -> StreamForm:
        return StreamForm(
            self._protocol,
            self._options,
            self._dating,
            topics=self._changefeed.sink.topics,
            has_commit_ts=self._changefeed.sink.has_commit_ts,
            until=log.tso if log is not None else None,
            newest=record.tso if record is not None and self._dating is Dating.COMMIT_TS else 0,
            deletes_are_keys=self._changefeed.sink.delete_only_output_handle_key_columns,
            placed={event.place: event.commit_ts for event in kept_events if event.place is not None},
        )

    @property
    def _dating(self) -> Dating:
        sink = self._changefeed.sink
        tells_statements = self._protocol != "avro" or self._changefeed.ddl_from is not None or sink.has_watermark
        if not tells_statements:
            return Dating.PLACE
        return Dating.COMMIT_TS if sink.has_commit_ts else Dating.COMMIT_MS

    def _names(self, look: StreamLook, history: History) -> dict[Told, Name | None]:
        """The true names of the tables of an Avro stream."""
        if look.avro is None:
            return {}
        known = {(t.schema, t.table) for lineage in history.lineages for t in lineage.tenures}
        return true_names(look.avro.names, sorted(known) if self._dating is not Dating.PLACE else ())

    def _high(self, look: StreamLook, record: WatermarkRecord | None, events: Sequence[DdlEvent]) -> int:
        """The TSO to bring all tables to: without watermarks the newest there is, without any a count of messages."""
        known = record.tso if record else 0
        if self._lake.by_arrival:
            return max(known, look.messages if self._dating is Dating.PLACE else look.newest)
        live = self._live(self._lake.folds.of(events))
        watermark = look.watermark(live, self._changefeed.sink.partition_num) or 0
        return max(known, watermark if self._until is None else min(watermark, self._until))

    @staticmethod
    def _live(history: History) -> set[SourceName]:
        return {fold_name(*lineage.name) for lineage in history.lineages if lineage.dropped_ts is None}

    # -- changelogs -----------------------------------------------------------------------------------------------

    def publish_changelogs(
        self, pending: PendingMessages, workers: Workers, say: Callable[[str], None] = lambda _: None
    ) -> ChangelogReport:
        """Decode all pending messages and append to every changelog; leaves a record with the cursor."""
        from ticdc_assets.pipeline.message_decode import decode_messages  # what looks alone need not wait for this

        lake = self._lake
        reached(Moment.LOOKED)
        keep_schemas(self._options, lake.control)
        lake.control.keep_ddl_events(pending.statements)
        reached(Moment.SCHEMAS_KEPT)
        settled, tables = settled_changelogs(lake, pending.history, pending.intervals, pending.record)
        reached(Moment.CHANGELOGS_MADE)
        pending = replace(pending, intervals=settled)
        arrivals = self._arrivals(pending, tables)
        tasks = self._tasks(pending, tables, arrivals)
        say(f"decoding {counted(pending.look.new_messages, 'message')} in {counted(len(tasks), 'task')}")
        reports = workers.map(decode_messages, tasks)
        reached(Moment.DECODED)
        if self._learnt(reports, tables):
            # Rows told of columns that nobody knew of: all is read again with them.
            again = replace(self.look(), run_id=pending.run_id)
            return self.publish_changelogs(again, workers, say)
        held = self._held(pending, reports)
        quarantined = self._quarantine(pending, reports)
        reached(Moment.QUARANTINED)
        say("publishing changelogs")
        consumed = {
            lineage_id: consumed_with(pending.look, arrival, progress_of(tables[lineage_id]))
            for lineage_id, arrival in arrivals.items()
        }
        published, broken = publish_all(
            lake, pending.run_id, pending.history, pending.intervals, tables, reports, held, workers, consumed,
            deliveries_are_told=False,
        )  # fmt: skip
        held |= broken
        record = self._record(pending, tables, reports, held, published)
        names = [file for report in reports for file in report.files]
        return ChangelogReport(
            run_id=pending.run_id,
            high=pending.high,
            rows_by_op={lineage_id: p.rows_by_op for lineage_id, p in published.items() if p.rows_by_op},
            late_rows=late_rows(published, tables, pending.record),
            repeats=sum(n.repeats for n in names) + sum(p.repeats for p in published.values()),
            zero_dates=sum(n.zero_dates for n in names),
            quarantined=quarantined,
            files=pending.look.new_messages,
            record=record,
        )

    def _learnt(self, reports: Sequence[TaskReport], tables: dict[str, Table]) -> bool:
        """Keep what rows tell of columns besides those that are known; False where there is nothing new."""
        if self._lessons == LESSONS_MAX:
            return False
        told = [event for report in reports for name in report.files for event in name.shapes]
        news = together(told, self._lake.control.ddl_events()) if told else []
        if not news:
            return False
        self._lessons += 1
        self._lake.control.keep_ddl_events(news)
        remove_parts(tables, (part for report in reports for part in report.parts))
        return True

    def _tasks(
        self, pending: PendingMessages, tables: dict[str, Table], arrivals: dict[str, Arrival]
    ) -> list[MessageTask]:
        targets = {
            i.lineage.id: self._target(pending.look, i, tables[i.lineage.id])
            for i in pending.intervals.values()
            if i.lineage.id in tables and (self._lake.by_arrival or i.is_open or self._may_come_late(pending, i))
        }
        # Also without a target: rows whose schema has not come must be seen, or the cursor would pass them.
        return [
            replace(self._task(pending, number, begin, last, targets), arrivals=arrivals)
            for number, (begin, last) in enumerate(_stretches(pending.look, self._lake.cores))
        ]

    @staticmethod
    def _may_come_late(pending: PendingMessages, interval: Interval) -> bool:
        return pending.has_unread and not is_held(interval) and not interval.is_spent

    def _task(
        self, pending: PendingMessages, number: int, begin: Mark, last: int, targets: dict[str, Target]
    ) -> MessageTask:
        changefeed = self._changefeed
        return MessageTask(
            run_id=pending.run_id,
            number=number,
            capture=self._capture,
            begin=begin,
            last=last,
            high=pending.high,
            protocol=self._protocol,
            options=self._options,
            zone=changefeed.time_zone,
            claim_check=changefeed.claim_check.uri if changefeed.claim_check else None,
            by_arrival=self._lake.by_arrival,
            dating=self._dating,
            window=pending.cursor.window(pending.look.until),
            twice=frozenset(o for o in pending.look.twice if begin.ordinal <= o < last),
            timelines=pending.history.timelines(),
            versions=self._versions(pending),
            checked=self._checked(pending),
            told=frozenset(self._lake.known.tables),
            epochs={partition: tuple(at) for partition, at in pending.look.epochs.items()},
            targets=targets,
            tables=changefeed.tables,
            names=pending.names,
            placed=_within(pending.look.avro.placed, begin.ordinal, last) if pending.look.avro else {},
            repeated=pending.look.avro.repeated() if pending.look.avro else frozenset(),
            io_properties=self._lake.io_properties,
            quarantine=changefeed.on_bad_message == "quarantine",
            zero_dates_allowed=changefeed.zero_dates == "null",
            upstream=changefeed.upstream,
            read={} if self._lake.by_arrival else pending.cursor.in_part,
            fresh=pending.fresh,
            places=pending.places,
        )

    def _versions(self, pending: PendingMessages) -> dict[SchemaVersion, int]:
        """Every schema version that the stream has told, kept or not, with the TSO after which it holds."""
        versions: dict[SchemaVersion, int] = {}
        for event in (*self._lake.control.ddl_events(), *pending.look.statements, *pending.statements):
            if event.version is not None:
                versions.setdefault((fold_name(event.schema, event.table), event.version), event.commit_ts)
            if event.before_version is not None and event.before is not None:
                before = fold_name(event.before.schema, event.before.name)
                versions.setdefault((before, event.before_version), event.commit_ts)
        return versions

    def _checked(self, pending: PendingMessages) -> dict[SchemaVersion, TableSchema]:
        """The schemas as the stream lists them, where rows come with checksums."""
        if self._changefeed.sink.integrity.check_level == "none":
            return {}
        if pending.look.avro is not None:
            return pending.look.avro.checked
        events = (*self._lake.control.ddl_events(), *pending.look.statements)
        return {
            (fold_name(e.schema, e.table), e.version): e.after
            for e in events
            if e.version is not None and e.after is not None
        }

    def _target(self, look: StreamLook, interval: Interval, table: Table) -> Target:
        if not self._lake.by_arrival:
            return target_of(interval, table, interval.low)
        if not self._is_appended_to:
            return replace(target_of(interval, table, -1), high=look.messages)
        position, stop = progress_of(table).position, interval.lineage.stop
        # Behind a stop nothing is taken, not even what is from before it: a table has all its rows up to one place.
        last = look.last_before(stop.ts) if stop is not None else look.messages
        return replace(target_of(interval, table, position >> 1 if position >= 0 else -1), high=last)

    def _arrivals(self, pending: PendingMessages, tables: dict[str, Table]) -> dict[str, Arrival]:
        """What each table takes, where ordinals of the capture do not tell that."""
        if not self._lake.by_arrival or self._is_appended_to:
            return {}
        return {
            i.lineage.id: arrival_of(pending.look, i.lineage.stop, progress_of(tables[i.lineage.id]))
            for i in pending.intervals.values()
            if i.lineage.id in tables
        }

    # -- afterwards -----------------------------------------------------------------------------------------------

    def _held(self, pending: PendingMessages, reports: Sequence[TaskReport]) -> dict[str, Hold]:
        held: dict[str, Hold] = {}
        for name in (file for report in reports for file in report.files if file.state is not FileState.READ):
            for lineage_id, interval in pending.intervals.items():
                if may_have_rows(interval, name.name):
                    held.setdefault(lineage_id, Hold(TableState(name.state), name.problem))
        return held

    def _quarantine(self, pending: PendingMessages, reports: Sequence[TaskReport]) -> int:
        """Keep what cannot be decoded before anything is published: a message is then in a changelog or here."""
        bad = [*pending.look.bad, *(line for report in reports for name in report.files for line in name.bad)]
        self._lake.control.quarantine(
            [QuarantinedRecord(now(), pending.run_id, b.schema, b.table, b.path, b.line, b.reason, b.raw) for b in bad]
        )
        return len(bad)

    def _record(
        self,
        pending: PendingMessages,
        tables: dict[str, Table],
        reports: Sequence[TaskReport],
        held: dict[str, Hold],
        published: dict[str, Published],
    ) -> WatermarkRecord:
        names = [file for report in reports for file in report.files]
        unknown = {n.name: n.problem for n in names if n.state is not FileState.READ}
        records = with_waiting(pending, self._table_records(pending, tables, held, published))
        records += unknown_tables(pending, unknown)
        records += unread_tables(pending)
        record = WatermarkRecord(
            now(), pending.run_id, pending.high, False, self._advanced(pending, held, unknown).to_json(), tuple(records)
        )
        newest = self._lake.control.newest()
        if newest is not None and (newest != pending.record or says_the_same(record, newest)):
            return newest  # another run has recorded meanwhile, and may have come further, or there is nothing new
        reached(Moment.BEFORE_CURSOR)
        self._lake.control.record(record)
        reached(Moment.AFTER_CURSOR)
        return record

    def _advanced(self, pending: PendingMessages, held: dict[str, Hold], unknown: dict[Any, str]) -> StreamCursor:
        """The cursor moves past messages only when nothing that is still to come can need them again."""
        look, moved = pending.look, pending.cursor
        stopped = any(n.hold is not None and not n.is_over and not is_passed(n) for n in pending.intervals.values())
        if not held and not unknown and not stopped and not look.faults:
            moved = moved.advanced(look, self._first_unconsumed(pending), is_dated=not self._lake.by_arrival)
        passed = {partition: look.passed_before(partition, offset) for partition, offset in moved.offsets.items()}
        return replace(moved, watermarks=dict(look.watermarks), carried=self._carried(look), passed=passed)

    def _carried(self, look: StreamLook) -> dict[str, frozenset[SourceName]]:
        """The tables of each topic, as far as a later run can need them."""
        if not self._changefeed.sink.topics and len({topic for topic, _ in look.ends}) < 2:
            return {}
        return {topic: frozenset(names) for topic, names in look.carried.items() if names}

    def _first_unconsumed(self, pending: PendingMessages) -> dict[Partition, int]:
        if self._lake.by_arrival:
            return dict(pending.look.ends)
        return {p: pending.look.first_above(p, pending.high) for p in pending.look.ends}

    def _table_records(
        self,
        pending: PendingMessages,
        tables: dict[str, Table],
        held: dict[str, Hold],
        published: dict[str, Published],
    ) -> list[TableRecord]:
        recorded, places = self._lake.recorded(pending.record), self._lake.places(pending.history)
        records = []
        for lineage_id, interval in pending.intervals.items():
            table = published[lineage_id].table if lineage_id in published else tables.get(lineage_id)
            inferred = "its columns are inferred from rows" if interval.lineage.newest.inferred else ""
            hold, old = held.get(lineage_id), recorded.get(lineage_id)
            records.append(table_record(interval, hold, old, places[lineage_id], table, inferred))
        return records


def _stretches(look: StreamLook, cores: int) -> Iterator[tuple[Mark, int]]:
    """The new messages in parts of about equal length, at least one for each core, none too large to be held."""
    marks = [mark for mark in look.marks if mark.ordinal < look.messages]
    count = max(1, min(len(marks), max(cores, -(-len(marks) // STRETCH_BATCHES_MAX))))
    cuts = [marks[len(marks) * number // count] for number in range(count)] if marks else []
    yield from zip(cuts, [*(mark.ordinal for mark in cuts[1:]), look.messages], strict=False)


def _identity(event: DdlEvent) -> tuple[int, str, str, str, int | None]:
    return (event.commit_ts, event.schema, event.table, event.query, event.version)


def _settled(interval: Interval, log: DdlLog | None) -> Interval:
    """The interval, up to the last statement that leaves nothing of what may still come from before it."""
    if log is None or interval.hold is not None:
        return interval
    return replace(interval, high=max(interval.high, log.settles(interval.lineage)))


def _within(placed: dict[int, int], first: int, last: int) -> dict[int, int]:
    return {ordinal: ts for ordinal, ts in placed.items() if first <= ordinal < last}
