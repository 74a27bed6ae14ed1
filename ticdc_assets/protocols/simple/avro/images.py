"""Reads the row images of many Simple Avro messages at once: maps from column names to values, in any order.

For each column `read_images` keeps the union branch, the offset of the value, and its number or length; `Grid.array`
copies the values. A lane fails unless its map is one block with the columns of a known set, each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ticdc_assets.protocols.formats.avro.batches import AvroBatchReader, ByteSlab, Ints, Mask
from ticdc_assets.protocols.formats.avro.columns import BuiltColumn, texts
from ticdc_assets.protocols.simple.avro.image_scanner import (
    BYTES,
    DOUBLE,
    FLOAT,
    FREE,
    LONG,
    NOT_SENT,
    STRING,
    TIMESTAMP,
    UNSIGNED,
    Cells,
    ColumnNames,
    fill_slots,
    scan_images,
)
from ticdc_assets.protocols.values.native import LOCATION
from ticdc_assets.protocols.values.native_columns import VALUE

_SLOTS_OF_A_NAME: Final = 2


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
