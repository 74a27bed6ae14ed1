"""The worker's part of reading messages: decodes, types and writes row changes, sorted and without repeats.

Messages are decoded in bulk where the protocol has a bulk decoder, else by the reference decoder, whose rows become
columns too. The same decisions follow, for a single message as for many.
Rows of one source table and version are gathered over the task, sorted by commit_ts and position, and written as one
part; so rows that partitions interleave come out in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from ticdc_assets.advice import Advice
from ticdc_assets.errors import DecodeError, SchemaError, TicdcAssetsError
from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.faults import of_one_table
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.rows.bad_rows import sound_changes
from ticdc_assets.pipeline.rows.place import NO_PERIOD, Bools
from ticdc_assets.pipeline.stream.decode.batches import Piece, decode_in_bulk
from ticdc_assets.pipeline.stream.decode.large_rows import Completed, CutRow, LateLarge, completed, with_known
from ticdc_assets.pipeline.stream.decode.message_batch import MessageBatch, batches_of
from ticdc_assets.pipeline.stream.decode.parts import Group, group_of, write_parts
from ticdc_assets.pipeline.stream.decode.place import NamedRows, by_name, counts, messages_of, part, to_write
from ticdc_assets.pipeline.stream.decode.row_schemas import (
    NameState,
    Unlike,
    displaced_by,
    inferred_by,
    is_given_up,
    no_schema,
    no_table,
    unexplained_by,
    unlike,
)
from ticdc_assets.pipeline.stream.decode.task import MessageTask
from ticdc_assets.pipeline.stream.decode.values import (
    MessageOf,
    as_sent,
    checked_schema,
    mismatch,
    of_events,
    rules_of,
    verified,
)
from ticdc_assets.pipeline.tasks import ChangelogPart, FileState, QuarantineEntry, TaskReport
from ticdc_assets.protocols.columnar.event_rows import PlacedEvent, placed, tables_of, with_values
from ticdc_assets.protocols.columnar.message_rows import TableRows
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.formats.limits import MESSAGE_BYTES_MAX
from ticdc_assets.protocols.protocol import Value
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.protocols.values.checksum import check
from ticdc_assets.schema.history.source_table import SchemaPeriod, SourceName, fold_name
from ticdc_assets.schema.model import TableName, TableSchema
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.filesystem import open_root
from ticdc_assets.sources.upstream import sql as upstream_sql

COMPLETED_BYTES: Final = 64 << 20
"""How many bytes of completed rows are held before they are written."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where rows are written, and the messages that they are in."""

    name: SourceName
    period: SchemaPeriod
    delivery: int
    late: bool
    message_of: MessageOf


@dataclass(frozen=True, slots=True)
class _Note:
    """What a row changes in the state of its name. `at` is the ordinal of its message and its position in that."""

    name: SourceName
    at: tuple[int, int]
    make: Callable[[], None]


