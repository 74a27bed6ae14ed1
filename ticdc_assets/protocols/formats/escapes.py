"""Decodes Go string literals in whole columns: the bulk form of `open_protocol.decoder.unquote`.

The loop over bytes is compiled (see `formats.jit`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.protocols.formats.simd import VECTOR, copied, equal, lowest
from ticdc_assets.protocols.formats.string_arrays import BACKSLASH, Bytes, Ints, Places, joined, read_only

_NONE: Final = 0xFF
_BAD: Final = -1
_BYTE, _SHORT, _LONG = b"xuU"
_DIGITS: Final = {_BYTE: 2, _SHORT: 4, _LONG: 8}
_TWO_BYTES, _THREE_BYTES, _FOUR_BYTES, _POINT_MAX = 0x80, 0x800, 0x10000, 0x10FFFF
_SURROGATES_BEGIN, _SURROGATES_END = 0xD800, 0xDFFF


def _table(values: dict[int, int]) -> Bytes:
    table = np.full(256, _NONE, np.uint8)
    table[list(values)] = list(values.values())
    return read_only(table)


_HEX: Final = _table({ord(f"{n:x}"): n for n in range(16)} | {ord(f"{n:X}"): n for n in range(16)})
_CODES: Final = _table(dict(zip(b"abfnrtv\\\"'", b"\a\b\f\n\r\t\v\\\"'", strict=True)))
"""The byte that each single letter after a backslash means."""
_LENGTHS: Final = _table(_DIGITS)
"""The hexadecimal digits after a letter that has some."""


def unescaped(texts: pa.Array) -> pa.Array | None:
    """The bytes that the strings of an array encode; None if one has an escape that is not read here: an unknown one,
    an octal one, or a surrogate."""
    data, offsets = joined(texts.fill_null(""))
    filled = np.empty(len(data) + VECTOR, np.uint8)
    places = np.empty(len(offsets), np.int32)
    end = _unescape(read_only(data), offsets, _CODES, _HEX, _LENGTHS, filled, places)
    if end == _BAD:
        return None
    buffers = [None, pa.py_buffer(places), pa.py_buffer(filled[:end])]
    found = pa.Array.from_buffers(pa.binary(), len(texts), buffers)
    return pc.if_else(texts.is_valid(), found, pa.scalar(None, pa.binary())) if texts.null_count else found


@compiled
def _unescape(
    data: Bytes, offsets: Ints, codes: Bytes, hexes: Bytes, lengths: Bytes, filled: Bytes, places: Places
) -> int:
    """The number of bytes in `filled`, or _BAD; `places` are where each value begins there. An escape is longer than
    the bytes that it encodes. Up to VECTOR bytes after the end are overwritten."""
    place = 0
    for value in range(len(offsets) - 1):
        places[value] = place
        at, end = offsets[value], offsets[value + 1]
        while at < end:
            plain = _plain(data, at, end, filled, place)
            at, place = at + plain, place + plain
            if at < end and data[at] == BACKSLASH:
                if at + 1 == end:
                    return _BAD
                digits = int(np.int64(lengths[data[at + 1]]))
                if digits == _NONE:
                    code = codes[data[at + 1]]
                    if code == _NONE:
                        return _BAD
                    filled[place] = code
                    place, at = place + 1, at + 2
                else:
                    number = _hexadecimal(data, at + 2, digits, end, hexes)
                    place, at = _written(number, digits, filled, place), at + 2 + digits
                    if place == _BAD:
                        return _BAD
    places[len(offsets) - 1] = place
    return place


@inlined
def _plain(data: Bytes, at: int, end: int, filled: Bytes, place: int) -> int:
    """How many bytes were copied, of which none is a backslash: less than a vector where one follows."""
    if at + VECTOR <= len(data):
        copied(data, at, filled, place)
        found = equal(data, at, BACKSLASH)
        return min(lowest(found) if found else VECTOR, end - at)
    if data[at] == BACKSLASH:
        return 0
    filled[place] = data[at]
    return 1


@inlined
def _hexadecimal(data: Bytes, at: int, digits: int, end: int, hexes: Bytes) -> int:
    if at + digits > end:
        return _BAD
    number = 0
    for digit in range(digits):
        code = int(np.int64(hexes[data[at + digit]]))
        if code == _NONE:
            return _BAD
        number = number << 4 | code
    return number


@inlined
def _written(number: int, digits: int, filled: Bytes, place: int) -> int:
    """The position after a byte of two digits, or after a character in UTF-8; _BAD if the number is no character."""
    if number < 0 or number > _POINT_MAX or _SURROGATES_BEGIN <= number <= _SURROGATES_END:
        return _BAD
    if digits == 2 or number < _TWO_BYTES:  # `\xff` is a byte
        filled[place] = number
        return place + 1
    if number < _THREE_BYTES:
        filled[place] = 0xC0 | number >> 6
        more = 1
    elif number < _FOUR_BYTES:
        filled[place] = 0xE0 | number >> 12
        more = 2
    else:
        filled[place] = 0xF0 | number >> 18
        more = 3
    for byte in range(more):
        filled[place + 1 + byte] = 0x80 | (number >> 6 * (more - 1 - byte) & 0x3F)
    return place + 1 + more
