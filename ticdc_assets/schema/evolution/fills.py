"""The value of an added column in older rows: its default as TiDB stores it, or the type's implicit value."""

from __future__ import annotations

from typing import Final

from ticdc_assets.schema.arrow_types import BINARY_KINDS, CHARACTER_KINDS
from ticdc_assets.schema.ddl.defaults import fraction_text, rounded
from ticdc_assets.schema.model import Column, Default, Kind, MySqlType

_FLOAT_ZERO_MAX: Final = 2.0**-150
"""Half of the smallest FLOAT, which is rounded to 0."""
_FILLING_EXPRESSIONS: Final = ("CURRENT_TIMESTAMP", "CURRENT_DATE")


def fill_of(column: Column) -> Default | None:
    """The value of the column in older rows: its default, NULL (`Default()`), or the type's implicit value.

    An expression other than the current time gives None: the rows' values are then not in the statement.
    """
    default = column.default
    if default is not None and default.expression is not None:
        return default if default.expression.startswith(_FILLING_EXPRESSIONS) else None
    if default is not None and default.value is not None:
        return Default(value=_stored(default.value, column.type))
    return Default() if column.nullable else Default(value=implicit_value(column.type))


def _stored(value: str | bytes, of: MySqlType) -> str | bytes:
    """BINARY(n) rows are padded to n bytes, CHAR rows lose trailing spaces, VARCHAR(n) those beyond n characters."""
    if isinstance(value, bytes):
        return _stored_bytes(value, of)
    if of.kind in (Kind.FLOAT, Kind.DOUBLE):
        return _stored_real(value, of.kind)
    text = value.rstrip(" ") if of.kind is Kind.CHAR else value
    # Only blanks can be beyond the length: the server refuses other text.
    return text[: of.length] if of.kind in (Kind.CHAR, Kind.VARCHAR) else text


def _stored_real(text: str, kind: Kind) -> str:
    """TiDB stores no negative zero; numbers too small for the type are 0."""
    try:
        number = float(text)
    except ValueError:
        return text
    return "0" if abs(number) <= (_FLOAT_ZERO_MAX if kind is Kind.FLOAT else 0) else text


def _stored_bytes(value: bytes, of: MySqlType) -> bytes:
    """TiDB keeps defaults as JSON text: each byte that is no UTF-8 is U+FFFD in rows, cut to what the column holds."""
    kept = _as_json_text(value)
    if of.kind is Kind.BINARY:
        length = 1 if of.length is None else of.length
        return kept[:length].ljust(length, b"\0")
    return kept[: of.length]


def _as_json_text(value: bytes) -> bytes:
    kept = b""
    while True:
        try:
            return kept + value.decode("utf-8").encode("utf-8")
        except UnicodeDecodeError as error:
            kept += value[: error.start] + "\ufffd".encode()
            value = value[error.start + 1 :]


def implicit_value(of: MySqlType) -> str | bytes:
    """The value of a NOT NULL column without a default in older rows."""
    if of.kind in BINARY_KINDS:
        return _stored(b"", of)
    if of.kind is Kind.DECIMAL:
        return rounded("0", of.scale or 0)
    if of.kind is Kind.ENUM:
        return of.elements[0] if of.elements else "1"
    if of.kind is Kind.TIME:
        return "00:00:00" + fraction_text(0, of.length or 0)
    if of.kind in (Kind.DATETIME, Kind.TIMESTAMP):
        return "0000-00-00 00:00:00" + fraction_text(0, of.length or 0)
    if of.kind in CHARACTER_KINDS or of.kind is Kind.SET:
        return ""
    return {Kind.DATE: "0000-00-00", Kind.YEAR: "0000", Kind.JSON: "null", Kind.VECTOR: "[]"}.get(of.kind, "0")
