"""The Arrow type, and so the Iceberg type, of each MySQL column type.

In: a column type. Out: the Arrow type of its values in changelogs and mirrors. The mapping is total: every
type that TiDB knows has exactly one target, the same for all protocols.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from ticdc_assets.schema.model import Kind, MySqlType

DECIMAL_DIGITS_MAX: Final = 38
"""Iceberg's largest decimal precision; a wider DECIMAL is kept as text."""

DECIMAL_DIGITS_DEFAULT: Final = 10
"""MySQL's precision of a DECIMAL written without one."""

BIT_WIDTH_MAX: Final = 64
YEAR_MAX: Final = 2155
UINT64_MAX: Final = (1 << 64) - 1

INTEGER_BITS: Final = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.MEDIUMINT: 24, Kind.INT: 32, Kind.BIGINT: 64}
CHARACTER_KINDS: Final = frozenset({Kind.CHAR, Kind.VARCHAR, Kind.TINYTEXT, Kind.TEXT, Kind.MEDIUMTEXT, Kind.LONGTEXT})
BINARY_KINDS: Final = frozenset({Kind.BINARY, Kind.VARBINARY, Kind.TINYBLOB, Kind.BLOB, Kind.MEDIUMBLOB, Kind.LONGBLOB})

_UINT64: Final = pa.decimal128(20, 0)
_FIXED: Final = {
    Kind.TINYINT: pa.int32(),
    Kind.SMALLINT: pa.int32(),
    Kind.MEDIUMINT: pa.int32(),
    Kind.YEAR: pa.int32(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.DATE: pa.date32(),
    Kind.DATETIME: pa.timestamp("us"),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.TIME: pa.string(),
    Kind.ENUM: pa.string(),
    Kind.SET: pa.string(),
    Kind.JSON: pa.string(),
    Kind.VECTOR: pa.list_(pa.float32()),
}


def arrow_type(column_type: MySqlType) -> pa.DataType:
    """The Arrow type of a column's values, as docs/tables.md lists them."""
    kind = column_type.kind
    if kind is Kind.INT:
        return pa.int64() if column_type.unsigned else pa.int32()
    if kind is Kind.BIGINT:
        return _UINT64 if column_type.unsigned else pa.int64()
    if kind is Kind.BIT:
        return _UINT64 if bit_width(column_type) == BIT_WIDTH_MAX else pa.int64()
    if kind is Kind.DECIMAL:
        digits, scale = decimal_shape(column_type)
        return pa.decimal128(digits, scale) if digits <= DECIMAL_DIGITS_MAX else pa.string()
    if is_binary(column_type):
        return pa.binary()
    return pa.string() if kind in CHARACTER_KINDS else _FIXED[kind]


def is_binary(column_type: MySqlType) -> bool:
    """Whether values are bytes: the BINARY and BLOB kinds, and character kinds in the charset `binary`."""
    if column_type.kind in BINARY_KINDS:
        return True
    return column_type.kind in CHARACTER_KINDS and (column_type.charset or "").lower() == "binary"


def bit_width(column_type: MySqlType) -> int:
    """The number of bits of a BIT column; 1 where none was written."""
    return column_type.length or 1


def decimal_shape(column_type: MySqlType) -> tuple[int, int]:
    """Precision and scale of a DECIMAL column, with MySQL's defaults."""
    return column_type.length or DECIMAL_DIGITS_DEFAULT, column_type.scale or 0


def integer_range(column_type: MySqlType) -> tuple[int, int]:
    """The smallest and largest value of an integer, BIT or YEAR column."""
    if column_type.kind is Kind.YEAR:
        return 0, YEAR_MAX
    if column_type.kind is Kind.BIT:
        return 0, (1 << bit_width(column_type)) - 1
    bits = INTEGER_BITS[column_type.kind]
    if column_type.unsigned:
        return 0, (1 << bits) - 1
    return -(1 << bits - 1), (1 << bits - 1) - 1


def wraps(column_type: MySqlType) -> bool:
    """Whether the type has unsigned 64-bit values; a writer of signed numbers sends the upper half as negative."""
    return integer_range(column_type)[1] == UINT64_MAX
