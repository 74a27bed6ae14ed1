"""Finds the length-prefixed frames of many messages, and which bodies are text, in compiled passes (`formats.jit`)."""

from __future__ import annotations

from typing import Final

import numpy as np

from ticdc_assets.protocols.formats.bodies import LENGTH_BYTES
from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.protocols.formats.simd import VECTOR
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints, Mask
from ticdc_assets.protocols.formats.utf8_lines import awaited_after

FRAMES_MAX: Final = 256
"""TiCDC's max-batch-size is 16 by default."""
_NONE: Final = -1
_BRACE: Final = ord("{")


@compiled
def count_frames(data: Bytes, starts: Ints, ends: Ints, counts: Ints) -> None:
    """Count the frames of each message `data[starts[n]:ends[n]]`. The count is 0 if the message does not consist of
    frames to its last byte, or has more than FRAMES_MAX."""
    for message in range(len(starts)):
        at, count = starts[message], 0
        while 0 <= at < ends[message] and count <= FRAMES_MAX:
            at, count = _after_frame(data, at, ends[message]), count + 1
        counts[message] = count if at == ends[message] and count <= FRAMES_MAX else 0


@compiled
def cut_frames(
    data: Bytes, starts: Ints, ends: Ints, counts: Ints, message: Ints, ordinal: Ints, begins: Ints, stops: Ints
) -> None:
    """Record `counts` frames of each message: the number of the message, the place of the frame in it, and where its
    body begins and ends."""
    frame = 0
    for number in range(len(starts)):
        at = starts[number]
        for place in range(counts[number]):
            message[frame], ordinal[frame], begins[frame] = number, place, at + LENGTH_BYTES
            at = _after_frame(data, at, ends[number])
            stops[frame] = at
            frame += 1


@inlined
def _after_frame(data: Bytes, at: int, end: int) -> int:
    """The position after a frame, or _NONE if the frame does not end before `end`."""
    begin = at + LENGTH_BYTES
    if begin > end or data[at] >= 0x80:
        return _NONE
    length = 0
    for place in range(LENGTH_BYTES):
        length = (length << 8) | int(np.int64(data[at + place]))
    return begin + length if length <= end - begin else _NONE


@compiled
def objects(data: Bytes, begins: Ints, ends: Ints, rest: Bytes, found: Mask) -> None:
    """Which of these bodies begin with a brace and are UTF-8. `rest` are zeros, two vectors of them."""
    for body in range(len(begins)):
        begin, end = begins[body], ends[body]
        found[body] = begin < end and data[begin] == _BRACE and _is_utf8(data, begin, end, rest)


@inlined
def _is_utf8(data: Bytes, begin: int, end: int, rest: Bytes) -> bool:
    at, awaited = begin, 0
    while at + VECTOR < end:
        awaited = awaited_after(data, at, awaited)
        if awaited < 0:
            return False
        at += VECTOR
    for place in range(VECTOR):
        rest[place] = data[at + place] if at + place < end else 0
    return awaited_after(rest, 0, awaited) == 0
