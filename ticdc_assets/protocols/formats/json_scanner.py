"""Matches many JSON texts against a template (`formats.json_template`) in one pass, and records the offsets of values.

All functions are compiled (see `formats.jit`). Places are offsets into the data.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.protocols.formats.json_template import (
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
from ticdc_assets.protocols.formats.simd import VECTOR, below, differing, equal, lowest
from ticdc_assets.protocols.formats.string_arrays import IS_NULL, NOT_SENT, Bytes, Ints, Places
from ticdc_assets.tso import INT64_MAX

HAS_FORM: Final = -2
OTHER_FORM: Final = -1
OTHER_NAME: Final = -2
_QUOTE, _BACKSLASH, _COMMA, _COLON, _OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST, _ZERO, _NINE, _MINUS = b'"\\,:{}[]09-'
_U, _N, _L, _SPACE, _DOT, _E, _PLUS, _ONE, _SIX = b"unl .e+16"
_SPECIAL: Final = np.array([byte < _SPACE or byte in (_QUOTE, _BACKSLASH) for byte in range(256)])
_ESCAPED: Final = np.array([byte in b'"/\\bfnrt' for byte in range(256)])
_SAFE_DIGITS: Final = 18
"""Any number of this many digits fits 64 bits."""
_CODE_MAX: Final = 10**9 - 1
_DIGITS_MAX: Final = 21
_FRACTION_DIGITS_MAX: Final = 30
"""More digits no float has."""
_UINT64_MAX_DIGITS: Final = np.frombuffer(b"18446744073709551615", np.uint8)
_INT64_MIN_DIGITS: Final = np.frombuffer(b"9223372036854775808", np.uint8)
_EXPONENT_DIGITS_MAX: Final = 3
_SAFE_EXPONENT: Final = np.frombuffer(b"307", np.uint8)
_LARGEST_EXPONENT: Final = np.frombuffer(b"308", np.uint8)
_LARGEST_FRACTION: Final = np.frombuffer(b"7976931348623157", np.uint8)
"""1.7976931348623157e+308 is the largest float, with any smaller exponent all digits are finite."""
_TIME: Final = np.frombuffer(b'{"location":,"value":' + bytes(VECTOR), np.uint8)
_LOCATION, _WALL = len(b'{"location":'), len(b',"value":')
_TYPE: Final = np.frombuffer(b'{"t":,"h":true,"h":false,"f":,"v":' + bytes(VECTOR), np.uint8)
"""What stands before and between the parts of such values, one after the other."""
_UNIT: Final = 6
"""An escape of four hexadecimal digits."""


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
    """Look for the form in each text, and note what it has.

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
                at = _after_literal(data, at, end, literals, steps[step, 1], steps[step, 2])
            elif does == UNLESS:
                after = _after_literal(data, at, end, literals, steps[step, 1], steps[step, 2])
                if after < 0:
                    step += first
                else:
                    at = after
            elif does == JUMP:
                step += first
            elif does == SET:
                numbers[row, first] = second
            elif does == COUNT:
                at, value = _count(data, at, end, second)
                if first >= 0:
                    numbers[row, first] = value
            elif does == INTEGER:
                at, value = _integer(data, at, end)
                if first >= 0:
                    numbers[row, first] = value
            elif does == TEXT:
                at, escaped = _after_text(data, at, end)
                if at >= 0 and first >= 0:
                    strings[row, first, 0] = begin + 1
                    strings[row, first, 1] = -at if escaped else at - 1
            elif does == TEXTS:
                at = _after_texts(data, at, end)
            elif does == MEMBERS:
                at = _after_members(data, at, end, first, second)
            elif does == IMAGE:
                cells, marked = images[first, row], marks[first, row]
                at, where = _image(data, at, end, second, names, name_bounds, name_columns, cells, marked)
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


@inlined
def _signed(number: np.uint8) -> int:
    """What numbers are counted in: of an unsigned and a signed one NumPy would make a float."""
    return np.int64(number)  # type: ignore[return-value]


@inlined
def _after_literal(data: Bytes, at: int, end: int, literals: Bytes, start: int, stop: int) -> int:
    """Where what follows these bytes begins, or -1; `literals` has VECTOR bytes more than its last piece needs."""
    size = stop - start
    if at + size > end:
        return -1
    if size <= VECTOR and at + VECTOR <= len(data):
        others = differing(data, at, literals, start) & ((1 << size) - 1)
        return -1 if others else at + size
    for place in range(size):
        if data[at + place] != literals[start + place]:
            return -1
    return at + size


