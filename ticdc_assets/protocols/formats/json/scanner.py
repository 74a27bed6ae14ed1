"""Matches many JSON texts against a template (`formats.json.template`) in one pass, and records the offsets of values.

All functions are compiled (see `formats.jit`). All positions are offsets into the data.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.protocols.formats.json.numbers import CODE_MAX, after_code, after_number, read_count, read_integer
from ticdc_assets.protocols.formats.json.strings import after_short_texts, after_text, after_texts, read_string
from ticdc_assets.protocols.formats.json.template import (
    CODES,
    COUNT,
    IMAGE,
    INTEGER,
    JUMP,
    LITERAL,
    MEMBERS,
    REST,
    SET,
    STRINGS,
    STRINGS_OR_NULLS,
    TEXT,
    TEXTS,
    UNLESS,
    WITH_TIMES,
    WITH_TYPES,
)
from ticdc_assets.protocols.formats.simd import VECTOR, after_literal
from ticdc_assets.protocols.formats.string_arrays import IS_NULL, NOT_SENT, Bytes, Ints, Places

HAS_FORM: Final = -2
OTHER_FORM: Final = -1
OTHER_NAME: Final = -2
_COMMA, _COLON, _OPEN, _CLOSE, _U, _N, _L = b",:{}unl"
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
    return _after_null(data, at, end), IS_NULL, 0, IS_NULL, 0


@inlined
def _after_null(data: Bytes, at: int, end: int) -> int:
    """The offset after a null, or -1."""
    if at + 4 > end or data[at] != _N or data[at + 1] != _U or data[at + 2] != _L or data[at + 3] != _L:
        return -1
    return at + 4


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
        after = _after_null(data, at, end)
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


@compiled
def scan(
    data: Bytes,
    starts: Ints,
    ends: Ints,
    steps: Ints,
    literals: Bytes,
    names: Bytes,
    name_bounds: Ints,
    name_columns: Ints,
    numbers: Ints,
    strings: Places,
    images: Places,
    marks: Places,
    outcomes: Ints,
) -> None:
    """Match each text against the steps of a template, and record the values and their offsets.

    Text n is `data[starts[n]:ends[n]]`. `names` are the names of columns with quotes and colon, `name_columns` which
    column each means. Of text n, `numbers[n, slot]`, `strings[n, slot]` and `images[which, n, column]` are set; the
    last two hold start and end. A column that an image does not have starts at NOT_SENT, one that is null at IS_NULL.
    `marks[which, n, column]` hold start and end of a time's zone and of a number's digits; of strings they are IS_NULL.
    Where all values are strings and nulls `marks` may be `images` itself.
    `outcomes[n]` is HAS_FORM, OTHER_FORM, or the offset of a column's name that is not in `names`. A text with a column
    twice in an image is of another form.
    """
    for row in range(len(starts)):
        at, end = starts[row], ends[row]
        step, outcome = 0, HAS_FORM
        while step < len(steps):
            does, first, second = steps[step, 0], steps[step, 3], steps[step, 4]
            begin = at
            if does == LITERAL:
                at = after_literal(data, at, end, literals, steps[step, 1], steps[step, 2])
            elif does == UNLESS:
                after = after_literal(data, at, end, literals, steps[step, 1], steps[step, 2])
                if after < 0:
                    step += first
                else:
                    at = after
            elif does == JUMP:
                step += first
            elif does == SET:
                numbers[row, first] = second
            elif does == COUNT:
                at, value = read_count(data, at, end, second)
                if first >= 0:
                    numbers[row, first] = value
            elif does == INTEGER:
                at, value = read_integer(data, at, end)
                if first >= 0:
                    numbers[row, first] = value
            elif does == TEXT:
                at, escaped = after_text(data, at, end)
                if at >= 0 and first >= 0:
                    strings[row, first, 0] = begin + 1
                    strings[row, first, 1] = -at if escaped else at - 1
            elif does == TEXTS:
                at = after_texts(data, at, end)
            elif does == MEMBERS:
                at = after_members(data, at, end, first, second)
            elif does == IMAGE:
                cells, marked = images[first, row], marks[first, row]
                at, where = read_image(data, at, end, second, names, name_bounds, name_columns, cells, marked)
                if at == OTHER_NAME:
                    outcome = where
            elif does == REST:
                at = end
            if at < 0:
                break
            step += 1
        if outcome == HAS_FORM and at != end:
            outcome = OTHER_FORM
        outcomes[row] = outcome


@compiled
def read_image(
    data: Bytes,
    at: int,
    end: int,
    kind: int,
    names: Bytes,
    name_bounds: Ints,
    name_columns: Ints,
    cells: Places,
    marks: Places,
) -> tuple[int, int]:
    """The offset after an image, or OTHER_FORM, or OTHER_NAME and the offset of that name.

    `kind` is twice the kind of its values, plus one if it may be empty.
    """
    has_marks = kind >= 2 * WITH_TIMES
    for column in range(len(cells)):
        cells[column, 0] = NOT_SENT
        cells[column, 1] = 0
        if has_marks:
            marks[column, 0] = NOT_SENT
            marks[column, 1] = 0
    if at + 1 >= end or data[at] != _OPEN:
        return OTHER_FORM, 0
    if kind & 1 and data[at + 1] == _CLOSE:
        return at + 2, 0
    name, count = -1, len(name_bounds) - 1
    while True:
        start = at + 1
        name += 1
        at = -1
        if name < count:
            at = after_literal(data, start, end, names, name_bounds[name], name_bounds[name + 1])
        if at < 0:
            at, _ = after_text(data, start, end)
            if at < 0 or at >= end or data[at] != _COLON:
                return OTHER_FORM, 0
            at += 1
            name = _known_name(data, start, at, name, names, name_bounds)
            if name < 0:
                return OTHER_NAME, start
        column = name_columns[name]
        if cells[column, 0] != NOT_SENT:
            return OTHER_FORM, 0
        at, cells[column, 0], cells[column, 1], mark, mark_end = read_value(data, at, end, kind >> 1)
        if has_marks:
            marks[column, 0], marks[column, 1] = mark, mark_end
        if at < 0:
            return OTHER_FORM, 0
        if at >= end:
            return OTHER_FORM, 0
        if data[at] == _CLOSE:
            return at + 1, 0
        if data[at] != _COMMA:
            return OTHER_FORM, 0


@compiled
def _known_name(data: Bytes, start: int, stop: int, guess: int, names: Bytes, name_bounds: Ints) -> int:
    """The index of the name that these bytes are, or -1; names from `guess` on are tried first."""
    count = len(name_bounds) - 1
    for turn in range(count):
        name = guess + turn
        if name >= count:
            name -= count
        if name_bounds[name + 1] - name_bounds[name] == stop - start:
            after = after_literal(data, start, stop, names, name_bounds[name], name_bounds[name + 1])
            if after == stop:
                return name
    return -1
