"""Splits the rows of a dump into fields in one pass, which checks the format and records the offsets of the fields.

All functions are compiled (see `formats.jit`).
"""

from __future__ import annotations

from typing import Final

from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.protocols.formats.simd import VECTOR, equal, lowest
from ticdc_assets.protocols.formats.string_arrays import IS_NULL, Bytes, Ints, Places

FULL: Final = 0
CUT: Final = -1
"""The data end inside a row."""
OTHER_FORM: Final = -2
NO_QUOTE: Final = -1
QUOTED, HEX, BARE = 1, 2, 4
"""The forms of a column's values, as bits."""
_BACKSLASH, _QUOTE, _OPEN, _CLOSE, _COMMA, _SEMICOLON, _LF, _CR, _SPACE, _LETTER_X, _LETTER_N = b"\\'(),;\n\r xN"
_ZERO, _NINE, _MINUS, _PLUS, _DOT, _SMALL_E, _LARGE_E = b"09-+.eE"


@compiled
def scan_csv(
    data: Bytes,
    begin: int,
    quote: int,
    has_backslashes: bool,
    separator: Bytes,
    terminator: Bytes,
    null: Bytes,
    places: Places,
    bounds: Ints,
) -> tuple[int, int]:
    """The number of whole CSV rows from `begin` on, at most `len(places)`, and why it ends: FULL, CUT or OTHER_FORM.

    Row n is then `data[bounds[n]:bounds[n + 1]]`, and `places[n, field]` are its fields. `quote` is a byte or NO_QUOTE.
    A quote inside a field has a backslash before it where `has_backslashes`, else it is doubled. Where there is a
    quote, a bare field is a number or NULL; another one shows that the dump has another quote or text of NULL.
    """
    bounds[0] = begin
    for row in range(places.shape[0]):
        at = bounds[row]
        for field in range(places.shape[1]):
            if field:
                at = _after(data, at, separator)
            if at < 0:
                return row, at
            if at >= len(data):
                return row, CUT
            if data[at] == quote:
                at = _after_string(data, at + 1, quote, has_backslashes, places[row, field])
            else:
                end, other = (terminator, separator) if field + 1 == places.shape[1] else (separator, terminator)
                escapes = has_backslashes and quote == NO_QUOTE
                at = _after_bare(data, at, end, other, escapes, null, places[row, field])
                if at >= 0 and quote != NO_QUOTE and not _is_null_or_number(data, places[row, field]):
                    return row, OTHER_FORM
            if at < 0:
                return row, at
        at = _after(data, at, terminator)
        if at < 0:
            return row, at
        bounds[row + 1] = at
    return len(places), FULL


@compiled
def scan_inserts(
    data: Bytes, begin: int, has_backslashes: bool, prefix: Bytes, places: Places, bounds: Ints, forms: Bytes
) -> tuple[int, int]:
    """The same for rows of INSERT statements, which all begin with `prefix`. `begin` is a row or a statement.

    `forms` gets the forms of each column's values. A quote inside a string has a backslash before it where
    `has_backslashes`, else it is doubled.
    """
    bounds[0] = begin
    for row in range(places.shape[0]):
        at = bounds[row]
        while at < len(data) and data[at] in (_LF, _CR, _SPACE):
            at += 1
        if at < len(data) and data[at] != _OPEN:
            at = _after(data, at, prefix)
        if at < 0:
            return row, at
        if at >= len(data):
            return row, CUT
        if data[at] != _OPEN:
            return row, OTHER_FORM
        at += 1
        for field in range(places.shape[1]):
            at = _after_value(data, at, has_backslashes, places[row, field], forms, field)
            if at < 0:
                return row, at
            if at >= len(data):
                return row, CUT
            if data[at] != (_CLOSE if field + 1 == places.shape[1] else _COMMA):
                return row, OTHER_FORM
            at += 1
        if at >= len(data):
            return row, CUT
        if data[at] != _COMMA and data[at] != _SEMICOLON:
            return row, OTHER_FORM
        bounds[row + 1] = at + 1
    return len(places), FULL