@inlined
def _count(data: Bytes, at: int, end: int, most: int) -> tuple[int, int]:
    """Where what follows a whole number begins, or -1; and the number."""
    start, value = at, 0
    while at < end and _ZERO <= data[at] <= _NINE:
        digit = _signed(data[at]) - _ZERO
        if at - start >= _SAFE_DIGITS and value > (INT64_MAX - digit) // 10:
            return -1, 0
        value = value * 10 + digit
        at += 1
    if at == start or value > most or (at - start > 1 and data[start] == _ZERO):
        return -1, 0
    return at, value


@inlined
def _integer(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Where what follows a whole number begins, one with a minus too, or -1; and the number."""
    if at >= end or data[at] != _MINUS:
        return _count(data, at, end, INT64_MAX)
    after, value = _count(data, at + 1, end, INT64_MAX)
    return after if value else -1, -value


@inlined
def _after_digits(data: Bytes, at: int, end: int) -> int:
    while at < end and _ZERO <= data[at] <= _NINE:
        at += 1
    return at


@compiled
def _after_number(data: Bytes, at: int, end: int) -> int:
    """Where what follows a number begins that Go writes, or -1: a whole one of 64 bits, or a finite float.

    Of whole floats without an exponent only those of 21 digits are: no type takes these for integers.
    """
    is_negative = at < end and data[at] == _MINUS
    start = at + is_negative
    at = _after_digits(data, start, end)
    size = at - start
    if size == 0 or size > _DIGITS_MAX or (size > 1 and data[start] == _ZERO):
        return -1
    if at >= end or (data[at] != _DOT and data[at] != _E):
        return at if size == _DIGITS_MAX or _is_of_64_bits(data, start, at, is_negative) else -1
    if data[at] == _DOT:
        fraction = at + 1
        at = _after_digits(data, fraction, end)
        if not 0 < at - fraction <= _FRACTION_DIGITS_MAX:
            return -1
        if at >= end or data[at] != _E:
            return at
    return _after_exponent(data, start, at, end) if size == 1 and data[start] != _ZERO else -1


@inlined
def _is_of_64_bits(data: Bytes, start: int, end: int, is_negative: bool) -> bool:
    """Whether digits stand for a number of 64 bits, signed or not; there is no negative zero."""
    if is_negative:
        is_short = end - start <= _SAFE_DIGITS and data[start] != _ZERO
        return is_short or _is_at_most(data, start, end, _INT64_MIN_DIGITS)
    return end - start <= _SAFE_DIGITS + 1 or _is_at_most(data, start, end, _UINT64_MAX_DIGITS)


@inlined
def _after_exponent(data: Bytes, start: int, at: int, end: int) -> int:
    """Where what follows a float begins whose digits begin at `start` and whose exponent at `at`, or -1."""
    if at + 1 >= end or (data[at + 1] != _PLUS and data[at + 1] != _MINUS):
        return -1
    after = _after_digits(data, at + 2, end)
    size = after - at - 2
    if size < 1 or size > _EXPONENT_DIGITS_MAX:
        return -1
    if data[at + 1] == _MINUS or size < _EXPONENT_DIGITS_MAX or _is_at_most(data, at + 2, after, _SAFE_EXPONENT):
        return after
    is_finite = data[start] == _ONE and (
        at == start + 1 or data[start + 2] <= _SIX or _is_at_most(data, start + 2, at, _LARGEST_FRACTION)
    )
    return after if is_finite and _is_at_most(data, at + 2, after, _LARGEST_EXPONENT) else -1


@inlined
def _is_at_most(data: Bytes, start: int, end: int, bound: Bytes) -> bool:
    """Whether digits stand for a number that is not larger than that of as many others; not so of another count."""
    if end - start != len(bound):
        return False
    for place in range(len(bound)):
        if data[start + place] < bound[place]:
            return True
        if data[start + place] > bound[place]:
            return False
    return True


@inlined
def _hex(data: Bytes, at: int) -> int:
    """The number that four hexadecimal digits stand for, or -1."""
    value = 0
    for place in range(at, at + 4):
        byte = _signed(data[place])
        if _ZERO <= byte <= _NINE:
            value = value * 16 + byte - 48
        elif 65 <= byte <= 70:
            value = value * 16 + byte - 55
        elif 97 <= byte <= 102:
            value = value * 16 + byte - 87
        else:
            return -1
    return value


@inlined
def _after_escape(data: Bytes, at: int, end: int) -> int:
    """Where what follows an escape begins, or -1; surrogates come in pairs."""
    if at + 2 > end:
        return -1
    byte = data[at + 1]
    if byte != _U:
        return at + 2 if _ESCAPED[byte] else -1
    if at + _UNIT > end:
        return -1
    unit = _hex(data, at + 2)
    if unit < 0 or 0xDC00 <= unit <= 0xDFFF:
        return -1
    if not 0xD800 <= unit <= 0xDBFF:
        return at + _UNIT
    if at + 2 * _UNIT > end or data[at + _UNIT] != _BACKSLASH or data[at + _UNIT + 1] != _U:
        return -1
    return at + 2 * _UNIT if 0xDC00 <= _hex(data, at + _UNIT + 2) <= 0xDFFF else -1


@inlined
def _after_text(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """Where what follows a string begins, or -1; and whether it has escapes."""
    if at >= end or data[at] != _QUOTE:
        return -1, False
    at = _special(data, at + 1, end)
    if at >= end:
        return -1, False
    if data[at] == _QUOTE:
        return at + 1, False
    return _after_escapes(data, at, end), True


@compiled
def _after_escapes(data: Bytes, at: int, end: int) -> int:
    """Where what follows the string begins that goes on here, or -1."""
    while at < end:
        begin, found, size = at, 1, 1
        if at + VECTOR <= len(data):
            size = VECTOR
            found = _specials(data, at)
        elif not _SPECIAL[data[at]]:
            found = 0
        at += size
        while found:
            place = begin + lowest(found)
            if place >= end:
                return -1
            if data[place] == _QUOTE:
                return place + 1
            after = _after_escape(data, place, end) if data[place] == _BACKSLASH else -1
            if after < 0:
                return -1
            at = max(at, after)
            found &= -1 << min(after - begin, VECTOR)
    return -1


@inlined
def _special(data: Bytes, at: int, end: int) -> int:
    """Where the next quote, backslash or control character is, or a place from the end on."""
    while at < end and at + VECTOR <= len(data):
        found = _specials(data, at)
        if found:
            return at + lowest(found)
        at += VECTOR
    while at < end and not _SPECIAL[data[at]]:
        at += 1
    return at


@inlined
def _specials(data: Bytes, at: int) -> int:
    """Which of VECTOR bytes are quotes, backslashes or control characters."""
    return equal(data, at, _QUOTE) | equal(data, at, _BACKSLASH) | below(data, at, _SPACE)


@compiled
def _after_texts(data: Bytes, at: int, end: int) -> int:
    """Where what follows a list of strings begins, or -1."""
    if at + 1 >= end or data[at] != _OPEN_LIST:
        return -1
    at += 1
    if data[at] == _CLOSE_LIST:
        return at + 1
    while True:
        at, _ = _after_text(data, at, end)
        if at < 0 or at >= end:
            return -1
        at += 1
        if data[at - 1] == _CLOSE_LIST:
            return at
        if data[at - 1] != _COMMA:
            return -1


@inlined
def _after_code(data: Bytes, at: int, end: int) -> int:
    """Where what follows a small number begins, or -1."""
    if at < end and data[at] == _MINUS:
        if at + 1 < end and data[at + 1] == _ZERO:
            return -1
        at += 1
    start = at
    at, _ = _count(data, at, end, _CODE_MAX)
    return at if at > start else -1


@compiled
def _after_members(data: Bytes, at: int, end: int, kind: int, may_be_empty: int) -> int:
    """Where what follows an object begins, or -1; `kind` says what its values are."""
    if at + 1 >= end or data[at] != _OPEN:
        return -1
    if may_be_empty and data[at + 1] == _CLOSE:
        return at + 2
    while True:
        after = _after_short_texts(data, at + 1, end) if kind in (STRINGS, STRINGS_OR_NULLS) else -1
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
    """Where what follows a name with its value begins, or -1."""
    at, _ = _after_text(data, at, end)
    if at < 0 or at >= end or data[at] != _COLON:
        return -1
    if kind == CODES:
        return _after_code(data, at + 1, end)
    return _value(data, at + 1, end, kind)[0]


@inlined
def _value(data: Bytes, at: int, end: int, kind: int) -> tuple[int, int, int, int, int]:
    """Where what follows a value begins, or -1; where its text or digits start and end; the same of what marks it."""
    after, start, stop = _string(data, at, end)
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
def _string(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """Where what follows a string begins, or -1; where its text starts, and ends as `Places` say it."""
    after, escaped = _after_text(data, at, end)
    return after, at + 1, -after if escaped else after - 1


@compiled
def _time(data: Bytes, at: int, end: int) -> tuple[int, int, int, int, int]:
    """`_value` for a time with its zone."""
    at = _after_literal(data, at, end, _TIME, 0, _LOCATION)
    if at < 0:
        return -1, 0, 0, 0, 0
    at, zone, zone_end = _string(data, at, end)
    if at < 0:
        return -1, 0, 0, 0, 0
    at = _after_literal(data, at, end, _TIME, _LOCATION, _LOCATION + _WALL)
    if at < 0:
        return -1, 0, 0, 0, 0
    at, start, stop = _string(data, at, end)
    if at < 0 or at >= end or data[at] != _CLOSE:
        return -1, 0, 0, 0, 0
    return at + 1, start, stop, zone, zone_end


@compiled
def _typed_value(data: Bytes, at: int, end: int) -> tuple[int, int, int, int, int]:
    """`_value` for one in an object that has its column's type."""
    at = _after_type(data, at, end)
    if at < 0:
        return -1, 0, 0, 0, 0
    after, start, stop = _string(data, at, end)
    mark, mark_end = IS_NULL, 0
    if after < 0:
        after = _after_null(data, at, end)
        start, stop = IS_NULL, 0
    if after < 0:
        after = _after_number(data, at, end)
        start, stop, mark, mark_end = at, after, at, after
    if after < 0 or after >= end or data[after] != _CLOSE:
        return -1, 0, 0, 0, 0
    return after + 1, start, stop, mark, mark_end


@inlined
def _after_type(data: Bytes, at: int, end: int) -> int:
    """Where the value of a column begins that says its type, or -1."""
    at = _after_literal(data, at, end, _TYPE, 0, 5)
    if at < 0:
        return -1
    at, _ = _count(data, at, end, _CODE_MAX)
    if at < 0:
        return -1
    is_handle = _after_literal(data, at, end, _TYPE, 5, 14)
    if is_handle < 0:
        is_handle = _after_literal(data, at, end, _TYPE, 14, 24)
    at = _after_literal(data, at if is_handle < 0 else is_handle, end, _TYPE, 24, 29)
    if at < 0:
        return -1
    at, _ = _count(data, at, end, _CODE_MAX)
    return _after_literal(data, at, end, _TYPE, 29, 34) if at >= 0 else -1


@inlined
def _after_short_texts(data: Bytes, at: int, end: int) -> int:
    """The same for a name and a text that are looked at together; -1 where they are too long or have escapes."""
    if at + VECTOR > len(data):
        return -1
    opening = equal(data, at, _QUOTE)
    closing = opening & (opening - 1)
    second = closing & (closing - 1)
    last = second & (second - 1)
    others = equal(data, at, _BACKSLASH) | below(data, at, _SPACE)
    if not last or not opening & 1 or others & (last ^ (last - 1)):
        return -1
    between = at + lowest(closing) + 1
    after = at + lowest(last) + 1
    return after if data[between] == _COLON and lowest(second) == between + 1 - at and after <= end else -1


@compiled
def _known_name(data: Bytes, start: int, stop: int, guess: int, names: Bytes, name_bounds: Ints) -> int:
    """Which of the names these bytes are, or -1; those behind the guess are tried first."""
    count = len(name_bounds) - 1
    for turn in range(count):
        name = guess + turn
        if name >= count:
            name -= count
        if name_bounds[name + 1] - name_bounds[name] == stop - start:
            after = _after_literal(data, start, stop, names, name_bounds[name], name_bounds[name + 1])
            if after == stop:
                return name
    return -1


@compiled
def _image(
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
    """Where what follows an image begins, or OTHER_FORM, or OTHER_NAME and where that name is.

    `kind` is twice that of its values, one more where it may be empty.
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
            at = _after_literal(data, start, end, names, name_bounds[name], name_bounds[name + 1])
        if at < 0:
            at, _ = _after_text(data, start, end)
            if at < 0 or at >= end or data[at] != _COLON:
                return OTHER_FORM, 0
            at += 1
            name = _known_name(data, start, at, name, names, name_bounds)
            if name < 0:
                return OTHER_NAME, start
        column = name_columns[name]
        if cells[column, 0] != NOT_SENT:
            return OTHER_FORM, 0
        at, cells[column, 0], cells[column, 1], mark, mark_end = _value(data, at, end, kind >> 1)
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


@inlined
def _after_null(data: Bytes, at: int, end: int) -> int:
    """Where what follows a null begins, or -1."""
    if at + 4 > end or data[at] != _N or data[at + 1] != _U or data[at + 2] != _L or data[at + 3] != _L:
        return -1
    return at + 4
