"""The bulk decoder of the Open Protocol.

It decodes messages whose events are all whole rows in TiCDC's form. Any other event leaves its message to the reference
decoder.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ticdc_assets.protocols.columnar.json_messages import BATCH_BYTES_MAX, BODY_BYTES_MAX, bodies
from ticdc_assets.protocols.columnar.message_rows import Bulk, BulkRows, Messages, RowHeaders, TableRows, heads_of, take
from ticdc_assets.protocols.columnar.raw_rows import NUMBER_TYPE, ops_of
from ticdc_assets.protocols.columnar.scanned_rows import (
    COMMIT_MS,
    COMMIT_TS,
    HAS_OLD,
    NEW,
    OLD,
    OP,
    SCHEMA,
    TABLE,
    TableName,
    alike,
    by_table,
    raw_rows,
    table_names,
    with_structs,
)
from ticdc_assets.protocols.formats.bodies import MAX_BODY_BYTES
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.formats.json.template import (
    WITH_TYPES,
    JsonTemplate,
    Steps,
    constant,
    either,
    image,
    integer,
    literal,
    maybe,
    members,
    number,
    text,
)
from ticdc_assets.protocols.formats.json.texts import NO_NAMES, ScannedTexts, scan_texts
from ticdc_assets.protocols.formats.lines_and_frames import count_frames, cut_frames, objects
from ticdc_assets.protocols.formats.simd import VECTOR
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints, Mask, joined, read_only
from ticdc_assets.protocols.open_protocol.columns import column
from ticdc_assets.protocols.protocol import DecoderOptions

KEY_TS, HAS_PARTITION, PARTITION = range(3)
"""The number slots of a key; its string slots are those of a row."""

KEY: Final = JsonTemplate(
    (
        *literal(b'{"ts":'),
        *number(KEY_TS),
        *literal(b',"scm":'),
        *text(SCHEMA),
        *literal(b',"tbl":'),
        *text(TABLE),
        *maybe(b',"rid":', integer()),
        *constant(HAS_PARTITION, 0),
        *constant(PARTITION, 0),
        *maybe(b',"ptn":', (*integer(PARTITION), *constant(HAS_PARTITION, 1))),
        *literal(b',"t":1'),
        *maybe(b',"ohk":false', ()),
        *maybe(b',"ccl":""', ()),
        *literal(b"}"),
    )
)
"""The key of a row that was sent whole."""


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of many messages. Of each its `message`, its place in it, `ordinal`, and its body
    `data[begins:ends]`."""

    message: Ints
    ordinal: Ints
    data: Bytes
    begins: Ints
    ends: Ints

    def of(self, messages: Mask) -> Frames:
        """The frames of some messages."""
        kept = messages[self.message]
        if kept.all():
            return self
        return Frames(self.message[kept], self.ordinal[kept], self.data, self.begins[kept], self.ends[kept])

    @property
    def bodies(self) -> pa.Array:
        """A copy of the bodies. They ascend, and every frame's length lies between two of them."""
        offsets = np.empty(2 * len(self.begins), np.int32)
        offsets[0::2], offsets[1::2] = self.begins, self.ends
        count = max(0, len(offsets) - 1)
        array = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(self.data)])
        return array.take(pa.array(np.arange(len(self.begins)) * 2))


def split(messages: pa.Array, prefix: bytes) -> tuple[Frames, Ints]:
    """The frames after `prefix` and their number per message; 0 for a message that is not a prefix and whole frames."""
    data, offsets = joined(messages)
    data = read_only(data)
    starts, ends = offsets[:-1] + len(prefix), offsets[1:]
    counts = np.zeros(len(messages), np.int64)
    count_frames(data, starts, ends, counts)
    counts[~_begin_with(data, offsets, prefix) | ~messages.is_valid().to_numpy(zero_copy_only=False)] = 0
    message, ordinal, begins, stops = (np.empty(int(counts.sum()), np.int64) for _ in range(4))
    cut_frames(data, starts, ends, counts, message, ordinal, begins, stops)
    return Frames(message, ordinal, data, begins, stops), counts


