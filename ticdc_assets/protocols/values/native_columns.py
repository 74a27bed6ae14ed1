"""Converts whole columns of Simple and Avro values to typed Arrow columns: the bulk form of `values.native`.

The input array holds wire values; decimals may be numbers instead of text. The output has `arrow_type` and the same
values as `values.native`, or the same DecodeError. Inputs that no fast form handles exactly are read value by value.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.protocols.values import native as native_values
from ticdc_assets.protocols.values import text_columns
from ticdc_assets.protocols.values.native import LOCATION
from ticdc_assets.protocols.values.text import YEAR_MIN, TextForms
from ticdc_assets.schema.arrow_types import INTEGER_BITS, arrow_type, integer_range, is_binary, wraps
from ticdc_assets.schema.model import Column, Kind

VALUE: Final = "value"
_INTEGERS: Final = frozenset({*INTEGER_BITS, Kind.BIT, Kind.YEAR})
_REALS: Final = frozenset({Kind.FLOAT, Kind.DOUBLE})
_BIT_BYTES_MAX: Final = 8
_ROOM: Final = bytes(_BIT_BYTES_MAX)


class _NotFastError(Exception):
    """Raised if no fast conversion gives an exact result."""


def column(of: Column, array: pa.Array, zone: str, labels: bool = False) -> pa.Array:
    """The canonical values of a column of wire values.

    Args:
        zone: the time zone of TIMESTAMPs that name none.
        labels: whether ENUM and SET are sent as labels.

    Raises:
        DecodeError: a value does not fit the column.
    """
    target = arrow_type(of.type)
    if array.null_count == len(array):
        return pa.nulls(len(array), target)
    try:
        return _fast(of, array, zone, labels)
    except (pa.ArrowInvalid, _NotFastError):
        return _one_by_one(of, array, zone, labels)


def _one_by_one(of: Column, array: pa.Array, zone: str, labels: bool) -> pa.Array:
    wires = (_wire(found) for found in array.to_pylist())
    return pa.array([native_values.value(of, wire, zone, labels) for wire in wires], arrow_type(of.type))


def _wire(found: Any) -> Any:
    return f"{found:f}" if isinstance(found, Decimal) else found


def _fast(of: Column, array: pa.Array, zone: str, labels: bool) -> pa.Array:
    kind = array.type
    if pa.types.is_string(kind):
        forms = TextForms("base64", "label" if labels else "number", zone)
        return text_columns.column(of.type, array, forms)
    if pa.types.is_struct(kind):
        return _structs(of, array, zone)
    if pa.types.is_integer(kind):
        return _from_integers(of, array, labels)
    if pa.types.is_floating(kind) and of.type.kind in _REALS:
        return _reals(of, array)
    if pa.types.is_binary(kind):
        return _from_bytes(of, array)
    target = arrow_type(of.type)
    if pa.types.is_decimal(kind) and of.type.kind is Kind.DECIMAL and _scale(kind) == _scale(target):
        return array.cast(target)
    raise _NotFastError


def _scale(of: pa.DataType) -> int | None:
    return of.scale if pa.types.is_decimal(of) else None


def _from_integers(of: Column, array: pa.Array, labels: bool) -> pa.Array:
    if of.type.kind in _INTEGERS:
        return _integers(of, array)
    if of.type.kind in _REALS:
        return _reals(of, array.cast(pa.float64(), safe=False))
    if of.type.kind in (Kind.ENUM, Kind.SET) and not labels:
        return text_columns.column(of.type, array.cast(pa.string()), TextForms("raw", "number"))
    raise _NotFastError


def _integers(of: Column, array: pa.Array) -> pa.Array:
    target = arrow_type(of.type)
    if wraps(of.type):
        # Values of 2^63 and above were sent as negative numbers.
        return array.cast(pa.int64()).view(pa.uint64()).cast(target)
    low, high = integer_range(of.type)
    found = pc.min_max(array).as_py()
    if not low <= found["min"] <= found["max"] <= high:
        raise _NotFastError
    if of.type.kind is Kind.YEAR and pc.any(pc.and_(pc.greater(array, 0), pc.less(array, YEAR_MIN))).as_py():
        raise _NotFastError
    return array.cast(target)


def _reals(of: Column, array: pa.Array) -> pa.Array:
    numbers = array.cast(arrow_type(of.type), safe=False)
    if not pc.all(pc.is_finite(numbers)).as_py():
        raise _NotFastError
    return numbers


def _from_bytes(of: Column, array: pa.Array) -> pa.Array:
    if is_binary(of.type):
        return array
    if of.type.kind is not Kind.BIT:
        raise _NotFastError
    return _bits(of, array)


def _bits(of: Column, array: pa.Array) -> pa.Array:
    """BIT values of up to eight big-endian bytes, each read as the 64-bit word that ends at its last byte."""
    present = array.fill_null(b"")
    length = pc.binary_length(present).to_numpy()
    if length.max() > _BIT_BYTES_MAX:
        raise _NotFastError
    data = np.frombuffer(_ROOM + text_columns.joined_bytes(present), np.uint8)
    words = np.ndarray((len(data) - _BIT_BYTES_MAX + 1,), np.dtype(">u8"), data, 0, (1,))
    low = np.array([(1 << 8 * n) - 1 for n in range(_BIT_BYTES_MAX + 1)], np.uint64)
    numbers = words[np.cumsum(length)].astype(np.uint64) & low[length]
    found = pa.array(numbers, mask=array.is_null().to_numpy(zero_copy_only=False))
    if not wraps(of.type) and numbers.max() > integer_range(of.type)[1]:
        raise _NotFastError
    return found.cast(arrow_type(of.type))


def _structs(of: Column, array: pa.Array, zone: str) -> pa.Array:
    parts = dict(zip(array.type.names, array.flatten(), strict=True))
    if parts.keys() == {VALUE} and of.type.kind in _INTEGERS:
        return _integers(of, parts[VALUE])
    if parts.keys() == {LOCATION, VALUE} and of.type.kind is Kind.TIMESTAMP:
        return _timestamps(of, parts[LOCATION], parts[VALUE], zone)
    raise _NotFastError


def _timestamps(of: Column, locations: pa.Array, walls: pa.Array, zone: str) -> pa.Array:
    different = locations.drop_null().unique().to_pylist()
    if len(different) != 1:
        raise _NotFastError
    forms = TextForms("base64", "number", native_values.zone_of(of, {LOCATION: different[0], VALUE: ""}, zone))
    return text_columns.column(of.type, walls, forms)
