"""Reads Avro's binary encoding in many messages at once, one step of the schema at a time.

Each message is a lane: a range of bytes and a position in it. A step reads the same primitive in all lanes with a few
array operations, so its cost hardly depends on the number of lanes. A lane fails if its bytes do not match the step; it
then keeps its position and does not affect other lanes. Some methods accept only the shortest form of small numbers, or
only single blocks. Failed lanes are read again by `formats.avro.reader`, which reports any error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

SLAB_BYTES_MAX: Final = (1 << 31) - 512
"""The limit of Arrow's 32-bit offsets, less the padding at both ends."""
GROUPS_MAX: Final = 256
"""The maximum number of tables or schemas per batch: each costs as much as about twenty messages of the reference."""
_ROOM_BYTES: Final = 128
"""The padding at both ends, so that a short name and a number after it can be read at every position."""
_WORD_BYTES: Final = 8
_VARINT_BYTES_MAX: Final = 10
_CONTINUES: Final = np.uint64(0x8080808080808080)
_ONE: Final = np.uint64(1)
LOW_BYTES: Final = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
"""Masks that keep the first n bytes of a word that was read little-endian."""


class ByteSlab:
    """The bytes of a binary array in one piece; `starts` and `ends` are the places of its entries.

    `words[p]` are the eight bytes from p on as a little-endian number.
    """

    __slots__ = ("_buffer", "data", "ends", "starts", "words")

    def __init__(self, values: pa.Array) -> None:
        _, offsets_buffer, raw = values.buffers()
        places = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1]
        first, last = int(places[0]), int(places[-1])
        self.data = np.zeros(last - first + 2 * _ROOM_BYTES, np.uint8)
        if last > first:
            self.data[_ROOM_BYTES : _ROOM_BYTES + last - first] = np.frombuffer(raw, np.uint8)[first:last]
        self._buffer = pa.py_buffer(self.data)
        count = len(self.data) - _WORD_BYTES + 1
        self.words: Words = np.ndarray((count,), np.dtype("<u8"), self.data, 0, (1,))
        moved = places.astype(np.int64) + (_ROOM_BYTES - first)
        self.starts: Ints = moved[:-1]
        self.ends: Ints = moved[1:]

    def pieces(self, start: Ints, length: Ints, valid: Mask | None = None) -> pa.Array:
        """These byte ranges as a binary array. They must lie in the order of the slab and not overlap."""
        count = len(start)
        if not count:
            return pa.array([], pa.binary())
        offsets = np.empty(2 * count, np.int32)
        offsets[0::2] = start
        offsets[1::2] = start + length
        # Every second entry is such a range, and the others are the gaps between. So Arrow copies whole ranges.
        both = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), self._buffer])
        wanted = np.arange(0, 2 * count - 1, 2)
        return both.take(pa.array(wanted) if valid is None else pa.array(wanted, mask=~valid))

    def big_endian(self, end: Ints, length: Ints) -> tuple[Ints, Words]:
        """The signed big-endian numbers of 1 to 16 bytes that end at `end`, as their upper and lower 64 bits."""
        low = self.words[end - 8].byteswap()
        high = self.words[end - 16].byteswap()
        negative = self.data[end - length] >= 0x80
        sign = np.where(negative, np.uint64((1 << 64) - 1), np.uint64(0))
        in_low = LOW_BYTES[np.clip(length, 0, 8)]
        in_high = LOW_BYTES[np.clip(length - 8, 0, 8)]
        return ((high & in_high) | (sign & ~in_high)).view(np.int64), (low & in_low) | (sign & ~in_low)


