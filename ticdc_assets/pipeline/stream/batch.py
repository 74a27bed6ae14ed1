"""The messages that one run reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.table import Table

from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.changelog.tables import target_of
from ticdc_assets.pipeline.commit_range import CommitRange, Hold, is_held, may_have_rows
from ticdc_assets.pipeline.late_tables import is_passed
from ticdc_assets.pipeline.source import SourceBatch
from ticdc_assets.pipeline.stream.advance import advanced, arrival_of, begun, consumed_with, still_read
from ticdc_assets.pipeline.stream.decode.row_schemas import merged_schemas
from ticdc_assets.pipeline.stream.decode.task import Arrival, Mark, MessageTask
from ticdc_assets.pipeline.stream.make_task import tasks_of
from ticdc_assets.pipeline.stream.offsets.ranges import TopicPartition
from ticdc_assets.pipeline.stream.pending import (
    StreamPending,
    misplaced_rows,
    unknown_tables,
    unread_tables,
    with_waiting,
)
from ticdc_assets.pipeline.stream.scan.result import StreamScan
from ticdc_assets.pipeline.tasks import FileReport, FileState, Target, TaskReport
from ticdc_assets.plurals import counted
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.source_table import SourceName, SourceTable
from ticdc_assets.tables.control.records import QuarantinedRecord, TableRecord
from ticdc_assets.tables.progress import Files, progress_of
from ticdc_assets.tso import now

if TYPE_CHECKING:
    from ticdc_assets.pipeline.stream.context import StreamContext

STRETCH_BATCHES_MAX: Final = 5
"""Rows of a task are held in memory until it is sorted; a batch has at most about 8 MiB."""


class StreamBatch(SourceBatch):
    """The pending messages of a scan, and the interpretation of the workers' answers."""

    deliveries_are_known = False

    def __init__(self, context: StreamContext, pending: StreamPending, tables: dict[str, Table]) -> None:
        self._context = context
        self._lake = context.lake
        self._pending = pending
        self._arrivals = self._arrivals_of(pending, tables)
        self.tasks = self._tasks(tables)
        self.records = pending.scan.new_messages
        self.amount = counted(pending.scan.new_messages, "message")

    @property
    def decode(self) -> Callable[[Any], TaskReport]:
        """The function that decodes one task's messages."""
        from ticdc_assets.pipeline.stream.decode.worker import decode_messages  # a scan does not need this slow import

        return decode_messages

    # -- tasks --------------------------------------------------------------------------------------------------------

    def _tasks(self, tables: dict[str, Table]) -> list[MessageTask]:
        context, pending = self._context, self._pending
        targets = {
            i.source_table.id: self._target(pending.scan, i, tables[i.source_table.id])
            for i in pending.commit_ranges.values()
            if i.source_table.id in tables and (self._lake.by_arrival or i.is_open or self._may_come_late(pending, i))
        }
        # Also without a target: rows whose schema has not arrived must be seen, or the cursor would pass them.
        return tasks_of(context, pending, list(_stretches(pending.scan, self._lake.cores)), targets, self._arrivals)

    @staticmethod
    def _may_come_late(pending: StreamPending, commit_range: CommitRange) -> bool:
        is_open = not is_held(commit_range) and not commit_range.is_exhausted
        return is_open and (pending.has_unread or commit_range.source_table.id in pending.beyond)

    def _target(self, scan: StreamScan, commit_range: CommitRange, table: Table) -> Target:
        if not self._lake.by_arrival:
            return target_of(commit_range, table, commit_range.low)
        if not self._context.is_appended_to:
            return replace(target_of(commit_range, table, -1), high=scan.messages)
        position, stop = progress_of(table).position, commit_range.source_table.stop
        # After a stop nothing is taken, not even earlier rows: a table has all its rows up to one position.
        last = scan.last_before(stop.ts) if stop is not None else scan.messages
        return replace(target_of(commit_range, table, position >> 1 if position >= 0 else -1), high=last)

    def _arrivals_of(self, pending: StreamPending, tables: dict[str, Table]) -> dict[str, Arrival]:
        """The offsets that each table takes, where ordinals of the capture do not determine that."""
        if not self._lake.by_arrival or self._context.is_appended_to:
            return {}
        return {
            i.source_table.id: arrival_of(pending.scan, i.source_table.stop, progress_of(tables[i.source_table.id]))
            for i in pending.commit_ranges.values()
            if i.source_table.id in tables
        }

    # -- the workers' answers -----------------------------------------------------------------------------------------

    def new_schemas(self, reports: Sequence[TaskReport]) -> Sequence[DdlEvent]:
        """The schemas of rows whose columns differ from the known ones."""
        shapes = [event for name in _names(reports) for event in name.shapes]
        return merged_schemas(shapes, self._lake.control.ddl_events(), self._context.clock) if shapes else []

    def holds(self, reports: Sequence[TaskReport]) -> dict[str, Hold]:
        """By source table, why a message holds it. A message that is known only by name holds all tables that had the
        name."""
        held: dict[str, Hold] = {}
        for name in (file for report in reports for file in report.files if file.state is not FileState.READ):
            for source_table_id, commit_range in self._pending.commit_ranges.items():
                if may_have_rows(commit_range, name.name):
                    held.setdefault(source_table_id, name.hold)
        return held

    def bad_records(self, reports: Sequence[TaskReport], held: Mapping[str, Hold]) -> list[QuarantinedRecord]:
        """The messages that cannot be decoded. Those of held tables are included, because nothing reads them again."""
        bad = [*self._pending.scan.bad, *(entry for name in _names(reports) for entry in name.bad)]
        run_id, record = self._pending.run_id, self._pending.record
        since = record.tso + 1 if record is not None else 1
        return [
            QuarantinedRecord(
                now(), run_id, b.schema, b.table, b.path, b.line, b.reason, b.raw, since_tso=b.commit_ts or since
            )
            for b in bad
        ]

    def consumed(self, tables: Mapping[str, Table]) -> dict[str, Files]:
        """By source table, the messages that it has after this run, where rows are ordered by arrival."""
        return {
            source_table_id: consumed_with(self._pending.scan, arrival, progress_of(tables[source_table_id]))
            for source_table_id, arrival in self._arrivals.items()
        }

    # -- the record ---------------------------------------------------------------------------------------------------

    def warnings(self, source_table: SourceTable, old: TableRecord | None) -> tuple[Note, ...]:
        """Whether no statement gives the table's columns, and whether rows were misplaced."""
        inferred = Note(NoteCode.COLUMNS, "its columns are inferred from rows")
        # If several TiCDC nodes send one table, only the rows of the same key have an order.
        by_one_node = not self._lake.changefeed.sink.layout.table_across_nodes
        misplaced = misplaced_rows(self._pending.scan.avro, source_table, old) if by_one_node else ()
        return (*([inferred] if source_table.newest.inferred else []), *misplaced)

    def with_unknown_tables(self, records: list[TableRecord], reports: Sequence[TaskReport]) -> list[TableRecord]:
        """The records, plus those of tables that wait for a schema or a statement, or whose messages cannot be read."""
        unknown = unknown_tables(self._pending, _unknown(reports))
        return [*with_waiting(self._pending, records), *unknown, *unread_tables(self._pending)]

    def cursor(self, reports: Sequence[TaskReport], held: Mapping[str, Hold]) -> str:
        """The cursor after all messages that no pending change needs."""
        pending, scan, moved = self._pending, self._pending.scan, self._pending.cursor
        stopped = {
            i for i, n in pending.commit_ranges.items() if n.hold is not None and not n.is_over and not is_passed(n)
        }
        if not held and not _unknown(reports) and not stopped and not scan.offsets.faults:
            moved = advanced(moved, scan, self._first_unconsumed(), is_dated=not self._lake.by_arrival)
        elif scan.offsets.left_out and not held and not _unknown(reports) and self._only_topics_stop(stopped):
            moved = advanced(moved, scan, self._first_unconsumed_elsewhere(stopped), is_dated=True)
        else:
            moved = still_read(moved, scan)
        moved = begun(moved, scan)
        passed = {
            partition: scan.watermarks.passed_before(partition, offset) for partition, offset in moved.offsets.items()
        }
        return replace(
            moved, watermarks=dict(scan.watermarks.newest), tables_by_topic=self._tables_by_topic(), passed=passed
        ).to_json()

    def _only_topics_stop(self, stopped: Collection[str]) -> bool:
        """Whether nothing but faults of topics that are left out holds tables."""
        pending, scan = self._pending, self._pending.scan
        is_of_topics = all(
            fault.partition and fault.partition[0] in scan.offsets.left_out for fault in scan.offsets.faults
        )
        return is_of_topics and not pending.faults.unread and pending.faults.known.keys() >= set(stopped)

    def _first_unconsumed_elsewhere(self, stopped: Collection[str]) -> dict[TopicPartition, int]:
        """Of the topics that carry none of the stopped tables, the first offset of each partition to read again."""
        scan, commit_ranges = self._pending.scan, self._pending.commit_ranges
        names = {name for i in stopped for name in commit_ranges[i].source_table.folded_names}
        carriers = {topic for topic, tables in scan.tables.by_topic.items() if not names.isdisjoint(tables)}
        excluded = carriers | scan.offsets.left_out
        return {p: offset for p, offset in self._first_unconsumed().items() if p[0] not in excluded}

    def _tables_by_topic(self) -> dict[str, frozenset[SourceName]]:
        """The tables of each topic that a later run may need."""
        scan = self._pending.scan
        if not self._context.changefeed.sink.dispatch.topics and len({topic for topic, _ in scan.offsets.ends}) < 2:
            return {}
        return {topic: frozenset(names) for topic, names in scan.tables.by_topic.items() if names}

    def _first_unconsumed(self) -> dict[TopicPartition, int]:
        scan = self._pending.scan
        if self._lake.by_arrival:
            return dict(scan.offsets.ends)
        return {partition: scan.first_above(partition, self._pending.high) for partition in scan.offsets.ends}


def _names(reports: Sequence[TaskReport]) -> list[FileReport]:
    return [name for report in reports for name in report.files]


def _unknown(reports: Sequence[TaskReport]) -> dict[SourceName, Note]:
    """The names in rows without a known schema, with the reason."""
    return {name.name: name.hold.note for name in _names(reports) if name.state is not FileState.READ}


def _stretches(scan: StreamScan, cores: int) -> Iterator[tuple[Mark, int]]:
    """The new messages in parts of about equal length, each small enough for memory: as many for each core."""
    marks = [mark for mark in scan.marks if mark.ordinal < scan.messages]
    of_core = max(1, -(-len(marks) // (STRETCH_BATCHES_MAX * cores)))
    count = max(1, min(len(marks), cores * of_core))
    cuts = [marks[len(marks) * number // count] for number in range(count)] if marks else []
    yield from zip(cuts, [*(mark.ordinal for mark in cuts[1:]), scan.messages], strict=False)
