"""The first pass over a captured stream: watermarks, statements and schemas, and what rows alone tell of tables.

Partitions are read in the order of the capture. The watermark of the stream is the smallest of its partitions' newest
ones; one that goes back after a TiCDC restart counts as the larger that was there before, and begins a new delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.pipeline.avro_look import AvroLook
from ticdc_assets.pipeline.message_task import Dating, Partition
from ticdc_assets.pipeline.task import BadLine
from ticdc_assets.protocols.events import DdlEvent, RowEvent, WatermarkEvent
from ticdc_assets.protocols.registry import REGISTRY, MessageProtocol
from ticdc_assets.schema.history import SourceName, fold_name
from ticdc_assets.sources.capture import Message
from ticdc_assets.tso import LOGICAL_BITS


@dataclass(frozen=True, slots=True)
class StreamForm:
    """What is known of a stream before it is read.

    `topics` are the topics that dispatch rules name, `newest` is the largest commit_ts of earlier runs. From the first
    row above `until` on, where it is given, messages wait: what happened to their tables is not known so far.
    """

    protocol: str
    options: Any
    dating: Dating = Dating.COMMIT_TS
    topics: tuple[str, ...] = ()
    has_commit_ts: bool = True
    until: int | None = None
    newest: int = 0


@dataclass(slots=True)
class StreamLook:
    """What the messages after a cursor say.

    `first_rows` holds schema, table and the smallest commit_ts of every name (its first place where rows have none),
    `inferred` the schema that its first row tells, to hold from just before that row. `newest` is the largest commit_ts
    of anything. `waiting` has the tables with rows that wait; their messages are in nothing else.
    """

    watermarks: dict[Partition, int] = field(default_factory=dict)
    epochs: dict[Partition, list[int]] = field(default_factory=dict)
    ends: dict[Partition, int] = field(default_factory=dict)
    statements: list[DdlEvent] = field(default_factory=list)
    first_rows: dict[SourceName, tuple[str, str, int]] = field(default_factory=dict)
    inferred: dict[SourceName, DdlEvent] = field(default_factory=dict)
    bad: list[BadLine] = field(default_factory=list)
    messages: int = 0
    new_messages: int = 0
    carried: dict[str, set[SourceName]] = field(default_factory=dict)
    above: dict[Partition, list[tuple[int, int]]] = field(default_factory=dict)
    newest: int = 0
    waiting: dict[SourceName, tuple[str, str]] = field(default_factory=dict)
    avro: AvroLook | None = None

    def watermark(self, live: Callable[[SourceName], bool]) -> int | None:
        """The smallest of the partitions' watermarks; None until every partition has one.

        A topic whose tables are all gone (renamed away, dropped) gets no watermarks any more and holds nothing back.
        """
        counted = [p for p in self.ends if self._is_active(p[0], live)]
        if not counted or any(partition not in self.watermarks for partition in counted):
            return None
        return min(self.watermarks[partition] for partition in counted)

    def _is_active(self, topic: str, live: Callable[[SourceName], bool]) -> bool:
        names = self.carried.get(topic)
        return not names or any(live(name) for name in names)

    def note(self, partition: Partition, offset: int, commit_ts: int | None) -> None:
        """Remember the largest commit_ts so far by offset: a staircase that only has a step where it grows."""
        steps = self.above.setdefault(partition, [])
        if commit_ts is not None and (not steps or commit_ts > steps[-1][1]):
            steps.append((offset, commit_ts))
            self.newest = max(self.newest, commit_ts)

    def first_above(self, partition: Partition, high: int) -> int:
        """The first offset of a partition with a commit_ts above `high`, else its end."""
        return next((offset for offset, ts in self.above.get(partition, ()) if ts > high), self.ends[partition])


def look_through(
    messages: Iterable[Message],
    stream: StreamForm,
    offsets: Mapping[Partition, int],
    watermarks: Mapping[Partition, int],
) -> StreamLook:
    """Read every message once; messages before `offsets` are only counted."""
    look = StreamLook(watermarks=dict(watermarks))
    if stream.protocol == "avro":
        look.avro = AvroLook(stream.options, stream.topics, stream.has_commit_ts, stream.newest)
    for ordinal, message in enumerate(messages):
        partition = (message.topic, message.partition)
        consumed = message.offset < offsets.get(partition, 0)
        if not consumed and _waits(look, stream, message):
            continue
        look.messages += 1
        look.ends[partition] = message.offset + 1
        if consumed:
            continue
        look.new_messages += 1
        try:
            _message(look, stream, message, ordinal)
        except DecodeError as error:
            look.bad.append(bad_line(message, error))
    return look


def _waits(look: StreamLook, stream: StreamForm, message: Message) -> bool:
    """Whether a message is left for a later run: it or one before it is of a row above `until`."""
    if stream.until is None:
        return False
    try:
        events = list(REGISTRY[stream.protocol].decode(message.key, message.value, message.where, stream.options))
    except DecodeError:
        return bool(look.waiting)
    rows = [event for event in events if isinstance(event, RowEvent)]
    if not look.waiting and not any((row.commit_ts or 0) > stream.until for row in rows):
        return False
    for row in rows:
        name = look.avro.name(message.topic, row.schema, row.table) if look.avro else (row.schema, row.table)
        look.waiting.setdefault(fold_name(*name), name)
    return True


def _message(look: StreamLook, stream: StreamForm, message: Message, ordinal: int) -> None:
    partition, known = (message.topic, message.partition), REGISTRY[stream.protocol]
    schema = look.avro.schema(message) if look.avro else None
    if schema is not None and stream.dating is Dating.PLACE:
        # The only schemas of such a stream: those its messages are written with, from the first message that has one.
        look.statements.append(replace(schema, commit_ts=ordinal))
    for event in known.decode(message.key, message.value, message.where, stream.options):
        if isinstance(event, WatermarkEvent):
            _watermark(look, partition, event.ts, ordinal)
        elif isinstance(event, DdlEvent):
            # Simple lists columns by their ids; the others that tell columns do so in table order.
            look.statements.append(replace(event, after_is_ordered=stream.protocol != "simple"))
            look.note(partition, message.offset, event.commit_ts)
        else:
            row = look.avro.change(event, message, ordinal) if look.avro else event
            look.note(partition, message.offset, _date(row, stream.dating))
            look.carried.setdefault(message.topic, set()).add(fold_name(row.schema, row.table))
            _first_row(look, known, row, message, ordinal if stream.dating is Dating.PLACE else None)
            if schema is not None and stream.dating is not Dating.PLACE:
                name, ts = fold_name(row.schema, row.table), row.commit_ts or 0
                look.inferred.setdefault(name, replace(schema, commit_ts=max(0, ts - 1), version=None))


def _date(row: RowEvent, dating: Dating) -> int | None:
    """The last TSO that the row's commit may have."""
    if row.commit_ts is None and row.commit_ms is not None and dating is Dating.COMMIT_MS:
        return (row.commit_ms + 1 << LOGICAL_BITS) - 1
    return row.commit_ts


