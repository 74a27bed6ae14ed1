"""Whole columns of Open Protocol values as typed arrays: the bulk twin of `open_protocol.value`."""

from __future__ import annotations

import codecs
import re
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols import open_protocol, text_columns
from ticdc_assets.protocols.go_strings import unquote
from ticdc_assets.protocols.message_images import NUMBER_TYPE
from ticdc_assets.protocols.open_protocol import NUMBERS, QUOTED, TEXTS
from ticdc_assets.protocols.text_values import TextForms
from ticdc_assets.schema.arrow_types import arrow_type, is_binary
from ticdc_assets.schema.model import Column, Kind, MySqlType

_BLOB: Final = MySqlType(Kind.BLOB)
_PLAIN_ESCAPES: Final = re.compile(rb"(?:[^\\]|\\(?:[abfnrtv\\\"']|x[0-9a-fA-F]{2}|[0-3][0-7]{2}))*", re.DOTALL)


def column(column: Column, array: pa.Array, zone: str) -> pa.Array:
    """The values of a column of strings, or of numbers."""
    if array.null_count == len(array):
        return pa.nulls(len(array), arrow_type(column.type))
    is_number = array.type == NUMBER_TYPE
    if is_number is not (column.type.kind in NUMBERS):
        return _one_by_one(column, array, zone)
    texts = array.flatten()[0] if is_number else array
    try:
        return _fast(column.type, texts, TextForms("base64", "number", zone))
    except (DecodeError, pa.ArrowInvalid):
        return _one_by_one(column, array, zone)


def _fast(column_type: MySqlType, texts: pa.Array, forms: TextForms) -> pa.Array:
    binary = is_binary(column_type)
    if binary and column_type.kind in QUOTED:
        return _unquoted(texts)
    if column_type.kind in TEXTS and not binary:
        return text_columns.column(_BLOB, texts, forms).cast(pa.string())
    return text_columns.column(column_type, texts, forms)


def _unquoted(texts: pa.Array) -> pa.Array:
    escaped = pc.fill_null(pc.match_substring(texts, "\\"), False)
    raw = texts.cast(pa.binary())
    some = [_bytes(text) for text in raw.filter(escaped).to_pylist()]
    return pc.replace_with_mask(raw, escaped, pa.array(some, pa.binary())) if some else raw


def _bytes(quoted: bytes) -> bytes:
    if _PLAIN_ESCAPES.fullmatch(quoted):
        return codecs.escape_decode(quoted)[0]
    return unquote(quoted.decode(), "a column value")


def _one_by_one(column: Column, array: pa.Array, zone: str) -> pa.Array:
    values = [open_protocol.value(column, wire, zone) for wire in _wires(array)]
    return pa.array(values, arrow_type(column.type))


def _wires(array: pa.Array) -> list[Any]:
    if array.type != NUMBER_TYPE:
        return list(array.to_pylist())
    return [None if found is None else orjson.loads(found["number"]) for found in array.to_pylist()]
