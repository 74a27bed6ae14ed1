"""Rows in columns, as plain lines that never break a word.

On a terminal that is too narrow, the last column is wrapped at spaces. Where that leaves it too little room, each row
has a first line with its first cells, and further lines with the others, each after the name of its column.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len

GAP: Final = "  "
_INDENT: Final = "    "
_LAST_WIDTH_MIN: Final = 24


def in_columns(
    names: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, right: Sequence[str] = ()
) -> list[str]:
    """A line of the names, and the lines of each row. Widths are in terminal cells; None is a width without limit.

    Args:
        right: the names of columns that are aligned to the right.
    """
    widths = [max(cell_len(text) for text in column) for column in zip(names, *rows, strict=True)]
    before_last = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
    if width is None or before_last + min(widths[-1], _LAST_WIDTH_MIN) <= width:
        sides = [name in right for name in names]
        return [line for row in (names, *rows) for line in _aligned(row, widths, sides, before_last, width)]
    return [line for row in rows for line in _stacked(names, row, width)]


def _aligned(
    row: Sequence[str], widths: Sequence[int], sides: Sequence[bool], before_last: int, width: int | None
) -> Iterator[str]:
    cells = [_padded(*cell) for cell in zip(row[:-1], widths[:-1], sides[:-1], strict=True)]
    if sides[-1]:
        yield GAP.join([*cells, _padded(row[-1], widths[-1], True)])
        return
    first, *others = _wrapped(row[-1], None if width is None else width - before_last)
    yield GAP.join([*cells, first]).rstrip()
    for other in others:
        yield " " * before_last + other


def _stacked(names: Sequence[str], row: Sequence[str], width: int) -> Iterator[str]:
    first, number = row[0], 1
    while number < len(row) and cell_len(first) + len(GAP) + cell_len(row[number]) <= width:
        first, number = f"{first}{GAP}{row[number]}", number + 1
    yield first
    for name, text in zip(names[number:], row[number:], strict=True):
        if text:
            for line in _wrapped(f"{name}: {text}", width - len(_INDENT)):
                yield _INDENT + line


def _padded(text: str, width: int, to_the_right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if to_the_right else text + space


def _wrapped(text: str, width: int | None) -> list[str]:
    if width is None:
        return [text]
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]
