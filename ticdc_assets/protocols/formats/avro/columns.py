"""Reads the fields of a TiCDC record in many messages at once into Arrow columns.

A field is a primitive, a decimal, or a union of one of these with null; TiCDC registers no other types for columns. The
values equal those of `formats.avro.reader`, except that decimals of up to 38 digits are decimal128 instead of text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.protocols.formats.avro.batches import AvroBatchReader, ByteSlab, Ints, Mask
from ticdc_assets.protocols.formats.avro.values import DECIMAL_BYTES_MAX, decimal_text
from ticdc_assets.protocols.formats.string_arrays import not_utf8
from ticdc_assets.schema.arrow_types import DECIMAL_DIGITS_MAX

_NARROW_BYTES_MAX: Final = 16
_UPPER_HALF_MAX: Final = 10**DECIMAL_DIGITS_MAX >> 64


@dataclass(frozen=True, slots=True)
class BuiltColumn:
    """An array, and a mask of the rows whose bytes are not text; these rows are null in the array."""

    array: pa.Array
    rows: Mask | None = None


Build = Callable[[Ints], BuiltColumn]
"""Builds the array of these rows, none of which has failed."""


@dataclass(frozen=True, slots=True)
class Vector:
    """One field of many messages, found but not yet built. `is_text` is true if building may still find invalid
    bytes."""

    build: Build
    is_text: bool = False


ReadVector = Callable[[AvroBatchReader, Mask | None], Vector]
"""Steps over one field in all lanes, or in the active ones; the others are null."""


def reader(field_type: Any) -> ReadVector | None:
    """How to read a field of this type of an admitted schema; None for types that TiCDC has no columns of."""
    if isinstance(field_type, list):
        return _union(field_type)
    if isinstance(field_type, dict):
        kind = field_type.get("type")
        if kind == "bytes" and field_type.get("logicalType") == "decimal":
            return _decimal(field_type["precision"], field_type.get("scale", 0))
        return reader(kind) if isinstance(kind, str | dict) else None
    return _PRIMITIVES.get(field_type)


def _union(branches: list[Any]) -> ReadVector | None:
    others = [branch for branch in branches if branch != "null"]
    inner = reader(others[0]) if len(others) == 1 and len(branches) <= 2 else None
    if inner is None:
        return None
    present = branches.index(others[0])
    count = len(branches)

    def read(lanes: AvroBatchReader, _active: Mask | None) -> Vector:
        branch = lanes.small()
        lanes.fail(branch >= count)
        is_present = branch == present
        return inner(lanes, None if is_present.all() else is_present)

    return read


def _masked(values: Any, active: Mask | None, rows: Ints) -> pa.Array:
    if active is None:
        return pa.array(values[rows])
    return pa.array(values[rows], mask=~active[rows])


def _read_long(lanes: AvroBatchReader, active: Mask | None) -> Vector:
    values = lanes.long(active)
    return Vector(lambda rows: BuiltColumn(_masked(values, active, rows)))


def _read_int(lanes: AvroBatchReader, active: Mask | None) -> Vector:
    values = lanes.long(active)
    invalid = (values < -(1 << 31)) | (values >= 1 << 31)
    lanes.fail(invalid if active is None else invalid & active)
    return Vector(lambda rows: BuiltColumn(_masked(values, active, rows)))


def _read_boolean(lanes: AvroBatchReader, active: Mask | None) -> Vector:
    values = lanes.slab.data[lanes.skip(1, active)]
    lanes.fail(values > 1 if active is None else (values > 1) & active)
    return Vector(lambda rows: BuiltColumn(_masked(values.astype(np.bool_), active, rows)))


def _read_float(lanes: AvroBatchReader, active: Mask | None) -> Vector:
    values = lanes.slab.words[lanes.skip(4, active)].astype(np.uint32).view(np.float32)
    return Vector(lambda rows: BuiltColumn(_masked(values, active, rows)))


def _read_double(lanes: AvroBatchReader, active: Mask | None) -> Vector:
    values = lanes.slab.words[lanes.skip(8, active)].view(np.float64)
    return Vector(lambda rows: BuiltColumn(_masked(values, active, rows)))


def _read_bytes(lanes: AvroBatchReader, active: Mask | None) -> Vector:
    slab = lanes.slab
    start, length = lanes.blob(active)
    return Vector(lambda rows: BuiltColumn(_pieces(slab, start, length, active, rows)))


def _read_string(lanes: AvroBatchReader, active: Mask | None) -> Vector:
    slab = lanes.slab
    start, length = lanes.blob(active)
    return Vector(_once(lambda rows: texts(_pieces(slab, start, length, active, rows))), is_text=True)


def _once(build: Build) -> Build:
    """Keeps its last result: texts are built to check that they are UTF-8, and then requested for the same rows."""
    last: list[tuple[Ints, BuiltColumn]] = []

    def built(rows: Ints) -> BuiltColumn:
        if not last or last[0][0] is not rows:
            last[:] = [(rows, build(rows))]
        return last[0][1]

    return built


def _pieces(slab: ByteSlab, start: Ints, length: Ints, active: Mask | None, rows: Ints) -> pa.Array:
    return slab.pieces(start[rows], length[rows], None if active is None else active[rows])


def texts(raw: pa.Array) -> BuiltColumn:
    """Binary values as text; values that are not UTF-8 become null and are reported."""
    invalid = not_utf8(raw)
    if invalid is None:
        return BuiltColumn(raw.view(pa.string()))
    kept = pc.if_else(pa.array(invalid), pa.scalar(None, pa.binary()), raw)
    return BuiltColumn(kept.cast(pa.string()), invalid)


def _decimal(precision: int, scale: int) -> ReadVector:
    is_wide = precision > DECIMAL_DIGITS_MAX
    bytes_max = DECIMAL_BYTES_MAX if is_wide else _NARROW_BYTES_MAX

    def read(lanes: AvroBatchReader, active: Mask | None) -> Vector:
        slab = lanes.slab
        start, length = lanes.blob(active)
        invalid = (length < 1) | (length > bytes_max)
        lanes.fail(invalid if active is None else invalid & active)
        if is_wide:
            return Vector(lambda rows: BuiltColumn(_wide(_pieces(slab, start, length, active, rows), scale)))
        high, low = slab.big_endian(start + length, np.clip(length, 1, bytes_max))
        # More digits than decimal128 can hold.
        invalid = (high >= _UPPER_HALF_MAX) | (high < -_UPPER_HALF_MAX)
        lanes.fail(invalid if active is None else invalid & active)

        def build(rows: Ints) -> BuiltColumn:
            halves = np.empty((len(rows), 2), np.uint64)
            halves[:, 0], halves[:, 1] = low[rows], high[rows].view(np.uint64)
            valid = None if active is None else pa.array(active[rows]).buffers()[1]
            wanted = pa.decimal128(DECIMAL_DIGITS_MAX, scale)
            return BuiltColumn(pa.Array.from_buffers(wanted, len(rows), [valid, pa.py_buffer(halves)]))

        return Vector(build)

    return read


def _wide(raw: pa.Array, scale: int) -> pa.Array:
    numbers = (None if one is None else int.from_bytes(one, "big", signed=True) for one in raw.to_pylist())
    return pa.array([None if one is None else decimal_text(one, scale) for one in numbers], pa.string())


_PRIMITIVES: Final[dict[str, ReadVector]] = {
    "boolean": _read_boolean,
    "int": _read_int,
    "long": _read_long,
    "float": _read_float,
    "double": _read_double,
    "bytes": _read_bytes,
    "string": _read_string,
}
