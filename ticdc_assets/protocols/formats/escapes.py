"""Decodes Go string literals in whole columns: the bulk form of `open_protocol.go_strings.unquote`."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.protocols.formats.string_arrays import BACKSLASH, Bytes, Ints, Mask, joined

_NONE: Final = 0xFF
_TWO_BYTES, _THREE_BYTES, _FOUR_BYTES, _POINT_MAX = 0x80, 0x800, 0x10000, 0x10FFFF
_SURROGATES: Final = (0xD800, 0xDFFF)
_FIRST: Final = np.array([0, 0, 0xC0, 0xE0, 0xF0])
"""How the first byte of a character of so many bytes begins in UTF-8."""


def _table(values: dict[int, int]) -> Bytes:
    table = np.full(256, _NONE, np.uint8)
    table[list(values)] = list(values.values())
    return table


_HEX: Final = _table({ord(f"{n:x}"): n for n in range(16)} | {ord(f"{n:X}"): n for n in range(16)})
_BYTE, _UNIT, _POINT = 4, 6, 10
"""How long `\\xff`, `\\u1234` and `\\U00012345` are."""


_CODES: Final = _table(dict(zip(b"abfnrtv\\\"'", b"\a\b\f\n\r\t\v\\\"'", strict=True)))
"""The byte that each single letter after a backslash means."""
_LENGTHS: Final = np.full(256, 2)
"""The length of each escape, by the letter after its backslash."""
_LENGTHS[list(b"xuU")] = (_BYTE, _UNIT, _POINT)


def unescaped(texts: pa.Array) -> pa.Array | None:
    """The bytes that the strings of an array stand for; None where one has an escape that is not read here: unknown
    ones, octal ones, and surrogates."""
    data, offsets = joined(texts.fill_null(""))
    padded = np.concatenate((data, np.zeros(_POINT, np.uint8)))
    at = escaping(data)
    lengths = _LENGTHS[padded[at + 1]]
    kept = np.ones(len(data), np.bool_)
    if not (
        _inside(at, at + lengths, offsets)
        and _simple(padded, at[lengths == 2], kept, _CODES)
        and _bytes(padded, at[lengths == _BYTE], kept)
        and _points(padded, at[lengths == _UNIT], kept, digits=4)
        and _points(padded, at[lengths == _POINT], kept, digits=8)
    ):
        return None
    places = (offsets - np.searchsorted(np.flatnonzero(~kept), offsets)).astype(np.int32)
    raw = padded[: len(data)][kept]
    found = pa.Array.from_buffers(pa.binary(), len(texts), [None, pa.py_buffer(places), pa.py_buffer(raw)])
    return pc.if_else(texts.is_valid(), found, pa.scalar(None, pa.binary())) if texts.null_count else found


def _inside(escapes: Ints, ends: Ints, offsets: Ints) -> bool:
    """Whether every escape ends in the value it begins in."""
    return bool((ends <= offsets[np.searchsorted(offsets, escapes, side="right")]).all())


def _simple(data: Bytes, at: Ints, kept: Mask, meanings: Bytes) -> bool:
    """`\\n` and its like."""
    codes = meanings[data[at + 1]]
    data[at] = codes
    kept[at + 1] = False
    return not (codes == _NONE).any()


def _bytes(data: Bytes, at: Ints, kept: Mask) -> bool:
    """`\\xff`."""
    high, low = _HEX[data[at + 2]], _HEX[data[at + 3]]
    data[at] = (high << 4) | (low & 0xF)
    for place in (1, 2, 3):
        kept[at + place] = False
    return not ((high == _NONE) | (low == _NONE)).any()


def _points(data: Bytes, at: Ints, kept: Mask, digits: int) -> bool:
    """`\\u1234` and `\\U00012345`, as UTF-8."""
    if not len(at):
        return True
    found = _HEX[data[at[:, None] + np.arange(2, 2 + digits)]]
    point = (found.astype(np.int64) << np.arange(4 * digits - 4, -4, -4)).sum(axis=1)
    bad = (found == _NONE).any(axis=1) | ((point >= _SURROGATES[0]) & (point <= _SURROGATES[1])) | (point > _POINT_MAX)
    if bad.any():
        return False
    length = 1 + (point >= _TWO_BYTES) + (point >= _THREE_BYTES) + (point >= _FOUR_BYTES)
    for place in range(4):
        rest = point >> 6 * np.maximum(length - 1 - place, 0)
        data[at + place] = _FIRST[length] | rest if place == 0 else 0x80 | (rest & 0x3F)
        kept[at + place] = place < length
    for place in range(4, 2 + digits):
        kept[at + place] = False
    return True


def escaping(data: Bytes) -> Ints:
    """The backslashes that escape the next character: the first, third, .. of each run."""
    slashes = np.flatnonzero(data == BACKSLASH)
    if not len(slashes):
        return slashes
    is_first = np.empty(len(slashes), np.bool_)
    is_first[0] = True
    np.not_equal(slashes[1:], slashes[:-1] + 1, out=is_first[1:])
    first = np.maximum.accumulate(np.where(is_first, slashes, 0))
    found: Ints = slashes[(slashes - first) % 2 == 0]
    return found