def _watermark(look: StreamLook, partition: Partition, ts: int, ordinal: int) -> None:
    newest = look.watermarks.get(partition, 0)
    if ts < newest:
        look.epochs.setdefault(partition, []).append(ordinal)
    look.watermarks[partition] = max(newest, ts)


def _first_row(look: StreamLook, known: MessageProtocol, row: RowEvent, message: Message, place: int | None) -> None:
    name = fold_name(row.schema, row.table)
    ts = place + 1 if place is not None else row.commit_ts
    if ts is None:
        ts = (row.commit_ms or 0) << LOGICAL_BITS
    if name not in look.first_rows or ts < look.first_rows[name][2]:
        look.first_rows[name] = (row.schema, row.table, ts)
    if known.infer is None or name in look.inferred or row.handle_only or not row.column_hints:
        return
    try:
        table = known.infer(row)
    except SchemaError:
        return  # a later row, or the user's schema_files, may tell more
    look.inferred[name] = DdlEvent(max(0, ts - 1), row.schema, row.table, "", after=table, where=message.where)


def bad_line(message: Message, error: DecodeError) -> BadLine:
    """A message that cannot be decoded, as it goes to quarantine."""
    path = f"{message.topic}/{message.partition}"
    return BadLine(path, message.offset, message.value or message.key or b"", str(error), "", "")


def without_known_bootstraps(events: Iterable[DdlEvent]) -> list[DdlEvent]:
    """Statements, and those bootstraps whose version no statement brought; these hold from their version on."""
    listed = list(events)
    told = {(e.schema.lower(), e.table.lower(), e.version) for e in listed if e.query and e.version is not None}
    kept = []
    seen: set[tuple[str, str, int | None]] = set()
    for event in listed:
        if event.query or event.version is None or event.commit_ts:
            kept.append(event)
            continue
        identity = (event.schema.lower(), event.table.lower(), event.version)
        if identity not in told and identity not in seen:
            seen.add(identity)
            kept.append(replace(event, commit_ts=event.version))
    return kept
