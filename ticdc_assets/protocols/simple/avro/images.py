"""Reads the row images of many Simple Avro messages at once: maps from column names to values, in any order.

For each column `read_images` keeps the union branch, the offset of the value, and its number or length; `Grid.array`
copies the values. A lane fails unless its map is one block with the columns of a known set, each once.

The loops are compiled (see `formats.jit`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ticdc_assets.protocols.formats.avro.batches import AvroBatchReader, ByteSlab
from ticdc_assets.protocols.formats.avro.columns import BuiltColumn, texts
from ticdc_assets.protocols.formats.jit import compiled, inlined
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints, Mask
from ticdc_assets.protocols.values.native import LOCATION
from ticdc_assets.protocols.values.native_columns import VALUE

_SLOTS_OF_A_NAME: Final = 2
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


class ColumnNames(NamedTuple):
    """The column names of several sets of columns, and a hash table of each set.

    names, bounds: name n is `names[bounds[n]:bounds[n + 1]]`.
    sets: set s has the names from `sets[s]` to `sets[s + 1]`.
    slots, slot_bounds: the hash table of set s is `slots[slot_bounds[s]:slot_bounds[s + 1]]`, as many slots as a power
        of two; a slot has the number of a name, or is FREE.
    """

    names: Bytes
    bounds: Ints
    sets: Ints
    slots: Ints
    slot_bounds: Ints


class Cells(NamedTuple):
    """The values of many images, one after the other: each image has a cell for every column of its set.

    Of each value the union's branch, its number or length, and where its bytes begin.
    """

    branch: npt.NDArray[np.int8]
    number: Ints
    start: Ints


@compiled
def fill_slots(of: ColumnNames) -> None:
    """Put each name into a slot of its set's hash table, whose slots must all be FREE."""
    for number in range(len(of.sets) - 1):
        first, mask = of.slot_bounds[number], of.slot_bounds[number + 1] - of.slot_bounds[number] - 1
        for name in range(of.sets[number], of.sets[number + 1]):
            hashed = _hash(of.names, of.bounds[name], of.bounds[name + 1])
            for probe in range(_PROBES_MAX):
                slot = first + ((hashed + probe) & mask)
                if of.slots[slot] == FREE:
                    of.slots[slot] = name
                    break


@compiled
def scan_images(
    data: Bytes, at: Ints, end: Ints, ok: Mask, of_set: Ints, base: Ints, names: ColumnNames, cells: Cells
) -> None:
    """Step over one map in every message that is `ok`, whose columns are of a set, each once.

    The value of column c of message m is put into the cell `base[m] + c`. `at` moves behind the map. A message that is
    not of this form is no longer `ok`.
    """
    for message in range(len(at)):
        if not ok[message]:
            continue
        of = of_set[message]
        count, offset = _long(data, at[message], end[message])
        if offset < 0 or count < 1 or count > names.sets[of + 1] - names.sets[of]:
            offset = _NONE
        while offset >= 0 and count:
            count -= 1
            column, offset = _column(data, offset, end[message], names, of)
            if offset < 0:
                break
            cell = base[message] + column - names.sets[of]
            is_repeated = cells.branch[cell] != NOT_SENT
            offset = _value(data, offset, end[message], cell, cells)
            if is_repeated:
                offset = _NONE
        if offset < 0 or offset >= end[message] or data[offset] != 0:
            ok[message], at[message] = False, end[message]
        else:
            at[message] = offset + 1


@inlined
def _hash(data: Bytes, begin: int, end: int) -> int:
    """FNV-1a of 32 bits."""
    found = _FNV_START
    for offset in range(begin, end):
        found = ((found ^ int(np.int64(data[offset]))) * _FNV_PRIME) & _32_BITS
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
def _column(data: Bytes, at: int, end: int, names: ColumnNames, of: int) -> tuple[int, int]:
    """The number of the name that begins here, and what follows it; _NONE where it is none of the set `of`."""
    length, begin = _length(data, at, end)
    if begin < 0:
        return 0, _NONE
    hashed = _hash(data, begin, begin + length)
    first, mask = names.slot_bounds[of], names.slot_bounds[of + 1] - names.slot_bounds[of] - 1
    for probe in range(_PROBES_MAX):
        name = names.slots[first + ((hashed + probe) & mask)]
        if name == FREE:
            break
        is_as_long = names.bounds[name + 1] - names.bounds[name] == length
        if is_as_long and _is_same(data, begin, names.names, names.bounds[name], length):
            return name, begin + length
    return 0, _NONE


@inlined
def _is_same(data: Bytes, at: int, names: Bytes, begin: int, length: int) -> bool:
    for number in range(length):  # noqa: SIM110  Numba has no `all` of a generator
        if data[at + number] != names[begin + number]:
            return False
    return True


