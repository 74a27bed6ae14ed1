"""The first pass over a captured stream: watermarks, statements, schemas, and columns inferred from rows.

Partitions are read in the order of the capture. The watermark of the stream is the smallest of its partitions' newest
watermarks. Where a watermark decreases after a restart of TiCDC, the larger one counts, and a new delivery begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ticdc_assets.advice import Advice
from ticdc_assets.config.model.config import OffsetRule
from ticdc_assets.errors import DecodeError, TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.names.folding import fold
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.stream.decode.message_batch import MessageBatch
from ticdc_assets.pipeline.stream.decode.official_canal import Clocks
from ticdc_assets.pipeline.stream.decode.task import Mark
from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.pipeline.stream.offsets.ledger import CaptureFault, Ledger
from ticdc_assets.pipeline.stream.offsets.ranges import TopicPartition, Window
from ticdc_assets.pipeline.stream.scan.avro import AvroScan
from ticdc_assets.pipeline.stream.scan.batches import add_batch
from ticdc_assets.pipeline.stream.scan.heads import suffice, with_heads
from ticdc_assets.pipeline.stream.scan.result import ScannedOffsets, ScannedTables, ScannedWatermarks, StreamScan
from ticdc_assets.pipeline.stream.scan.state import (
    StreamForm,
    avro_schema,
    date_of,
    first_row,
    infer_from_schema,
    named_in,
    positioned_row,
    positioned_statement,
)
from ticdc_assets.pipeline.tasks import QuarantineEntry
from ticdc_assets.plurals import counted
from ticdc_assets.protocols.events import RowEvent, WatermarkEvent
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.source_table import SourceName, fold_name
from ticdc_assets.sources.capture import Message, MessagePosition, digest_of
from ticdc_assets.sources.message_block import MessageBlock
from ticdc_assets.sources.message_log import NONE_PASSED, MessageLog, PassedMessages, placed_messages


def scan_readable(
    log: MessageLog,
    stream: StreamForm,
    cursor: StreamCursor,
    rules: Sequence[OffsetRule],
    *,
    in_order: bool,
    in_place: bool,
) -> StreamScan:
    """Read the messages that may be read: of each partition those before its first fault. The log is read again only if
    it has a fault.

    Args:
        cursor: the consumed offsets.
        rules: the offsets that the config allows to be missing.
        in_order: whether nothing but the order of messages shows which came first, since rows have no commit_ts.
        in_place: whether that order is the position in a captured file. A fault of one partition then applies to all
            partitions: a message that fills a gap changes the positions of all messages after it.
    """
    passed, blocks = log.passed(cursor.window()), _reading(log, stream)
    scan = scan_all(blocks(passed.position), stream, cursor, passed=passed)
    ledger = scan.offsets.ledger
    differing = ledger.differing(message for _, message in placed_messages(log)) if ledger.has_twice else {}
    faults = (*ledger.faults(cursor, rules, differing, in_order=in_order), *_moved(scan, cursor, in_place))
    if not faults:
        return scan
    if in_place:
        faults = tuple(replace(fault, partition=None) for fault in faults)
    until = {fault.partition: fault.until for fault in faults if fault.partition is not None}
    if len(until) < len(faults):  # one is of all partitions: nothing new is read
        until = {partition: cursor.offsets.get(partition, 0) for partition in ledger.partitions}
    sound = scan_all(blocks(passed.position), stream, cursor, until, passed)
    sound.offsets.faults, sound.offsets.until = faults, until
    sound.tables.behind, sound.tables.by_topic = scan.mentioned, scan.tables.by_topic
    return sound


def _reading(log: MessageLog, stream: StreamForm) -> Callable[[MessagePosition], Iterator[MessageBlock]]:
    if not stream.heads_suffice:
        return log.blocks
    return partial(log.headed_blocks, suffice=partial(suffice, stream), with_keys=stream.protocol == "avro")


def _moved(scan: StreamScan, cursor: StreamCursor, in_place: bool) -> Iterator[CaptureFault]:
    """Faults where tables advance by message position and new messages are not after all consumed ones, or the capture
    begins after messages that tables may have."""
    if not in_place:
        return
    if cursor.messages and scan.marks and scan.marks[0].ordinal != cursor.messages:
        yield _disordered(
            f"expected new messages after the {counted(cursor.messages, 'message')} that were consumed, since only "
            f"their places order this stream, found one after {counted(scan.marks[0].ordinal, 'message')}."
        )
    for partition, found in sorted(scan.offsets.ledger.begins().items()):
        first = cursor.begins.get(partition, 0)
        if partition in cursor.offsets and found > first:
            topic, number = partition
            yield _disordered(
                f"{topic}[{number}]: expected the capture to begin at offset {first} as before, since only the places "
                f"of messages order this stream, found {found}."
            )


def _disordered(detail: str) -> CaptureFault:
    return CaptureFault(Note(NoteCode.MESSAGES, detail, (Advice.APPEND_TO_CAPTURE,)))


def scan_all(
    blocks: Iterable[MessageBlock],
    stream: StreamForm,
    cursor: StreamCursor,
    until: Mapping[TopicPartition, int] | None = None,
    passed: PassedMessages = NONE_PASSED,
) -> StreamScan:
    """Read every message of a log once.

    Args:
        blocks: the messages from the end of `passed` on.
        cursor: the consumed offsets; consumed messages are only counted.
        until: by partition, the first offset that is not read; None reads all.
        passed: the consumed messages before the first block.
    """
    tables_by_topic = {topic: set(names) for topic, names in cursor.tables_by_topic.items()}
    passed_ts = {partition: [(cursor.offsets.get(partition, 0) - 1, ts)] for partition, ts in cursor.passed.items()}
    known = frozenset(cursor.offsets) | frozenset(cursor.watermarks) | passed.partitions
    scan = StreamScan(
        offsets=ScannedOffsets(Ledger(cursor.digests), known=known),
        watermarks=ScannedWatermarks(dict(cursor.watermarks), passed_ts),
        tables=ScannedTables(by_topic=tables_by_topic),
        messages=passed.ordinal,
        clocks=Clocks(stream.placed),
    )
    if stream.protocol == "avro":
        scan.avro = AvroScan(stream.options, stream.topics, stream.has_commit_ts, stream.newest)
    for partition, (first, end) in passed.ranges:
        scan.offsets.ledger.add_range(partition, first, end)
        scan.offsets.extend(partition, end)
    batches = _batches(scan, stream, blocks, cursor.window(until or {}), passed.ordinal)
    for batch, heads in with_heads(batches, stream):
        add_batch(scan, stream, batch, heads, partial(_dates, scan, stream))
    scan.finish()
    return scan


def _batches(
    scan: StreamScan, stream: StreamForm, blocks: Iterable[MessageBlock], window: Window, ordinal: int
) -> Iterator[MessageBatch]:
    """The messages to read, after their offsets are added to the scan; `ordinal` is that of the first message."""
    for block in blocks:
        ordinals = np.arange(ordinal, ordinal + len(block))
        ordinal += len(block)
        wanted, waited = _wanted(scan, MessageBatch(ordinals, block), window), bool(scan.tables.waiting)
        batch = _in_time(scan, stream, wanted)
        if not waited:
            scan.messages = ordinal if len(batch) == len(wanted) else int(wanted.ordinals[len(batch)])
        scan.new_messages += len(batch)
        if len(batch):
            yield batch


def _wanted(scan: StreamScan, batch: MessageBatch, window: Window) -> MessageBatch:
    """The messages in the window. All are added to the ledger. The first one gets a mark; where a log may be replaced,
    it and the last one show to a task whether it reads the same messages."""
    block = batch.block
    is_first = scan.offsets.ledger.add_block(block)
    scan.offsets.twice += batch.ordinals[~is_first].tolist()
    wanted = np.zeros(len(block), np.bool_)
    for partition, indices in block.of_partitions():
        offsets = block.offsets[indices]
        wanted[indices] = is_first[indices] & window.mask(partition, offsets)
        consumed = offsets < window.ends.get(partition, 0)
        scan.offsets.has_older |= bool((wanted[indices] & consumed).any())
        if (skipped := offsets[~wanted[indices] & consumed]).size:
            scan.offsets.extend(partition, int(skipped.max()) + 1)
    if wanted.any():
        first = int(np.argmax(wanted))
        scan.marks.append(Mark(int(batch.ordinals[first]), block.position(first)))
        for index in () if block.is_fixed else (first, int(np.flatnonzero(wanted)[-1])):
            scan.witnesses[int(batch.ordinals[index])] = digest_of(block.message(index))
    return batch.take(wanted)


def _in_time(scan: StreamScan, stream: StreamForm, batch: MessageBatch) -> MessageBatch:
    """The part of the batch before the first row above `until`. The ends of the partitions follow it."""
    if stream.until is not None and len(batch):
        waits = [_waits(scan, stream, stream.until, message) for _, message in batch.block.messages()]
        batch = batch.take(~np.array(waits))
    for partition, indices in batch.block.of_partitions():
        scan.offsets.extend(partition, int(batch.block.offsets[indices].max()) + 1)
    return batch


def _waits(scan: StreamScan, stream: StreamForm, until: int, message: Message) -> bool:
    """Whether a message is left for a later run: it, or one before it, has a row above `until`."""
    try:
        events = list(REGISTRY[stream.protocol].decode(message.key, message.value, message.where, stream.options))
    except DecodeError:
        return bool(scan.tables.waiting)
    rows = [event for event in events if isinstance(event, RowEvent)]
    if not scan.tables.waiting and not any((row.commit_ts or 0) > until for row in rows):
        return False
    for row in rows:
        name = scan.avro.name(message.topic, row.schema, row.table) if scan.avro else (row.schema, row.table)
        scan.tables.waiting.setdefault(fold_name(*name), name)
    return True


def _dates(scan: StreamScan, stream: StreamForm, message: Message, ordinal: int) -> list[int | None]:
    """Add one message to the scan. Returns the commit_ts of its events."""
    try:
        return list(_message(scan, stream, message, ordinal))
    except DecodeError as error:
        scan.bad.append(QuarantineEntry.of_message(message, error))
        return []
    except TicdcAssetsError:
        raise
    except Exception as error:  # noqa: BLE001  raised again where it is not of this message
        advice = "The message is kept; report this line."
        fault = DecodeError(message.where, "a message that can be read", of_one_table(error).found, advice)
        scan.bad.append(QuarantineEntry.of_message(message, fault))
        return []


def _message(scan: StreamScan, stream: StreamForm, message: Message, ordinal: int) -> Iterator[int | None]:
    known = REGISTRY[stream.protocol]
    schema = avro_schema(scan, scan.avro, stream, message, ordinal) if scan.avro else None
    for event in known.decode(message.key, message.value, message.where, stream.options):
        if isinstance(event, WatermarkEvent):
            scan.watermarks.add((message.topic, message.partition), message.offset, event.ts)
        elif isinstance(event, DdlEvent):
            # Simple lists columns by their ids; other protocols with columns list them in table order.
            event = positioned_statement(scan, event, message) if event.origin.as_written else event
            is_ordered = stream.protocol != "simple"
            scan.statements.append(replace(event, hints=replace(event.hints, after_is_ordered=is_ordered)))
            scan.tables.by_topic.setdefault(message.topic, set()).update(named_in(message.topic, event, stream.topics))
            yield event.commit_ts
        else:
            row = scan.avro.change(event, message, ordinal) if scan.avro else event
            given = positioned_row(scan, row, message) if row.time.by_position else None
            first_row(scan, stream, row, message, ordinal, given)
            infer_from_schema(scan, stream, schema, row.schema, row.table, row.commit_ts)
            yield date_of(row, stream.dating) if given is None else given


def without_known_bootstraps(events: Iterable[DdlEvent]) -> list[DdlEvent]:
    """Statements, and those bootstraps whose version no statement has; these are in effect from their version on.

    A table that is known under another name was renamed since. The statement is in the topic of that name, which may
    lag, and it has the version too.
    """
    listed = list(events)
    stated = {
        (fold(e.schema), fold(e.table), e.hints.version) for e in listed if e.query and e.hints.version is not None
    }
    kept = []
    seen: set[tuple[str, str, int | None]] = set()
    names = _names_by_id(listed)
    for event in listed:
        if event.query or event.hints.version is None or event.commit_ts:
            kept.append(event)
            continue
        identity = (fold(event.schema), fold(event.table), event.hints.version)
        name = fold_name(event.schema, event.table)
        is_renamed = event.hints.table_id is not None and name not in names.setdefault(event.hints.table_id, {name})
        if identity not in stated and identity not in seen and not is_renamed:
            seen.add(identity)
            kept.append(replace(event, commit_ts=event.hints.version))
    return kept


def _names_by_id(events: Iterable[DdlEvent]) -> dict[int, set[SourceName]]:
    """The names of tables in kept events and statements, by table id."""
    names: dict[int, set[SourceName]] = {}
    for event in events:
        if event.hints.table_id is not None and (event.query or event.commit_ts):
            names.setdefault(event.hints.table_id, set()).add(fold_name(event.schema, event.table))
    return names
