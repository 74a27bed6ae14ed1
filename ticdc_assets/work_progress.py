"""The progress of long work: the name of each stage as text, and how much of the stage is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Count:
    """How much of the present stage is done, in units such as `file`; `total` is None where it is not known."""

    done: int
    total: int | None
    unit: str


OnProgress = Callable[["str | Count"], None]
"""Called with the name of a stage when it begins, and with counts while it runs."""


def no_progress(_: str | Count) -> None:
    """Shows nothing."""


def each_counted(items: Sequence[_T], unit: str, on_progress: OnProgress) -> Iterator[_T]:
    """The items; each is counted as done when the next one is asked for."""
    for number, item in enumerate(items, start=1):
        yield item
        on_progress(Count(number, len(items), unit))
