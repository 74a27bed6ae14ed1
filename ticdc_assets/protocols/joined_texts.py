"""Arrays of texts as one run of bytes, and back: slices of it as an array, without a copy."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int32]
"""Where texts begin and end; the end is `-1 - end` of a text that has escapes."""

NOT_SENT: Final = -2
"""The begin of a text that is not there."""
IS_NULL: Final = -1
"""The begin of a text that is null."""

QUOTE: Final = ord('"')
BACKSLASH: Final = ord("\\")


def joined(texts: pa.Array) -> tuple[Bytes, Ints]:
    """The bytes of all texts, one after the other, and where each begins; one entry more for the end."""
    if not len(texts):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets_buffer, data = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    if data is None:
        return np.zeros(0, np.uint8), offsets - offsets[0]
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def slices(data: Bytes, starts: Ints, ends: Ints) -> pa.Array:
    """An array over `data` whose entry 2n is `data[starts[n]:ends[n]]`, without a copy; the others lie between."""
    offsets = np.empty(2 * len(starts), np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    count = max(0, len(offsets) - 1)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def cut(texts: pa.Array, starts: Ints, ends: Ints) -> pa.Array:
    """Of each text the bytes from `starts` to `ends`, counted from its own start."""
    data, offsets = joined(texts)
    base = offsets[:-1]
    return slices(data, base + starts, base + ends).take(pa.array(np.arange(len(texts)) * 2))