def _begin_with(data: Bytes, offsets: Ints, prefix: bytes) -> Mask:
    begin = offsets[:-1] + len(prefix) <= offsets[1:]
    if prefix:
        at = offsets[:-1][begin]
        begin[begin] = (data[at[:, None] + np.arange(len(prefix))] == np.frombuffer(prefix, np.uint8)).all(axis=1)
    return np.asarray(begin)


def _row(new: Steps, old: Steps) -> JsonTemplate:
    before = maybe(b',"p":', (*old, *constant(OP, ord("U")), *constant(HAS_OLD, 1)))
    kinds = [
        (b'{"u":', (*constant(OP, ord("I")), *new, *before)),
        (b'{"d":', (*constant(OP, ord("D")), *new)),
    ]
    nothing = (*constant(HAS_OLD, 0), *constant(COMMIT_TS, -1), *constant(COMMIT_MS, -1))
    return JsonTemplate((*nothing, *either(kinds), *literal(b"}")))


ROW: Final = _row(image(NEW, WITH_TYPES), image(OLD, WITH_TYPES))
"""The value of a row with its columns."""
HEAD: Final = _row(members(WITH_TYPES), members(WITH_TYPES))
"""The value of a row without its columns."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Text n is `data[starts[n]:ends[n]]`, the body of frame `frame[n]`."""

    data: Bytes
    starts: Ints
    ends: Ints
    frame: Ints

    def __len__(self) -> int:
        return len(self.frame)


def texts_of(frames: Frames, compression: Compression) -> Texts:
    """The texts of frames, as `columnar.json_messages.bodies` selects them."""
    if compression is not Compression.NONE:
        found, frame = bodies(frames.bodies, compression)
        data, bounds = joined(found)
        return Texts(read_only(data), bounds[:-1], bounds[1:], frame)
    sizes = frames.ends - frames.begins
    fit = np.empty(len(sizes), np.bool_)
    objects(frames.data, frames.begins, frames.ends, np.zeros(2 * VECTOR, np.uint8), fit)
    fit &= (sizes <= BODY_BYTES_MAX) & (np.cumsum(sizes) <= BATCH_BYTES_MAX)
    frame = np.flatnonzero(fit)
    return Texts(frames.data, frames.begins[frame], frames.ends[frame], frame)


_VERSION: Final = (1).to_bytes(8, "big")
_NONE: Final = -1


def heads(messages: Messages, options: DecoderOptions) -> RowHeaders:
    """The headers of the whole rows."""
    events = _events(messages, options)
    found, _ = scan_texts(events.data, events.starts, events.ends, HEAD, NO_NAMES)
    taken = events.whole_messages(events.event[found.rows])
    chosen = np.flatnonzero(taken[events.event[found.rows]])
    event = events.event[found.rows[chosen]]
    keys = events.keys.take(events.key[event])
    names, name = table_names(events.key_data, keys.strings)
    return heads_of(
        messages=len(messages),
        names=names,
        message=events.message[event],
        name=pa.array(name, pa.int32()),
        op=ops_of(found.numbers[chosen, OP].astype(np.uint8)),
        commit_ts=pa.array(keys.numbers[:, KEY_TS]),
        position=events.ordinal[event],
    )


def rows(messages: Messages, options: DecoderOptions) -> BulkRows:
    """The whole rows."""
    events = _events(messages, options)
    parts = _parts(events)
    every = np.concatenate([part.event for part in parts]) if parts else np.zeros(0, np.int64)
    taken = events.whole_messages(every)
    left = np.ones(len(messages), np.bool_)
    left[events.message[every[taken[every]]]] = False
    tables = (_table(events, part, options) for part in parts)
    kept = (_only(table, taken[part.event]) for table, part in zip(tables, parts, strict=True))
    return BulkRows(tuple(table for table in kept if len(table)), left)


