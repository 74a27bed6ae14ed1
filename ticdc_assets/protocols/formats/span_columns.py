"""Builds Arrow columns from the offsets of texts by row and column, and resolves escapes.

All functions are compiled (see `formats.jit`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.protocols.formats.simd import VECTOR, copied, equal, lowest, signed
from ticdc_assets.protocols.formats.string_arrays import NOT_SENT, Bytes, Ints, Mask, Places, read_only

_BACKSLASH, _U, _LETTER_N, _LETTER_R = b"\\unr"
_JSON, _LINE_ENDS, _DOUBLED, _MYSQL = range(4)
_MEANT: Final = np.arange(256, dtype=np.uint8)
"""The character that JSON's escape of one letter stands for."""
_MEANT[list(b"bfnrt")] = list(b"\b\f\n\r\t")
_MYSQL_MEANT: Final = np.arange(256, dtype=np.uint8)
"""The character that MySQL's escape of one letter stands for."""
_MYSQL_MEANT[list(b"0bnrtZ")] = list(b"\0\b\n\r\t\x1a")


@dataclass(frozen=True, slots=True)
class Escapes:
    """How special characters are escaped: the byte that an escape begins with, and what follows it."""

    mark: int
    kind: int

    @staticmethod
    def doubled(quote: int) -> Escapes:
        """A quote is written twice."""
        return Escapes(quote, _DOUBLED)


JSON_ESCAPES: Final = Escapes(_BACKSLASH, _JSON)
"""The escapes of JSON strings."""
BACKSLASHES: Final = Escapes(_BACKSLASH, _LINE_ENDS)
"""The escapes of texts without quotes: a backslash before n or r, which mean line ends, or before a character that
means itself."""
MYSQL_ESCAPES: Final = Escapes(_BACKSLASH, _MYSQL)
"""The escapes of MySQL's string literals: a backslash before 0, b, n, r, t or Z, or before a character that means
itself."""


