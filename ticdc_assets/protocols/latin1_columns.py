"""Text whose characters stand for bytes, whole columns of it: each of the first 256 characters is the byte it counts.

Machine code (see `compiled`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from ticdc_assets.protocols.compiled import compiled
from ticdc_assets.protocols.joined_texts import Bytes, Places

_FIRST_LEAD, _LAST_LEAD, _HIGH_HALF = 0xC2, 0xC3, 0x40
"""In UTF-8 two bytes tell the characters from 128 to 255: these from 192 on, where the second is short of a bit."""
_LEADS: Final = 0xFE


def latin1_column(texts: pa.Array) -> pa.Array | None:
    """The bytes that the texts stand for; None where one has another character. They are strings, so UTF-8,
    and begin their buffers."""
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
    """Whether all characters are among the first 256. What is written for a first byte is written over."""
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
