"""Counts and durations in words."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """Such as `1 file` and `2,000 files`. `many` is the plural if it is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def duration(seconds: float) -> str:
    """A duration as text, in its two largest units."""
    left = int(max(seconds, 0))
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])
