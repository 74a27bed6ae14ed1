"""Reads the row images of many Simple Avro messages at once: maps from column names to values, in any order.

All lanes are read together, entry by entry, regardless of their tables. For each column the reader keeps the union
branch, the offset of the value, and its number or length; `Grid.array` copies the values. A lane fails unless its map
is one block with the columns of a known set, each once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ticdc_assets.protocols.formats.avro_batches import (
    LOW_BYTES,
    AvroBatchReader,
    ByteSlab,
    Ints,
    Mask,
    Words,
    varints,
    zigzag,
)
from ticdc_assets.protocols.formats.avro_columns import Spoiled, texts
from ticdc_assets.protocols.values.native import LOCATION
from ticdc_assets.protocols.values.native_columns import VALUE

NOT_SENT: Final = -1
NULL, LONG, FLOAT, DOUBLE, STRING, BYTES, TIMESTAMP, UNSIGNED = range(8)
"""The branches of a value's union, in the order of TiCDC's published schema; -1 is a column that was not sent."""

_HAS_NUMBER: Final = np.array([False, True, False, False, True, True, True, True])
_HAS_BYTES: Final = np.array([False, False, False, False, True, True, True, False])
_FIXED_BYTES: Final = np.array([0, 0, 4, 8, 0, 0, 0, 0])
_WORD_BYTES: Final = 8
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_FOLD: Final = np.uint64(32)


class Names:
    """Finds columns by set and name."""

    __slots__ = ("_columns", "_lengths", "_sets", "_sums", "_words")

    def __init__(self, sets: Sequence[Sequence[str]]) -> None:
        raws = [name.encode() for names in sets for name in names]
        count = -(-max(map(len, raws)) // _WORD_BYTES) or 1
        padded = b"".join(raw.ljust(count * _WORD_BYTES, b"\0") for raw in raws)
        words = np.frombuffer(padded, np.dtype("<u8")).reshape(len(raws), count).astype(np.uint64)
        lengths = np.array([len(raw) for raw in raws], np.int64)
        of_set = np.repeat(np.arange(len(sets)), [len(names) for names in sets])
        columns = np.concatenate([np.arange(len(names)) for names in sets])
        sums = _sums(list(words.T), lengths, of_set)
        order = np.argsort(sums, kind="stable")
        self._sums, self._words, self._lengths = sums[order], words[order].T.copy(), lengths[order]
        self._sets, self._columns = of_set[order], columns[order]

    def find(self, slab: ByteSlab, start: Ints, length: Ints, of_set: Ints) -> tuple[Ints, Mask]:
        """For each byte range, the column of its set that it names, and whether it names one."""
        words = [slab.words[start] & LOW_BYTES[np.minimum(length, _WORD_BYTES)]]
        words += [_word(slab, start, length, number * _WORD_BYTES) for number in range(1, len(self._words))]
        place = np.minimum(np.searchsorted(self._sums, _sums(words, length, of_set)), len(self._sums) - 1)
        known = (self._lengths[place] == length) & (self._sets[place] == of_set)
        for own, found in zip(self._words, words, strict=True):
            known &= own[place] == found
        return self._columns[place], known


def _word(slab: ByteSlab, start: Ints, length: Ints, offset: int) -> Words:
    """Eight bytes from an offset on, where stretches are so long."""
    found = np.zeros(len(start), np.uint64)
    long = np.flatnonzero(length > offset)
    found[long] = slab.words[start[long] + offset] & LOW_BYTES[np.minimum(length[long] - offset, _WORD_BYTES)]
    return found


def _sums(words: list[Words], length: Ints, of_set: Ints) -> Words:
    total = (length + (of_set << 32)).astype(np.uint64)
    for word in words:
        total = (total ^ word) * _SPREAD
        total ^= total >> _FOLD
    return total


@dataclass(frozen=True, slots=True)
class Cells:
    """The values of many images, one after the other: each has a place for every column of its set.

    Of each value the union's branch, its number or length, and where its bytes begin.
    """

    branch: npt.NDArray[np.int8]
    number: Ints
    start: Ints

    @staticmethod
    def empty(count: int) -> Cells:
        """Places without values."""
        return Cells(np.full(count, NOT_SENT, np.int8), np.zeros(count, np.int64), np.zeros(count, np.int64))

    def grid(self, base: Ints, columns: int, at: Ints) -> Grid:
        """Images of one set, whose places begin at `base`; where a value was not sent it has no bytes, at `at`."""
        places = base + np.arange(columns)[:, np.newaxis]
        branch = self.branch[places]
        start = np.where(branch == NOT_SENT, at, self.start[places])
        return Grid(branch, self.number[places], start)


@dataclass(frozen=True, slots=True)
class Grid:
    """The values of images of one set, by column and image."""

    branch: npt.NDArray[np.int8]
    number: Ints
    start: Ints

    def select(self, images: Ints) -> Grid:
        """Some of the images."""
        return Grid(self.branch[:, images], self.number[:, images], self.start[:, images])

    def array(self, column: int, branch: int, slab: ByteSlab) -> Spoiled:
        """One column as wire values; null where it is null, absent, or of another branch."""
        is_other = self.branch[column] != branch
        return _ARRAYS[branch](slab, self.number[column], self.start[column], is_other)


def read_images(lanes: AvroBatchReader, names: Names, of_set: Ints, columns: Ints, cells: Cells, base: Ints) -> None:
    """Step over one map in every lane, whose columns are of a set of so many, into the cells from `base` on."""
    count = lanes.long()
    lanes.fail((count < 1) | (count > columns))
    for step in range(int(columns.max(initial=0))):
        going = lanes.ok & (count > step)
        if going.all():
            _entry(lanes, names, of_set, cells, base)
            continue
        places = np.flatnonzero(going)
        if not len(places):
            break
        some = lanes.select(places)
        _entry(some, names, of_set[places], cells, base[places])
        lanes.put(places, some)
    lanes.fail(lanes.small() != 0)


def _entry(lanes: AvroBatchReader, names: Names, of_set: Ints, cells: Cells, base: Ints) -> None:
    slab = lanes.slab
    name, length = _name(lanes)
    column, known = names.find(slab, name, length, of_set)
    at = name + length
    # The name may lie beyond the lane's end, but then so does what follows: one check at the end is enough.
    byte = slab.data[at]
    branch = (byte >> 1) & UNSIGNED
    start = at + 1
    raw, size = varints(slab, start)
    number = zigzag(raw)
    has_number, has_bytes = _HAS_NUMBER[branch], _HAS_BYTES[branch]
    after = start + np.where(has_number, size, _FIXED_BYTES[branch])
    bytes_max = lanes.end - after
    invalid = ~known | ((byte & 0xF1) != 0) | (bytes_max < 0) | (has_number & (size == 0))
    invalid |= has_bytes & ((number < 0) | (number > bytes_max))
    place = base + np.where(known, column, 0)
    invalid |= cells.branch[place] != NOT_SENT  # a column that came before
    lanes.skip(np.where(invalid, 0, after + np.where(has_bytes, number, 0) - lanes.at))
    lanes.fail(invalid)
    stamps = np.flatnonzero(branch == TIMESTAMP)
    if len(stamps):
        some = lanes.select(stamps)
        some.blob()
        lanes.put(stamps, some)
    cells.branch[place] = branch
    cells.number[place] = number
    cells.start[place] = np.where(has_number & (branch != TIMESTAMP), start + size, start)


def _name(lanes: AvroBatchReader) -> tuple[Ints, Ints]:
    """Where the next entry's name begins, and its length."""
    first = lanes.slab.data[lanes.at]
    if (first & 0x81).any():
        return lanes.blob()
    return lanes.at + 1, (first >> 1).astype(np.int64)


