"""Converts whole columns of wire text to typed Arrow columns: the bulk form of `values.text`.

The output has `arrow_type` and the same values as `values.text`, or the same DecodeError. Each type has a fast form
with Arrow kernels. Where Arrow's parsers may accept more than `values.text`, or refuse a value, the column is read
again value by value.
"""

from __future__ import annotations

import binascii
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.values.text import (
    DECIMAL_PATTERN,
    FLOAT_PATTERN,
    TIME_PATTERN,
    YEAR_MIN,
    TextForms,
    is_zero_date,
    time_zone,
    value,
)
from ticdc_assets.schema.arrow_types import DECIMAL_DIGITS_MAX, UINT64_MAX, arrow_type, integer_range, is_binary
from ticdc_assets.schema.model import Kind, MySqlType

_DATETIME_CHARACTERS_MIN: Final = len("2000-01-01 00:00:00")
_YEAR_ONE: Final = datetime(1, 1, 1)
ZONE_RULES_FROM: Final = datetime(1970, 1, 2)
ZONE_RULES_TO: Final = datetime(2037, 1, 1)
_COMPILED: Final = "ticdc_assets.protocols.formats.jit"
"""The compiled forms are used only if this module is loaded already: loading it here would cost more than it saves."""


class _NotFastError(Exception):
    """Raised if a fast conversion may not be exact."""


def column(column_type: MySqlType, texts: pa.Array, forms: TextForms) -> pa.Array:
    """The typed values of a column of wire texts. Raises DecodeError if one does not fit the type."""
    target = arrow_type(column_type)
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), target)
    try:
        plain = _plain(texts)
        if is_binary(column_type):
            return _BINARY_FORMS[forms.binary](plain)
        reader = _READERS.get(column_type.kind)
        return plain if reader is None else reader(column_type, plain, forms)
    except (pa.ArrowInvalid, _NotFastError, DecodeError):
        return _one_by_one(column_type, texts, forms)


def _one_by_one(column_type: MySqlType, texts: pa.Array, forms: TextForms) -> pa.Array:
    values: list[Any] = []
    for position, text in enumerate(texts.to_pylist()):
        try:
            values.append(value(column_type, text, forms))
        except DecodeError as error:
            raise DecodeError(f"value {position} of a column", error.expected, error.found, error.advice) from error
    return pa.array(values, arrow_type(column_type))


def _plain(texts: pa.Array) -> pa.Array:
    if pa.types.is_string(texts.type) or pa.types.is_binary(texts.type):
        return texts
    return texts.cast(pa.string())


def joined_bytes(texts: pa.Array) -> bytes:
    """The bytes of all texts, concatenated, including the hidden bytes of nulls."""
    _, offsets_buffer, data = texts.buffers()
    if data is None or not len(texts):
        return b""
    offsets = memoryview(offsets_buffer).cast("i")
    start, end = offsets[texts.offset], offsets[texts.offset + len(texts)]
    return bytes(memoryview(data)[start:end])


def _refuse_if_any(condition: pa.Array) -> None:
    if pc.any(condition).as_py():
        raise _NotFastError


def _refuse_unless_all_match(texts: pa.Array, pattern: str) -> None:
    if not pc.all(pc.match_substring_regex(texts, rf"\A(?:{pattern})\z")).as_py():
        raise _NotFastError


def _refuse_outside(numbers: pa.Array, low: Any, high: Any) -> None:
    found = pc.min_max(numbers).as_py()
    if found["min"] is not None and not low <= found["min"] <= found["max"] <= high:
        raise _NotFastError


def _integer(column_type: MySqlType, texts: pa.Array, forms: TextForms) -> pa.Array:
    raw = joined_bytes(texts)
    if b"x" in raw or b"X" in raw:  # Arrow reads 0x1F
        raise _NotFastError
    target = arrow_type(column_type)
    low, high = integer_range(column_type)
    if high == UINT64_MAX:
        return _unsigned64(texts, b"-" in raw).cast(target)
    numbers = texts.cast(target)
    if high - low + 1 < 1 << target.bit_width:  # Arrow refuses out-of-range values of full-width types
        _refuse_outside(numbers, low, high)
    if column_type.kind is Kind.YEAR:
        _refuse_if_any(pc.and_(pc.greater(numbers, 0), pc.less(numbers, YEAR_MIN)))
    return numbers


def _unsigned64(texts: pa.Array, some_wrapped: bool) -> pa.Array:
    if not some_wrapped:
        return texts.cast(pa.uint64())
    wrapped = pc.starts_with(texts, "-")
    nothing = pa.scalar(None, pa.string())
    lower = pc.if_else(wrapped, nothing, texts).cast(pa.uint64())
    upper = pc.if_else(wrapped, texts, nothing).cast(pa.int64()).cast(pa.uint64(), safe=False)
    return pc.if_else(wrapped, upper, lower)


def _float(column_type: MySqlType, texts: pa.Array, forms: TextForms) -> pa.Array:
    if b"+" in joined_bytes(texts):  # Arrow accepts +5; 1e+21 is valid
        _refuse_unless_all_match(texts, FLOAT_PATTERN)
    numbers = texts.cast(pa.float64()).cast(arrow_type(column_type), safe=False)
    _refuse_if_any(pc.invert(pc.is_finite(numbers)))
    return numbers


