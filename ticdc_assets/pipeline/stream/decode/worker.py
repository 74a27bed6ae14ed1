"""The worker's part of reading messages: decodes, types and writes row changes, sorted and without repeats.

Messages are decoded in bulk where the protocol has a bulk decoder, and one by one with the reference decoder where not.
Rows of one source table and version are gathered over the task, sorted by commit_ts and position, and written as one
part; so rows that partitions interleave come out in order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from ticdc_assets.errors import LEFT_OUT, LOST_STATEMENT, DecodeError, SchemaError, TicdcAssetsError
from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.faults import of_one_table
from ticdc_assets.pipeline.stream.decode.batches import Piece, decode_in_bulk
from ticdc_assets.pipeline.stream.decode.large_rows import Completed, CutRow, LateLarge, completed, with_known
from ticdc_assets.pipeline.stream.decode.message_batch import MessageBatch, batches_of
from ticdc_assets.pipeline.stream.decode.parts import Group, group_of, write_parts
from ticdc_assets.pipeline.stream.decode.row_schemas import (
    NameState,
    Unlike,
    displaced_by,
    entry_of,
    inferred_by,
    is_given_up,
    no_schema,
    no_table,
    unexplained_by,
    unlike,
)
from ticdc_assets.pipeline.stream.decode.row_values import RowValues, changes_of, checked_schema, mismatch, verified
from ticdc_assets.pipeline.stream.decode.task import MessageTask
from ticdc_assets.pipeline.stream.scan.state import bad_message
from ticdc_assets.pipeline.tasks import ChangelogPart, FileState, TaskReport
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.formats.limits import MESSAGE_BYTES_MAX
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.protocols.values.checksum import check
from ticdc_assets.schema.history.source_table import SchemaPeriod, SourceName, fold_name
from ticdc_assets.schema.model import TableName, TableSchema
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.filesystem import open_root
from ticdc_assets.sources.upstream import sql as upstream_sql

COMPLETED_BYTES: Final = 64 << 20
"""How many bytes of completed rows are held before they are written."""


@dataclass(slots=True)
class _Rows:
    """Rows of one source table, version and delivery, with the ordinals of their messages and their positions in
    them."""

    name: SourceName
    period: SchemaPeriod
    epoch: int
    values: RowValues
    late: bool = False
    at: list[tuple[int, int]] = field(default_factory=list)
    events: list[RowEvent] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)


class MessageDecoder:
    """Decodes one task. `run` returns its report: one FileReport for every source name."""

    def __init__(self, task: MessageTask) -> None:
        self._task = task
        self._protocol = REGISTRY[task.decoding.protocol]
        self._names: dict[SourceName, NameState] = {}
        self._rows: dict[Group, _Rows] = {}
        self._pieces: dict[Group, list[Piece]] = {}
        self._cut: list[CutRow] = []
        self._late_large: list[LateLarge] = []
        self._sent = RowValues(
            task, self._protocol.value_under(task.decoding.options), self._protocol.zone_of_times(task.decoding.zone)
        )

    def run(self) -> TaskReport:
        """Decode all messages of the task and write the parts of changelogs."""
        for batch in batches_of(self._task.stretch):
            for index in self._in_bulk(batch):
                self._one(batch.block.message(index), int(batch.ordinals[index]))
            hit(Failpoint.FILE_READ)
        if self._late_large:
            self._take_late_large()
        completed_parts = self._complete() if self._cut else ()
        parts = [*completed_parts, *write_parts(self._task, self._gathered(), self._hold)]
        hit(Failpoint.PARTS_WRITTEN)
        reports = tuple(state.report(name) for name, state in self._names.items())
        return TaskReport(self._task.number, tuple(parts), reports)

    def _in_bulk(self, batch: MessageBatch) -> Iterable[int]:
        """Decode what the bulk decoder can of a batch. Returns the messages for the reference decoder."""
        bulk = self._protocol.bulk
        if bulk is None or self._task.schemas.checked:  # checksums are verified row by row
            return range(len(batch))
        try:
            outcome = decode_in_bulk(self._task, bulk, batch)
        except Exception as error:  # noqa: BLE001  the reference decoder finds its table
            of_one_table(error)
            return range(len(batch))
        for name, counts in outcome.row_counts.items():
            name_state = self._names.setdefault(name, NameState())
            name_state.rows += counts.rows
            name_state.above += counts.above
            name_state.repeats += counts.repeats
        for piece in outcome.pieces:
            self._names[piece.name].zero_dates += 0 if piece.late else piece.changes.zero_dates
            self._names[piece.name].ambiguous_times += 0 if piece.late else piece.changes.ambiguous_times
            self._pieces.setdefault(group_of(piece.period, piece.epoch, piece.late), []).append(piece)
        return outcome.left

    def _one(self, message: Message, ordinal: int) -> None:
        try:
            events = list(self._protocol.decode(message.key, message.value, message.where, self._task.decoding.options))
        except DecodeError:
            return  # the first pass has kept it
        for position, event in enumerate(events):
            if not isinstance(event, RowEvent):
                continue
            try:
                self._row(event, message, ordinal, position)
            except (TicdcAssetsError, OSError):
                raise
            except Exception as error:  # noqa: BLE001  raised again where it is not of one table
                true = self._true_name(event, message)
                self._hold(fold_name(*(true or (event.schema, event.table))), of_one_table(error))

    def _hold(self, name: SourceName, fault: TicdcAssetsError) -> None:
        """Hold one table because of an error of its rows."""
        name_state = self._names.setdefault(name, NameState())
        name_state.state, name_state.problem = FileState.STOPPED, f"{'.'.join(name)}: {fault}"

    # -- one row ------------------------------------------------------------------------------------------------------

    def _row(self, event: RowEvent, message: Message, ordinal: int, position: int) -> None:
        true = self._true_name(event, message)
        name = fold_name(*(true or (event.schema, event.table)))
        name_state = self._names.setdefault(name, NameState())
        name_state.rows += 1
        timeline = self._task.schemas.timelines.get(name, ())
        period = entry_of(self._task, name, timeline, event, message, ordinal)
        if not isinstance(period, SchemaPeriod):
            if not (event.time.by_position and is_given_up(self._task, timeline, period)):
                self._without_schema(true, event, message, name_state)
            return
        if period.source_table_id not in self._task.targets:
            return
        target = self._task.targets[period.source_table_id]
        if ordinal in self._task.order.repeated:
            name_state.repeats += 1
        elif self._task.order.by_arrival:
            arrival = self._task.order.arrivals.get(target.source_table_id)
            if target.low < ordinal <= target.high and (arrival is None or arrival.takes(message)):
                self._take(name, period, event, message, (ordinal, position), name_state)
        else:
            assert event.commit_ts is not None
            if event.commit_ts > target.high:
                name_state.above += 1
            elif event.commit_ts > target.low:
                self._take(name, period, event, message, (ordinal, position), name_state)
            elif target.source_table_id not in self._task.order.fresh and self._task.stretch.was_read(message):
                name_state.repeats += 1
            elif event.claim is not None or event.is_cut:
                self._late_large.append(LateLarge(name, period, event, message, (ordinal, position)))
            else:
                self._take(name, period, event, message, (ordinal, position), name_state, late=True)

    def _take_late_large(self) -> None:
        for row, is_known in with_known(self._task, self._sent, self._late_large):
            name_state = self._names[row.name]
            if is_known:
                name_state.repeats += 1
            else:
                self._take(row.name, row.period, row.event, row.message, row.at, name_state, late=True)

    def _true_name(self, event: RowEvent, message: Message) -> TableName | None:
        """The name of the row's table; None where messages cannot spell it and it may be one of several."""
        return self._task.schemas.names.get((message.topic, event.schema, event.table), (event.schema, event.table))

    def _take(
        self,
        name: SourceName,
        period: SchemaPeriod,
        event: RowEvent,
        message: Message,
        at: tuple[int, int],
        name_state: NameState,
        late: bool = False,
    ) -> None:
        try:
            whole = event if event.claim is None else self._whole(event, event.claim)
            if self._task.schemas.checked:
                whole = verified(self._task, whole, message)
        except DecodeError as error:
            self._bad(name_state, message, event, error)
            return
        source = self._true_name(whole, message) or (whole.schema, whole.table)
        differing = unlike(self._task, period.version.table, whole, source)
        if differing is not None:
            self._with_other_columns(differing, period.version.table, whole, message, name_state)
            return
        epoch = bisect_right(self._task.order.epochs.get((message.topic, message.partition), ()), message.offset)
        if whole.is_cut:
            self._cut_off(CutRow(name, period, epoch, at, whole, message, late), name_state)
            return
        rows = self._rows.setdefault(group_of(period, epoch, late), _Rows(name, period, epoch, self._sent, late))
        rows.at.append(at)
        rows.events.append(whole)
        rows.messages.append(message)

    # -- rows without a schema ---------------------------------------------------------------------------------------

    def _without_schema(self, true: TableName | None, event: RowEvent, message: Message, name_state: NameState) -> None:
        if not self._task.order.by_arrival and (event.commit_ts or 0) > self._task.high:
            name_state.above += 1  # the statement that creates its table is above this run too
        elif true is None or self._is_asked_for(true):
            untyped = self._untyped(event)
            if event.time.by_position and fold_name(event.schema, event.table) in self._task.schemas.timelines:
                name_state.shapes.add(displaced_by(self._task, (event.schema, event.table), event, message))
                problem = f"{message.where}: {no_table(event)}"
            else:
                problem = f"{message.where}: {event.schema}.{event.table}: {untyped}" if untyped else no_schema(event)
            name_state.state, name_state.problem = FileState.WAITING, problem

    def _untyped(self, event: RowEvent) -> str:
        """Which column prevents inferring the table's columns from the row, and why; "" where none does."""
        if self._protocol.infer is None or not event.hints.columns:
            return ""
        try:
            self._protocol.infer(event)
        except SchemaError as error:
            return str(error)
        return ""

    def _is_asked_for(self, name: TableName) -> bool:
        """Whether the name is of a selected table, under this name or its present one."""
        timeline = self._task.schemas.timelines.get(fold_name(*name), ())
        return self._task.schemas.tables.matches(*name) or any(
            isinstance(period, SchemaPeriod) and period.source_table_id in self._task.targets for period in timeline
        )

    def _with_other_columns(
        self, differing: Unlike, table: TableSchema, event: RowEvent, message: Message, name_state: NameState
    ) -> None:
        """Hold the table of a row with other columns, so that no value is lost or taken as NULL. Where the table's
        columns are inferred from rows, report the row's new columns to the driver; else the column, at which the table
        stops."""
        name = self._true_name(event, message)
        shape = None
        if name is not None and table.inferred and differing.is_inferable:
            shape = inferred_by(self._task, name, event, message)
        elif name is not None and (differing.unknown or differing.lacking):
            shape = unexplained_by(self._task, name, event, differing, message)
        if shape is not None:
            name_state.shapes.add(shape)
        problem = (
            f"{message.where}: expected the columns that {event.schema}.{event.table} has by now, {differing.found}."
        )
        if differing.lacking:
            problem = f"{problem} {LEFT_OUT}"
        if self._task.order.by_arrival:
            name_state.waits(
                f"{problem} It waits: the statement about it may be in messages that are not captured yet."
            )
        else:
            name_state.state, name_state.problem = FileState.STOPPED, f"{problem} {LOST_STATEMENT}"

    # -- large rows ---------------------------------------------------------------------------------------------------

    def _whole(self, event: RowEvent, claim: str) -> RowEvent:
        """The row from its file in the claim-check folder, where that is known; else as sent."""
        if self._protocol.open_claim is None or self._task.decoding.claim_check is None:
            return event
        data = open_root(self._task.decoding.claim_check).read_bytes(claim, MESSAGE_BYTES_MAX)
        where = f"claim-check {claim}"
        found = [
            e for e in self._protocol.open_claim(data, where, self._task.decoding.options) if isinstance(e, RowEvent)
        ]
        return next((e for e in found if (e.op, e.commit_ts) == (event.op, event.commit_ts)), found[0])

    def _cut_off(self, row: CutRow, name_state: NameState) -> None:
        """Keep a row that has only its handle key until all messages are read."""
        if self._task.decoding.upstream is not None:
            self._cut.append(row)
            return
        name_state.waits(
            f"{row.message.where}: expected the whole row, found only its handle key. "
            "TiCDC cut a large row (handle-key-only); name TiDB as `upstream` to complete it from, or use claim-check."
        )

    def _complete(self) -> Iterator[ChangelogPart]:
        """Complete the cut rows. Returns the parts of those that do not fit in memory with all others."""
        pieces: dict[Group, list[Piece]] = {}
        held_bytes = 0
        upstream = self._task.decoding.upstream
        done_rows = completed(self._task, upstream, self._cut) if upstream is not None and self._cut else ()
        for number, done in enumerate(done_rows):
            name_state = self._names[done.cut[0].name]
            if done.problem:
                name_state.waits(done.problem)
                continue
            rows = self._verified(done, name_state)
            pieces.setdefault(group_of(rows.period, rows.epoch, rows.late), []).append(self._typed(rows))
            held_bytes += done.size_bytes
            if held_bytes > COMPLETED_BYTES:
                yield from write_parts(self._task, sorted(pieces.items()), self._hold, f"-large{number}")
                pieces, held_bytes = {}, 0
        for group, more in pieces.items():
            self._pieces.setdefault(group, []).extend(more)

    def _verified(self, done: Completed, name_state: NameState) -> _Rows:
        first = done.cut[0]
        rows = _Rows(
            first.name, first.period, first.epoch, RowValues(self._task, upstream_sql.value, "UTC"), first.late
        )
        for cut, event in zip(done.cut, done.events, strict=True):
            table = checked_schema(self._task, event)
            fault = None if table is None else check(event, table, upstream_sql.plain)
            if fault is not None:
                self._bad(name_state, cut.message, event, mismatch(cut.message, fault))
                continue
            rows.at.append(cut.at)
            rows.events.append(event)
            rows.messages.append(cut.message)
        return rows

    def _bad(self, name_state: NameState, message: Message, event: RowEvent, error: DecodeError) -> None:
        if self._task.decoding.quarantine:
            schema, table = self._true_name(event, message) or (event.schema, event.table)
            entry = bad_message(message, error)
            name_state.bad.append(replace(entry, schema=schema, table=table, commit_ts=event.commit_ts))
        else:
            name_state.state, name_state.problem = FileState.STOPPED, str(error)

    # -- values -------------------------------------------------------------------------------------------------------

    def _gathered(self) -> Iterator[tuple[Group, list[Piece]]]:
        """The pieces to write, group by group; rows are typed just before their group is written."""
        for group in sorted({*self._rows, *self._pieces}):
            pieces = self._pieces.pop(group, [])
            rows = self._rows.pop(group, None)
            try:
                pieces += [self._typed(rows)] if rows is not None else []
            except Exception as error:  # noqa: BLE001  raised again where it is not of one table
                assert rows is not None
                self._hold(rows.name, of_one_table(error))
                continue
            yield group, pieces

    def _typed(self, rows: _Rows) -> Piece:
        """The rows' values. A row that cannot be typed goes to quarantine with its message."""
        table = rows.period.version.table
        columns, key = table.stored_columns, table.key
        name_state = self._names[rows.name]
        kept: list[tuple[int, RowEvent, list[Any], list[Any] | None]] = []
        positions = []
        for (ordinal, position), event, message in zip(rows.at, rows.events, rows.messages, strict=True):
            try:
                now = rows.values.of(columns, event.wire, key)
                old = event.full_before
                before = None if old is None else rows.values.of(columns, old, key)
                zero_dates, ambiguous_times = rows.values.counts(columns, event.wire, now)
                if not rows.late:  # those of repeats were counted before
                    name_state.zero_dates += zero_dates
                    name_state.ambiguous_times += ambiguous_times
            except TicdcAssetsError as error:
                fault = DecodeError(message.where, error.expected, error.found, error.advice)
                self._bad(name_state, message, event, fault)
                continue
            kept.append((ordinal, event, now, before))
            positions.append(position)
        changes = changes_of(columns, kept)
        return Piece(rows.name, rows.period, rows.epoch, np.array(positions, np.int64), changes, rows.late)


def decode_messages(task: MessageTask) -> TaskReport:
    """Decode the messages of a task."""
    return MessageDecoder(task).run()
