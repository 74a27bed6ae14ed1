"""Finds the lines of a block and checks that it is UTF-8, in one compiled pass."""

from __future__ import annotations

from typing import Final

import numpy as np

from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.protocols.formats.simd import VECTOR, below, equal, lowest
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints

_NEWLINE: Final = ord("\n")
_NOT_UTF8: Final = -1
_MORE_LINES: Final = -2
_EVERY: Final = (1 << VECTOR) - 1
_LINE_BYTES: Final = 256
"""The expected minimum length of lines; a block with more lines is read a second time."""


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
