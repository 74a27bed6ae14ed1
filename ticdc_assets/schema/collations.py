"""Which character set and collation a column's text has, and how that compares text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar


class TextOrder(StrEnum):
    """How text compares whose collation goes by code points."""

    EXACT = "exact"
    PADDED = "padded"
    """Blanks at the end count for nothing."""


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
    """A character set and the name of a collation as a statement has them, None where it has none."""

    charset: str | None = None
    name: str | None = None

    def within(self, outer: _C) -> Collation | _C:
        """What a column with this one has in a table with that one, a table in a database (None: not known): what is
        named first decides alone, as in TiDB."""
        return self if self.charset or self.name else outer

    @property
    def charset_of_text(self) -> str | None:
        """The character set, which a collation's name begins with; None where neither is named."""
        return self.name.partition("_")[0] if self.name else self.charset

    @property
    def order(self) -> TextOrder | None:
        """How text compares; None where it does not by code points, or that is not known."""
        return _ORDERS.get(self.name or _DEFAULTS.get(self.charset or "utf8mb4", ""))


UNNAMED: Final = Collation()
"""What a table has that names neither: the collation of its database, which is taken for TiDB's own, utf8mb4_bin."""
