"""The row images of Simple Avro messages, many at once: maps of column names to values, in any order of the names.

A map is walked entry by entry in all lanes together. What is found is kept as numbers, by column: which branch of the
value's union it is, where its bytes begin, and its number or length; nothing is copied until `Cells.array` builds a
column. Taken are maps of one block that hold columns of a known set, each once; other lanes fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ticdc_assets.protocols.avro_lanes import LOW_BYTES, Ints, Lanes, Mask, Slab, Words, varints, zigzag
from ticdc_assets.protocols.avro_vectors import Spoiled, texts
from ticdc_assets.protocols.native_columns import LOCATION, VALUE

NOT_SENT: Final = -1
NULL, LONG, FLOAT, DOUBLE, STRING, BYTES, TIMESTAMP, UNSIGNED = range(8)
"""The branches of a value's union, in the order of TiCDC's published schema; -1 stands for a column that is absent."""

_HAS_NUMBER: Final = np.array([False, True, False, False, True, True, True, True])
_HAS_BYTES: Final = np.array([False, False, False, False, True, True, True, False])
_FIXED_BYTES: Final = np.array([0, 0, 4, 8, 0, 0, 0, 0])
_WORD_BYTES: Final = 8
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)


class Names:
    """The columns of a set, to be found by their names' bytes."""

    __slots__ = ("_lengths", "_order", "_sums", "_words", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        raws = [name.encode() for name in names]
        count = max(1, -(-max(map(len, raws), default=0) // _WORD_BYTES))
        padded = b"".join(raw.ljust(count * _WORD_BYTES, b"\0") for raw in raws)
        words = np.frombuffer(padded, np.dtype("<u8")).reshape(len(raws), count).astype(np.uint64)
        lengths = np.array([len(raw) for raw in raws], np.int64)
        sums = _sums(words.T, lengths)
        self._order = np.argsort(sums, kind="stable")
        self._sums, self._words, self._lengths = sums[self._order], words[self._order].T.copy(), lengths[self._order]

    def __len__(self) -> int:
        return len(self.names)

    def find(self, slab: Slab, start: Ints, length: Ints) -> tuple[Ints, Mask]:
        """Which column each stretch of bytes names, and whether it names one at all."""
        last = len(slab.words) - 1
        words = []
        for number in range(len(self._words)):
            at = start if number == 0 else np.minimum(start + number * _WORD_BYTES, last)
            words.append(slab.words[at] & LOW_BYTES[np.clip(length - number * _WORD_BYTES, 0, _WORD_BYTES)])
        place = np.minimum(np.searchsorted(self._sums, _sums(words, length)), len(self) - 1)
        known = self._lengths[place] == length
        for own, found in zip(self._words, words, strict=True):
            known &= own[place] == found
        return self._order[place], known


def _sums(words: Sequence[Words] | Words, length: Ints) -> Words:
    total = length.astype(np.uint64)
    for word in words:
        total = (total ^ word) * _SPREAD
        total ^= total >> np.uint64(32)
    return total


@dataclass(frozen=True, slots=True)
class Cells:
    """The values of images by column and lane: the union's branch, the number or length, and where its bytes begin."""

    branch: npt.NDArray[np.int8]
    number: Ints
    start: Ints

    @staticmethod
    def empty(columns: int, lanes: Lanes) -> Cells:
        """No value yet. Every place is inside its lane, so that columns lie in the order of the slab."""
        shape = (columns, len(lanes))
        start = np.repeat(lanes.at[np.newaxis, :], columns, axis=0)
        return Cells(np.full(shape, NOT_SENT, np.int8), np.zeros(shape, np.int64), start)

    def select(self, lanes: Ints) -> Cells:
        """The images of these lanes."""
        return Cells(self.branch[:, lanes], self.number[:, lanes], self.start[:, lanes])

    def put(self, lanes: Ints, others: Cells) -> None:
        """Replace the images of these lanes."""
        self.branch[:, lanes] = others.branch
        self.number[:, lanes] = others.number
        self.start[:, lanes] = others.start

    def array(self, column: int, branch: int, slab: Slab) -> Spoiled:
        """One column as wire values; null where it is null, absent, or of another branch."""
        is_other = self.branch[column] != branch
        return _ARRAYS[branch](slab, self.number[column], self.start[column], is_other)


def read_images(lanes: Lanes, names: Names) -> Cells:
    """Step over one map in every lane."""
    cells = Cells.empty(len(names), lanes)
    count = lanes.long()
    lanes.fail((count < 1) | (count > len(names)))
    for step in range(len(names)):
        going = lanes.ok & (count > step)
        if going.all():
            _entry(lanes, names, cells, np.arange(len(lanes)))
            continue
        places = np.flatnonzero(going)
        if not len(places):
            break
        some = lanes.select(places)
        _entry(some, names, cells, places)
        lanes.put(places, some)
    lanes.fail(lanes.small() != 0)
    # As many columns as entries, or one came twice.
    lanes.fail((cells.branch != NOT_SENT).sum(axis=0) != count)
    return cells


def _entry(lanes: Lanes, names: Names, cells: Cells, places: Ints) -> None:
    column, known = names.find(lanes.slab, *lanes.blob())
    lanes.fail(~known)
    branch = lanes.small()
    lanes.fail(branch > UNSIGNED)
    branch &= UNSIGNED
    start = lanes.at
    raw, size = varints(lanes.slab, start)
    number = zigzag(raw)
    has_number, has_bytes = _HAS_NUMBER[branch], _HAS_BYTES[branch]
    odd = (has_number & (size == 0)) | (has_bytes & ((number < 0) | (number > lanes.end - start)))
    lanes.fail(odd)
    after = np.where(has_number, size, _FIXED_BYTES[branch])
    lanes.skip(np.where(odd, 0, after + np.where(has_bytes, number, 0)))
    stamps = np.flatnonzero(branch == TIMESTAMP)
    if len(stamps):
        some = lanes.select(stamps)
        some.blob()
        lanes.put(stamps, some)
    flat = column * cells.branch.shape[1] + places
    cells.branch.ravel()[flat] = branch
    cells.number.ravel()[flat] = number
    cells.start.ravel()[flat] = np.where(has_number & (branch != TIMESTAMP), start + size, start)


def _longs(_slab: Slab, number: Ints, _start: Ints, is_other: Mask) -> Spoiled:
    return Spoiled(pa.array(number, mask=is_other))


def _unsigned(_slab: Slab, number: Ints, _start: Ints, is_other: Mask) -> Spoiled:
    return Spoiled(pa.StructArray.from_arrays([pa.array(number)], [VALUE], mask=pa.array(is_other)))


def _floats(slab: Slab, _number: Ints, start: Ints, is_other: Mask) -> Spoiled:
    return Spoiled(pa.array(slab.words[start].astype(np.uint32).view(np.float32), mask=is_other))


def _doubles(slab: Slab, _number: Ints, start: Ints, is_other: Mask) -> Spoiled:
    return Spoiled(pa.array(slab.words[start].view(np.float64), mask=is_other))


def _bytes(slab: Slab, number: Ints, start: Ints, is_other: Mask) -> Spoiled:
    return Spoiled(slab.pieces(start, np.where(is_other, 0, number), ~is_other))


def _strings(slab: Slab, number: Ints, start: Ints, is_other: Mask) -> Spoiled:
    return texts(slab.pieces(start, np.where(is_other, 0, number), ~is_other))


def _timestamps(slab: Slab, _number: Ints, start: Ints, is_other: Mask) -> Spoiled:
    lanes = Lanes(slab, start, np.full(len(start), len(slab.data), np.int64))
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
