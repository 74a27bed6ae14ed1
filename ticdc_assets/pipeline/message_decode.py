"""What a worker does with a stretch of messages: decode, type and write the row changes, sorted and without repeats.

In bulk where the protocol has a bulk form, message by message with the reference for what that leaves. Rows of one
lineage and version are gathered over the stretch, sorted by commit_ts and place, and written as one part; so rows that
partitions interleave come out in order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import numpy as np

from ticdc_assets.errors import DecodeError, SchemaError, TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.moments import Moment, reached
from ticdc_assets.pipeline.late_large import LateLarge, is_large, told_apart
from ticdc_assets.pipeline.message_batches import BATCH_MESSAGES, Batch, Piece, settle
from ticdc_assets.pipeline.message_completion import Completed, CutRow, completed, needs_completing
from ticdc_assets.pipeline.message_parts import Group, group_of, write_parts
from ticdc_assets.pipeline.message_slots import slot_of
from ticdc_assets.pipeline.message_task import MessageTask
from ticdc_assets.pipeline.message_values import RowValues, changes_of
from ticdc_assets.pipeline.row_shapes import Shapes, Unlike, told_by, unlike
from ticdc_assets.pipeline.stream_look import bad_line
from ticdc_assets.pipeline.task import BadLine, FileReport, FileState, Part, TaskReport
from ticdc_assets.protocols import confluent_avro, simple
from ticdc_assets.protocols.avro_names import Name
from ticdc_assets.protocols.checksum import ChecksummedRow, check
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.limits import MESSAGE_BYTES_MAX
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.lineage import Slot, SourceName, fold_name
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.sources import upstream_sql
from ticdc_assets.sources.capture import Message, messages
from ticdc_assets.sources.filesystem import open_root

COMPLETED_BYTES: Final = 64 << 20
"""How much of rows that were completed is held before it is written."""


@dataclass(slots=True)
class _Rows:
    """Rows of one lineage, version and delivery, with their messages' ordinals and their positions in these."""

    name: SourceName
    slot: Slot
    epoch: int
    values: RowValues
    late: bool = False
    at: list[tuple[int, int]] = field(default_factory=list)
    events: list[RowEvent] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)


@dataclass(slots=True)
class _Name:
    """What is said of one source name in this stretch."""

    rows: int = 0
    above: int = 0
    repeats: int = 0
    zero_dates: int = 0
    problem: str = ""
    state: FileState = FileState.READ
    bad: list[BadLine] = field(default_factory=list)
    shapes: Shapes = field(default_factory=Shapes)

    def waits(self, problem: str) -> None:
        """Something may still come, unless it is known already that the table has stopped."""
        if self.state is not FileState.STOPPED:
            self.state, self.problem = FileState.WAITING, problem


