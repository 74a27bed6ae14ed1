"""Literals of DDL text as values of a column."""

from __future__ import annotations

from typing import Any, Final

from ticdc_assets.errors import LOAD_AGAIN, DecodeError, SchemaError
from ticdc_assets.protocols.values.text import TextForms, value
from ticdc_assets.schema.model import MySqlType

ADVICE: Final = LOAD_AGAIN


def typed_literal(name: str, column_type: MySqlType, text: str | bytes, zone: str) -> Any:
    """A literal of DDL text as a value of its column; SchemaError where the column's type cannot hold it."""
    if isinstance(text, bytes):
        return text
    try:
        return value(column_type, text, TextForms(binary="raw", enum="label", zone=zone))
    except DecodeError as error:
        expected = f"a literal that {column_type.kind} holds"
        raise SchemaError(f"column {name}", expected, error.found, ADVICE) from None
