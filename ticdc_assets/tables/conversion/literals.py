"""Types and values as SQL: values of columns, and literals of DDL text.

Every value that goes into a statement goes through `literal`.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ticdc_assets.advice import Advice
from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.protocols.values.text import TextForms, value
from ticdc_assets.schema.model import MySqlType


def spark_type(arrow: pa.DataType) -> str:
    """The Spark SQL name of a type."""
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_list(arrow):
        return f"array<{spark_type(arrow.value_type)}>"
    return _SPARK_TYPES[arrow]


_SPARK_TYPES: dict[pa.DataType, str] = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def literal(value: Any, arrow: pa.DataType) -> str:
    """A value as SQL of its type, NULL for None; text goes as hex so that no byte of it is ever read as SQL."""
    name = spark_type(arrow)
    if value is None:
        return f"CAST(NULL AS {name})"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return f"CAST(X'{value.encode().hex()}' AS string)"
    if isinstance(value, datetime):
        text = value.isoformat(" ") if value.tzinfo is None else value.astimezone(UTC).isoformat(" ")
        return f"CAST('{text}' AS {name})"
    if isinstance(value, date):
        return f"CAST('{value.isoformat()}' AS {name})"
    if isinstance(value, list):
        return f"CAST(array({', '.join(repr(float(v)) for v in value)}) AS {name})"
    if isinstance(value, (int, float, Decimal)):
        return f"CAST('{value}' AS {name})"
    raise TypeError(f"no SQL literal for {type(value).__name__}")


def matches(text: str, pattern: str) -> str:
    """Whether the whole of a text matches a Java pattern, as a condition; `text` is SQL, `pattern` begins with ^."""
    return f"{text} RLIKE {literal(pattern + chr(92) + 'z', pa.string())}"  # $ would pass over a line break


def typed_literal(name: str, column_type: MySqlType, text: str | bytes, zone: str) -> Any:
    """A literal of DDL text as a value of its column; SchemaError where the column's type cannot hold it."""
    if isinstance(text, bytes):
        return text
    try:
        return value(column_type, text, TextForms(binary="raw", enum="label", zone=zone))
    except DecodeError as error:
        expected = f"a literal that {column_type.kind} holds"
        raise SchemaError(f"column {name}", expected, error.found, Advice.LOAD_AGAIN) from None