class AvroBatchReader:
    """Positions in the entries of a slab. `at` is the position of each lane, never past its `end`; `ok` is whether it
    has not failed."""

    __slots__ = ("at", "end", "ok", "slab")

    def __init__(self, slab: ByteSlab, at: Ints, end: Ints, ok: Mask | None = None) -> None:
        self.slab = slab
        self.at = at
        self.end = end
        self.ok = np.ones(len(at), np.bool_) if ok is None else ok

    def __len__(self) -> int:
        return len(self.at)

    def fail(self, bad: Mask) -> None:
        """Marks these lanes as failed."""
        if bad.any():
            self.ok = self.ok & ~bad
            self.at = np.where(bad, self.end, self.at)

    def fail_unfinished(self) -> None:
        """Marks the lanes as failed that are not at their end."""
        self.fail(self.at != self.end)

    def select(self, lanes: Ints) -> AvroBatchReader:
        """Some of the lanes, to be read separately until they are `put` back."""
        return AvroBatchReader(self.slab, self.at[lanes], self.end[lanes], self.ok[lanes])

    def put(self, lanes: Ints, others: AvroBatchReader) -> None:
        """Continue from the positions that these lanes have reached."""
        self.at, self.ok = self.at.copy(), self.ok.copy()
        self.at[lanes] = others.at
        self.ok[lanes] = others.ok

    def skip(self, size: Ints | int, active: Mask | None = None) -> Ints:
        """Step over that many bytes, from 0 to SLAB_BYTES_MAX; gives where they begin."""
        start = self.at
        at = start + (size if active is None else size * active)
        over = at > self.end
        self.at = at
        self.fail(over)
        return start

    def small(self) -> Ints:
        """A number from 0 to 63 in its one byte, such as a union's branch; other lanes fail."""
        byte = self.slab.data[self.skip(1)]
        self.fail((byte & 0x81).astype(np.bool_))
        return (byte >> 1).astype(np.int64)

    def long(self, active: Mask | None = None) -> Ints:
        """A zigzag varint of at most 64 bits."""
        first = self.slab.data[self.at]
        more = first >= 0x80
        if not more.any():
            self.skip(1, active)
            small = first.astype(np.int64)
            return (small >> 1) ^ -(small & 1)
        raw, size = varints(self.slab, self.at)
        if active is not None:
            size = size * active
            self.fail((size == 0) & active)
        else:
            self.fail(size == 0)
        self.skip(size)
        return zigzag(raw)

    def blob(self, active: Mask | None = None) -> tuple[Ints, Ints]:
        """A length and that many bytes; gives where they begin and how many they are."""
        length = self.long(active)
        if active is not None:
            length = length * active
        bad = (length < 0) | (length > self.end - self.at)
        if bad.any():
            self.fail(bad)
            length = np.where(bad, 0, length)
        return self.skip(length), length


def varints(slab: ByteSlab, at: Ints) -> tuple[Words, Ints]:
    """The numbers of 7-bit groups at these positions and their sizes in bytes; size 0 where longer than 64 bits."""
    word = slab.words[at]
    stops = ~word & _CONTINUES
    size = (np.bitwise_count((stops & -stops) - _ONE) >> 3).astype(np.int64) + 1
    value = _groups(word & LOW_BYTES[np.minimum(size, 8)])
    long = np.flatnonzero(stops == 0)
    if len(long):
        value[long], size[long] = _long_varints(slab, at[long], value[long])
    return value, size


def _groups(word: Words) -> Words:
    """The low seven bits of each of eight bytes, put together: pairs of bytes first, then pairs of pairs."""
    word = (word & np.uint64(0x007F007F007F007F)) | ((word & np.uint64(0x7F007F007F007F00)) >> _ONE)
    word = (word & np.uint64(0x00003FFF00003FFF)) | ((word & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
    joined: Words = (word & np.uint64(0x0FFFFFFF)) | ((word & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))
    return joined


def _long_varints(slab: ByteSlab, at: Ints, low: Words) -> tuple[Words, Ints]:
    ninth, tenth = (slab.data[at + n].astype(np.uint64) for n in (8, 9))
    is_nine = ninth < 0x80
    value = low | ((ninth & np.uint64(0x7F)) << np.uint64(56))
    value = np.where(is_nine, value, value | (tenth << np.uint64(63)))
    # The tenth byte has room for one bit.
    size = np.where(is_nine, _VARINT_BYTES_MAX - 1, np.where(tenth <= 1, _VARINT_BYTES_MAX, 0))
    return value, size


def zigzag(raw: Words) -> Ints:
    """The signed numbers that these unsigned ones encode."""
    return ((raw >> _ONE) ^ -(raw & _ONE)).view(np.int64)


def groups(keys: Ints) -> Iterable[tuple[int, Ints]]:
    """Each distinct key with the ascending indices at which it occurs."""
    if not len(keys):
        return
    order = np.argsort(keys, kind="stable")
    found, first = np.unique(keys[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, first[1:]), strict=True)


def in_large_groups(keys: Ints) -> Mask:
    """Which keys are among the GROUPS_MAX most frequent ones."""
    found, place, count = np.unique(keys, return_inverse=True, return_counts=True)
    is_large = np.ones(len(found), np.bool_)
    is_large[np.argsort(-count, kind="stable")[GROUPS_MAX:]] = False
    return is_large[place]


def concatenated(parts: Sequence[Ints]) -> Ints:
    """All numbers, one part after the other."""
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
