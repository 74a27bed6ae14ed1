"""Decodes quarantined messages again, each by itself, the way a stretch of the stream is decoded.

A message keeps its place: its key, and where order is by arrival its ordinal, are those it has in the capture.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.pipeline.ddl_log import ddl_log
from ticdc_assets.pipeline.message_decode import decode_messages
from ticdc_assets.pipeline.message_look import look_through
from ticdc_assets.pipeline.message_pending import PendingMessages, StreamCursor
from ticdc_assets.pipeline.message_run import MessageRun
from ticdc_assets.pipeline.message_task import Dating, Mark, MessageTask
from ticdc_assets.pipeline.placed_rows import Places
from ticdc_assets.pipeline.replay_ground import Decoded, Ground, Offered, above, homeless, rows_of
from ticdc_assets.pipeline.stream_look import StreamLook
from ticdc_assets.pipeline.task import FileState, TaskReport
from ticdc_assets.protocols.events import DdlEvent, RowEvent
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.lineage import fold_name
from ticdc_assets.sources.capture import Message, Place, placed_messages

if TYPE_CHECKING:
    from ticdc_assets.tables.control import QuarantinedRecord

Position = tuple[str, int]
Found = tuple[int, Message]


class MessageReplay(MessageRun):
    """Decodes messages into a folder that is thrown away."""

    def __init__(self, ground: Ground, folder: Path) -> None:
        super().__init__(ground.lake)
        self._ground = ground
        self._folder = folder

    def decode(self, offered: Sequence[Offered]) -> list[Decoded]:
        """What came of every message."""
        wanted = {one.record.position: one for one in offered}
        found = self._found(wanted)
        pending = self._pending(found)
        decoded = [self._decode(pending, one.record, found.get(one.record.position)) for one in offered]
        return decoded + list(self._freed(pending, decoded))

    # -- the messages and what is around them -------------------------------------------------------------------------

    def _found(self, wanted: Mapping[Position, Offered]) -> dict[Position, Found]:
        """The messages with their ordinals in the capture, mended where they were; one that is gone there is taken as
        it was kept, where its ordinal does not matter."""
        found = {}
        for ordinal, (_, message) in enumerate(placed_messages(self._capture)):
            one = wanted.get(_position(message))
            if one is not None:
                found[one.record.position] = (ordinal, _mended(message, one))
        for position, one in wanted.items():
            if position not in found and not self._lake.by_arrival:
                topic, _, partition = one.record.path.rpartition("/")
                found[position] = (0, Message(topic, int(partition), one.record.line, None, one.data, 0))
        return found

    def _pending(self, found: Mapping[Position, Found]) -> PendingMessages:
        """What a look at the whole stream tells, the mended messages in their places."""
        ground, look = self._ground, StreamLook()
        if self._protocol == "avro":
            log = ddl_log(self._lake.config, self._changefeed)
            look = look_through(self._with_mended(found), self._form(None, log), StreamCursor())
        return PendingMessages(
            run_id=ground.run_id,
            high=ground.record.tso,
            record=ground.record,
            cursor=StreamCursor(),
            look=look,
            statements=(),
            history=ground.history,
            intervals=ground.intervals,
            names=self._names(look, ground.history),
            follows=self._lake.follows,
            places=Places.of(self._lake.control.ddl_events()),
        )

    def _with_mended(self, found: Mapping[Position, Found]) -> Iterator[tuple[Place, Message]]:
        for place, message in placed_messages(self._capture):
            mended = found.get(_position(message))
            yield place, mended[1] if mended else message

    # -- one message --------------------------------------------------------------------------------------------------

    def _decode(self, pending: PendingMessages, record: QuarantinedRecord, found: Found | None) -> Decoded:
        if self._lake.by_arrival and not self._is_appended_to:
            return Decoded((record,), problem=_unplaced(record))
        if found is None:
            return Decoded((record,), problem=_gone(record))
        ordinal, message = found
        try:
            events = list(REGISTRY[self._protocol].decode(message.key, message.value, message.where, self._options))
            rows = [event for event in events if isinstance(event, RowEvent)]
            problem = self._strange(message, events) or self._undated(message, rows)
            if problem or not rows:
                return Decoded((record,), problem=problem)
            report = decode_messages(self._message_task(pending, ordinal, message))
        except TicdcAssetsError as error:
            return Decoded((record,), problem=str(error))
        changes = rows_of(report.parts)
        problem = _problem(report, record) or self._ground.unsettled(record, changes)
        if not problem and not changes and any(self._is_asked_for(pending, message, row) for row in rows):
            problem = homeless(record)
        return Decoded((record,), problem=problem) if problem else Decoded((record,), changes)

    def _message_task(self, pending: PendingMessages, ordinal: int, message: Message) -> MessageTask:
        capture = self._folder / f"{ordinal}.jsonl"
        line = {
            "topic": message.topic, "partition": message.partition, "offset": message.offset,
            "key": _encoded(message.key), "value": _encoded(message.value), "ts_ms": message.ts_ms,
        }  # fmt: skip
        capture.write_text(json.dumps(line) + "\n")
        targets = self._ground.targets(self._folder / str(ordinal))
        task = self._task(pending, ordinal, Mark(ordinal, Place()), ordinal + 1, targets)
        return replace(task, capture=capture, io_properties={}, quarantine=True)

    def _is_asked_for(self, pending: PendingMessages, message: Message, row: RowEvent) -> bool:
        true = pending.names.get((message.topic, row.schema, row.table)) or (row.schema, row.table)
        return self._lake.follows(*true)

    def _freed(self, pending: PendingMessages, decoded: Sequence[Decoded]) -> Iterator[Decoded]:
        """Changes that were taken for ones sent again, only because what stands between was not known."""
        touched = {rows.lineage_id for one in decoded if not one.problem for rows in one.rows}
        if pending.look.avro is None or not touched:
            return
        form = self._form(None, ddl_log(self._lake.config, self._changefeed))
        before = look_through(placed_messages(self._capture), form, StreamCursor()).avro
        freed = (before.repeated() if before else frozenset()) - pending.look.avro.repeated()
        consumed = StreamCursor.from_json(self._ground.record.cursor).offsets
        for ordinal, (_, message) in enumerate(placed_messages(self._capture) if freed else ()):
            if ordinal in freed and message.offset < consumed.get((message.topic, message.partition), 0):
                rows = rows_of(decode_messages(self._message_task(pending, ordinal, message)).parts)
                yield Decoded((), tuple(r for r in rows if r.lineage_id in touched))

    # -- what cannot come late ----------------------------------------------------------------------------------------

    def _strange(self, message: Message, events: Sequence[object]) -> str:
        """Why a statement or schema is not taken in now: the rows after it were read without it."""
        kept = {_statement(event) for event in self._lake.control.ddl_events()}
        late = [e for e in events if isinstance(e, DdlEvent) and _statement(e) not in kept and (e.query or e.commit_ts)]
        if not late:
            return ""
        return (
            f"{message.where}: expected rows, or a statement that another message told too, found a statement that "
            f"was missed at {late[0].commit_ts}. Its table was read without it since: start the changefeed anew in "
            "another lake; or discard the message if the statement does not matter."
        )

    def _undated(self, message: Message, rows: Sequence[RowEvent]) -> str:
        """Why a row is not placed whose schema no other message has, where messages alone tell schemas."""
        if self._dating is not Dating.PLACE:
            return ""
        known = {event.version for event in self._lake.control.ddl_events()}
        if all(row.schema_version is None or row.schema_version in known for row in rows):
            return ""
        return (
            f"{message.where}: expected a schema that other rows of its table have, found one that only this message "
            "has. It cannot be placed among the table's versions: start the changefeed anew in another lake."
        )


def _problem(report: TaskReport, record: QuarantinedRecord) -> str:
    for name in report.files:
        if name.bad:
            return name.bad[0].reason
        if name.state is not FileState.READ:
            return name.problem
        if name.above:
            return above(record)
    return ""


def _position(message: Message) -> Position:
    return (f"{message.topic}/{message.partition}", message.offset)


def _mended(message: Message, one: Offered) -> Message:
    """The message with the bytes that were given; a message without a value was kept by its key."""
    if not one.is_mended:
        return message
    key, value = (message.key, one.data) if message.value is not None else (one.data, None)
    return Message(message.topic, message.partition, message.offset, key, value, message.ts_ms)


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode("ascii")


def _statement(event: DdlEvent) -> tuple[int, str, str, str]:
    return (event.commit_ts, *fold_name(event.schema, event.table), event.query)


def _unplaced(record: QuarantinedRecord) -> str:
    return (
        f"{record.path}, offset {record.line}: expected a capture in one file, found a file for each partition. These "
        "grow side by side, and without commit_ts nothing tells where the message stood among those of the others: "
        "capture the topics to one file and start the changefeed anew in another lake; or discard the message."
    )


def _gone(record: QuarantinedRecord) -> str:
    return (
        f"{record.path}, offset {record.line}: expected its message in the capture, found none. "
        "Its place among the others is not known without; restore the capture."
    )
