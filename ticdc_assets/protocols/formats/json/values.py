"""The values of columns in JSON texts, and objects of which only the end matters.

All functions are compiled (see `formats.jit`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.protocols.formats.json.literals import after_literal, after_null
from ticdc_assets.protocols.formats.json.numbers import CODE_MAX, after_code, after_number, read_count
from ticdc_assets.protocols.formats.json.strings import after_short_texts, after_text, read_string
from ticdc_assets.protocols.formats.json.template import CODES, STRINGS, STRINGS_OR_NULLS, WITH_TIMES, WITH_TYPES
from ticdc_assets.protocols.formats.simd import VECTOR
from ticdc_assets.protocols.formats.string_arrays import IS_NULL, Bytes

_COMMA, _COLON, _OPEN, _CLOSE = b",:{}"
_TIME: Final = np.frombuffer(b'{"location":,"value":' + bytes(VECTOR), np.uint8)
_LOCATION, _WALL = len(b'{"location":'), len(b',"value":')
_TYPE: Final = np.frombuffer(b'{"t":,"h":true,"h":false,"f":,"v":' + bytes(VECTOR), np.uint8)
"""The bytes around the parts of such values, one after the other."""


@compiled
def after_members(data: Bytes, at: int, end: int, kind: int, may_be_empty: int) -> int:
    """The offset after an object, or -1; `kind` is the kind of its values."""
    if at + 1 >= end or data[at] != _OPEN:
        return -1
    if may_be_empty and data[at + 1] == _CLOSE:
        return at + 2
    while True:
        after = after_short_texts(data, at + 1, end) if kind in (STRINGS, STRINGS_OR_NULLS) else -1
        if after < 0:
            after = _after_member(data, at + 1, end, kind)
        at = after
        if at < 0 or at >= end:
            return -1
        if data[at] == _CLOSE:
            return at + 1
        if data[at] != _COMMA:
            return -1


@inlined
def _after_member(data: Bytes, at: int, end: int, kind: int) -> int:
    """The offset after a name and its value, or -1."""
    at, _ = after_text(data, at, end)
    if at < 0 or at >= end or data[at] != _COLON:
        return -1
    if kind == CODES:
        return after_code(data, at + 1, end)
    return read_value(data, at + 1, end, kind)[0]


@inlined
def read_value(data: Bytes, at: int, end: int, kind: int) -> tuple[int, int, int, int, int]:
    """The offset after a value, or -1; start and end of its text; start and end of its mark (see `json.scanner`)."""
    after, start, stop = read_string(data, at, end)
    if after >= 0:
        if kind == WITH_TYPES:
            return -1, 0, 0, 0, 0
        return after, start, stop, IS_NULL, 0
    if kind == WITH_TYPES:
        return _typed_value(data, at, end)
    if kind == WITH_TIMES and at < end and data[at] == _OPEN:
        return _time(data, at, end)
    if kind == STRINGS:
        return -1, 0, 0, 0, 0
    return after_null(data, at, end), IS_NULL, 0, IS_NULL, 0


@compiled
def _time(data: Bytes, at: int, end: int) -> tuple[int, int, int, int, int]:
    """`read_value` for a time with its zone."""
    at = after_literal(data, at, end, _TIME, 0, _LOCATION)
    if at < 0:
        return -1, 0, 0, 0, 0
    at, zone, zone_end = read_string(data, at, end)
    if at < 0:
        return -1, 0, 0, 0, 0
    at = after_literal(data, at, end, _TIME, _LOCATION, _LOCATION + _WALL)
    if at < 0:
        return -1, 0, 0, 0, 0
    at, start, stop = read_string(data, at, end)
    if at < 0 or at >= end or data[at] != _CLOSE:
        return -1, 0, 0, 0, 0
    return at + 1, start, stop, zone, zone_end


@compiled
def _typed_value(data: Bytes, at: int, end: int) -> tuple[int, int, int, int, int]:
    """`read_value` for an object of a type and a value."""
    at = _after_type(data, at, end)
    if at < 0:
        return -1, 0, 0, 0, 0
    after, start, stop = read_string(data, at, end)
    mark, mark_end = IS_NULL, 0
    if after < 0:
        after = after_null(data, at, end)
        start, stop = IS_NULL, 0
    if after < 0:
        after = after_number(data, at, end)
        start, stop, mark, mark_end = at, after, at, after
    if after < 0 or after >= end or data[after] != _CLOSE:
        return -1, 0, 0, 0, 0
    return after + 1, start, stop, mark, mark_end


@inlined
def _after_type(data: Bytes, at: int, end: int) -> int:
    """The offset of the value in an object of a type and a value, or -1."""
    at = after_literal(data, at, end, _TYPE, 0, 5)
    if at < 0:
        return -1
    at, _ = read_count(data, at, end, CODE_MAX)
    if at < 0:
        return -1
    is_handle = after_literal(data, at, end, _TYPE, 5, 14)
    if is_handle < 0:
        is_handle = after_literal(data, at, end, _TYPE, 14, 24)
    at = after_literal(data, at if is_handle < 0 else is_handle, end, _TYPE, 24, 29)
    if at < 0:
        return -1
    at, _ = read_count(data, at, end, CODE_MAX)
    return after_literal(data, at, end, _TYPE, 29, 34) if at >= 0 else -1
