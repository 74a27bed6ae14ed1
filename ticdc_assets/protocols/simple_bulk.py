"""The Simple protocol in JSON, a whole batch of messages at a time: the bulk form of `simple`.

It takes whole rows in TiCDC's own form without a checksum; what has one must be verified row by row. As in
`canal_json_messages_bulk` each message is first matched as a whole against that form.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.protocols import native_columns
from ticdc_assets.protocols.joined_texts import QUOTE, Bytes, Ints, Mask
from ticdc_assets.protocols.json_grammar import COUNT, INT64, NAME, POSITIVE, TEXT, members
from ticdc_assets.protocols.json_strings import Strings, strings
from ticdc_assets.protocols.message_bodies import bodies
from ticdc_assets.protocols.message_heads import heads_of, integers, table_names
from ticdc_assets.protocols.message_images import (
    NULL,
    TEXT_VALUE,
    TIME_VALUE,
    Images,
    RowImages,
    images_of,
    table_rows,
)
from ticdc_assets.protocols.message_rows import Bulk, BulkRows, Heads, Messages
from ticdc_assets.protocols.simple import Options

_TIME: Final = rf'\{{"location":{TEXT},"value":{TEXT}\}}'
_IMAGE: Final = members(f"(?:{TEXT}|null|{_TIME})")
_TABLE: Final = rf'\A\{{"version":1,"database":{NAME},"table":{NAME},"tableID":{INT64},"type":'
_TIMES: Final = f'"commitTs":{POSITIVE},"buildTs":{COUNT},"schemaVersion":{POSITIVE}'
_NEW: Final = f'"(?:INSERT|UPDATE)",{_TIMES},"data":{_IMAGE}(?:,"old":{_IMAGE})?'
_GONE: Final = f'"DELETE",{_TIMES},"old":{_IMAGE}'
_FORM: Final = rf"{_TABLE}(?:{_NEW}|{_GONE})\}}\z"
_HEAD: Final = (
    rf'\A\{{"version":1,"database":(?P<schema>{TEXT}),"table":(?P<table>{TEXT}),"tableID":(?P<id>-?[0-9]+),'
    '"type":"(?P<op>[IUD])'
)
_HEAD_TIMES: Final = (
    rf'\A\{{"version":1,"database":{TEXT},"table":{TEXT},"tableID":-?[0-9]+,"type":"[A-Z]+",'
    r'"commitTs":(?P<ts>[0-9]+),"buildTs":[0-9]+,"schemaVersion":(?P<version>[0-9]+)'
)
_OPENING, _CLOSING, _COMMA, _COLON = b"{},:"


def heads(messages: Messages, options: Options) -> Heads:
    """The heads of the whole rows without checksum."""
    return _read(messages, options)[0]


def rows(messages: Messages, options: Options) -> BulkRows:
    """The whole rows without checksum."""
    told, table_id, texts = _read(messages, options)
    images, counts = _images(strings(texts))
    is_update = pc.equal(told.op, "U").to_numpy(zero_copy_only=False)
    new = np.cumsum(counts) - counts
    old = np.where(is_update & (counts == 2), new + 1, -1)
    return table_rows(RowImages(told, new, old, table_id=table_id), images)


def _read(messages: Messages, options: Options) -> tuple[Heads, pa.Array, pa.Array]:
    """The heads, their physical tables, and the texts of their messages."""
    texts, message = bodies(messages.values, options.compression)
    matched = pc.match_substring_regex(texts, _FORM).to_numpy(zero_copy_only=False)
    if not matched.all():
        texts, message = texts.filter(pa.array(matched)), message[matched]
    head, times = (pc.extract_regex(texts, pattern) for pattern in (_HEAD, _HEAD_TIMES))
    names, name = table_names(head.field("schema"), head.field("table"))
    told = heads_of(
        messages=len(messages),
        names=names,
        message=message,
        name=name,
        op=head.field("op"),
        commit_ts=integers(times.field("ts")),
        schema_version=integers(times.field("version")),
    )
    return told, integers(head.field("id")), texts


def _images(found: Strings) -> tuple[Images, Ints]:
    """The images of all messages in their order, and how many each has."""
    data = found.data
    token = np.flatnonzero(data[found.closes + 1] == _COLON)
    opens, after = found.opens[token], data[found.closes[token] + 2]
    depth = _depths(data, opens, after, found.are_first()[token])
    is_image = (depth == 0) & (after == _OPENING)
    is_column = depth == 1
    name = token[is_column]
    after = after[is_column]
    kind = np.where(after == QUOTE, TEXT_VALUE, np.where(after == _OPENING, TIME_VALUE, NULL))
    # A time is five strings: its column's name, then the names and values of its two members.
    value, time = name + 1 + (kind == TIME_VALUE), name + 4
    image = (np.cumsum(is_image) - 1)[is_column]
    count = int(is_image.sum())
    images = images_of(found, count, image, name, kind, value, time=time)
    return images, found.count_by_text(token[is_image])


def _depths(data: Bytes, opens: Ints, after: Bytes, is_first: Mask) -> Ints:
    """How many objects of its message each name is inside of, not counting the message itself."""
    follows = data[opens - 1] == _COMMA
    one = follows & (data[opens - 2] == _CLOSING)
    two = one & (data[opens - 3] == _CLOSING)
    opened = np.cumsum(after == _OPENING)
    level = np.concatenate((np.zeros(1, np.int64), opened[:-1])) - np.cumsum(one) - np.cumsum(two)
    found: Ints = level - level[is_first][np.cumsum(is_first) - 1]
    return found


BULK: Final = Bulk(heads, rows, native_columns.column)
