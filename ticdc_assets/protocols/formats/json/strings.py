"""The strings of JSON texts, with their escapes. All functions are compiled (see `formats.jit`).

`at` is the offset at which a string begins, `end` the end of the text.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.protocols.formats.simd import VECTOR, below, equal, lowest, signed
from ticdc_assets.protocols.formats.string_arrays import Bytes

_QUOTE, _BACKSLASH, _COMMA, _COLON, _OPEN_LIST, _CLOSE_LIST, _ZERO, _NINE, _U, _SPACE = b'"\\,:[]09u '
_SPECIAL: Final = np.array([byte < _SPACE or byte in (_QUOTE, _BACKSLASH) for byte in range(256)])
_ESCAPED: Final = np.array([byte in b'"/\\bfnrt' for byte in range(256)])
_UNIT: Final = 6
"""An escape of four hexadecimal digits."""


@inlined
def read_string(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """The offset after a string, or -1; the start and the end of its text, as in `Places`."""
    after, escaped = after_text(data, at, end)
    return after, at + 1, -after if escaped else after - 1


@inlined
def after_text(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """The offset after a string, or -1; and whether it has escapes."""
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
    """The offset after the string whose rest begins at `at`, or -1."""
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
def _after_escape(data: Bytes, at: int, end: int) -> int:
    """The offset after an escape, or -1; surrogates come in pairs."""
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
def _hex(data: Bytes, at: int) -> int:
    """The number that four hexadecimal digits stand for, or -1."""
    value = 0
    for place in range(at, at + 4):
        byte = signed(data[place])
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
def _special(data: Bytes, at: int, end: int) -> int:
    """The offset of the next quote, backslash or control character; `end` or more if there is none."""
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
def after_texts(data: Bytes, at: int, end: int) -> int:
    """The offset after a list of strings, or -1."""
    if at + 1 >= end or data[at] != _OPEN_LIST:
        return -1
    at += 1
    if data[at] == _CLOSE_LIST:
        return at + 1
    while True:
        at, _ = after_text(data, at, end)
        if at < 0 or at >= end:
            return -1
        at += 1
        if data[at - 1] == _CLOSE_LIST:
            return at
        if data[at - 1] != _COMMA:
            return -1


@inlined
def after_short_texts(data: Bytes, at: int, end: int) -> int:
    """The offset after a name and its string, read as one vector; -1 if they are too long or have escapes."""
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
