"""Counts with a noun in singular or plural."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """Such as `1 file` and `2,000 files`. `many` is the plural if it is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
