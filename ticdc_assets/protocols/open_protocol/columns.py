"""The values of the Open Protocol as columns: the bulk form of `decoder.value`."""

from __future__ import annotations

from typing import Any, Final

import orjson
import pyarrow as pa

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.columnar.raw_rows import NUMBER_TYPE
from ticdc_assets.protocols.open_protocol import decoder
from ticdc_assets.protocols.open_protocol.decoder import NUMBERS, QUOTED, TEXTS
from ticdc_assets.protocols.values import text_columns
from ticdc_assets.protocols.values.text import TextForms
from ticdc_assets.schema.arrow_types import arrow_type, is_binary
from ticdc_assets.schema.model import Column, Kind, MySqlType

_BLOB: Final = MySqlType(Kind.BLOB)


class _NotFastError(Exception):
    """Raised if no fast conversion gives an exact result."""


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
    except (DecodeError, _NotFastError, pa.ArrowInvalid):
        return _one_by_one(column, array, zone)


def _fast(column_type: MySqlType, texts: pa.Array, forms: TextForms) -> pa.Array:
    binary = is_binary(column_type)
    if binary and column_type.kind in QUOTED:
        # Compiled code: it is loaded already where there are rows in bulk, and this module is always loaded.
        from ticdc_assets.protocols.values.binary_columns import unescaped

        found = unescaped(texts)
        if found is None:
            raise _NotFastError
        return found
    if column_type.kind in TEXTS and not binary:
        return text_columns.column(_BLOB, texts, forms).cast(pa.string())
    return text_columns.column(column_type, texts, forms)


def _one_by_one(column: Column, array: pa.Array, zone: str) -> pa.Array:
    values = [decoder.value(column, wire, zone) for wire in _wires(array)]
    return pa.array(values, arrow_type(column.type))


def _wires(array: pa.Array) -> list[Any]:
    if array.type != NUMBER_TYPE:
        return list(array.to_pylist())
    return [None if found is None else orjson.loads(found["number"]) for found in array.to_pylist()]
