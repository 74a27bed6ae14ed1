"""Conversions to text, bytes and JSON: see `conversion.convert` for what is promised."""

from __future__ import annotations

from typing import Final

from ticdc_assets.schema.arrow_types import BINARY_KINDS, CHARACTER_KINDS, INTEGER_BITS
from ticdc_assets.schema.model import Kind, MySqlType
from ticdc_assets.tables.conversion.functions import PRINTED_DOUBLE, PRINTED_FLOAT, PRINTED_JSON
from ticdc_assets.tables.conversion.literals import matches
from ticdc_assets.tables.conversion.times import printed_moment

_BYTES_MAX: Final = {
    **dict.fromkeys((Kind.TINYTEXT, Kind.TINYBLOB), 0xFF),
    **dict.fromkeys((Kind.TEXT, Kind.BLOB), 0xFFFF),
    **dict.fromkeys((Kind.MEDIUMTEXT, Kind.MEDIUMBLOB), 0xFF_FFFF),
    **dict.fromkeys((Kind.LONGTEXT, Kind.LONGBLOB), 0xFFFF_FFFF),
}
_UTF8: Final = (None, "utf8mb4", "utf8mb3", "utf8", "ascii")
_CHARACTERS: Final = {
    **dict.fromkeys(("ascii", "gbk", "gb18030", "ucs2", "utf16", "utf32"), r"^[\x00-\x7F]*"),
    **dict.fromkeys(("utf8", "utf8mb3"), r"^[\x{0}-\x{FFFF}]*"),
}
"""The characters that a character set surely has; a server whose sql_mode is not strict writes `?` for others."""
_AS_STORED: Final = frozenset({*CHARACTER_KINDS, Kind.ENUM, Kind.SET, Kind.JSON, Kind.TIME})
"""Types whose values are in the lake as MySQL prints them."""
_TO_BYTES: Final = frozenset({*INTEGER_BITS, *CHARACTER_KINDS, Kind.DECIMAL, Kind.ENUM, Kind.SET})


def to_text(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """To CHAR, VARCHAR and TEXT: the printed value. Only spaces at the end may be cut off."""
    printed = _printed(column, old)
    if old.kind in BINARY_KINDS and new.charset in _UTF8:
        printed = f"try_validate_utf8(CAST({column} AS string))"
    if printed is None:
        return None
    cut = _cut_text(printed, old, new)
    characters = _CHARACTERS.get(new.charset or "")
    if cut is None or characters is None or old.charset == new.charset:
        return cut
    return f"CASE WHEN {matches(printed, characters)} THEN {cut} END"


def _cut_text(printed: str, old: MySqlType, new: MySqlType) -> str | None:
    if new.kind in _BYTES_MAX:
        return f"CASE WHEN octet_length({printed}) <= {_BYTES_MAX[new.kind]} THEN {printed} END"
    if new.kind is Kind.CHAR:
        return _as_char(printed, old, new)
    if new.length is None:
        return None
    return (
        f"CASE WHEN length({printed}) <= {new.length} THEN {printed} "
        f"WHEN length(rtrim({printed})) <= {new.length} THEN left({printed}, {new.length}) END"
    )


def to_binary(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """To BINARY, VARBINARY and BLOB: the bytes of the printed value; BINARY is padded with zeros."""
    if old.kind in BINARY_KINDS:
        raw = column
    elif old.kind in _TO_BYTES and old.charset in _UTF8:
        raw = f"encode({_printed(column, old)}, 'UTF-8')"
    else:
        return None
    length = new.length if new.kind is not Kind.BINARY or new.length is not None else 1
    longest = _BYTES_MAX.get(new.kind, length)
    if longest is None:
        return None
    if new.kind is not Kind.BINARY:
        return f"CASE WHEN octet_length({raw}) <= {longest} THEN {raw} END"
    if _may_stay_as_written(old, new, old.kind is Kind.CHAR):
        return f"CASE WHEN octet_length({raw}) = {longest} THEN {raw} END"
    return f"CASE WHEN octet_length({raw}) <= {longest} THEN rpad({raw}, {longest}, X'00') END"


def to_json(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """To JSON, from integers and text."""
    if old.kind in CHARACTER_KINDS and old.charset in _UTF8:
        return f"{PRINTED_JSON}({column})"
    return f"CAST({column} AS string)" if old.kind in INTEGER_BITS else None


def _as_char(printed: str, old: MySqlType, new: MySqlType) -> str:
    length = 1 if new.length is None else new.length
    if _may_stay_as_written(old, new, old.kind is Kind.BINARY):
        return f"CASE WHEN {printed} = rtrim({printed}) AND length({printed}) <= {length} THEN {printed} END"
    return f"CASE WHEN length(rtrim({printed})) <= {length} THEN rtrim({printed}) END"


def _may_stay_as_written(old: MySqlType, new: MySqlType, same_storage: bool) -> bool:
    """Whether TiDB may leave the rows alone: between CHAR and BINARY, and where both sizes are 255.

    MySQL cuts off spaces and pads with zeros there, so only values that need neither are known.
    """
    return same_storage or (old.kind in (Kind.TINYTEXT, Kind.TINYBLOB) and new.length == _BYTES_MAX[old.kind])


def _printed(column: str, old: MySqlType) -> str | None:
    if old.kind in _AS_STORED:
        return column
    if old.kind in INTEGER_BITS or old.kind in (Kind.DECIMAL, Kind.DATE):
        return f"CAST({column} AS string)"
    if old.kind is Kind.YEAR:
        return f"CASE WHEN {column} > 0 THEN CAST({column} AS string) END"  # the zero year prints as 0 or 0000
    if old.kind is Kind.DATETIME:
        return printed_moment(column, "yyyy-MM-dd HH:mm:ss", old.length or 0)
    if old.kind is Kind.FLOAT:
        return f"{PRINTED_FLOAT}({column})"
    if old.kind is Kind.DOUBLE:
        return f"{PRINTED_DOUBLE}({column})"
    return None  # TIMESTAMP prints in the session's zone, BIT as bytes
