"""Splits CSV records into fields in one pass, which checks the format and records the offsets of the fields.

All functions are compiled (see `formats.jit`). Only the leading fields of a record are
interpreted.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.protocols.formats.simd import VECTOR, equal, lowest
from ticdc_assets.protocols.formats.string_arrays import IS_NULL, Bytes, Ints, Mask, Places
from ticdc_assets.tso import INT64_MAX

NO_QUOTE: Final = -1
FULL: Final = 0
CUT: Final = -1
"""The data end inside a record."""
OTHER_FORM: Final = -2
_BACKSLASH, _CR, _LF, _ZERO, _NINE, _MINUS, _LETTER_N, _LETTER_R, _I, _U, _D = b"\\\r\n09-nrIUD"
_TRUE, _FALSE = np.frombuffer(b"true", np.uint8), np.frombuffer(b"false", np.uint8)
_SAFE_DIGITS: Final = 18
"""Any number of this many digits fits 64 bits."""
_DIGITS_MAX: Final = 19


@compiled
def scan(
    data: Bytes,
    begin: int,
    quote: int,
    delimiter: Bytes,
    null: Bytes,
    places: Places,
    bounds: Ints,
) -> tuple[int, int]:
    """The number of consecutive whole records, at most `len(places)`, and why it ends: FULL, CUT or OTHER_FORM.

    Record n is then `data[bounds[n]:bounds[n + 1]]`, and `places[n, field]` its fields. All records have the same
    number of fields. `quote` is a byte, or NO_QUOTE; then a backslash may stand before n, r, itself and the delimiter's
    characters.
    """
    bounds[0] = begin
    for row in range(places.shape[0]):
        at = bounds[row]
        for field in range(places.shape[1]):
            if field:
                at = _after(data, at, delimiter)
            if at >= 0:
                at = _after_field(data, at, quote, delimiter, null, places[row, field])
            if at < 0:
                return row, at
        at = _after_line_end(data, at)
        if at < 0:
            return row, at
        bounds[row + 1] = at
    return len(places), FULL


@inlined
def _after(data: Bytes, at: int, delimiter: Bytes) -> int:
    """The position after a delimiter, or CUT or OTHER_FORM."""
    if at + len(delimiter) > len(data):
        return CUT
    for place in range(len(delimiter)):
        if data[at + place] != delimiter[place]:
            return OTHER_FORM
    return at + len(delimiter)


@inlined
def _after_line_end(data: Bytes, at: int) -> int:
    """The position after LF or CRLF, or CUT or OTHER_FORM."""
    if at < len(data) and data[at] == _CR:
        at += 1
    if at >= len(data):
        return CUT
    return at + 1 if data[at] == _LF else OTHER_FORM


@inlined
def _after_field(data: Bytes, at: int, quote: int, delimiter: Bytes, null: Bytes, cell: Places) -> int:
    """The position after a field, or CUT or OTHER_FORM."""
    if at >= len(data):
        return CUT
    if data[at] == quote:
        return _after_quoted(data, at + 1, quote, cell)
    return _after_bare(data, at, quote, delimiter, null, cell)


@inlined
def _after_quoted(data: Bytes, begin: int, quote: int, cell: Places) -> int:
    """The position after the quote that closes a field, or CUT."""
    at, doubled = begin, False
    while True:
        at = _next(data, at, quote)
        if at + 1 >= len(data):
            return CUT
        if data[at + 1] != quote:
            cell[0] = begin
            cell[1] = -1 - at if doubled else at
            return at + 1
        at, doubled = at + 2, True


@inlined
def _next(data: Bytes, at: int, byte: int) -> int:
    """The next position of the byte, or the end of the data."""
    while at + VECTOR <= len(data):
        found = equal(data, at, byte)
        if found:
            return at + lowest(found)
        at += VECTOR
    while at < len(data) and data[at] != byte:
        at += 1
    return at


@inlined
def _after_bare(data: Bytes, begin: int, quote: int, delimiter: Bytes, null: Bytes, cell: Places) -> int:
    """The end of a field without quotes, or CUT or OTHER_FORM."""
    at, has_escapes, has_others = begin, False, False
    mark = _BACKSLASH if quote == NO_QUOTE else quote
    while True:
        at = _stop(data, at, delimiter[0], mark)
        if at >= len(data):
            return CUT
        byte = data[at]
        if byte == delimiter[0]:
            after = _after(data, at, delimiter)
            if after == CUT:
                return CUT
            if after >= 0:
                break
            at += 1
        elif byte == _BACKSLASH and quote == NO_QUOTE:
            after = _after_escape(data, at, delimiter)
            if after == CUT or (after == OTHER_FORM and (data[at + 1] == _CR or data[at + 1] == _LF)):
                return after
            has_escapes = True
            has_others |= after == OTHER_FORM
            at += 2
        else:
            break
    if _reads(data, begin, at, null):
        cell[0] = IS_NULL
        return at
    if quote != NO_QUOTE and not _is_number_or_word(data, begin, at):
        return OTHER_FORM
    cell[0] = begin
    cell[1] = -1 - at if has_escapes else at
    return OTHER_FORM if has_others else at


@inlined
def _is_number_or_word(data: Bytes, begin: int, end: int) -> bool:
    """Whether a field begins as a number, or is true or false: TiCDC quotes all else where there is a quote."""
    at = begin + 1 if begin < end and data[begin] == _MINUS else begin
    if at < end and _ZERO <= data[at] <= _NINE:
        return True
    return _reads(data, begin, end, _TRUE) or _reads(data, begin, end, _FALSE)


@inlined
def _after_escape(data: Bytes, at: int, delimiter: Bytes) -> int:
    """The position after a backslash and the character that it escapes, or CUT or OTHER_FORM."""
    if at + 1 >= len(data):
        return CUT
    at += 1
    if data[at] in (_BACKSLASH, _LETTER_N, _LETTER_R):
        return at + 1
    for begin in range(len(delimiter)):
        if delimiter[begin] == data[at]:
            size = 1
            while begin + size < len(delimiter) and 0x80 <= delimiter[begin + size] <= 0xBF:
                size += 1
            if at + size > len(data):
                return CUT
            if _reads(data, at, at + size, delimiter[begin : begin + size]):
                return at + size
    return OTHER_FORM


@inlined
def _stop(data: Bytes, at: int, first: int, mark: int) -> int:
    """The next position of a line end, the mark or the first byte of a delimiter, or the end of the data."""
    while at + VECTOR <= len(data):
        found = equal(data, at, first) | equal(data, at, mark) | equal(data, at, _CR) | equal(data, at, _LF)
        if found:
            return at + lowest(found)
        at += VECTOR
    while at < len(data) and data[at] != first and data[at] != mark and data[at] != _CR and data[at] != _LF:
        at += 1
    return at


@inlined
def _reads(data: Bytes, begin: int, end: int, text: Bytes) -> bool:
    if end - begin != len(text):
        return False
    for place in range(len(text)):  # noqa: SIM110  Numba has no `all` of a generator
        if data[begin + place] != text[place]:
            return False
    return True


@compiled
def lead(
    data: Bytes,
    places: Places,
    commit_field: int,
    update_field: int,
    ops: Bytes,
    commit_ts: Ints,
    is_update: Mask,
) -> bool:
    """Whether all records begin as they must, with the same table and schema.

    `commit_field` and `update_field` are the fields of the commit-ts and of is-update, or 0 where records have none.
    The operations, commit_ts and is-update flags of the records are written to `ops`, `commit_ts` and `is_update`.
    """
    for row in range(len(places)):
        cells = places[row]
        if cells[0, 0] < 0 or cells[0, 1] - cells[0, 0] != 1:
            return False
        ops[row] = data[cells[0, 0]]
        if ops[row] not in (_I, _U, _D):
            return False
        if not _same(data, cells[1], places[0, 1]) or not _same(data, cells[2], places[0, 2]):
            return False
        if commit_field:
            commit_ts[row] = _number(data, cells[commit_field, 0], cells[commit_field, 1])
            if commit_ts[row] < 0:
                return False
        if update_field:
            begin, end = cells[update_field, 0], cells[update_field, 1]
            is_update[row] = _reads(data, begin, end, _TRUE)
            if begin < 0 or not (is_update[row] or _reads(data, begin, end, _FALSE)):
                return False
    return True


@inlined
def _same(data: Bytes, one: Places, other: Places) -> bool:
    """Whether two texts, of one character or more, are written alike."""
    begin, size = one[0], _size(one)
    if begin < 0 or size <= 0 or size != _size(other):
        return False
    for place in range(size):  # noqa: SIM110  as above
        if data[begin + place] != data[other[0] + place]:
            return False
    return True


@inlined
def _size(cell: Places) -> int:
    return int((cell[1] if cell[1] >= 0 else -1 - cell[1]) - cell[0])


@inlined
def _number(data: Bytes, begin: int, end: int) -> int:
    """The 64-bit number of these digits, or -1."""
    if begin < 0 or end <= begin or end - begin > _DIGITS_MAX:
        return -1
    value = 0
    for place in range(begin, end):
        digit = int(data[place]) - _ZERO
        if not 0 <= digit <= 9 or (place - begin >= _SAFE_DIGITS and value > (INT64_MAX - digit) // 10):
            return -1
        value = value * 10 + digit
    return value