class MessageDecoder:
    """Decodes one task. `run` returns its report: one FileReport for every source name."""

    def __init__(self, task: MessageTask) -> None:
        self._task = task
        self._protocol = REGISTRY[task.decoding.protocol]
        self._names: dict[SourceName, NameState] = {}
        self._pieces: dict[Group, list[Piece]] = {}
        self._cut: list[CutRow] = []
        self._late_large: list[LateLarge] = []
        self._notes: list[_Note] = []

    def run(self) -> TaskReport:
        """Decode all messages of the task and write the parts of changelogs."""
        for batch in batches_of(self._task.stretch):
            left = self._in_bulk(batch)
            self._by_reference(batch, left)
            self._note()
            hit(Failpoint.FILE_READ)
        if self._late_large:
            self._take_late_large()
            self._note()
        completed_parts = list(self._complete()) if self._cut else []
        self._note()
        parts = [*completed_parts, *write_parts(self._task, sorted(self._pieces.items()), self._hold)]
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
        for name, counted in outcome.row_counts:
            self._names.setdefault(name, NameState()).count(*counted)
        for piece in outcome.pieces:
            self._keep(self._pieces, piece)
        return outcome.left

    def _keep(self, pieces: dict[Group, list[Piece]], piece: Piece) -> None:
        """Keep typed changes until they are written. The dates and times of late rows are not counted: those of repeats
        were counted before."""
        if not piece.late:
            self._names[piece.name].zero_dates += piece.changes.zero_dates
            self._names[piece.name].ambiguous_times += piece.changes.ambiguous_times
        pieces.setdefault(group_of(piece.period, piece.delivery, piece.late), []).append(piece)

    def _hold(self, name: SourceName, fault: TicdcAssetsError) -> None:
        """Hold one table because of an error of its rows."""
        name_state = self._names.setdefault(name, NameState())
        name_state.stops(Note.of(NoteCode.INPUT, fault, ".".join(name)))

    @contextmanager
    def _held_alone(self, name: SourceName) -> Iterator[None]:
        """Hold only the table of a name at an error that this project does not raise."""
        try:
            yield
        except (TicdcAssetsError, OSError):
            raise
        except Exception as error:  # noqa: BLE001  raised again where it is not of one table
            self._hold(name, of_one_table(error))

    def _note(self) -> None:
        """Make the notes about rows, in the order of the rows: the last one is what a table is held for."""
        for note in sorted(self._notes, key=lambda note: note.at):
            with self._held_alone(note.name):
                note.make()
        self._notes.clear()

    # -- the rows of the reference decoder ----------------------------------------------------------------------------

    def _by_reference(self, batch: MessageBatch, messages: Iterable[int]) -> None:
        read, sound = batch.was_read(self._task), np.ones(len(batch), np.bool_)
        for table in tables_of(self._events(batch, messages)):
            for named in by_name(self._task, batch, table):
                name_state = self._names.setdefault(named.name, NameState())
                name_state.count(*counts(self._task, batch, named, sound, read))
                with self._held_alone(named.name):
                    self._without_schema(batch, named, name_state)
                    self._write(batch, named, sound, read)

    def _events(self, batch: MessageBatch, messages: Iterable[int]) -> Iterator[PlacedEvent]:
        decode, options = self._protocol.decode, self._task.decoding.options
        for index in messages:
            message = batch.block.message(index)
            try:
                events = list(decode(message.key, message.value, message.where, options))
            except DecodeError:
                continue  # the first pass has kept it
            yield from ((index, n, event) for n, event in enumerate(events) if isinstance(event, RowEvent))

    def _write(self, batch: MessageBatch, named: NamedRows, sound: Bools, read: Bools) -> None:
        """The rows that this run writes."""
        for period, delivery, late, table in to_write(self._task, batch, named, sound, read):
            place = _Place(named.name, period, delivery, late, batch.message_of)
            ordinals = pa.array(batch.ordinals[messages_of(table)])
            self._take(place, replace(table, rows=replace(table.rows, line=ordinals)))

    def _true_name(self, event: RowEvent, message: Message) -> TableName | None:
        """The name of the row's table; None where messages cannot spell it and it may be one of several."""
        return self._task.schemas.names.get((message.topic, event.schema, event.table), (event.schema, event.table))

    def _take(self, place: _Place, table: TableRows) -> None:
        """Type the rows, but for large rows: these are completed when all messages are read."""
        rows = placed(table)
        if place.late and any(event.claim is not None or event.is_cut for _, _, event in rows):
            self._late_large += [
                LateLarge(
                    place.name, place.period, place.delivery, event, place.message_of(ordinal), (ordinal, position)
                )
                for ordinal, position, event in rows
            ]
        elif self._task.schemas.checked or any(event.claim is not None or event.is_cut for _, _, event in rows):
            for whole in tables_of(self._whole_rows(place, rows)):
                self._type(place, whole)
        else:
            self._type(place, table)

    def _take_late_large(self) -> None:
        kept: dict[Group, tuple[_Place, list[PlacedEvent]]] = {}
        messages = {row.at[0]: row.message for row in self._late_large}
        for row, is_known in with_known(self._task, self._late_large):
            if is_known:
                self._names[row.name].repeats += 1
                continue
            place = _Place(row.name, row.period, row.delivery, True, messages.__getitem__)
            group = kept.setdefault(group_of(row.period, row.delivery, True), (place, []))
            group[1].append((*row.at, row.event))
        for place, rows in kept.values():
            for whole in tables_of(self._whole_rows(place, rows)):
                self._type(place, whole)

    def _type(self, place: _Place, table: TableRows) -> None:
        with self._held_alone(place.name):
            fitting = self._with_fitting_columns(place, table)
            if len(fitting):
                value, zone = as_sent(self._task), self._protocol.zone_of_times(self._task.decoding.zone)
                self._keep(self._pieces, self._typed(place, fitting, value, zone))

    def _typed(self, place: _Place, table: TableRows, value: Value, zone: str) -> Piece:
        """The changes of rows. A row that cannot be typed goes to quarantine with its message."""
        filled = with_values(table)
        rules = rules_of(
            self._task, place.period.version.table, of_events(self._task, filled, value, zone), place.message_of
        )
        changes, bad = sound_changes(filled.rows, rules)
        for row in bad:
            event, position = table.events[row.index], table.position[row.index].as_py()
            self._bad(place, (row.line, position), event, row.fault)
        position = np.delete(np.asarray(table.position.to_numpy(), np.int64), [row.index for row in bad])
        return Piece(place.name, place.period, place.delivery, position, changes, place.late)

    # -- rows without a schema ---------------------------------------------------------------------------------------

    def _without_schema(self, batch: MessageBatch, named: NamedRows, name_state: NameState) -> None:
        """Note the rows of times at which their table has no schema."""
        for row in np.flatnonzero(~named.has_schema):
            event, number = named.table.events[row], named.periods[row]
            gap = None if number == NO_PERIOD else named.timeline[number]
            if event.time.by_position and is_given_up(self._task, named.timeline, gap):
                continue
            index = int(named.messages[row])
            note = partial(self._no_schema, named.source, event, batch.block.message(index), name_state)
            at = (int(batch.ordinals[index]), named.table.position[int(row)].as_py())
            self._notes.append(_Note(named.name, at, note))

    def _no_schema(self, true: TableName | None, event: RowEvent, message: Message, name_state: NameState) -> None:
        if not self._task.order.by_arrival and (event.commit_ts or 0) > self._task.high:
            name_state.above += 1  # the statement that creates its table is above this run too
        elif true is None or self._is_asked_for(true):
            untyped = self._untyped(event)
            if event.time.by_position and fold_name(event.schema, event.table) in self._task.schemas.timelines:
                name_state.shapes.add(displaced_by(self._task, (event.schema, event.table), event, message))
                problem = no_table(event, message)
            elif untyped is not None:
                problem = Note.of(NoteCode.INPUT, untyped, f"{message.where}: {event.schema}.{event.table}")
            else:
                problem = no_schema(event)
            name_state.state, name_state.problem = FileState.WAITING, problem

    def _untyped(self, event: RowEvent) -> SchemaError | None:
        """Which column prevents inferring the table's columns from the row, and why; None where none does."""
        if self._protocol.infer is None or not event.hints.columns:
            return None
        try:
            self._protocol.infer(event)
        except SchemaError as error:
            return error
        return None

    def _is_asked_for(self, name: TableName) -> bool:
        """Whether the name is of a selected table, under this name or its present one."""
        timeline = self._task.schemas.timelines.get(fold_name(*name), ())
        return self._task.schemas.tables.matches(*name) or any(
            isinstance(period, SchemaPeriod) and period.source_table_id in self._task.targets for period in timeline
        )

    def _with_fitting_columns(self, place: _Place, table: TableRows) -> TableRows:
        """The rows that have the columns of their version; the others are noted."""
        known, first = place.period.version.table, table.events[0]
        source = self._true_name(first, place.message_of(table.rows.line[0].as_py())) or (first.schema, first.table)
        if not known.inferred and unlike(self._task, known, first, source) is None:
            return table  # all rows have the same columns; only where types are inferred, each may tell other ones
        differing = [unlike(self._task, known, event, source) for event in table.events]
        for (ordinal, position, event), how in zip(placed(table), differing, strict=True):
            if how is not None:
                message, name_state = place.message_of(ordinal), self._names[place.name]
                note = partial(self._with_other_columns, how, known, event, message, name_state)
                self._notes.append(_Note(place.name, (ordinal, position), note))
        return part(table, np.flatnonzero([how is None for how in differing]))

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
        expected = f"expected the columns that {event.schema}.{event.table} has by now"
        detail = f"{message.where}: {expected}, {differing.found}."
        advice = (Advice.LEFT_OUT,) if differing.lacking else ()
        if self._task.order.by_arrival:
            name_state.waits(Note(NoteCode.INPUT, detail, (*advice, Advice.AWAIT_STATEMENT)))
        else:
            name_state.stops(Note(NoteCode.INPUT, detail, (*advice, Advice.LOST_STATEMENT)))

    # -- large rows ---------------------------------------------------------------------------------------------------

    def _whole_rows(self, place: _Place, rows: Iterable[PlacedEvent]) -> Iterator[PlacedEvent]:
        """The rows as TiDB has them, verified. Rows of which only the handle key was sent are kept for later."""
        for ordinal, position, event in rows:
            message = place.message_of(ordinal)
            try:
                whole = event if event.claim is None else self._whole(event, event.claim)
                if self._task.schemas.checked:
                    whole = verified(self._task, whole, message)
            except DecodeError as error:
                self._bad(place, (ordinal, position), event, error)
                continue
            if not whole.is_cut:
                yield ordinal, position, whole
            elif self._with_fitting_columns(place, tables_of([(ordinal, position, whole)])[0]):
                at = (ordinal, position)
                self._cut_off(CutRow(place.name, place.period, place.delivery, at, whole, message, place.late))

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

    def _cut_off(self, row: CutRow) -> None:
        """Keep a row that has only its handle key until all messages are read."""
        if self._task.decoding.upstream is not None:
            self._cut.append(row)
            return
        detail = f"{row.message.where}: expected the whole row, found only its handle key."
        problem = Note(NoteCode.INPUT, detail, (Advice.COMPLETE_FROM_UPSTREAM,))
        self._notes.append(_Note(row.name, row.at, partial(self._names[row.name].waits, problem)))

    def _complete(self) -> Iterator[ChangelogPart]:
        """Complete the cut rows. Returns the parts of those that do not fit in memory with all others."""
        pieces: dict[Group, list[Piece]] = {}
        held_bytes = 0
        upstream = self._task.decoding.upstream
        done_rows = completed(self._task, upstream, self._cut) if upstream is not None and self._cut else ()
        for number, done in enumerate(done_rows):
            name_state = self._names[done.cut[0].name]
            if done.problem is not None:
                name_state.waits(done.problem)
                continue
            first = done.cut[0]
            messages = {cut.at[0]: cut.message for cut in done.cut}
            place = _Place(first.name, first.period, first.delivery, first.late, messages.__getitem__)
            for table in tables_of(self._verified(place, done)):
                self._keep(pieces, self._typed(place, table, upstream_sql.value, "UTC"))
            held_bytes += done.size_bytes
            if held_bytes > COMPLETED_BYTES:
                yield from write_parts(self._task, sorted(pieces.items()), self._hold, f"-large{number}")
                pieces, held_bytes = {}, 0
        for group, more in pieces.items():
            self._pieces.setdefault(group, []).extend(more)

    def _verified(self, place: _Place, done: Completed) -> Iterator[PlacedEvent]:
        for cut, event in zip(done.cut, done.events, strict=True):
            table = checked_schema(self._task, event)
            fault = None if table is None else check(event, table, upstream_sql.plain)
            if fault is not None:
                self._bad(place, cut.at, event, mismatch(cut.message, fault))
            else:
                yield *cut.at, event

    def _bad(self, place: _Place, at: tuple[int, int], event: RowEvent, error: DecodeError) -> None:
        message, name_state = place.message_of(at[0]), self._names[place.name]
        self._notes.append(_Note(place.name, at, partial(self._set_aside, name_state, message, event, error)))

    def _set_aside(self, name_state: NameState, message: Message, event: RowEvent, error: DecodeError) -> None:
        if self._task.decoding.quarantine:
            schema, table = self._true_name(event, message) or (event.schema, event.table)
            entry = QuarantineEntry.of_message(message, error)
            name_state.bad.append(replace(entry, schema=schema, table=table, commit_ts=event.commit_ts))
        else:
            name_state.stops(Note.of(NoteCode.INPUT, error))


def decode_messages(task: MessageTask) -> TaskReport:
    """Decode the messages of a task."""
    return MessageDecoder(task).run()
