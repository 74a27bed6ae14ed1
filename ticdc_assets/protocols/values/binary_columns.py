"""Decodes whole columns of text to binary: Base64, Latin-1 (U+0000 to U+00FF are the bytes 0 to 255), and Go's string
literals, of which `open_protocol.decoder.unquote` reads one.

The loops are compiled (see `formats.jit`).
"""

from __future__ import annotations

import string
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.protocols.formats.simd import VECTOR, copied, equal, lowest
from ticdc_assets.protocols.formats.span_columns import encode
from ticdc_assets.protocols.formats.string_arrays import BACKSLASH, Bytes, Ints, Places, joined, read_only

_NONE, _PAD = 0xFF, 0x40
_BITS: Final = 0x3F
_FIRST_LEAD, _LAST_LEAD, _HIGH_HALF = 0xC2, 0xC3, 0x40
"""UTF-8 encodes U+0080 to U+00BF with the first lead byte, U+00C0 to U+00FF with the second.

After the second lead byte, the high-half bit has to be added to the continuation byte."""
_LEADS: Final = 0xFE
_BAD: Final = -1
_BYTE, _SHORT, _LONG = b"xuU"
_DIGITS: Final = {_BYTE: 2, _SHORT: 4, _LONG: 8}
_SURROGATES_BEGIN, _SURROGATES_END, _POINT_MAX = 0xD800, 0xDFFF, 0x10FFFF


def _table(values: dict[int, int]) -> Bytes:
    table = np.full(256, _NONE, np.uint8)
    table[list(values)] = list(values.values())
    return read_only(table)


_BASE64: Final = f"{string.ascii_uppercase}{string.ascii_lowercase}{string.digits}+/".encode()
_BASE64_VALUES: Final = _table({byte: bits for bits, byte in enumerate(_BASE64)} | {ord("="): _PAD})
"""The six bits that each character stands for."""


def base64_column(texts: pa.Array) -> pa.Array | None:
    """The texts decoded; None if one is not of groups of four characters, of which only the last one is padded.
    `texts` is a string or binary array."""
    present = texts.fill_null("") if texts.null_count else texts
    _, offsets, data = present.buffers()
    if data is None:
        return texts.cast(pa.binary())
    ends = np.frombuffer(offsets, np.int32)[present.offset :][: len(texts) + 1]
    found_ends = np.zeros(len(texts) + 1, np.int32)
    found = np.empty((ends[-1] - ends[0]) // 4 * 3, np.uint8)
    if not _decode_base64(np.frombuffer(data, np.uint8), ends, _BASE64_VALUES, found, found_ends):
        return None
    return _binary_array(texts, found_ends, found)


@compiled
def _decode_base64(data: Bytes, ends: Places, values: Bytes, found: Bytes, found_ends: Places) -> bool:
    """Whether all texts are Base64. The bytes of padding are overwritten by the next text's."""
    place, seen = 0, 0
    for text in range(len(ends) - 1):
        at, end = ends[text], ends[text + 1]
        if (end - at) & 3:
            return False
        last = end - 4
        while at < end:
            first, second = int(np.int64(values[data[at]])), int(np.int64(values[data[at + 1]]))
            third, fourth = int(np.int64(values[data[at + 2]])), int(np.int64(values[data[at + 3]]))
            padding = 0
            if at == last and fourth == _PAD:
                fourth, padding = 0, 1
                if third == _PAD:
                    third, padding = 0, 2
            seen |= first | second | third | fourth
            found[place] = (first << 2 | second >> 4) & 0xFF
            found[place + 1] = (second << 4 | third >> 2) & 0xFF
            found[place + 2] = (third << 6 | fourth) & 0xFF
            at, place = at + 4, place + 3 - padding
        found_ends[text + 1] = place
    return seen <= _BITS


def latin1_column(texts: pa.Array) -> pa.Array | None:
    """The texts as binary; None if one has a character above U+00FF. `texts` is a string array."""
    _, offsets, data = texts.buffers()
    if data is None:
        return texts.cast(pa.binary())
    ends = np.frombuffer(offsets, np.int32)[texts.offset :][: len(texts) + 1]
    found_ends = np.zeros(len(texts) + 1, np.int32)
    found = np.empty(ends[-1] - ends[0] + 1, np.uint8)
    if not _decode_latin1(np.frombuffer(data, np.uint8), ends, found, found_ends):
        return None
    return _binary_array(texts, found_ends, found)


def _binary_array(texts: pa.Array, ends: Places, data: Bytes) -> pa.Array:
    """The values between these ends; null where the texts are."""
    validity = texts.is_valid().buffers()[1] if texts.null_count else None
    buffers = [validity, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(texts), buffers, texts.null_count)


@compiled
def _decode_latin1(data: Bytes, ends: Places, found: Bytes, found_ends: Places) -> bool:
    """Whether all characters are at most U+00FF. The output of a lead byte is overwritten by the next byte's."""
    place, high, largest = 0, 0, 0
    for text in range(len(ends) - 1):
        for at in range(ends[text], ends[text + 1]):
            byte = data[at]
            found[place] = byte | high
            place += (byte & _LEADS) != _FIRST_LEAD
            high = _HIGH_HALF if byte == _LAST_LEAD else 0
            largest = max(largest, byte)
        found_ends[text + 1] = place
    return largest <= _LAST_LEAD


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
    if digits == 2:  # `\xff` is a byte
        filled[place] = number
        return place + 1
    return encode(number, filled, place)
