"""Checksums of rows that TiDB and this project compute in the same way: MD5 over the texts of all columns.

Both sides write each value as text: TiDB in SQL, this project from the lake's value. A text that differs although the
value is the same is possible (JSON, VECTOR, character sets other than UTF-8); a difference of checksums is therefore
only a reason to read the row, and `same_value` decides. No I/O.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.schema.arrow_types import is_binary
from ticdc_assets.schema.model import Column, Kind
from ticdc_assets.sources.upstream.sql import has_labels, reference

_REALS: Final = frozenset({Kind.FLOAT, Kind.DOUBLE})
_TIMES: Final = frozenset({Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP})
_NUMBERS: Final = frozenset({Kind.BIT, Kind.YEAR})
_LABELLED: Final = frozenset({Kind.ENUM, Kind.SET})
_SEPARATOR: Final = b"\x1f"
_NULL: Final = b"\x1e"
_SECONDS_END: Final = 19
"""The length of a time to the second."""
_PLAIN_SCALE_MAX: Final = 6
"""The scale up to which Arrow writes no decimal with an exponent."""


def checksum_expression(columns: Sequence[Column]) -> str:
    """The SQL of a row's checksum: 32 hexadecimal digits."""
    texts = ", ".join(f"IFNULL({text_expression(column)}, X'1E')" for column in columns)
    return f"MD5(CONCAT_WS(X'1F', {texts}))"


def text_expression(column: Column) -> str:
    """The SQL of a value's text, NULL for NULL and for dates that do not exist."""
    name = reference(column.name)
    kind = column.type.kind
    if kind in _NUMBERS or (kind in _LABELLED and not has_labels(column)):
        return f"CAST({name} + 0 AS CHAR)"
    if kind in _REALS:
        return f"CAST({name} + 0E0 AS CHAR)"
    if is_binary(column.type):
        return f"HEX({name})"
    if kind in _TIMES:
        return f"IF(MONTH({name}) = 0 OR DAYOFMONTH({name}) = 0, NULL, CAST({name} AS CHAR))"
    return f"CAST({name} AS CHAR)"


def aggregate_expression(checksum: str) -> str:
    """The SQL of three columns that sum up rows: their count, and the sum of each half of their checksums. Unlike an
    XOR, a sum shows rows that are there twice."""
    halves = (f"SUM(CAST(CONV(SUBSTRING({checksum}, {at}, 16), 16, 10) AS UNSIGNED))" for at in (1, 17))
    return ", ".join(("COUNT(*)", *halves))


def first_byte_expression(checksum: str) -> str:
    """The SQL of the first byte of a checksum, a number."""
    return f"CONV(SUBSTRING({checksum}, 1, 2), 16, 10)"


def checksums(columns: Sequence[Column], values: Sequence[pa.Array]) -> list[bytes]:
    """The checksums of rows from the lake's values, an array for each column: 16 bytes each."""
    texts = (pc.fill_null(_texts(column, of), _NULL) for column, of in zip(columns, values, strict=True))
    joined = pc.binary_join_element_wise(*texts, pa.scalar(_SEPARATOR, pa.large_binary()))
    return [hashlib.md5(row, usedforsecurity=False).digest() for row in joined.to_pylist()]


def _texts(column: Column, values: pa.Array) -> pa.Array:
    """What `text` gives for each value."""
    kind = values.type
    is_plain = pa.types.is_decimal(kind) and kind.scale <= _PLAIN_SCALE_MAX
    if is_plain or pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return values.cast(pa.large_string()).cast(pa.large_binary())
    if pa.types.is_timestamp(kind):
        digits = column.type.length or 0
        whole = values.cast(pa.timestamp("us")).cast(pa.large_string())
        return pc.utf8_slice_codeunits(whole, 0, _SECONDS_END + (digits + 1 if digits else 0)).cast(pa.large_binary())
    texts = (None if (written := text(column, value)) is None else written.encode() for value in values.to_pylist())
    return pa.array(texts, pa.large_binary())


def text(column: Column, value: Any) -> str | None:
    """The text of a lake value, as `text_expression` writes it."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, float):
        return _real(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        digits = column.type.length or 0
        whole = value.replace(tzinfo=None).isoformat(" ", "microseconds")
        return whole[: _SECONDS_END + (digits + 1 if digits else 0)]
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list):
        return "[" + ",".join(_real(float(str(np.float32(number)))) for number in value) + "]"
    return str(value)


def same_value(column: Column, sent: str | None, value: Any) -> bool:
    """Whether the text from TiDB is that of the lake's value; numbers are compared as numbers."""
    if sent is None or value is None:
        return sent is None and value is None
    if isinstance(value, float):
        return float(sent) == value
    if isinstance(value, list):
        numbers = [number for number in sent.strip("[]").split(",") if number.strip()]
        return [float(np.float32(number)) for number in numbers] == [float(np.float32(number)) for number in value]
    return sent == text(column, value)


def _real(value: float) -> str:
    """The shortest decimal digits without an exponent, as Go's FormatFloat(value, 'f', -1, 64) writes them."""
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    return format(Decimal(repr(value)), "f").removesuffix(".0")
