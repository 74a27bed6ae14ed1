"""The first pass over a captured stream: watermarks, statements and schemas, and what rows alone tell of tables.

Partitions are read in the order of the capture. The watermark of the stream is the smallest of its partitions' newest
ones; one that goes back after a TiCDC restart counts as the larger that was there before, and begins a new delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.pipeline.message_task import Partition
from ticdc_assets.pipeline.task import BadLine
from ticdc_assets.protocols import confluent_avro
from ticdc_assets.protocols.events import DdlEvent, RowEvent, WatermarkEvent
from ticdc_assets.protocols.registry import REGISTRY, MessageProtocol
from ticdc_assets.schema.history import SourceName, fold_name
from ticdc_assets.sources.capture import Message


@dataclass(slots=True)
class StreamLook:
    """What the messages after a cursor say. `first_rows` holds schema, table and the smallest commit_ts of every name,
    `inferred` the schema that its first row tells, to hold from just before that row."""

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

    def first_above(self, partition: Partition, high: int) -> int:
        """The first offset of a partition with a commit_ts above `high`, else its end."""
        return next((offset for offset, ts in self.above.get(partition, ()) if ts > high), self.ends[partition])


def look_through(
    messages: Iterable[Message],
    protocol: str,
    options: Any,
    offsets: Mapping[Partition, int],
    watermarks: Mapping[Partition, int],
) -> StreamLook:
    """Read every message once; messages before `offsets` are only counted."""
    look = StreamLook(watermarks=dict(watermarks))
    for ordinal, message in enumerate(messages):
        partition = (message.topic, message.partition)
        look.messages += 1
        look.ends[partition] = message.offset + 1
        if message.offset < offsets.get(partition, 0):
            continue
        look.new_messages += 1
        try:
            _message(look, REGISTRY[protocol], protocol, options, message, ordinal)
        except DecodeError as error:
            look.bad.append(bad_line(message, error))
    return look


def _message(
    look: StreamLook, known: MessageProtocol, protocol: str, options: Any, message: Message, ordinal: int
) -> None:
    if protocol == "avro":
        _avro_schema(look, options, message, ordinal)
    for event in known.decode(message.key, message.value, message.where, options):
        if isinstance(event, WatermarkEvent):
            _watermark(look, (message.topic, message.partition), event.ts, ordinal)
        elif isinstance(event, DdlEvent):
            # Simple lists columns by their ids; the others that tell columns do so in table order.
            look.statements.append(replace(event, after_is_ordered=protocol != "simple"))
            look.note((message.topic, message.partition), message.offset, event.commit_ts)
        else:
            look.note((message.topic, message.partition), message.offset, event.commit_ts)
            look.carried.setdefault(message.topic, set()).add(fold_name(event.schema, event.table))
            _first_row(look, known, event, message)


def _watermark(look: StreamLook, partition: Partition, ts: int, ordinal: int) -> None:
    newest = look.watermarks.get(partition, 0)
    if ts < newest:
        look.epochs.setdefault(partition, []).append(ordinal)
    look.watermarks[partition] = max(newest, ts)


def _first_row(look: StreamLook, known: MessageProtocol, row: RowEvent, message: Message) -> None:
    name = fold_name(row.schema, row.table)
    ts = row.commit_ts if row.commit_ts is not None else ((row.commit_ms or 0) << 18)
    if name not in look.first_rows or ts < look.first_rows[name][2]:
        look.first_rows[name] = (row.schema, row.table, ts)
    if known.infer is None or name in look.inferred or row.handle_only or not row.column_hints:
        return
    try:
        table = known.infer(row)
    except SchemaError:
        return  # a later row, or the user's schema_files, may tell more
    look.inferred[name] = DdlEvent(max(0, ts - 1), row.schema, row.table, "", after=table, where=message.where)


def _avro_schema(look: StreamLook, options: Any, message: Message, ordinal: int) -> None:
    """The Avro protocol's only schemas: those its messages are written with, as of the first message that has one."""
    event = confluent_avro.schema_event(message.key, message.value, message.where, options)
    if event is not None and event.after is not None:
        known = {(e.schema, e.table, e.version) for e in look.statements}
        if (event.schema, event.table, event.version) not in known:
            told = replace(event.after, inferred=True)
            look.statements.append(replace(event, commit_ts=ordinal, after=told))


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
