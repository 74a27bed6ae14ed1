"""Rows in columns, as plain lines that never break a word.

On a terminal that is too narrow, the last column is wrapped at spaces. Where that leaves it too little room, as many
columns as fit stand beside each other, and further lines below each row have its other cells, each after the name of
its column.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import accumulate
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
    sides = [name in right for name in names]
    if width is None or before_last + min(widths[-1], _LAST_WIDTH_MIN) <= width:
        return [line for row in (names, *rows) for line in _aligned(row, widths, sides, before_last, width)]
    return _stacked(names, rows, widths, sides, width)


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


def _stacked(
    names: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], sides: Sequence[bool], width: int
) -> list[str]:
    ends = list(accumulate(wide + len(GAP) for wide in widths))
    count = max(sum(end - len(GAP) <= width for end in ends), 1)
    lines = []
    for row in (names, *rows):
        cells = zip(row[:count], widths[:count], sides[:count], strict=True)
        lines.append(GAP.join(_padded(*cell) for cell in cells).rstrip())
        if row is not names:
            named = [f"{name}: {text}" for name, text in zip(names[count:], row[count:], strict=True) if text]
            lines += [
                _INDENT + line for text in _together(named, width) for line in _wrapped(text, width - len(_INDENT))
            ]
    return lines


def _together(texts: Sequence[str], width: int) -> Iterator[str]:
    """The texts, as many in one line as fit."""
    line = ""
    for text in texts:
        longer = f"{line}{GAP}{text}" if line else text
        if line and cell_len(longer) > width - len(_INDENT):
            yield line
            longer = text
        line = longer
    if line:
        yield line


def _padded(text: str, width: int, to_the_right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if to_the_right else text + space


def _wrapped(text: str, width: int | None) -> list[str]:
    if width is None:
        return [text]
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]
