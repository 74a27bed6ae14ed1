"""Reads row images of Simple Avro messages in one pass: maps from column names to values, in any order.

All functions are compiled (see `formats.jit`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints, Mask

NOT_SENT: Final = -1
NULL, LONG, FLOAT, DOUBLE, STRING, BYTES, TIMESTAMP, UNSIGNED = range(8)
"""The branches of a value's union, in the order of TiCDC's published schema; -1 is a column that was not sent."""

FREE: Final = -1
_NONE: Final = -1
_PROBES_MAX: Final = 32
"""How many slots are tried for a name. A name that needs more is unknown, so that no choice of names takes long."""
_FNV_START: Final = 2166136261
_FNV_PRIME: Final = 16777619
_32_BITS: Final = (1 << 32) - 1
_VARINT_BYTES_MAX: Final = 10


@compiled
def place_names(names: Bytes, bounds: Ints, sets: Ints, slots: Ints, slot_bounds: Ints) -> None:
    """Put each name into a free slot of its set. Name n is `names[bounds[n]:bounds[n + 1]]`, set s has the names from
    `sets[s]` to `sets[s + 1]` and as many slots as a power of two, which must all be FREE."""
    for number in range(len(sets) - 1):
        first, mask = slot_bounds[number], slot_bounds[number + 1] - slot_bounds[number] - 1
        for name in range(sets[number], sets[number + 1]):
            spread = _spread(names, bounds[name], bounds[name + 1])
            for probe in range(_PROBES_MAX):
                slot = first + ((spread + probe) & mask)
                if slots[slot] == FREE:
                    slots[slot] = name
                    break


@compiled
def scan_images(
    data: Bytes,
    at: Ints,
    end: Ints,
    ok: Mask,
    of_set: Ints,
    base: Ints,
    names: Bytes,
    bounds: Ints,
    sets: Ints,
    slots: Ints,
    slot_bounds: Ints,
    branch: npt.NDArray[np.int8],
    number: Ints,
    start: Ints,
) -> None:
    """Step over one map in every message that is `ok`, whose columns are of a set, each once.

    The value of column c of message m is put at `base[m] + c` of `branch`, `number` and `start`: its union's branch,
    its number or length, and where its bytes begin. A message that is not of this form is no longer `ok`.
    """
    for message in range(len(at)):
        if not ok[message]:
            continue
        of = of_set[message]
        count, place = _long(data, at[message], end[message])
        if place < 0 or count < 1 or count > sets[of + 1] - sets[of]:
            place = _NONE
        while place >= 0 and count:
            count -= 1
            found, place = _column(data, place, end[message], names, bounds, slots, slot_bounds[of : of + 2])
            if place < 0:
                break
            cell = base[message] + found - sets[of]
            is_again = branch[cell] != NOT_SENT
            place = _value(data, place, end[message], cell, branch, number, start)
            if is_again:
                place = _NONE
        if place < 0 or place >= end[message] or data[place] != 0:
            ok[message], at[message] = False, end[message]
        else:
            at[message] = place + 1


@inlined
def _spread(data: Bytes, begin: int, end: int) -> int:
    found = _FNV_START
    for place in range(begin, end):
        found = ((found ^ int(np.int64(data[place]))) * _FNV_PRIME) & _32_BITS
    return found ^ (found >> 15)


@inlined
def _long(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A zigzag varint of at most 64 bits, and what follows it; _NONE where there is none."""
    if at >= end:
        return 0, _NONE
    byte = int(np.int64(data[at]))
    is_negative, size, found, shift = byte & 1, 1, (byte & 0x7F) >> 1, 6
    while byte & 0x80:
        if size == _VARINT_BYTES_MAX or at + size >= end:
            return 0, _NONE
        byte = int(np.int64(data[at + size]))
        found |= (byte & 0x7F) << shift
        size, shift = size + 1, shift + 7
    if size == _VARINT_BYTES_MAX and byte > 1:
        return 0, _NONE
    return (-found - 1 if is_negative else found), at + size


@inlined
def _length(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A length of bytes before the end, and where they begin; _NONE where there is none."""
    found, begin = _long(data, at, end)
    if begin < 0 or found < 0 or found > end - begin:
        return 0, _NONE
    return found, begin


@inlined
def _column(
    data: Bytes, at: int, end: int, names: Bytes, bounds: Ints, slots: Ints, slot_bounds: Ints
) -> tuple[int, int]:
    """The name that stands here, and what follows it; _NONE where it is none of the set's."""
    length, begin = _length(data, at, end)
    if begin < 0:
        return 0, _NONE
    spread = _spread(data, begin, begin + length)
    first, mask = slot_bounds[0], slot_bounds[1] - slot_bounds[0] - 1
    for probe in range(_PROBES_MAX):
        name = slots[first + ((spread + probe) & mask)]
        if name == FREE:
            break
        if bounds[name + 1] - bounds[name] == length and _is_same(data, begin, names, bounds[name], length):
            return name, begin + length
    return 0, _NONE


@inlined
def _is_same(data: Bytes, at: int, names: Bytes, begin: int, length: int) -> bool:
    for place in range(length):  # noqa: SIM110  Numba has no `all` of a generator
        if data[at + place] != names[begin + place]:
            return False
    return True


@inlined
def _value(data: Bytes, at: int, end: int, cell: int, branch: npt.NDArray[np.int8], number: Ints, start: Ints) -> int:
    """Put a value of the union into its cell. Returns what follows it, or _NONE."""
    if at >= end or data[at] & 0xF1:
        return _NONE
    kind = int(np.int64(data[at])) >> 1
    found, begin, after = 0, at + 1, at + 1
    if kind == FLOAT:
        after = begin + 4
    elif kind == DOUBLE:
        after = begin + 8
    elif kind in (LONG, UNSIGNED):
        found, begin = _long(data, at + 1, end)
        after = begin
    elif kind in (STRING, BYTES):
        found, begin = _length(data, at + 1, end)
        after = begin + found
    elif kind == TIMESTAMP:
        location, after = _length(data, at + 1, end)
        if after >= 0:
            found, after = _length(data, after + location, end)
            after = after + found if after >= 0 else _NONE
    if begin < 0 or after < 0 or after > end:
        return _NONE
    branch[cell], number[cell], start[cell] = kind, found, begin
    return after
