"""The first pass over a captured stream: watermarks, statements and schemas, and what rows alone tell of tables.

Partitions are read in the order of the capture. The watermark of the stream is the smallest of its partitions' newest
ones; one that goes back after a TiCDC restart counts as the larger that was there before, and begins a new delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ticdc_assets.amounts import counted
from ticdc_assets.config.model import OffsetRule
from ticdc_assets.errors import DecodeError, TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.pipeline.avro_look import AvroLook
from ticdc_assets.pipeline.capture_ledger import CaptureFault, Ledger
from ticdc_assets.pipeline.message_batches import BATCH_MESSAGES, Batch
from ticdc_assets.pipeline.message_heads import look_at
from ticdc_assets.pipeline.message_pending import StreamCursor
from ticdc_assets.pipeline.message_task import Mark
from ticdc_assets.pipeline.offset_ranges import Partition, Window
from ticdc_assets.pipeline.placed_rows import Clocks
from ticdc_assets.pipeline.stream_look import (
    StreamForm,
    StreamLook,
    avro_schema,
    bad_line,
    date_of,
    first_row,
    infer_from_schema,
    placed_row,
    placed_statement,
)
from ticdc_assets.pipeline.stream_topics import named_in
from ticdc_assets.protocols.events import DdlEvent, RowEvent, WatermarkEvent
from ticdc_assets.protocols.limits import BATCH_BYTES
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.lineage import SourceName, fold_name
from ticdc_assets.sources.capture import Message, Place


def look_over(
    read: Callable[[], Iterable[tuple[Place, Message]]],
    stream: StreamForm,
    cursor: StreamCursor,
    rules: Sequence[OffsetRule],
    *,
    in_order: bool,
    in_place: bool,
) -> StreamLook:
    """What the messages say that may be read: of each partition those before its first fault.

    `rules` are the offsets that may be missing. `in_order` where nothing but their order tells what came first, and
    `in_place` where that is their place in the capture. The capture is read once more only where it has a fault.
    """
    look = look_through(read(), stream, cursor)
    differing = look.ledger.differing(message for _, message in read()) if look.ledger.has_twice else {}
    faults = (*look.ledger.faults(cursor, rules, differing, in_order=in_order), *_moved(look, cursor, in_place))
    if not faults:
        return look
    until = {fault.partition: fault.until for fault in faults if fault.partition is not None}
    if len(until) < len(faults):  # one is of all partitions: nothing new is read
        until = {partition: cursor.offsets.get(partition, 0) for partition in look.ledger.partitions}
    sound = look_through(read(), stream, cursor, until)
    sound.faults, sound.until, sound.behind, sound.carried = faults, until, look.told, look.carried
    return sound


def _moved(look: StreamLook, cursor: StreamCursor, in_place: bool) -> Iterator[CaptureFault]:
    """Where tables are brought forward by the places of messages, new ones come after all that were consumed."""
    if in_place and cursor.messages and look.marks and look.marks[0].ordinal != cursor.messages:
        yield CaptureFault(
            f"expected new messages after the {counted(cursor.messages, 'message')} that were consumed, since nothing "
            f"but their places tells what came first in this stream, found one after "
            f"{counted(look.marks[0].ordinal, 'message')}. Put the former messages back in front, and append new ones."
        )


def look_through(
    placed: Iterable[tuple[Place, Message]],
    stream: StreamForm,
    cursor: StreamCursor,
    until: Mapping[Partition, int] | None = None,
) -> StreamLook:
    """Read every message once; those that are consumed are only counted, and of each partition those from `until` on
    are passed over."""
    carried = {topic: set(names) for topic, names in cursor.carried.items()}
    look = StreamLook(watermarks=dict(cursor.watermarks), carried=carried, ledger=Ledger(cursor.digests))
    look.known = frozenset(cursor.offsets) | frozenset(cursor.watermarks)
    look.passed = {partition: [(cursor.offsets.get(partition, 0) - 1, ts)] for partition, ts in cursor.passed.items()}
    look.clocks = Clocks(stream.placed)
    if stream.protocol == "avro":
        look.avro = AvroLook(stream.options, stream.topics, stream.has_commit_ts, stream.newest)
    for read in _batches(look, placed, cursor.window(until or {})):
        batch = _in_time(look, stream, read)
        for ordinal, message in zip(batch.ordinals, batch.messages, strict=True):
            _ends_at(look, (message.topic, message.partition), message.offset + 1)
            look.messages = int(ordinal) + 1
        look.new_messages += len(batch.messages)
        if batch.messages:
            look_at(look, stream, batch, partial(_told, look, stream))
    look.settle()
    return look


def _ends_at(look: StreamLook, partition: Partition, end: int) -> None:
    look.ends[partition] = max(end, look.ends.get(partition, 0))


def _batches(look: StreamLook, placed: Iterable[tuple[Place, Message]], window: Window) -> Iterator[Batch]:
    """The messages in the window; a mark is left where each batch begins."""
    ordinals: list[int] = []
    messages: list[Message] = []
    size_bytes = 0
    for ordinal, (place, message) in enumerate(placed):
        partition = (message.topic, message.partition)
        is_first = look.ledger.add(partition, message)
        if not is_first:
            look.twice.append(ordinal)
        if not is_first or not window.has(partition, message.offset):
            if message.offset < window.ends.get(partition, 0):
                _ends_at(look, partition, message.offset + 1)
            if not look.waiting:
                look.messages = ordinal + 1
            continue
        look.has_older |= message.offset < window.ends.get(partition, 0)
        if not messages:
            look.marks.append(Mark(ordinal, place))
        ordinals.append(ordinal)
        messages.append(message)
        size_bytes += len(message.key or b"") + len(message.value or b"")
        if len(messages) == BATCH_MESSAGES or size_bytes >= BATCH_BYTES:
            yield Batch(np.array(ordinals, np.int64), tuple(messages))
            ordinals, messages, size_bytes = [], [], 0
    if messages:
        yield Batch(np.array(ordinals, np.int64), tuple(messages))


def _in_time(look: StreamLook, stream: StreamForm, batch: Batch) -> Batch:
    """The batch as far as it does not wait: up to the first row above `until`."""
    if stream.until is None:
        return batch
    waits = [_waits(look, stream, message) for message in batch.messages]
    end = waits.index(True) if True in waits else len(waits)
    return Batch(batch.ordinals[:end], batch.messages[:end])


def _waits(look: StreamLook, stream: StreamForm, message: Message) -> bool:
    """Whether a message is left for a later run: it or one before it is of a row above `until`."""
    assert stream.until is not None
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


def _told(look: StreamLook, stream: StreamForm, message: Message, ordinal: int) -> list[int | None]:
    """Take one message into the look; the dates of what it tells."""
    try:
        return list(_message(look, stream, message, ordinal))
    except DecodeError as error:
        look.bad.append(bad_line(message, error))
        return []
    except TicdcAssetsError:
        raise
    except Exception as error:  # noqa: BLE001  raised again where it is not of this message
        fault = of_one_table(error)
        todo = "The message is kept as it is; report this line."
        look.bad.append(bad_line(message, DecodeError(message.where, "a message that can be read", fault.found, todo)))
        return []


def _message(look: StreamLook, stream: StreamForm, message: Message, ordinal: int) -> Iterator[int | None]:
    known = REGISTRY[stream.protocol]
    schema = avro_schema(look, stream, message, ordinal) if look.avro else None
    for event in known.decode(message.key, message.value, message.where, stream.options):
        if isinstance(event, WatermarkEvent):
            _watermark(look, message, event.ts)
        elif isinstance(event, DdlEvent):
            # Simple lists columns by their ids; the others that tell columns do so in table order.
            event = placed_statement(look, event, message) if event.as_written else event
            look.statements.append(replace(event, after_is_ordered=stream.protocol != "simple"))
            look.carried.setdefault(message.topic, set()).update(named_in(message.topic, event, stream.topics))
            yield event.commit_ts
        else:
            row = look.avro.change(event, message, ordinal) if look.avro else event
            given = placed_row(look, row, message) if row.by_place else None
            first_row(look, stream, row, message, ordinal, given)
            infer_from_schema(look, stream, schema, row.schema, row.table, row.commit_ts)
            yield date_of(row, stream.dating) if given is None else given


def _watermark(look: StreamLook, message: Message, ts: int) -> None:
    partition = (message.topic, message.partition)
    look.passed.setdefault(partition, []).append((message.offset, ts))
    look.watermarks[partition] = max(ts, look.watermarks.get(partition, 0))


def without_known_bootstraps(events: Iterable[DdlEvent]) -> list[DdlEvent]:
    """Statements, and those bootstraps whose version no statement brought; these hold from their version on.

    A table that is known under another name has been renamed since: the statement says so in the topic of that name,
    which may lag, and brings the version too.
    """
    listed = list(events)
    told = {(e.schema.lower(), e.table.lower(), e.version) for e in listed if e.query and e.version is not None}
    kept = []
    seen: set[tuple[str, str, int | None]] = set()
    names = _names_by_id(listed)
    for event in listed:
        if event.query or event.version is None or event.commit_ts:
            kept.append(event)
            continue
        identity = (event.schema.lower(), event.table.lower(), event.version)
        name = fold_name(event.schema, event.table)
        is_renamed = event.table_id is not None and name not in names.setdefault(event.table_id, {name})
        if identity not in told and identity not in seen and not is_renamed:
            seen.add(identity)
            kept.append(replace(event, commit_ts=event.version))
    return kept


def _names_by_id(events: Iterable[DdlEvent]) -> dict[int, set[SourceName]]:
    """The names that tables had by what is kept already or statements say, by their ids."""
    names: dict[int, set[SourceName]] = {}
    for event in events:
        if event.table_id is not None and (event.query or event.commit_ts):
            names.setdefault(event.table_id, set()).add(fold_name(event.schema, event.table))
    return names
