"""Truth files in the lake's value forms, so that rows from a table can be compared cell by cell."""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from ticdc_assets.protocols.values.text import TextForms, value
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.model import Kind, MySqlType

_BINARY = {Kind.BINARY, Kind.VARBINARY, Kind.TINYBLOB, Kind.BLOB, Kind.MEDIUMBLOB, Kind.LONGBLOB}
_NUMBERED = {Kind.ENUM, Kind.SET}


def lake_value(column_type: MySqlType, recorded: Any, zone: str) -> Any:
    """A value of the truth files as the lake holds it."""
    if recorded is None:
        return None
    if isinstance(recorded, dict):
        return base64.b64decode(recorded["b64"])
    if column_type.kind in _NUMBERED:
        return value(column_type, str(recorded), TextForms(binary="raw", enum="number", zone=zone))
    if column_type.kind in (Kind.FLOAT, Kind.DOUBLE):
        return float(np.float32(recorded)) if column_type.kind is Kind.FLOAT else float(recorded)
    if column_type.kind is Kind.VECTOR and not isinstance(recorded, str):
        return [float(np.float32(v)) for v in recorded]
    return value(column_type, str(recorded), TextForms(binary="raw", enum="label", zone=zone))


def comparable(cell: Any) -> Any:
    """A cell in a form that compares and hashes: timestamps as UTC, lists as tuples, floats by their bits."""
    if isinstance(cell, datetime) and cell.tzinfo is not None:
        return cell.astimezone(UTC)
    if isinstance(cell, (list, tuple)):
        return tuple(comparable(item) for item in cell)
    if isinstance(cell, float) and math.isnan(cell):
        return "NaN"
    if isinstance(cell, (bytes, date, str, int, Decimal, float)) or cell is None:
        return cell
    raise TypeError(type(cell).__name__)


def truth_types(entry: Mapping[str, Any]) -> dict[str, MySqlType]:
    """The types of the columns that rows of a truth entry hold."""
    return {name: parse_type(text) for name, text, _, virtual, *_ in entry["columns"] if not virtual}


def truth_rows(entry: Mapping[str, Any], zone: str) -> Counter[tuple[Any, ...]]:
    """The rows of a truth entry, each a tuple in the order of its columns."""
    types = truth_types(entry)
    return Counter(
        tuple(comparable(lake_value(t, row.get(name), zone)) for name, t in types.items()) for row in entry["rows"]
    )


def table_rows(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> Counter[tuple[Any, ...]]:
    """Rows of a table in the same form."""
    listed = list(names)
    return Counter(tuple(comparable(row[name]) for name in listed) for row in rows)
