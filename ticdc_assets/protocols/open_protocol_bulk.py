"""The Open Protocol, a whole batch of messages at a time: the bulk form of `open_protocol`.

It takes the messages of which every event is a whole row in TiCDC's own form: one that is odd leaves its message to
the reference. As in `canal_json_messages_bulk` each key and value is first matched as a whole against that form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.protocols.frame import MAX_BODY_BYTES, Compression
from ticdc_assets.protocols.frame_bulk import Frames, split
from ticdc_assets.protocols.joined_texts import QUOTE, Ints, slices
from ticdc_assets.protocols.json_grammar import INT64, NAME, NUMBER, POSITIVE, TEXT, members
from ticdc_assets.protocols.json_strings import Strings, strings
from ticdc_assets.protocols.message_bodies import bodies
from ticdc_assets.protocols.message_heads import heads_of, integers, table_names
from ticdc_assets.protocols.message_images import (
    NULL,
    NUMBER_VALUE,
    TEXT_VALUE,
    Images,
    RowImages,
    images_of,
    table_rows,
)
from ticdc_assets.protocols.message_rows import Bulk, BulkRows, Heads, Mask, Messages
from ticdc_assets.protocols.open_protocol import Options
from ticdc_assets.protocols.open_protocol_columns import column

_CODE: Final = "(?:0|[1-9][0-9]{0,8})"
_VALUE: Final = rf'\{{"t":{_CODE},(?:"h":(?:true|false),)?"f":{_CODE},"v":(?:{TEXT}|null|{NUMBER})\}}'
_IMAGE: Final = members(_VALUE)
_BODY: Final = rf'\A\{{(?:"u":{_IMAGE}(?:,"p":{_IMAGE})?|"d":{_IMAGE})\}}\z'
_KEY: Final = (
    rf'\A\{{"ts":{POSITIVE},"scm":{NAME},"tbl":{NAME}(?:,"rid":{INT64})?(?:,"ptn":{INT64})?,"t":1'
    r'(?:,"ohk":false)?(?:,"ccl":"")?\}\z'
)
_KEY_PARTS: Final = (
    rf'\A\{{"ts":(?P<ts>[0-9]+),"scm":(?P<schema>{TEXT}),"tbl":(?P<table>{TEXT})(?:,"rid":-?[0-9]+)?'
    r'(?:,"ptn":(?P<partition>-?[0-9]+))?,"t":1'
)
_OLD: Final = b'}},"p":{'
"""Between new and old values and nowhere else: only the end of an image has two braces."""
_OPENING, _CLOSING, _COMMA, _COLON, _N, _V = b"{},:nv"
_VERSION: Final = (1).to_bytes(8, "big")


def heads(messages: Messages, options: Options) -> Heads:
    """The heads of the whole rows."""
    told = _read(messages, options)
    return replace(told.heads, op=_ops(told.texts, pc.match_substring(told.texts, _OLD)))


def rows(messages: Messages, options: Options) -> BulkRows:
    """The whole rows."""
    told = _read(messages, options)
    images, counts = _images(strings(told.texts))
    new = np.cumsum(counts) - counts
    has_old = counts == 2
    old = np.where(has_old, new + 1, -1)
    found = replace(told.heads, op=_ops(told.texts, pa.array(has_old)))
    return table_rows(
        RowImages(found, new, old, partition_id=told.partition_id, upsert=not options.output_old_value),
        images,
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """The events of the messages that are taken; the heads without their `op`."""

    heads: Heads
    partition_id: pa.Array
    texts: pa.Array


def _read(messages: Messages, options: Options) -> _Read:
    keys, values, paired = _frames(messages)
    texts, event, good = _matching(values, options.compression, _BODY)
    good &= _matching(keys, Compression.NONE, _KEY)[2]
    taken = paired & (np.bincount(values.message[~good], minlength=len(messages)) == 0)
    taken &= _within_bounds(texts, values.message[event], len(messages))
    chosen = taken[values.message]
    texts = texts.filter(pa.array(chosen[event]))
    part = pc.extract_regex(keys.bodies.filter(pa.array(chosen)), _KEY_PARTS)
    names, name = table_names(part.field("schema"), part.field("table"))
    told = heads_of(
        messages=len(messages),
        names=names,
        message=values.message[chosen],
        name=name,
        op=pa.nulls(len(texts), pa.string()),
        commit_ts=integers(part.field("ts")),
        position=values.ordinal[chosen],
    )
    return _Read(told, integers(part.field("partition")), texts)


def _frames(messages: Messages) -> tuple[Frames, Frames, Mask]:
    """The keys and values of the events of the messages that have as many of the one as of the other."""
    keys, key_counts = split(messages.keys, _VERSION)
    values, value_counts = split(messages.values, b"")
    paired: Mask = (key_counts > 0) & (key_counts == value_counts)
    return keys.of(paired), values.of(paired), paired


def _matching(frames: Frames, compression: Compression, pattern: str) -> tuple[pa.Array, Ints, Mask]:
    """The plain bodies that are fit, the ordinals of their frames, and which frames match."""
    texts, event = bodies(frames.bodies, compression)
    good = np.zeros(len(frames.message), np.bool_)
    good[event] = pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
    return texts, event, good


def _within_bounds(texts: pa.Array, message: Ints, messages: int) -> Mask:
    sizes = pc.binary_length(texts).to_numpy()
    return np.asarray(np.bincount(message, weights=sizes, minlength=messages) <= MAX_BODY_BYTES)


def _ops(texts: pa.Array, has_old: pa.Array) -> pa.Array:
    is_delete = pc.starts_with(texts, b'{"d"')
    return pc.if_else(is_delete, "D", pc.if_else(has_old, "U", "I"))


def _images(found: Strings) -> tuple[Images, Ints]:
    """The images of all events in their order, and how many each has."""
    data = found.data
    token = np.flatnonzero(data[found.closes + 1] == _COLON)
    after = data[found.closes[token] + 2]
    is_object = after == _OPENING
    column = token[is_object]
    is_image = _are_images(found, column)
    members, after = token[~is_object], after[~is_object]
    is_value = data[found.opens[members] + 1] == _V
    value, begins = members[is_value], after[is_value]
    kind = np.where(begins == QUOTE, TEXT_VALUE, np.where(begins == _N, NULL, NUMBER_VALUE))
    numbers, number = _numbers(data, found.closes[value] + 2, kind == NUMBER_VALUE)
    image = (np.cumsum(is_image) - 1)[~is_image]
    count = int(is_image.sum())
    images = images_of(found, count, image, column[~is_image], kind, value + 1, numbers, number)
    return images, found.count_by_text(column[is_image])


def _are_images(found: Strings, names: Ints) -> Mask:
    """Which of the names of columns and images are of images: a text's first one, and one that
    follows the end of another image."""
    data, opens = found.data, found.opens[names]
    ends = (data[opens - 1] == _COMMA) & (data[opens - 2] == _CLOSING) & (data[opens - 3] == _CLOSING)
    return np.asarray(found.are_first()[names] | ends)


def _numbers(data: np.ndarray, starts: Ints, is_number: Mask) -> tuple[pa.Array, Ints]:
    """The digits of the values that are numbers; each ends with its column's brace."""
    braces = np.flatnonzero(data == _CLOSING)
    starts = starts[is_number]
    ends = braces[np.searchsorted(braces, starts)]
    return slices(data, starts, ends), (np.cumsum(is_number) - 1) * 2


BULK: Final = Bulk(heads, rows, column)
