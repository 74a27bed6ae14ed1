"""Looks for a form (`json_forms`) in many JSON texts: one pass over their bytes that proves it and notes what is where.

Everything here is machine code, in one file (see `compiled`). Places are offsets into the data.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ticdc_assets.protocols.byte_vectors import VECTOR, below, differing, equal, lowest
from ticdc_assets.protocols.compiled import compiled, inlined
from ticdc_assets.protocols.joined_texts import IS_NULL, NOT_SENT, Bytes, Ints, Places
from ticdc_assets.protocols.json_forms import COUNT, IMAGE, JUMP, LITERAL, MEMBERS, SET, TEXT, TEXTS, UNLESS
from ticdc_assets.tso import INT64_MAX

OTHER_FORM: Final = -1
OTHER_NAME: Final = -2
_QUOTE, _BACKSLASH, _COMMA, _COLON, _OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST, _ZERO, _NINE, _MINUS = b'"\\,:{}[]09-'
_U, _N, _L, _SPACE = b"unl "
_SPECIAL: Final = np.array([byte < _SPACE or byte in (_QUOTE, _BACKSLASH) for byte in range(256)])
_ESCAPED: Final = np.array([byte in b'"/\\bfnrt' for byte in range(256)])
_SAFE_DIGITS: Final = 18
"""So many are a number of 64 bits whatever they are."""
_CODE_DIGITS_MAX: Final = 9
_UNIT: Final = 6
"""An escape of four hexadecimal digits."""


@compiled
def scan(
    data: Bytes,
    bounds: Ints,
    steps: Ints,
    literals: Bytes,
    names: Bytes,
    name_bounds: Ints,
    name_columns: Ints,
    numbers: Ints,
    strings: Places,
    images: Places,
) -> tuple[int, int, int]:
    """How many texts have the form, from the first on; where the next one has not, and OTHER_FORM or OTHER_NAME.

    Text n is `data[bounds[n]:bounds[n + 1]]`. `names` are the names of columns with quotes and colon, `name_columns`
    which column each means. Of text n, `numbers[n, slot]`, `strings[n, slot]` and `images[which, n, column]` are set;
    the last two hold start and end. A column that an image does not have starts at NOT_SENT, one that is null at
    IS_NULL. OTHER_NAME is a name of a column that is not in `names`; a column twice in an image is OTHER_FORM.
    """
    for row in range(len(bounds) - 1):
        at, end = bounds[row], bounds[row + 1]
        step = 0
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
            elif does == TEXT:
                at, escaped = _after_text(data, at, end)
                if at >= 0 and first >= 0:
                    strings[row, first, 0] = begin + 1
                    strings[row, first, 1] = -at if escaped else at - 1
            elif does == TEXTS:
                at = _after_texts(data, at, end)
            elif does == MEMBERS:
                at = _after_members(data, at, end, first)
            elif does == IMAGE:
                at, where = _image(data, at, end, second, names, name_bounds, name_columns, images[first, row])
                if at == OTHER_NAME:
                    return row, where, OTHER_NAME
            if at < 0:
                return row, begin, OTHER_FORM
            step += 1
        if at != end:
            return row, at, OTHER_FORM
    return len(bounds) - 1, 0, 0


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
    at, _ = _count(data, at, end, 10**_CODE_DIGITS_MAX - 1)
    return at if at > start else -1


@compiled
def _after_members(data: Bytes, at: int, end: int, texts: int) -> int:
    """Where what follows an object of one member or more begins, or -1; its values are texts, or codes."""
    if at >= end or data[at] != _OPEN:
        return -1
    while True:
        after = _after_short_texts(data, at + 1, end) if texts else -1
        if after < 0:
            after = _after_member(data, at + 1, end, texts)
        at = after
        if at < 0 or at >= end:
            return -1
        if data[at] == _CLOSE:
            return at + 1
        if data[at] != _COMMA:
            return -1


@inlined
def _after_member(data: Bytes, at: int, end: int, texts: int) -> int:
    """Where what follows a name with its text or code begins, or -1."""
    at, _ = _after_text(data, at, end)
    if at < 0 or at >= end or data[at] != _COLON:
        return -1
    if texts:
        at, _ = _after_text(data, at + 1, end)
        return at
    return _after_code(data, at + 1, end)


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
    may_be_empty: int,
    names: Bytes,
    name_bounds: Ints,
    name_columns: Ints,
    cells: Places,
) -> tuple[int, int]:
    """Where what follows an image begins, or OTHER_FORM, or OTHER_NAME and where that name is."""
    for column in range(len(cells)):
        cells[column, 0] = NOT_SENT
        cells[column, 1] = 0
    if at + 1 >= end or data[at] != _OPEN:
        return OTHER_FORM, 0
    if may_be_empty and data[at + 1] == _CLOSE:
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
        start = at
        at, escaped = _after_text(data, start, end)
        if at >= 0:
            cells[column, 0] = start + 1
            cells[column, 1] = -at if escaped else at - 1
        else:
            at = _after_null(data, start, end)
            if at < 0:
                return OTHER_FORM, 0
            cells[column, 0] = IS_NULL
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
