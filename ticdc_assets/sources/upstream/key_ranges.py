"""Ranges of keys in statements to TiDB, and the same order for keys of the lake. No I/O.

A range is cut at the first key columns whose values compare in the lake as in TiDB. If the first key column has another
order there, or there is no key, only TiDB is read in ranges: of that column, if it compares with a literal as it sorts,
or of the numbers that TiDB gives to rows without a key.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile
from typing import Any, Final

from ticdc_assets.schema.arrow_types import CHARACTER_KINDS, is_binary
from ticdc_assets.schema.model import Column, Kind, MySqlType, TextOrder
from ticdc_assets.sources.upstream.checksums import text
from ticdc_assets.sources.upstream.sql import parameter, reference, value

_COMPARABLE: Final = frozenset({
    Kind.TINYINT, Kind.SMALLINT, Kind.MEDIUMINT, Kind.INT, Kind.BIGINT, Kind.YEAR, Kind.DATE, Kind.DATETIME,
    Kind.TIMESTAMP, Kind.BIT, Kind.TIME, Kind.ENUM,
})  # fmt: skip
_ROW_NUMBER: Final = Column("_tidb_rowid", MySqlType(Kind.BIGINT))
_CONVERTED: Final = CHARACTER_KINDS | {Kind.ENUM, Kind.TIME}
_DECIMAL_DIGITS_MAX: Final = 38

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """The columns by which TiDB is read in ranges; `in_lake` if the lake's values have the same order."""

    columns: tuple[Column, ...]
    in_lake: bool

    def places(self, keys: Sequence[Key]) -> Sequence[Key]:
        """Keys of the lake, which may have more columns, as values that sort as TiDB sorts them."""
        count = len(self.columns)
        if not any(column.type.kind in _CONVERTED for column in self.columns):
            return [key[:count] for key in keys]
        return [
            tuple(_place(column, value) for column, value in zip(self.columns, key[:count], strict=True))
            for key in keys
        ]

    def written(self, key: Key) -> str:
        """A key as JSON."""
        return json.dumps([text(column, of) for column, of in zip(self.columns, key, strict=True)])

    def read(self, written: str) -> Key:
        """The key that `written` wrote."""
        found = zip(self.columns, json.loads(written), strict=True)
        return tuple(value(column, _cell(column, sent), "") for column, sent in found)

    def condition(self, after: Key | None, until: Key | None) -> tuple[str, list[Any]]:
        """The condition for keys in `(after, until]`, and its parameters; None is no limit."""
        parts, parameters = ["TRUE"], []
        for limit, inner, last in ((after, ">", ">"), (until, "<", "<=")):
            if limit is not None:
                part, found = self._beyond(limit, inner, last)
                parts.append(part)
                parameters += found
        return " AND ".join(parts), parameters

    def _beyond(self, limit: Key, inner: str, last: str) -> tuple[str, list[Any]]:
        names = [reference(column.name) for column in self.columns]
        values = [_literal(column, of) for column, of in zip(self.columns, limit, strict=True)]
        # The first comparison lets TiDB read a range of the index; the others cut it exactly.
        parts, parameters = [f"{names[0]} {inner}= %s"], [values[0]]
        cases = []
        for number, name in enumerate(names):
            sign = last if number == len(names) - 1 else inner
            equal = [f"{other} = %s" for other in names[:number]]
            cases.append("(" + " AND ".join([*equal, f"{name} {sign} %s"]) + ")")
            parameters += values[: number + 1]
        parts.append("(" + " OR ".join(cases) + ")")
        return " AND ".join(parts), parameters

    @property
    def listed(self) -> str:
        """The columns as SQL."""
        return ", ".join(reference(column.name) for column in self.columns)


def key_order(key: Sequence[Column]) -> KeyOrder:
    """The order for a key, whose columns are in the order of the index; no columns if TiDB cannot be read in ranges."""
    if not key:
        return KeyOrder((_ROW_NUMBER,), in_lake=False)
    comparable = tuple(takewhile(_is_comparable, key))
    if comparable:
        return KeyOrder(comparable, in_lake=True)
    return KeyOrder(tuple(key[:1]) if key[0].type.kind in CHARACTER_KINDS else (), in_lake=False)


def _is_comparable(column: Column) -> bool:
    kind = column.type.kind
    if kind in CHARACTER_KINDS:
        return column.text_order is not None
    if kind is Kind.DECIMAL:
        return (column.type.length or 10) <= _DECIMAL_DIGITS_MAX
    return kind in _COMPARABLE or is_binary(column.type)


def _place(column: Column, of: Any) -> Any:
    kind = column.type.kind
    if kind is Kind.ENUM:
        return _number(column, of)
    if kind is Kind.TIME:
        return _duration(of)
    if isinstance(of, str) and kind in CHARACTER_KINDS:
        return (of.rstrip(" ") if column.text_order is TextOrder.PADDED else of).encode()
    return of


def _literal(column: Column, of: Any) -> Any:
    """A limit as a parameter that TiDB compares as it sorts; an ENUM is sorted by the numbers of its labels."""
    if column.type.kind is Kind.ENUM:
        return _number(column, of)
    return int(of) if column.type.kind is Kind.BIT else parameter(column, of)


def _cell(column: Column, written: str) -> str | bytes:
    if is_binary(column.type):
        return bytes.fromhex(written)
    return int(written).to_bytes(8, "big") if column.type.kind is Kind.BIT else written


def _number(column: Column, label: str) -> int:
    """The number of a label; 0 for the empty one that stands for an invalid value."""
    labels = column.type.elements
    if labels is None:
        return int(label)
    return labels.index(label) + 1 if label in labels else 0


def _duration(of: str) -> Decimal:
    """The seconds of a TIME such as -838:59:59.000."""
    hours, minutes, seconds = of.lstrip("-").split(":")
    whole = (int(hours) * 60 + int(minutes)) * 60 + Decimal(seconds)
    return -whole if of.startswith("-") else whole
