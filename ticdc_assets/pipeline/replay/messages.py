"""Decodes quarantined messages again, in the way a part of the stream is decoded.

A message keeps its position: its key, and its ordinal where order is by arrival, are those of the capture.
"""

from __future__ import annotations

import json
import uuid
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.pipeline.replay.context import Judged, ReplayContext, ReplayInput, Targets, above
from ticdc_assets.pipeline.stream.context import StreamContext, ddl_log
from ticdc_assets.pipeline.stream.decode.official_canal import StatementPositions
from ticdc_assets.pipeline.stream.decode.task import Mark, MessageTask, VersionClock
from ticdc_assets.pipeline.stream.decode.worker import decode_messages
from ticdc_assets.pipeline.stream.make_task import tasks_of
from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.pipeline.stream.pending import StreamPending
from ticdc_assets.pipeline.stream.scan.inferred_schemas import SchemaGuesses
from ticdc_assets.pipeline.stream.scan.result import StreamScan
from ticdc_assets.pipeline.stream.scan.scan import scan_all
from ticdc_assets.pipeline.tasks import FileState, TaskReport
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.source_table import SourceName, fold_name
from ticdc_assets.sources.capture import Message, MessagePosition
from ticdc_assets.sources.message_block import blocks_of
from ticdc_assets.sources.message_log import CaptureLog, PassedMessages, numbered_messages, placed_messages
from ticdc_assets.tables.control.records import QuarantinedRecord, RecordPosition

Found = tuple[int, Message]


class MessageReplay:
    """Decodes messages from a capture of their own in a temporary folder."""

    def __init__(self, replay_context: ReplayContext, folder: Path) -> None:
        self._lake = replay_context.lake
        self._context = StreamContext(replay_context.lake)
        self._replay_context = replay_context
        self._folder = folder
        self._scratch = replay_context.targets(folder)
        self._pending: StreamPending | None = None

    def judged(self, inputs: Sequence[ReplayInput]) -> list[Judged[Found]]:
        """The result for every message."""
        found = self._found({one.record.position: one for one in inputs})
        self._pending = self._pending_of(found)
        judged = [self._judge(one.record, found.get(one.record.position)) for one in inputs]
        touched = {i for one in judged for i in one.source_tables}
        freed = tuple(self._freed(self._pending)) if touched else ()
        return [*judged, Judged((), pieces=freed)] if freed else judged

    def decode(self, pieces: Sequence[Found], targets: Targets | None = None) -> TaskReport:
        """Decode the messages in the order of the stream."""
        return decode_messages(self._task(sorted(pieces, key=itemgetter(0)), targets))

    # -- the messages and what is around them -------------------------------------------------------------------------

    def new_schemas(self, inputs: Sequence[ReplayInput]) -> list[DdlEvent]:
        """The schemas of tables that nothing but these messages has, as a run infers them from rows."""
        if self._lake.by_arrival:
            return []
        found = self._found({one.record.position: one for one in inputs})
        log = ddl_log(self._lake.config, self._lake.changefeed)
        in_order = [(MessagePosition(), message) for _, message in sorted(found.values(), key=lambda one: one[0])]
        known = self._lake.control.ddl_events()
        scan = scan_all(blocks_of(in_order), self._context.form(None, log), StreamCursor())
        names = self._context.names(scan, self._replay_context.plan.history)
        guesses = SchemaGuesses(self._lake.folds, scan, names)
        return guesses.added_to(known, self._replay_context.record.tso)[len(known) :]

    def _found(self, wanted: Mapping[RecordPosition, ReplayInput]) -> dict[RecordPosition, Found]:
        """The messages with their ordinals in the capture, with the corrected bytes where given. A message that is no
        longer in the capture is taken from quarantine, where its ordinal does not matter."""
        found = {}
        for ordinal, message in numbered_messages(self._context.log):
            one = wanted.get(_position(message))
            if one is not None:
                found[one.record.position] = (ordinal, _corrected(message, one))
        for position, one in wanted.items():
            if position not in found and not self._lake.by_arrival:
                topic, _, partition = one.record.path.rpartition("/")
                found[position] = (0, Message(topic, int(partition), one.record.line, None, one.data, 0))
        return found

    def _pending_of(self, found: Mapping[RecordPosition, Found]) -> StreamPending:
        """The scan of the whole stream, with the corrected messages in their positions."""
        replay_context, scan = self._replay_context, StreamScan()
        if self._context.protocol == "avro":
            log = ddl_log(self._lake.config, self._lake.changefeed)
            passed, form = PassedMessages(self._context.log.first_ordinal), self._context.form(None, log)
            scan = scan_all(blocks_of(self._with_corrections(found)), form, StreamCursor(), passed=passed)
        return StreamPending(
            run_id=replay_context.run_id,
            high=replay_context.record.tso,
            plan=replay_context.plan,
            cursor=StreamCursor(),
            scan=scan,
            names=self._context.names(scan, replay_context.plan.history),
            follows=self._lake.follows,
            statement_positions=StatementPositions.of(self._lake.control.ddl_events()),
        )

    def _with_corrections(self, found: Mapping[RecordPosition, Found]) -> Iterator[tuple[MessagePosition, Message]]:
        for place, message in placed_messages(self._context.log):
            corrected = found.get(_position(message))
            yield place, corrected[1] if corrected else message

    # -- one message --------------------------------------------------------------------------------------------------

    def _judge(self, record: QuarantinedRecord, found: Found | None) -> Judged[Found]:
        if self._lake.by_arrival and not self._context.is_appended_to:
            return Judged((record,), problem=_unplaced(record))
        if found is None:
            return Judged((record,), problem=_gone(record))
        message = found[1]
        try:
            decode, options = REGISTRY[self._context.protocol].decode, self._context.options
            events = list(decode(message.key, message.value, message.where, options))
            rows = [event for event in events if isinstance(event, RowEvent)]
            problem = self._strange(message, events) or self._undated(message, rows)
            if problem or not rows:
                return Judged((record,), problem=problem)
            report = self.decode([found])
        except TicdcAssetsError as error:
            return Judged((record,), problem=str(error))
        source_tables = frozenset(part.source_table_id for part in report.parts)
        problem = _problem(report, record) or self._replay_context.not_insertable(record, source_tables)
        if not problem and not source_tables:
            names = [name for name in (self._name(message, row) for row in rows) if self._lake.follows(*name)]
            problem = self._replay_context.no_table_for(record, names[0]) if names else ""
        return Judged((record,), problem=problem) if problem else Judged((record,), source_tables, (found,))

    def _task(self, in_order: Sequence[Found], targets: Targets | None) -> MessageTask:
        """One task for these messages. A message that was scanned, with other bytes, is not the one that is read."""
        assert self._pending is not None
        capture = self._folder / f"{uuid.uuid4().hex}.jsonl"
        capture.write_text("".join(_line(message) for _, message in in_order))
        ordinals = tuple(ordinal for ordinal, _ in in_order)
        part = (Mark(ordinals[0], MessagePosition()), ordinals[-1] + 1)
        chosen = dict(self._scratch if targets is None else targets)
        [task] = tasks_of(self._context, self._pending, [part], chosen, log=CaptureLog(capture))
        return replace(
            task,
            stretch=replace(task.stretch, ordinals=ordinals, witnesses={}),
            decoding=replace(task.decoding, quarantine=True),
            io_properties={} if targets is None else task.io_properties,
        )

    def _name(self, message: Message, row: RowEvent) -> SourceName:
        assert self._pending is not None
        return self._pending.names.get((message.topic, row.schema, row.table)) or (row.schema, row.table)

    def _freed(self, pending: StreamPending) -> Iterator[Found]:
        """Messages whose changes only looked like repeats because the rows between them were missing."""
        if pending.scan.avro is None:
            return
        form = self._context.form(None, ddl_log(self._lake.config, self._lake.changefeed))
        passed = PassedMessages(self._context.log.first_ordinal)
        before = scan_all(self._context.log.blocks(), form, StreamCursor(), passed=passed).avro
        freed = (before.repeated() if before else frozenset()) - pending.scan.avro.repeated()
        consumed = StreamCursor.from_json(self._replay_context.record.cursor).offsets
        for ordinal, message in numbered_messages(self._context.log) if freed else ():
            if ordinal in freed and message.offset < consumed.get((message.topic, message.partition), 0):
                yield ordinal, message

    # -- what cannot come late ----------------------------------------------------------------------------------------

    def _strange(self, message: Message, events: Sequence[object]) -> str:
        """Why a statement or schema cannot be accepted any more: later rows were read without it."""
        kept = {_statement(event) for event in self._lake.control.ddl_events()}
        late = [e for e in events if isinstance(e, DdlEvent) and _statement(e) not in kept and (e.query or e.commit_ts)]
        if not late:
            return ""
        return (
            f"{message.where}: expected rows, or a statement that another message has too, found a statement that "
            f"was missed at {late[0].commit_ts}. Its table was read without it since: start the changefeed again in "
            "another lake; or discard the message if the statement does not matter."
        )

    def _undated(self, message: Message, rows: Sequence[RowEvent]) -> str:
        """Why a row is rejected whose schema is in no other message, where only messages carry schemas."""
        if self._context.clock is not VersionClock.POSITION:
            return ""
        known = {event.hints.version for event in self._lake.control.ddl_events()}
        if all(row.hints.schema_version is None or row.hints.schema_version in known for row in rows):
            return ""
        return (
            f"{message.where}: expected a schema that other rows of its table have, found one that only this message "
            "has. It cannot be placed among the table's versions: start the changefeed again in another lake."
        )