# -- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Events:
    """The events of a batch: which are of keys and values that may be whole rows.

    Event n is event `ordinal[n]` of message `message[n]`; `key[n]` is the index of its key in `keys`, _NONE where it
    has none. Text m is `data[starts[m]:ends[m]]`, and the value of `event[m]`, which has a key. `counts` are the events
    of each message, 0 where it must be left.
    """

    message: Ints
    ordinal: Ints
    key_data: Bytes
    keys: ScannedTexts
    key: Ints
    data: Bytes
    starts: Ints
    ends: Ints
    event: Ints
    counts: Ints

    def whole_messages(self, good: Ints) -> Mask:
        """The events of messages whose events are all in `good`."""
        found = np.bincount(self.message[good], minlength=len(self.counts))
        return np.asarray(((found == self.counts) & (self.counts > 0))[self.message])


def _events(messages: Messages, options: DecoderOptions) -> _Events:
    keys, values, paired = _frames(messages)
    key_texts, texts = texts_of(keys, Compression.NONE), texts_of(values, options.compression)
    found, _ = scan_texts(key_texts.data, key_texts.starts, key_texts.ends, KEY, NO_NAMES)
    has_names = (found.strings[:, :, 0] != found.strings[:, :, 1]).all(axis=1)
    found = found.take(np.flatnonzero(has_names & (found.numbers[:, KEY_TS] > 0)))
    key = np.full(len(keys.message), _NONE)
    key[key_texts.frame[found.rows]] = np.arange(len(found))
    has_key = np.flatnonzero(key[texts.frame] != _NONE)
    counts = np.bincount(values.message, minlength=len(messages))
    counts[~(paired & _within_bounds(texts, values.message[texts.frame], len(messages)))] = 0
    return _Events(
        message=values.message,
        ordinal=values.ordinal,
        key_data=key_texts.data,
        keys=found,
        key=key,
        data=texts.data,
        starts=texts.starts[has_key],
        ends=texts.ends[has_key],
        event=texts.frame[has_key],
        counts=counts,
    )


def _frames(messages: Messages) -> tuple[Frames, Frames, Mask]:
    """The keys and values of the events of messages that have as many keys as values."""
    keys, key_counts = split(messages.keys, _VERSION)
    values, value_counts = split(messages.values, b"")
    paired: Mask = (key_counts > 0) & (key_counts == value_counts)
    return keys.of(paired), values.of(paired), paired


def _within_bounds(texts: Texts, message: Ints, messages: int) -> Mask:
    sizes = texts.ends - texts.starts
    return np.asarray(np.bincount(message, weights=sizes, minlength=messages) <= MAX_BODY_BYTES)


# -- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of one table and one set of columns, and their events."""

    name: TableName
    columns: tuple[str, ...]
    found: ScannedTexts
    event: Ints


def _parts(events: _Events) -> list[_Part]:
    places = events.keys.strings[events.key[events.event]]
    return [
        _Part(name, columns, found, events.event[chosen[found.rows]])
        for name, chosen in by_table(events.key_data, places)
        for columns, found in alike(events.data, events.starts[chosen], events.ends[chosen], ROW, _columns)
    ]


def _columns(event: Any) -> Iterable[str]:
    names: Iterable[str] = (event.get("u") or event["d"]).keys()
    return names


def _table(events: _Events, part: _Part, options: DecoderOptions) -> TableRows:
    keys = events.keys.numbers[events.key[part.event]]
    part.found.numbers[:, COMMIT_TS] = keys[:, KEY_TS]
    raw = raw_rows(events.data, part.found, part.columns, events.message[part.event])
    return TableRows(
        schema=part.name[0],
        table=part.name[1],
        schema_version=None,
        rows=with_structs(raw, events.data, part.found, NUMBER_TYPE),
        position=pa.array(events.ordinal[part.event]),
        partition_id=pa.array(keys[:, PARTITION], mask=keys[:, HAS_PARTITION] == 0),
        upsert=not options.output_old_value,
    )


def _only(table: TableRows, taken: Mask) -> TableRows:
    return table if taken.all() else take(table, pa.array(np.flatnonzero(taken)))


BULK: Final = Bulk(heads, rows, column)