@inlined
def _after_value(data: Bytes, at: int, has_backslashes: bool, cell: Places, forms: Bytes, field: int) -> int:
    """The end of a value in an INSERT, or CUT or OTHER_FORM."""
    if at + 1 >= len(data):
        return CUT
    if data[at] == _QUOTE:
        forms[field] |= QUOTED
        return _after_string(data, at + 1, _QUOTE, has_backslashes, cell)
    if data[at] == _LETTER_X and data[at + 1] == _QUOTE:
        forms[field] |= HEX
        return _after_string(data, at + 2, _QUOTE, False, cell)
    begin = at
    while at < len(data) and data[at] != _COMMA and data[at] != _CLOSE and data[at] != _QUOTE and data[at] != _LF:
        at += 1
    if at >= len(data):
        return CUT
    if at - begin == 4 and data[begin] == _LETTER_N:
        cell[0] = IS_NULL
        return at
    forms[field] |= BARE
    cell[0] = begin
    cell[1] = at
    return at if at > begin else OTHER_FORM


@inlined
def _after_string(data: Bytes, begin: int, quote: int, has_backslashes: bool, cell: Places) -> int:
    """The position after the closing quote of a field, or CUT or OTHER_FORM."""
    at, has_escapes = begin, False
    while True:
        at = _next(data, at, quote, _BACKSLASH if has_backslashes else quote)
        if at + 1 >= len(data):
            return CUT
        if data[at] != quote:  # a backslash
            at, has_escapes = at + 2, True
        elif data[at + 1] != quote:
            cell[0] = begin
            cell[1] = -1 - at if has_escapes else at
            return at + 1
        elif has_backslashes:
            return OTHER_FORM
        else:
            at, has_escapes = at + 2, True


@inlined
def _after_bare(
    data: Bytes, begin: int, end: Bytes, other: Bytes, has_backslashes: bool, null: Bytes, cell: Places
) -> int:
    """The end of a field without quotes, before `end`, or CUT or OTHER_FORM, also where `other` comes before."""
    at, has_escapes = begin, False
    while True:
        if at + len(end) > len(data):
            return CUT
        if data[at] == end[0] and _reads(data, at, end):
            break
        if data[at] == _LF:
            return OTHER_FORM
        if data[at] == other[0] and at + len(other) <= len(data) and _reads(data, at, other):
            return OTHER_FORM
        if has_backslashes and data[at] == _BACKSLASH:
            at, has_escapes = at + 1, True
        at += 1
    if at - begin == len(null) and _reads(data, begin, null):
        cell[0] = IS_NULL
        return at
    cell[0] = begin
    cell[1] = -1 - at if has_escapes else at
    return at


@inlined
def _is_null_or_number(data: Bytes, cell: Places) -> bool:
    """Whether a bare field is NULL or a number: Dumpling quotes all else where there is a quote."""
    begin, end = cell[0], cell[1]
    if begin == IS_NULL:
        return True
    has_digit = False
    for at in range(begin, end):
        if _ZERO <= data[at] <= _NINE:
            has_digit = True
        elif data[at] not in (_MINUS, _PLUS, _DOT, _SMALL_E, _LARGE_E):
            return False
    return has_digit


@inlined
def _after(data: Bytes, at: int, text: Bytes) -> int:
    """The position after this text, or CUT or OTHER_FORM."""
    for place in range(len(text)):
        if at + place >= len(data):
            return CUT
        if data[at + place] != text[place]:
            return OTHER_FORM
    return at + len(text)


@inlined
def _reads(data: Bytes, begin: int, text: Bytes) -> bool:
    for place in range(len(text)):  # noqa: SIM110  Numba has no `all` of a generator
        if data[begin + place] != text[place]:
            return False
    return True


@inlined
def _next(data: Bytes, at: int, byte: int, other: int) -> int:
    """The next position of either byte, or the end of the data."""
    while at + VECTOR <= len(data):
        found = equal(data, at, byte) | equal(data, at, other)
        if found:
            return at + lowest(found)
        at += VECTOR
    while at < len(data) and data[at] != byte and data[at] != other:
        at += 1
    return at
