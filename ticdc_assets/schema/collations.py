"""Which character set and collation a column's text has, and how that compares text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar


class TextOrder(StrEnum):
    """How text compares under a collation that orders by code points."""

    EXACT = "exact"
    PADDED = "padded"
    """Trailing blanks do not count."""


# TiDB's own, which differ from MySQL's.
_DEFAULTS: Final = {
    "utf8mb4": "utf8mb4_bin",
    "utf8": "utf8_bin",
    "utf8mb3": "utf8_bin",
    "latin1": "latin1_bin",
    "ascii": "ascii_bin",
    "binary": "binary",
    "gbk": "gbk_chinese_ci",
    "gb18030": "gb18030_chinese_ci",
}
# Not gbk_bin and gb18030_bin: these order by the bytes of their own character sets.
_ORDERS: Final = {
    **dict.fromkeys(("utf8mb4_bin", "utf8_bin", "utf8mb3_bin", "latin1_bin", "ascii_bin"), TextOrder.PADDED),
    **dict.fromkeys(("utf8mb4_0900_bin", "binary"), TextOrder.EXACT),
}
_C = TypeVar("_C", bound="Collation | None")


@dataclass(frozen=True, slots=True)
class Collation:
    """A character set and a collation as a statement names them; None where it names none."""

    charset: str | None = None
    name: str | None = None

    def within(self, outer: _C) -> Collation | _C:
        """The effective collation of a column in a table, or of a table in a database, whose own is `outer` (None: not
        known). The inner one wins if it names anything, as in TiDB."""
        return self if self.charset or self.name else outer

    @property
    def charset_of_text(self) -> str | None:
        """The character set, also from the prefix of the collation's name; None where neither is named."""
        return self.name.partition("_")[0] if self.name else self.charset

    @property
    def order(self) -> TextOrder | None:
        """How text compares; None where it is not by code points or not known."""
        return _ORDERS.get(self.name or _DEFAULTS.get(self.charset or "utf8mb4", ""))


UNNAMED: Final = Collation()
"""Neither is named: the database's collation applies, which is assumed to be TiDB's default, utf8mb4_bin."""