class MessageDecoder:
    """Decodes one task. `run` gives its report: a FileReport for every source name, in place of files."""

    def __init__(self, task: MessageTask) -> None:
        self._task = task
        self._protocol = REGISTRY[task.protocol]
        self._names: dict[SourceName, _Name] = {}
        self._rows: dict[Group, _Rows] = {}
        self._pieces: dict[Group, list[Piece]] = {}
        self._cut: list[CutRow] = []
        self._late_large: list[LateLarge] = []
        self._sent = RowValues(task, self._protocol.value_under(task.options))

    def run(self) -> TaskReport:
        for batch in self._batches():
            for index in self._in_bulk(batch):
                self._one(batch.messages[index], int(batch.ordinals[index]))
            reached(Moment.FILE_READ)
        self._take_late_large()
        parts = [*self._complete(), *write_parts(self._task, self._gathered(), self._hold)]
        reached(Moment.PARTS_WRITTEN)
        return TaskReport(self._task.number, tuple(parts), tuple(self._reports()))

    def _batches(self) -> Iterator[Batch]:
        task, begin = self._task, self._task.begin
        placed = enumerate(messages(task.capture, begin.place), start=begin.ordinal)
        wanted = (
            (ordinal, message)
            for ordinal, message in islice(placed, task.last - begin.ordinal)
            if task.window.has((message.topic, message.partition), message.offset) and ordinal not in task.twice
        )
        while found := list(islice(wanted, BATCH_MESSAGES)):
            yield Batch(np.array([ordinal for ordinal, _ in found], np.int64), tuple(m for _, m in found))

    def _in_bulk(self, batch: Batch) -> Iterable[int]:
        """Settle what the bulk form can of a batch; the messages that are left for the reference."""
        bulk = self._protocol.bulk
        if bulk is None or self._task.checked:  # checksums are verified row by row
            return range(len(batch.messages))
        try:
            settled = settle(self._task, bulk, batch)
        except Exception as error:  # noqa: BLE001  the reference tells of which table it is
            of_one_table(error)
            return range(len(batch.messages))
        for name, tally in settled.tallies.items():
            said = self._names.setdefault(name, _Name())
            said.rows += tally.rows
            said.above += tally.above
            said.repeats += tally.repeats
        for piece in settled.pieces:
            self._names[piece.name].zero_dates += 0 if piece.late else piece.changes.zero_dates
            self._pieces.setdefault(group_of(piece.slot, piece.epoch, piece.late), []).append(piece)
        return settled.left

    def _one(self, message: Message, ordinal: int) -> None:
        try:
            events = list(self._protocol.decode(message.key, message.value, message.where, self._task.options))
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
        """Hold one table for what a library says of its rows."""
        said = self._names.setdefault(name, _Name())
        said.state, said.problem = FileState.STOPPED, f"{'.'.join(name)}: {fault}"

    # -- one row ------------------------------------------------------------------------------------------------------

    def _row(self, event: RowEvent, message: Message, ordinal: int, position: int) -> None:
        true = self._true_name(event, message)
        name = fold_name(*(true or (event.schema, event.table)))
        said = self._names.setdefault(name, _Name())
        said.rows += 1
        slot = self._slot(name, event, message, ordinal)
        if slot is None:
            self._without_schema(true, event, message, said)
            return
        if slot.lineage_id not in self._task.targets:
            return
        target = self._task.targets[slot.lineage_id]
        if ordinal in self._task.repeated:
            said.repeats += 1
        elif self._task.by_arrival:
            arrival = self._task.arrivals.get(target.lineage_id)
            if target.low < ordinal <= target.high and (arrival is None or arrival.takes(message)):
                self._take(name, slot, event, message, (ordinal, position), said)
        else:
            assert event.commit_ts is not None
            if event.commit_ts > target.high:
                said.above += 1
            elif event.commit_ts > target.low:
                self._take(name, slot, event, message, (ordinal, position), said)
            elif target.lineage_id not in self._task.fresh and self._task.was_read(message):
                said.repeats += 1
            elif is_large(event):
                self._late_large.append(LateLarge(name, slot, event, message, (ordinal, position)))
            else:
                self._take(name, slot, event, message, (ordinal, position), said, late=True)

    def _take_late_large(self) -> None:
        for row, is_known in told_apart(self._task, self._sent, self._late_large):
            said = self._names[row.name]
            if is_known:
                said.repeats += 1
            else:
                self._take(row.name, row.slot, row.event, row.message, row.at, said, late=True)

    def _true_name(self, event: RowEvent, message: Message) -> Name | None:
        """The name of the row's table; None where messages cannot spell it and nothing tells which it is."""
        return self._task.names.get((message.topic, event.schema, event.table), (event.schema, event.table))

    def _take(
        self,
        name: SourceName,
        slot: Slot,
        event: RowEvent,
        message: Message,
        at: tuple[int, int],
        said: _Name,
        late: bool = False,
    ) -> None:
        try:
            whole = self._whole(event)
            self._verify(whole, message)
        except DecodeError as error:
            self._bad(said, message, error)
            return
        assert slot.version is not None
        odd = unlike(self._task, slot.version.table, whole)
        if odd is not None:
            self._with_other_columns(odd, slot.version.table, whole, message, said)
            return
        epoch = bisect_right(self._task.epochs.get((message.topic, message.partition), ()), message.offset)
        if needs_completing(whole):
            self._cut_off(CutRow(name, slot, epoch, at, whole, message, late), said)
            return
        rows = self._rows.setdefault(group_of(slot, epoch, late), _Rows(name, slot, epoch, self._sent, late))
        rows.at.append(at)
        rows.events.append(whole)
        rows.messages.append(message)

    # -- which version of its table a row has -------------------------------------------------------------------------

    def _slot(self, name: SourceName, event: RowEvent, message: Message, ordinal: int) -> Slot | None:
        slots = self._task.timelines.get(name, ())
        slot = slot_of(self._task, name, slots, event, message, ordinal) if slots else None
        return None if slot is None or slot.lineage_id is None else slot

    def _without_schema(self, true: Name | None, event: RowEvent, message: Message, said: _Name) -> None:
        if not self._task.by_arrival and (event.commit_ts or 0) > self._task.high:
            said.above += 1  # the statement that makes its table is above this run too
        elif true is None or self._is_asked_for(true):
            untyped = self._untyped(event)
            problem = f"{message.where}: {event.schema}.{event.table}: {untyped}" if untyped else _no_schema(event)
            said.state, said.problem = FileState.WAITING, problem

    def _untyped(self, event: RowEvent) -> str:
        """Which column of the row keeps it from telling its table's columns, and why; "" where none does."""
        if self._protocol.infer is None or not event.column_hints:
            return ""
        try:
            self._protocol.infer(event)
        except SchemaError as error:
            return str(error)
        return ""

    def _is_asked_for(self, name: Name) -> bool:
        """Whether rows of the name are of a table that is asked for, under this name or the one it has now."""
        slots = self._task.timelines.get(fold_name(*name), ())
        return self._task.tables.matches(*name) or any(slot.lineage_id in self._task.targets for slot in slots)

    def _with_other_columns(
        self, odd: Unlike, table: TableSchema, event: RowEvent, message: Message, said: _Name
    ) -> None:
        """Hold the table of a row with other columns than it has, so that nothing of what was sent is lost. Where rows
        tell the table's columns, this one tells the driver of its own."""
        if table.inferred and odd.tells:
            name = self._true_name(event, message)
            told = told_by(self._task, name, event, message) if name is not None else None
            if told is not None:
                said.shapes.add(told)
        problem = f"{message.where}: expected the columns that {event.schema}.{event.table} has by now, {odd.found}."
        if self._task.by_arrival:
            said.waits(f"{problem} It waits: the statement about it may be in messages that are not captured yet.")
        else:
            todo = "Look whether a statement was lost; its table goes on when the stream or `schema_files` tell of it."
            said.state, said.problem = FileState.STOPPED, f"{problem} {todo}"

    # -- large rows ---------------------------------------------------------------------------------------------------

    def _whole(self, event: RowEvent) -> RowEvent:
        """The row as the claim-check folder has it, where it was put there; else as it came."""
        if event.claim is None or self._protocol.open_claim is None or self._task.claim_check is None:
            return event
        data = open_root(self._task.claim_check).read_bytes(event.claim, MESSAGE_BYTES_MAX)
        where = f"claim-check {event.claim}"
        found = [e for e in self._protocol.open_claim(data, where, self._task.options) if isinstance(e, RowEvent)]
        return next((e for e in found if (e.op, e.commit_ts) == (event.op, event.commit_ts)), found[0])

    def _cut_off(self, row: CutRow, said: _Name) -> None:
        """Keep a row of which only the handle key was sent until all messages are read."""
        if self._task.upstream is not None:
            self._cut.append(row)
            return
        said.waits(
            f"{row.message.where}: expected the whole row, found only its handle key. "
            "TiCDC cut a large row (handle-key-only); name TiDB as `upstream` to complete it from, or use claim-check."
        )

    def _complete(self) -> Iterator[Part]:
        """Complete the rows that were cut; the parts of those that are too many to be held with all others."""
        pieces: dict[Group, list[Piece]] = {}
        held_bytes = 0
        for number, done in enumerate(completed(self._task, self._cut) if self._cut else ()):
            said = self._names[done.cut[0].name]
            if done.problem:
                said.waits(done.problem)
                continue
            rows = self._verified(done, said)
            pieces.setdefault(group_of(rows.slot, rows.epoch, rows.late), []).append(self._typed(rows))
            held_bytes += done.size_bytes
            if held_bytes > COMPLETED_BYTES:
                yield from write_parts(self._task, sorted(pieces.items()), self._hold, f"-large{number}")
                pieces, held_bytes = {}, 0
        for group, more in pieces.items():
            self._pieces.setdefault(group, []).extend(more)

    def _verified(self, done: Completed, said: _Name) -> _Rows:
        first = done.cut[0]
        rows = _Rows(first.name, first.slot, first.epoch, RowValues(self._task, upstream_sql.value), first.late)
        for cut, event in zip(done.cut, done.events, strict=True):
            table = self._checked_over(event)
            fault = None if table is None else check(event, table, upstream_sql.plain)
            if fault is not None:
                self._bad(said, cut.message, _unlike(cut.message, fault))
                continue
            rows.at.append(cut.at)
            rows.events.append(event)
            rows.messages.append(cut.message)
        return rows

    # -- checksums ----------------------------------------------------------------------------------------------------

    def _verify(self, event: RowEvent, message: Message) -> None:
        table = self._checked_over(event)
        if table is None:
            return
        verify = simple.verify if self._task.protocol == "simple" else confluent_avro.verify
        fault = verify(event, table, self._task.zone)
        if fault is not None:
            raise _unlike(message, fault)

    def _checked_over(self, event: RowEvent) -> TableSchema | None:
        """The schema that the row's checksum is computed over; None where there is nothing to check."""
        if not isinstance(event, ChecksummedRow) or event.schema_version is None:
            return None
        return self._task.checked.get((fold_name(event.schema, event.table), event.schema_version))

    def _bad(self, said: _Name, message: Message, error: DecodeError) -> None:
        if self._task.quarantine:
            said.bad.append(bad_line(message, error))
        else:
            said.state, said.problem = FileState.STOPPED, str(error)

    # -- values -------------------------------------------------------------------------------------------------------

    def _gathered(self) -> Iterator[tuple[Group, list[Piece]]]:
        """What is to be written, group by group; rows are typed when their group's turn has come."""
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
        """The rows' values; one that cannot be had goes to quarantine with its message."""
        assert rows.slot.version is not None
        table = rows.slot.version.table
        columns = table.stored_columns
        said = self._names[rows.name]
        kept: list[tuple[int, RowEvent, list[Any], list[Any] | None]] = []
        positions = []
        for (ordinal, position), event, message in zip(rows.at, rows.events, rows.messages, strict=True):
            try:
                now = rows.values.of(columns, event.wire)
                before = rows.values.of(columns, _full_before(event)) if event.before is not None else None
                rows.values.check_key(table, event.wire, now)
                if before is not None:
                    rows.values.check_key(table, _full_before(event), before)
                zero_dates = rows.values.zero_dates(columns, event.wire, now)
                said.zero_dates += 0 if rows.late else zero_dates  # of repeats they were counted before
            except TicdcAssetsError as error:
                self._bad(said, message, DecodeError(message.where, error.expected, error.found, error.todo))
                continue
            kept.append((ordinal, event, now, before))
            positions.append(position)
        changes = changes_of(columns, kept)
        return Piece(rows.name, rows.slot, rows.epoch, np.array(positions, np.int64), changes, rows.late)

    def _reports(self) -> Iterator[FileReport]:
        for name, said in self._names.items():
            yield FileReport(
                ".".join(name),
                name,
                said.state,
                said.rows,
                said.above,
                said.repeats,
                said.zero_dates,
                tuple(said.bad),
                said.problem,
                shapes=said.shapes.events(),
            )


def decode_messages(task: MessageTask) -> TaskReport:
    """Decode the messages of a task."""
    return MessageDecoder(task).run()


def _full_before(event: RowEvent) -> Any:
    return {**event.wire, **(event.before or {})} if event.before_is_partial else event.before


def _unlike(message: Message, fault: str) -> DecodeError:
    return DecodeError(message.where, "a row with the checksum it came with", fault, "Load the row anew.")


def _no_schema(event: RowEvent) -> str:
    version = "" if event.schema_version is None else f" version {event.schema_version}"
    return (
        f"{event.schema}.{event.table}: expected the schema{version} that its rows were written with, found none yet. "
        "It waits: the schema comes with a BOOTSTRAP or DDL message, or give the table in `schema_files`."
    )
