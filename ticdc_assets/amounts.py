"""How many of something, as people say it."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """Such as `1 file` and `2,000 files`; `many` where it is not just `one` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
