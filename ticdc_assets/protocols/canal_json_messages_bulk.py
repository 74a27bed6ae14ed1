"""Canal-JSON on Kafka, a whole batch of messages at a time: the bulk form of `canal_json_messages`.

It takes the rows that are in TiCDC's own form, one a message, whole. Each message is matched as a whole against that
form (RE2: one pass, no backtracking); what the match proves makes the rest exact.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.protocols import text_columns
from ticdc_assets.protocols.canal_json import forms
from ticdc_assets.protocols.canal_json_cut import values_only
from ticdc_assets.protocols.canal_json_form import extension_form, row_form
from ticdc_assets.protocols.canal_json_messages import Options
from ticdc_assets.protocols.joined_texts import QUOTE
from ticdc_assets.protocols.json_grammar import TEXT, TEXTS, members
from ticdc_assets.protocols.json_strings import Strings, strings
from ticdc_assets.protocols.message_bodies import bodies
from ticdc_assets.protocols.message_heads import heads_of, integers, table_names
from ticdc_assets.protocols.message_images import NULL, TEXT_VALUE, Images, RowImages, images_of, table_rows
from ticdc_assets.protocols.message_rows import Bulk, BulkRows, Heads, Messages
from ticdc_assets.schema.model import Column

_IMAGE: Final = members(f"(?:{TEXT}|null)")
_OLD_IMAGE: Final = rf"(?:{_IMAGE}|\{{\}})"
_FORM: Final = rf"\A{row_form(TEXT, _OLD_IMAGE, _IMAGE)}(?:{extension_form(TEXT)})?\}}\z"
_DATED_FORM: Final = rf"\A{row_form(TEXT, _OLD_IMAGE, _IMAGE)}{extension_form(TEXT)}\}}\z"
_HEAD: Final = (
    rf'\A\{{"id":0,"database":(?P<schema>{TEXT}),"table":(?P<table>{TEXT}),"pkNames":(?:null|{TEXTS}),'
    r'"isDdl":false,"type":"(?P<op>[IUD])[A-Z]+","es":(?P<es>[0-9]+)'
)
_TAIL: Final = rf',"_tidb":\{{"commitTs":(?P<ts>[0-9]+)(?:,"rowkey":{TEXT})?\}}\}}\z'
_BRACKET, _COLON, _N, _ZERO, _NINE = b"[:n09"


def heads(messages: Messages, options: Options) -> Heads:
    """The heads of the rows that are in TiCDC's own form."""
    return _read(messages, options)[0]


def rows(messages: Messages, options: Options) -> BulkRows:
    """The rows that are in TiCDC's own form."""
    told, texts = _read(messages, options)
    found = strings(values_only(texts))
    is_update = pc.equal(told.op, "U").to_numpy(zero_copy_only=False)
    images, has_old = _images(found, len(texts))
    new = np.arange(len(texts)) * 2 + 1
    return table_rows(RowImages(told, new, np.where(is_update & has_old, new - 1, -1)), images)


def column(column: Column, array: pa.Array, zone: str) -> pa.Array:
    """The values of a column of text."""
    return text_columns.column(column.type, array, forms(zone))


def _read(messages: Messages, options: Options) -> tuple[Heads, pa.Array]:
    """The heads, and the texts of their messages."""
    texts, message = bodies(messages.values, options.compression)
    form = _DATED_FORM if options.is_dated else _FORM
    matched = pc.match_substring_regex(texts, form).to_numpy(zero_copy_only=False)
    if not matched.all():
        texts, message = texts.filter(pa.array(matched)), message[matched]
    head, tail = (pc.extract_regex(texts, pattern) for pattern in (_HEAD, _TAIL))
    names, name = table_names(head.field("schema"), head.field("table"))
    return heads_of(
        messages=len(messages),
        names=names,
        message=message,
        name=name,
        op=head.field("op"),
        commit_ts=integers(pc.struct_field(tail, "ts")),
        commit_ms=integers(head.field("es")),
    ), texts


def _images(found: Strings, texts: int) -> tuple[Images, np.ndarray]:
    """Image 2n is what is in the n-th message's `old`, image 2n + 1 in its `data`; and which have an `old`."""
    token = np.flatnonzero(found.data[found.closes + 1] == _COLON)
    after = found.data[found.closes[token] + 2]
    is_first = found.are_first()[token]
    begins_image = is_first | (after == _BRACKET)
    # What follows a number is the row key of the extension.
    follows_number = np.concatenate(([False], ((after >= _ZERO) & (after <= _NINE))[:-1]))
    is_column = ((after == QUOTE) | (after == _N)) & ~is_first & ~follows_number
    name, image = token[is_column], (np.cumsum(begins_image) - 1)[is_column]
    kind = np.where(after[is_column] == QUOTE, TEXT_VALUE, NULL)
    return images_of(found, 2 * texts, image, name, kind, name + 1), after[is_first] == _BRACKET


BULK: Final = Bulk(heads, rows, column)