def _decimal(column_type: MySqlType, texts: pa.Array, forms: TextForms) -> pa.Array:
    target = arrow_type(column_type)
    if pa.types.is_string(target):
        _refuse_unless_all_match(texts, DECIMAL_PATTERN)
        return texts
    raw = joined_bytes(texts)
    if b"+" in raw or b"e" in raw or b"E" in raw:  # Arrow reads +1 and 1e2
        raise _NotFastError
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest > DECIMAL_DIGITS_MAX:  # Arrow does not refuse 39 digits
        raise _NotFastError
    if longest + target.scale > DECIMAL_DIGITS_MAX:  # nor digits that exceed the limit at the column's scale
        _refuse_unless_all_match(texts, rf"-?[0-9]{{0,{target.precision - target.scale}}}(?:\.[0-9]*)?")
    return texts.cast(target)


def _date(column_type: MySqlType, texts: pa.Array, forms: TextForms) -> pa.Array:
    days = _cast_dates(column_type, texts, pa.date32())
    _refuse_if_any(pc.less(days, pa.scalar(_YEAR_ONE.date())))
    return days


def _datetime(column_type: MySqlType, texts: pa.Array, forms: TextForms) -> pa.Array:
    if b"T" in joined_bytes(texts):  # Arrow reads 2000-01-01T00:00:00
        raise _NotFastError
    shortest = pc.min(pc.binary_length(texts)).as_py()
    if shortest is not None and shortest < _DATETIME_CHARACTERS_MIN:  # Arrow accepts times without minutes or seconds
        raise _NotFastError
    times = _cast_dates(column_type, texts, pa.timestamp("us"))
    _refuse_if_any(pc.less(times, pa.scalar(_YEAR_ONE, pa.timestamp("us"))))
    return times


def _timestamp(column_type: MySqlType, texts: pa.Array, forms: TextForms) -> pa.Array:
    walls = _datetime(column_type, texts, forms)
    zone = time_zone(forms.zone)
    target = arrow_type(column_type)
    if zone is UTC:
        return walls.cast(target)
    _refuse_outside(walls, ZONE_RULES_FROM, ZONE_RULES_TO)
    if isinstance(zone, timezone):
        shift = zone.utcoffset(None) or timedelta()
        return pc.subtract(walls, pa.scalar(shift, pa.duration("us"))).cast(target)
    return pc.assume_timezone(walls, forms.zone, ambiguous="earliest", nonexistent="raise").cast(target)


def _cast_dates(column_type: MySqlType, texts: pa.Array, target: pa.DataType) -> pa.Array:
    """The dates; zero dates, which Arrow refuses, become null."""
    try:
        return texts.cast(target)
    except pa.ArrowInvalid:
        zero = pc.match_substring(texts, "-00")
        if not all(is_zero_date(column_type, text) for text in texts.filter(zero).unique().to_pylist()):
            raise _NotFastError from None
        return pc.if_else(zero, pa.scalar(None, pa.string()), texts).cast(target)


def _time(column_type: MySqlType, texts: pa.Array, forms: TextForms) -> pa.Array:
    _refuse_unless_all_match(texts, TIME_PATTERN)
    return texts


def _labels(column_type: MySqlType, texts: pa.Array, forms: TextForms) -> pa.Array:
    if forms.enum == "label":
        return texts
    coded = texts.dictionary_encode()
    labels = [value(column_type, number, forms) for number in coded.dictionary.to_pylist()]
    return pa.array(labels, pa.string()).take(coded.indices)


_READERS: Final[dict[Kind, Callable[[MySqlType, pa.Array, TextForms], pa.Array]]] = {
    Kind.TINYINT: _integer,
    Kind.SMALLINT: _integer,
    Kind.MEDIUMINT: _integer,
    Kind.INT: _integer,
    Kind.BIGINT: _integer,
    Kind.BIT: _integer,
    Kind.YEAR: _integer,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _float,
    Kind.DECIMAL: _decimal,
    Kind.DATE: _date,
    Kind.DATETIME: _datetime,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIME: _time,
    Kind.ENUM: _labels,
    Kind.SET: _labels,
    Kind.VECTOR: _one_by_one,
}


def _base64(texts: pa.Array) -> pa.Array:
    _require_compiled()
    from ticdc_assets.protocols.values.binary_columns import base64_column

    return _found(base64_column(texts))


def _hex(texts: pa.Array) -> pa.Array:
    present = texts.fill_null("")
    lengths = pc.binary_length(present)
    _refuse_if_any(pc.not_equal(pc.bit_wise_and(lengths, 1), 0))
    try:
        raw = binascii.unhexlify(joined_bytes(present))
    except binascii.Error as error:
        raise _NotFastError from error
    return _binary_array(texts, raw, pc.divide(lengths, 2))


def _latin1(texts: pa.Array) -> pa.Array:
    _require_compiled()
    from ticdc_assets.protocols.values.binary_columns import latin1_column

    return _found(latin1_column(texts))


def _require_compiled() -> None:
    if _COMPILED not in sys.modules:
        raise _NotFastError


def _found(column: pa.Array | None) -> pa.Array:
    if column is None:
        raise _NotFastError
    return column


def _raw(texts: pa.Array) -> pa.Array:
    return texts.cast(pa.binary())


_BINARY_FORMS: Final[dict[str, Callable[[pa.Array], pa.Array]]] = {
    "base64": _base64,
    "hex": _hex,
    "latin1": _latin1,
    "raw": _raw,
}


def _binary_array(texts: pa.Array, raw: bytes, lengths: pa.Array) -> pa.Array:
    """The bytes cut into values of these lengths; null where the texts are."""
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths.cast(pa.int32()))])
    values = pa.Array.from_buffers(pa.binary(), len(lengths), [None, offsets.buffers()[1], pa.py_buffer(raw)])
    return pc.if_else(texts.is_valid(), values, pa.scalar(None, pa.binary())) if texts.null_count else values
