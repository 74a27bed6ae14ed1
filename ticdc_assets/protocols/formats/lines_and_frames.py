"""Finds the lines of a block and the length-prefixed frames of messages, and checks that they are UTF-8, in compiled
passes (`formats.jit`)."""

from __future__ import annotations

from typing import Final

import numpy as np

from ticdc_assets.protocols.formats.bodies import LENGTH_BYTES
from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.protocols.formats.simd import VECTOR, below, equal, lowest
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints, Mask

_NEWLINE: Final = ord("\n")
_NOT_UTF8: Final = -1
_MORE_LINES: Final = -2
_EVERY: Final = (1 << VECTOR) - 1
_LINE_BYTES: Final = 256
"""The expected minimum length of lines; a block with more lines is read a second time."""
FRAMES_MAX: Final = 256
"""TiCDC's max-batch-size is 16 by default."""
_NONE: Final = -1
_BRACE: Final = ord("{")


def line_bounds(block: Bytes) -> Ints | None:
    """The offset of each line, plus the end of the last line; None if the block is not UTF-8.

    A line includes its newline; bytes after the last newline are not a line.
    """
    bounds = np.zeros(len(block) // _LINE_BYTES + 1, np.int64)
    count = _note(block, np.zeros(2 * VECTOR, np.uint8), bounds)
    if count == _MORE_LINES:
        bounds = np.zeros(len(block) + 2, np.int64)
        count = _note(block, np.zeros(2 * VECTOR, np.uint8), bounds)
    return None if count == _NOT_UTF8 else bounds[: count + 1]


@compiled
def _note(block: Bytes, rest: Bytes, bounds: Ints) -> int:
    """The number of lines, _NOT_UTF8, or _MORE_LINES if `bounds` is too small. `bounds[n]` becomes the end of line n,
    counted from one. `rest` are zeros, room for the last bytes of the block and as many behind them."""
    count, awaited = 0, 0
    for begin in range(0, len(block), VECTOR):
        data, at = block, begin
        if begin + VECTOR >= len(block):
            for place in range(begin, len(block)):
                rest[place - begin] = block[place]
            data, at = rest, 0
        awaited = awaited_after(data, at, awaited)
        if awaited < 0:
            return _NOT_UTF8
        ends = equal(data, at, _NEWLINE)
        while ends:
            count += 1
            if count == len(bounds):
                return _MORE_LINES
            bounds[count] = begin + lowest(ends) + 1
            ends &= ends - 1
    return _NOT_UTF8 if awaited else count


@inlined
def awaited_after(data: Bytes, at: int, awaited: int) -> int:
    """Check VECTOR bytes from `at` on by the table of well-formed UTF-8 in the Unicode Standard.

    Args:
        awaited: bit n is set if byte n must continue a character that begins before `at`.

    Returns:
        The same bits for the bytes after these, or -1 if the bytes are not well-formed.
    """
    not_ascii = _EVERY & ~below(data, at, 0x80)
    if not not_ascii:
        return -1 if awaited else 0
    leads = _EVERY & ~below(data, at, 0xC0)
    of_three = _EVERY & ~below(data, at, 0xE0)
    of_four = _EVERY & ~below(data, at, 0xF0)
    awaited |= leads << 1 | of_three << 2 | of_four << 3
    wrong = awaited & _EVERY ^ not_ascii & ~leads
    wrong |= leads & below(data, at, 0xC2)
    if of_three:
        under_90, under_a0 = below(data, at + 1, 0x90), below(data, at + 1, 0xA0)
        wrong |= equal(data, at, 0xE0) & under_a0
        wrong |= equal(data, at, 0xED) & ~under_a0
        wrong |= equal(data, at, 0xF0) & under_90
        wrong |= equal(data, at, 0xF4) & ~under_90
        wrong |= of_four & ~below(data, at, 0xF5)
    return -1 if wrong else awaited >> VECTOR


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
