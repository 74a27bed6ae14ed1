"""Decodes whole columns of Base64 to binary.

The loops are compiled (see `formats.jit`).
"""

from __future__ import annotations

import string
from typing import Final

import numpy as np
import pyarrow as pa

from ticdc_assets.protocols.formats.jit import compiled
from ticdc_assets.protocols.formats.string_arrays import Bytes, Places, read_only

_BAD, _PAD = 0xFF, 0x40
_BITS: Final = 0x3F


def _values() -> Bytes:
    table = np.full(256, _BAD, np.uint8)
    table[list(f"{string.ascii_uppercase}{string.ascii_lowercase}{string.digits}+/".encode())] = np.arange(64)
    table[ord("=")] = _PAD
    return read_only(table)


_VALUES: Final = _values()
"""The six bits that each character stands for."""


def base64_column(texts: pa.Array) -> pa.Array | None:
    """The texts decoded; None if one is not of groups of four characters, of which only the last one is padded.
    `texts` is a string or binary array without an offset."""
    assert texts.offset == 0
    present = texts.fill_null("") if texts.null_count else texts
    _, offsets, data = present.buffers()
    if data is None:
        return texts.cast(pa.binary())
    ends = np.frombuffer(offsets, np.int32)[: len(texts) + 1]
    found_ends = np.zeros(len(texts) + 1, np.int32)
    found = np.empty((ends[-1] - ends[0]) // 4 * 3, np.uint8)
    if not _fill(np.frombuffer(data, np.uint8), ends, _VALUES, found, found_ends):
        return None
    buffers = [texts.is_valid().buffers()[1] if texts.null_count else None, *map(pa.py_buffer, (found_ends, found))]
    return pa.Array.from_buffers(pa.binary(), len(texts), buffers, texts.null_count)


@compiled
def _fill(data: Bytes, ends: Places, values: Bytes, found: Bytes, found_ends: Places) -> bool:
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
