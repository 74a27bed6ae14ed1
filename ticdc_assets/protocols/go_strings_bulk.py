"""Go string literals of whole columns: what `go_strings.unquote` does for one value, for all at once."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.protocols.json_strings import Bytes, Ints, escaping, joined
from ticdc_assets.protocols.message_rows import Mask

_SIMPLE: Final = dict(zip(b"abfnrtv\\\"'", b"\a\b\f\n\r\t\v\\\"'", strict=True))
_NONE: Final = 0xFF
_TWO_BYTES, _THREE_BYTES, _FOUR_BYTES, _POINT_MAX = 0x80, 0x800, 0x10000, 0x10FFFF
_SURROGATES: Final = (0xD800, 0xDFFF)
_FIRST: Final = np.array([0, 0, 0xC0, 0xE0, 0xF0])
"""How the first byte of a character of so many bytes begins in UTF-8."""


def _table(values: dict[int, int]) -> Bytes:
    table = np.full(256, _NONE, np.uint8)
    table[list(values)] = list(values.values())
    return table


_CODES: Final = _table(_SIMPLE)
_HEX: Final = _table({ord(f"{n:x}"): n for n in range(16)} | {ord(f"{n:X}"): n for n in range(16)})
_LENGTHS: Final = np.full(256, 2)
_LENGTHS[list(b"xuU")] = (4, 6, 10)
_ROOM: Final = 10
"""The longest escape."""


def unquoted(texts: pa.Array) -> pa.Array | None:
    """The bytes that the literals of a string array stand for; None where one has an escape that Go does not write."""
    data, offsets = joined(texts.fill_null(""))
    padded = np.concatenate((data, np.zeros(_ROOM, np.uint8)))
    escapes = escaping(data)
    lengths = _LENGTHS[padded[escapes + 1]]
    kept = np.ones(len(data), np.bool_)
    if not (
        _inside(escapes, escapes + lengths, offsets)
        and _simple(padded, escapes[lengths == 2], kept)
        and _bytes(padded, escapes[lengths == 4], kept)
        and _points(padded, escapes[lengths == 6], kept, digits=4)
        and _points(padded, escapes[lengths == 10], kept, digits=8)
    ):
        return None
    places = np.concatenate((np.zeros(1, np.int64), np.cumsum(kept)))[offsets].astype(np.int32)
    raw = padded[: len(data)][kept]
    found = pa.Array.from_buffers(pa.binary(), len(texts), [None, pa.py_buffer(places), pa.py_buffer(raw)])
    return pc.if_else(texts.is_valid(), found, pa.scalar(None, pa.binary())) if texts.null_count else found


def _inside(escapes: Ints, ends: Ints, offsets: Ints) -> bool:
    """Whether every escape ends in the value it begins in."""
    return bool((ends <= offsets[np.searchsorted(offsets, escapes, side="right")]).all())


def _simple(data: Bytes, at: Ints, kept: Mask) -> bool:
    """`\\n` and its like."""
    codes = _CODES[data[at + 1]]
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
    found = _HEX[data[at[:, None] + np.arange(2, 2 + digits)]]
    point = (found.astype(np.int64) << np.arange(4 * digits - 4, -4, -4)).sum(axis=1)
    odd = (found == _NONE).any(axis=1) | ((point >= _SURROGATES[0]) & (point <= _SURROGATES[1])) | (point > _POINT_MAX)
    if odd.any():
        return False
    # From the last byte to the first; a point of n bytes ends at the n-th.
    length = 1 + (point >= _TWO_BYTES) + (point >= _THREE_BYTES) + (point >= _FOUR_BYTES)
    for place in range(4):
        rest = point >> 6 * np.maximum(length - 1 - place, 0)
        data[at + place] = _FIRST[length] | rest if place == 0 else 0x80 | (rest & 0x3F)
        kept[at + place] = place < length
    for place in range(4, 2 + digits):
        kept[at + place] = False
    return True