@inlined
def _value(data: Bytes, at: int, end: int, cell: int, cells: Cells) -> int:
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
    cells.branch[cell], cells.number[cell], cells.start[cell] = kind, found, begin
    return after


def column_names(sets: Sequence[Sequence[str]]) -> ColumnNames:
    """The names of some sets of columns, by which a scan finds the columns."""
    raws = [name.encode() for names in sets for name in names]
    slot_bounds = _bounds(1 << (_SLOTS_OF_A_NAME * len(names)).bit_length() for names in sets)
    found = ColumnNames(
        np.frombuffer(b"".join((*raws, b"\0")), np.uint8),
        _bounds(map(len, raws)),
        _bounds(map(len, sets)),
        np.full(slot_bounds[-1], FREE, np.int64),
        slot_bounds,
    )
    fill_slots(found)
    return found


def _bounds(lengths: Iterable[int]) -> Ints:
    return np.array([0, *accumulate(lengths)], np.int64)


def empty_cells(count: int) -> Cells:
    """Cells without values."""
    return Cells(np.full(count, NOT_SENT, np.int8), np.zeros(count, np.int64), np.zeros(count, np.int64))


@dataclass(frozen=True, slots=True)
class Grid:
    """The values of images of one set, by column and image."""

    branch: npt.NDArray[np.int8]
    number: Ints
    start: Ints

    @staticmethod
    def of(cells: Cells, base: Ints, columns: int, at: Ints) -> Grid:
        """Images of one set, whose cells begin at `base`; where a value was not sent it has no bytes, at `at`."""
        chosen = base + np.arange(columns)[:, np.newaxis]
        branch = cells.branch[chosen]
        start = np.where(branch == NOT_SENT, at, cells.start[chosen])
        return Grid(branch, cells.number[chosen], start)

    def select(self, images: Ints) -> Grid:
        """Some of the images."""
        return Grid(self.branch[:, images], self.number[:, images], self.start[:, images])

    def array(self, column: int, branch: int, slab: ByteSlab) -> BuiltColumn:
        """One column as wire values; null where it is null, absent, or of another branch."""
        is_other = self.branch[column] != branch
        return _ARRAYS[branch](slab, self.number[column], self.start[column], is_other)


def read_images(lanes: AvroBatchReader, names: ColumnNames, of_set: Ints, cells: Cells, base: Ints) -> None:
    """Step over one map in every lane, whose columns are of a set, into the cells from `base` on."""
    at, ok = lanes.at.copy(), lanes.ok.copy()
    scan_images(lanes.slab.data, at, lanes.end, ok, of_set, base, names, cells)
    lanes.at, lanes.ok = at, ok


def _longs(_slab: ByteSlab, number: Ints, _start: Ints, is_other: Mask) -> BuiltColumn:
    return BuiltColumn(pa.array(number, mask=is_other))


def _unsigned(_slab: ByteSlab, number: Ints, _start: Ints, is_other: Mask) -> BuiltColumn:
    return BuiltColumn(pa.StructArray.from_arrays([pa.array(number)], [VALUE], mask=pa.array(is_other)))


def _floats(slab: ByteSlab, _number: Ints, start: Ints, is_other: Mask) -> BuiltColumn:
    return BuiltColumn(pa.array(slab.words[start].astype(np.uint32).view(np.float32), mask=is_other))


def _doubles(slab: ByteSlab, _number: Ints, start: Ints, is_other: Mask) -> BuiltColumn:
    return BuiltColumn(pa.array(slab.words[start].view(np.float64), mask=is_other))


def _bytes(slab: ByteSlab, number: Ints, start: Ints, is_other: Mask) -> BuiltColumn:
    return BuiltColumn(slab.pieces(start, np.where(is_other, 0, number), ~is_other))


def _strings(slab: ByteSlab, number: Ints, start: Ints, is_other: Mask) -> BuiltColumn:
    return texts(slab.pieces(start, np.where(is_other, 0, number), ~is_other))


def _timestamps(slab: ByteSlab, _number: Ints, start: Ints, is_other: Mask) -> BuiltColumn:
    lanes = AvroBatchReader(slab, start, np.full(len(start), len(slab.data), np.int64))
    valid = ~is_other
    location, value = (texts(slab.pieces(*lanes.blob(valid), valid)) for _ in range(2))
    whole = pa.StructArray.from_arrays([location.array, value.array], [LOCATION, VALUE], mask=pa.array(is_other))
    rows = [part.rows for part in (location, value) if part.rows is not None]
    return BuiltColumn(whole, np.logical_or.reduce(rows) if rows else None)


_ARRAYS: Final = {
    LONG: _longs,
    FLOAT: _floats,
    DOUBLE: _doubles,
    STRING: _strings,
    BYTES: _bytes,
    TIMESTAMP: _timestamps,
    UNSIGNED: _unsigned,
}
