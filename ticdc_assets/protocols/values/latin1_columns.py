"""Decodes whole columns of Latin-1 text to binary: the characters U+0000 to U+00FF are the bytes 0 to 255.

The loops are compiled (see `formats.jit`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from ticdc_assets.protocols.formats.jit import compiled
from ticdc_assets.protocols.formats.string_arrays import Bytes, Places

_FIRST_LEAD, _LAST_LEAD, _HIGH_HALF = 0xC2, 0xC3, 0x40
"""UTF-8 encodes U+0080 to U+00BF with the first lead byte, U+00C0 to U+00FF with the second.

After the second lead byte, the high-half bit has to be added to the continuation byte."""
_LEADS: Final = 0xFE


def latin1_column(texts: pa.Array) -> pa.Array | None:
    """The texts as binary; None if one has a character above U+00FF. `texts` is a string array without an offset."""
    assert texts.offset == 0
    validity, offsets, data = texts.buffers()
    if data is None:
        return texts.cast(pa.binary())
    ends = np.frombuffer(offsets, np.int32)[: len(texts) + 1]
    found_ends = np.zeros(len(texts) + 1, np.int32)
    found = np.empty(ends[-1] - ends[0] + 1, np.uint8)
    if not _fill(np.frombuffer(data, np.uint8), ends, found, found_ends):
        return None
    buffers = [validity, pa.py_buffer(found_ends), pa.py_buffer(found)]
    return pa.Array.from_buffers(pa.binary(), len(texts), buffers, texts.null_count)


@compiled
def _fill(data: Bytes, ends: Places, found: Bytes, found_ends: Places) -> bool:
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