def columns_of(
    data: Bytes, image: Places, under: Places, rows: Mask, escapes: Escapes = JSON_ESCAPES
) -> tuple[pa.Array, ...]:
    """The texts of each column as an array of the length of `rows`; null in rows that are not selected.

    Args:
        data: uint8, the bytes to which all offsets refer; they must be UTF-8.
        image, under: int64 of the shape (row, column, 2), start and end of each text, as a scan records them. A value
            that `image` does not have comes from `under`; it is null if neither has it.
        rows: bool, the selected rows.
        escapes: how characters are escaped in the texts; all escapes must be well-formed.
    """
    count, columns = image.shape[0], image.shape[1]
    sizes = np.zeros(columns, np.int64)
    _measure(image, under, rows, sizes)
    ends = np.cumsum(sizes + VECTOR) - VECTOR
    starts = ends - sizes
    filled = np.empty(int(ends[-1]) + VECTOR if columns else 0, np.uint8)
    offsets = np.empty((columns, count + 1), np.int32)
    validity = np.zeros((columns, (count + 7) // 8), np.uint8)
    nulls = np.zeros(columns, np.int64)
    _fill(
        read_only(data),
        image,
        under,
        rows,
        escapes.mark,
        escapes.kind,
        filled,
        starts,
        starts.copy(),
        offsets,
        validity,
        nulls,
    )
    return tuple(
        pa.Array.from_buffers(
            pa.string(),
            count,
            [
                pa.py_buffer(validity[column]) if nulls[column] else None,
                pa.py_buffer(offsets[column]),
                pa.py_buffer(filled[starts[column] : ends[column]]),
            ],
            int(nulls[column]),
        )
        for column in range(columns)
    )


@compiled
def _measure(image: Places, under: Places, rows: Mask, sizes: Ints) -> None:
    """The largest number of bytes that each column can have."""
    for row in range(image.shape[0]):
        if not rows[row]:
            continue
        for column in range(image.shape[1]):
            start, end = image[row, column, 0], image[row, column, 1]
            if start == NOT_SENT:
                start, end = under[row, column, 0], under[row, column, 1]
            if start >= 0:
                sizes[column] += (end if end >= 0 else -1 - end) - start


@compiled
def _fill(
    data: Bytes,
    image: Places,
    under: Places,
    rows: Mask,
    mark: int,
    kind: int,
    filled: Bytes,
    begins: Ints,
    places: Ints,
    offsets: Places,
    validity: Bytes,
    nulls: Ints,
) -> None:
    """Fills the columns row by row, in the order of the data; `places`, at first `begins`, has each column's end.

    Up to VECTOR bytes after the end of a column are overwritten.
    """
    columns = image.shape[1]
    for row in range(image.shape[0]):
        for column in range(columns):
            offsets[column, row] = places[column] - begins[column]
            start, end = image[row, column, 0], image[row, column, 1]
            if start == NOT_SENT:
                start, end = under[row, column, 0], under[row, column, 1]
            if start < 0 or not rows[row]:
                nulls[column] += 1
                continue
            validity[column, row >> 3] |= np.uint8(1 << (row & 7))
            place = places[column]
            if end >= 0:
                _copy(data, start, end, filled, place)
                places[column] = place + end - start
            else:
                places[column] = _unescape(data, start, -1 - end, mark, kind, filled, place)
    for column in range(columns):
        offsets[column, image.shape[0]] = places[column] - begins[column]


@inlined
def _copy(data: Bytes, start: int, end: int, filled: Bytes, place: int) -> None:
    while start < end and start + VECTOR <= len(data):
        copied(data, start, filled, place)
        start, place = start + VECTOR, place + VECTOR
    while start < end:
        filled[place] = data[start]
        start, place = start + 1, place + 1


@compiled
def _unescape(data: Bytes, at: int, end: int, mark: int, kind: int, filled: Bytes, place: int) -> int:
    """The position in `filled` after the unescaped bytes."""
    while at < end:
        if at + VECTOR <= len(data):
            copied(data, at, filled, place)
            found = equal(data, at, mark)
            size = min(lowest(found) if found else VECTOR, end - at)
            at, place = at + size, place + size
            if at == end:
                break
        if data[at] != mark:
            filled[place] = data[at]
            at, place = at + 1, place + 1
            continue
        letter = data[at + 1]
        if kind == _JSON and letter == _U:
            code = _unit(data, at + 2)
            at += 6
            if 0xD800 <= code <= 0xDBFF:
                code = 0x10000 + ((code - 0xD800) << 10) + _unit(data, at + 2) - 0xDC00
                at += 6
            place = encode(code, filled, place)
            continue
        is_meant = kind == _JSON or (kind == _LINE_ENDS and letter in (_LETTER_N, _LETTER_R))
        filled[place] = _MYSQL_MEANT[letter] if kind == _MYSQL else _MEANT[letter] if is_meant else letter
        at, place = at + 2, place + 1
    return place


@inlined
def _unit(data: Bytes, at: int) -> int:
    """The number that four hexadecimal digits stand for."""
    value = 0
    for place in range(at, at + 4):
        byte = signed(data[place])
        value = value * 16 + (byte - 48 if byte <= 57 else (byte | 32) - 87)
    return value


@inlined
def encode(code: int, filled: Bytes, place: int) -> int:
    """The position in `filled` after the character's UTF-8, which is written there."""
    if code < 0x80:
        filled[place] = np.uint8(code)
        return place + 1
    if code < 0x800:
        filled[place] = np.uint8(0xC0 | code >> 6)
    else:
        if code < 0x10000:
            filled[place] = np.uint8(0xE0 | code >> 12)
        else:
            filled[place] = np.uint8(0xF0 | code >> 18)
            place += 1
            filled[place] = np.uint8(0x80 | code >> 12 & 0x3F)
        place += 1
        filled[place] = np.uint8(0x80 | code >> 6 & 0x3F)
    filled[place + 1] = np.uint8(0x80 | code & 0x3F)
    return place + 2