def _problem(report: TaskReport, record: QuarantinedRecord) -> str:
    for name in report.files:
        if name.bad:
            return name.bad[0].reason
        if name.state is not FileState.READ:
            return name.hold.note.text("")
        if name.above:
            return above(record)
    return ""


def _position(message: Message) -> RecordPosition:
    return (f"{message.topic}/{message.partition}", message.offset)


def _corrected(message: Message, one: ReplayInput) -> Message:
    """The message with the given bytes. A message without a value is kept by its key."""
    if not one.is_corrected:
        return message
    key, value = (message.key, one.data) if message.value is not None else (one.data, None)
    return Message(message.topic, message.partition, message.offset, key, value, message.ts_ms)


def _line(message: Message) -> str:
    """The message as a line of a capture."""
    line = {
        "topic": message.topic, "partition": message.partition, "offset": message.offset,
        "key": _encoded(message.key), "value": _encoded(message.value), "ts_ms": message.ts_ms,
    }  # fmt: skip
    return json.dumps(line) + "\n"


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode("ascii")


def _statement(event: DdlEvent) -> tuple[int, str, str, str]:
    return (event.commit_ts, *fold_name(event.schema, event.table), event.query)


def _unplaced(record: QuarantinedRecord) -> str:
    return (
        f"{record.path}, offset {record.line}: expected a capture in one file, found a file for each partition. These "
        "grow independently, and without commit_ts nothing orders the message among those of the other files: "
        "capture the topics to one file and start the changefeed again in another lake; or discard the message."
    )


def _gone(record: QuarantinedRecord) -> str:
    return (
        f"{record.path}, offset {record.line}: expected its message in the capture, found none. "
        "Without the capture its position is not known; restore the capture."
    )