def _longs(_slab: ByteSlab, number: Ints, _start: Ints, is_other: Mask) -> Spoiled:
    return Spoiled(pa.array(number, mask=is_other))


def _unsigned(_slab: ByteSlab, number: Ints, _start: Ints, is_other: Mask) -> Spoiled:
    return Spoiled(pa.StructArray.from_arrays([pa.array(number)], [VALUE], mask=pa.array(is_other)))


def _floats(slab: ByteSlab, _number: Ints, start: Ints, is_other: Mask) -> Spoiled:
    return Spoiled(pa.array(slab.words[start].astype(np.uint32).view(np.float32), mask=is_other))


def _doubles(slab: ByteSlab, _number: Ints, start: Ints, is_other: Mask) -> Spoiled:
    return Spoiled(pa.array(slab.words[start].view(np.float64), mask=is_other))


def _bytes(slab: ByteSlab, number: Ints, start: Ints, is_other: Mask) -> Spoiled:
    return Spoiled(slab.pieces(start, np.where(is_other, 0, number), ~is_other))


def _strings(slab: ByteSlab, number: Ints, start: Ints, is_other: Mask) -> Spoiled:
    return texts(slab.pieces(start, np.where(is_other, 0, number), ~is_other))


def _timestamps(slab: ByteSlab, _number: Ints, start: Ints, is_other: Mask) -> Spoiled:
    lanes = AvroBatchReader(slab, start, np.full(len(start), len(slab.data), np.int64))
    valid = ~is_other
    location, value = (texts(slab.pieces(*lanes.blob(valid), valid)) for _ in range(2))
    whole = pa.StructArray.from_arrays([location.array, value.array], [LOCATION, VALUE], mask=pa.array(is_other))
    rows = [part.rows for part in (location, value) if part.rows is not None]
    return Spoiled(whole, np.logical_or.reduce(rows) if rows else None)


_ARRAYS: Final = {
    LONG: _longs,
    FLOAT: _floats,
    DOUBLE: _doubles,
    STRING: _strings,
    BYTES: _bytes,
    TIMESTAMP: _timestamps,
    UNSIGNED: _unsigned,
}
