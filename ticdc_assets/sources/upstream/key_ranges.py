"""Ranges of keys in statements to TiDB, and the same order for keys of the lake. No I/O.

A range is cut at the first key columns whose values compare in the lake as in TiDB. If the first key column has another
order there, the lake has one range; TiDB can still be read in ranges, if it compares with a literal as it sorts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from ticdc_assets.schema.arrow_types import CHARACTER_KINDS, is_binary
from ticdc_assets.schema.collations import TextOrder
from ticdc_assets.schema.model import Column, Kind
from ticdc_assets.sources.upstream.sql import parameter, reference

_COMPARABLE: Final = frozenset({
    Kind.TINYINT, Kind.SMALLINT, Kind.MEDIUMINT, Kind.INT, Kind.BIGINT, Kind.YEAR, Kind.DATE, Kind.DATETIME,
    Kind.TIMESTAMP,
})  # fmt: skip
_DECIMAL_DIGITS_MAX: Final = 38

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """The columns by which TiDB is read in ranges; `in_lake` if the lake's values have the same order."""

    columns: tuple[Column, ...]
    in_lake: bool

    def place(self, values: Sequence[Any]) -> Key:
        """A key of the lake as a value that sorts as TiDB sorts it."""
        return tuple(_place(column, value) for column, value in zip(self.columns, values, strict=True))

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
        values = [parameter(column, value) for column, value in zip(self.columns, limit, strict=True)]
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


def _place(column: Column, value: Any) -> Any:
    if isinstance(value, str) and column.type.kind in CHARACTER_KINDS:
        return (value.rstrip(" ") if column.text_order is TextOrder.PADDED else value).encode()
    return value
