"""The statements to a TiDB upstream and the conversion of its answers: SQL, parameters, cells. No I/O.

A cell is the server's value: text, or bytes for binary and BIT columns, None for NULL. TIMESTAMPs are in UTC, as the
session is. ENUM and SET are labels, or numbers if the labels are not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

from ticdc_assets.errors import DecodeError
from ticdc_assets.names import quote, quote_path
from ticdc_assets.protocols.values import native as native_values
from ticdc_assets.protocols.values.native import Plain
from ticdc_assets.schema.arrow_types import is_binary
from ticdc_assets.schema.model import Column, Kind

Cell = str | bytes | None
Row = Mapping[str, Cell]
"""The cells of a row by column name."""

SESSION: Final = "SET SESSION time_zone = '+00:00', sql_mode = '', max_execution_time = %s"
SNAPSHOT: Final = "SET SESSION tidb_snapshot = %s"
ZONE: Final = "UTC"


@dataclass(frozen=True, slots=True)
class HexBytes:
    """A bytes parameter, written as X'...': in quotes it would have to be text in the connection's character set."""

    value: bytes


_LABELLED: Final = frozenset({Kind.ENUM, Kind.SET})
_ADVICE: Final = "Check that `upstream` is the TiDB that the changefeed reads from."


def select(
    schema: str, table: str, columns: Sequence[Column], key: Sequence[Column], wanted: Sequence[Sequence[Any]]
) -> tuple[str, list[Any]]:
    """The statement for the rows with these keys, and its parameters.

    `wanted` has the key values of each row, as in the lake, in the order of `key`.
    """
    found, parameters = with_keys(key, wanted)
    listed = ", ".join(selected(column) for column in columns)
    return f"SELECT {listed} FROM {table_reference(schema, table)} WHERE {found}", parameters  # noqa: S608


def with_keys(key: Sequence[Column], wanted: Sequence[Sequence[Any]]) -> tuple[str, list[Any]]:
    """The condition for the rows with these keys, and its parameters."""
    one = "(" + " AND ".join(f"{reference(column.name)} = %s" for column in key) + ")"
    parameters = [parameter(column, value) for values in wanted for column, value in zip(key, values, strict=True)]
    return " OR ".join([one] * len(wanted)), parameters


def table_reference(schema: str, table: str) -> str:
    """A table in a statement with parameters."""
    return quote_path((schema, table)).replace("%", "%%")


def cells(columns: Sequence[Column], answer: Sequence[bytes | None]) -> dict[str, Cell]:
    """A row of the answer. DecodeError if text is not UTF-8."""
    return {column.name: _cell(column, answer_cell) for column, answer_cell in zip(columns, answer, strict=True)}


def value(column: Column, cell: Cell, zone: str) -> Any:
    """The lake's value of a cell; `zone` is ignored, as cells are in UTC."""
    return native_values.value(column, cell, ZONE, labels=has_labels(column))


def plain(column: Column, cell: Cell, fold: int) -> Plain:
    """The value over which a row's checksum is computed."""
    return native_values.plain(column, cell, ZONE, labels=has_labels(column), fold=fold)


def reference(name: str) -> str:
    """A column in a statement with parameters."""
    return quote(name).replace("%", "%%")


def has_labels(column: Column) -> bool:
    """Whether the values of an ENUM or SET are labels here."""
    return column.type.kind in _LABELLED and column.type.elements is not None


def selected(column: Column) -> str:
    """The expression whose answer `cells` reads."""
    if column.type.kind in _LABELLED and not has_labels(column):
        return f"CAST({reference(column.name)} AS UNSIGNED)"
    return reference(column.name)


def image(columns: Sequence[Column], answer: Sequence[bytes | None]) -> dict[str, Any]:
    """The lake's values of a row whose columns were asked for as `listed`."""
    sent = cells(columns, answer)
    return {column.name: value(column, sent[column.name], "") for column in columns}


def listed(columns: Sequence[Column]) -> str:
    """The columns of a SELECT whose answers `image` reads. TiDB prints six digits of a FLOAT, but all of a DOUBLE."""
    floats = (f"{reference(c.name)} + 0E0" if c.type.kind is Kind.FLOAT else selected(c) for c in columns)
    return ", ".join(floats)


def _cell(column: Column, sent: bytes | None) -> Cell:
    if sent is None or is_binary(column.type) or column.type.kind is Kind.BIT:
        return sent
    try:
        return sent.decode()
    except UnicodeDecodeError:
        raise DecodeError(f"column `{column.name}`", "UTF-8 text of upstream", "other bytes", _ADVICE) from None


def parameter(column: Column, key: Any) -> Any:
    """A key value as a parameter that is compared as the column's own type."""
    if isinstance(key, datetime):
        return (key.astimezone(UTC) if key.tzinfo else key).replace(tzinfo=None).isoformat(" ", "microseconds")
    if isinstance(key, date):
        return key.isoformat()
    if column.type.kind is Kind.DECIMAL:
        return Decimal(key)
    if column.type.kind in _LABELLED and not has_labels(column):
        return int(key)
    return HexBytes(key) if isinstance(key, bytes) else key
