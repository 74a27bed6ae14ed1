"""Which type changes keep the Iceberg column, and which of them also keep its values.

A type's *lake type* is the type of its values in Iceberg, as `arrow_type` gives it. `promotes`: the lake's column stays
the same column. `preserves`: every value also stays the same, so that no row is rewritten.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from ticdc_assets.schema.arrow_types import (
    BINARY_KINDS,
    CHARACTER_KINDS,
    INTEGER_BITS,
    arrow_type,
    decimal_shape,
    integer_range,
)
from ticdc_assets.schema.ddl.mysql_types import BYTES_PER_CHARACTER, bare
from ticdc_assets.schema.model import Kind, MySqlType

_WIDENED: Final = ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))
"""The types that Iceberg widens, besides decimals of one scale."""


def promotes(old: MySqlType, new: MySqlType) -> bool:
    """Whether the lake's column can stay the same column: equal lake types, or one that Iceberg widens to the other."""
    before, after = arrow_type(old), arrow_type(new)
    if before == after or (before, after) in _WIDENED:
        return True
    if not (pa.types.is_decimal(before) and pa.types.is_decimal(after)):
        return False
    return _decimal_widens((before.precision, before.scale), (after.precision, after.scale))


def _decimal_widens(old: tuple[int, int], new: tuple[int, int]) -> bool:
    return old[1] == new[1] and old[0] <= new[0]


def preserves(old: MySqlType, new: MySqlType) -> bool:
    """Whether every value of the old type is, in the lake, the same value of the new type.

    False where MySQL may round, cut, pad, clamp or reformat; then existing rows must be converted.
    """
    old, new = bare(old), bare(new)
    if old == new:
        return True
    if not promotes(old, new):
        return False
    for kinds, rule in _RULES:
        if old.kind in kinds:
            return rule(old, new)
    return old.kind is new.kind


def _integers(old: MySqlType, new: MySqlType) -> bool:
    if new.kind not in {*_INTEGER_LIKE, Kind.YEAR}:
        return False
    (lowest, highest), (new_lowest, new_highest) = integer_range(old), integer_range(new)
    return new_lowest <= lowest and highest <= new_highest


def _integers_not_to_year(old: MySqlType, new: MySqlType) -> bool:
    return new.kind is not Kind.YEAR and _integers(old, new)


def _floats(old: MySqlType, new: MySqlType) -> bool:
    rounds = new.scale is not None and (old.length, old.scale) != (new.length, new.scale)
    return not rounds and old.unsigned >= new.unsigned


def _decimals(old: MySqlType, new: MySqlType) -> bool:
    if new.kind is not Kind.DECIMAL:
        return _holds(new, decimal_shape(old)[0] + len("-0."))
    return _decimal_widens(decimal_shape(old), decimal_shape(new)) and old.unsigned >= new.unsigned


_TEXT_BYTES: Final = {
    Kind.TINYTEXT: 0xFF,
    Kind.TEXT: 0xFFFF,
    Kind.MEDIUMTEXT: 0xFF_FFFF,
    Kind.LONGTEXT: 0xFFFF_FFFF,
}
_BLOB_BYTES: Final = {
    Kind.TINYBLOB: 0xFF,
    Kind.BLOB: 0xFFFF,
    Kind.MEDIUMBLOB: 0xFF_FFFF,
    Kind.LONGBLOB: 0xFFFF_FFFF,
}


def _holds(new: MySqlType, characters: int) -> bool:
    """Whether any text of `characters` characters fits unchanged (CHAR loses trailing spaces)."""
    if new.kind in _TEXT_BYTES:
        return characters * BYTES_PER_CHARACTER.get(new.charset or "", 4) <= _TEXT_BYTES[new.kind]
    return new.kind is Kind.VARCHAR and characters <= (new.length or 0)


def _texts(old: MySqlType, new: MySqlType) -> bool:
    same_charset = (old.charset or "utf8mb4") == (new.charset or "utf8mb4")
    if old.kind in _TEXT_BYTES and new.kind in _TEXT_BYTES:
        return same_charset and _TEXT_BYTES[old.kind] <= _TEXT_BYTES[new.kind]
    if not (same_charset or new.charset in (None, "utf8mb4")):
        return False
    characters = _TEXT_BYTES.get(old.kind, 1 if old.length is None else old.length)
    if old.kind is new.kind is Kind.CHAR:
        return characters <= (1 if new.length is None else new.length)
    return _holds(new, characters)


def _binaries(old: MySqlType, new: MySqlType) -> bool:
    return new.kind is not Kind.BINARY and _bytes_max(old) <= _bytes_max(new)


def _bytes_max(of: MySqlType) -> int:
    return _BLOB_BYTES.get(of.kind, 1 if of.length is None else of.length)


def _labels(old: MySqlType, new: MySqlType) -> bool:
    if old.elements is None:
        return False
    if new.kind in CHARACTER_KINDS:
        return _holds(new, sum(len(label) + 1 for label in old.elements))
    if old.kind is not new.kind or new.elements is None:
        return False
    kept = tuple(label for label in new.elements if label in set(old.elements))
    return kept == old.elements if old.kind is Kind.SET else set(kept) == set(old.elements)


def _moments(old: MySqlType, new: MySqlType) -> bool:
    return (old.length or 0) <= (new.length or 0)


def _json(old: MySqlType, new: MySqlType) -> bool:
    return new.kind is Kind.LONGTEXT


def _times(old: MySqlType, new: MySqlType) -> bool:
    if new.kind is Kind.TIME:
        return (old.length or 0) == (new.length or 0)  # the digits are part of the text
    return _holds(new, len("-838:59:59.000000"))


_INTEGER_LIKE: Final = frozenset({*INTEGER_BITS, Kind.BIT})
_RULES: Final = (
    (_INTEGER_LIKE, _integers_not_to_year),
    (frozenset({Kind.YEAR}), _integers),
    (frozenset({Kind.FLOAT, Kind.DOUBLE}), _floats),
    (frozenset({Kind.DECIMAL}), _decimals),
    (CHARACTER_KINDS, _texts),
    (BINARY_KINDS, _binaries),
    (frozenset({Kind.ENUM, Kind.SET}), _labels),
    (frozenset({Kind.DATETIME, Kind.TIMESTAMP}), _moments),
    (frozenset({Kind.JSON}), _json),
    (frozenset({Kind.TIME}), _times),
)
