"""Ranges of offsets, and which messages of a capture a run reads. A range has its first offset and the one after it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from ticdc_assets.sources.message_block import TopicPartition

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Range = tuple[int, int]

GAPS_MAX: Final = 64
"""How many given-up ranges per partition a cursor keeps; messages of older ones stay given up."""


def union(*ranges: Iterable[Range]) -> list[Range]:
    """The offsets that are in any of the ranges, in order."""
    found: list[Range] = []
    for first, end in sorted(one for some in ranges for one in some):
        if first >= end:
            continue
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return found


def within(ranges: Iterable[Range], first: int, end: int) -> list[Range]:
    """The part of the ranges from `first` on and below `end`."""
    cut = ((max(a, first), min(b, end)) for a, b in ranges)
    return [(a, b) for a, b in cut if a < b]


def without(first: int, end: int, ranges: Iterable[Range]) -> list[Range]:
    """The offsets from `first` on and below `end` that are in none of the ranges."""
    found, at = [], first
    for a, b in union(within(ranges, first, end)):
        if at < a:
            found.append((at, a))
        at = b
    return [*found, (at, end)] if at < end else found


@dataclass(frozen=True, slots=True)
class Window:
    """The messages that a run reads: of each partition those that no run has consumed, before `until`.

    Consumed are the offsets from `begins` and before `ends`, except `gaps`.
    """

    ends: Mapping[TopicPartition, int]
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    gaps: Mapping[TopicPartition, Sequence[Range]] = field(default_factory=dict)
    until: Mapping[TopicPartition, int] = field(default_factory=dict)

    def mask(self, partition: TopicPartition, offsets: Ints) -> Bools:
        """Which of these offsets the run reads."""
        above = offsets >= self.ends.get(partition, 0)
        if partition in self.until:
            return above & (offsets < self.until[partition])
        wanted = above | (offsets < self.begins.get(partition, 0))
        for first, end in self.gaps.get(partition, ()):
            wanted |= (offsets >= first) & (offsets < end)
        return wanted

    def overlaps(self, partition: TopicPartition, first: int, end: int) -> bool:
        """Whether a run may have to read an offset from `first` on and below `end`."""
        if first < self.begins.get(partition, 0) or end > self.ends.get(partition, 0):
            return True
        return any(a < end and first < b for a, b in self.gaps.get(partition, ()))


class OffsetSet:
    """Offsets that come one by one, mostly in order."""

    __slots__ = ("_ends", "_firsts")

    def __init__(self, offset: int) -> None:
        self._firsts, self._ends = [offset], [offset + 1]

    @property
    def ranges(self) -> list[Range]:
        """The offsets as ranges, in ascending order."""
        return list(zip(self._firsts, self._ends, strict=True))

    @property
    def first(self) -> int:
        return self._firsts[0]

    @property
    def end(self) -> int:
        return self._ends[-1]

    def add_range(self, first: int, end: int) -> None:
        """Add offsets, including ones that are already in the set."""
        ranges = union(self.ranges, [(first, end)])
        self._firsts, self._ends = [first for first, _ in ranges], [end for _, end in ranges]

    def extend(self, offsets: Ints) -> None:
        """Add ascending offsets that are all from `end` on."""
        cuts = np.flatnonzero(np.diff(offsets) != 1)
        firsts = [int(offsets[0]), *offsets[cuts + 1].tolist()]
        ends = [*(offsets[cuts] + 1).tolist(), int(offsets[-1]) + 1]
        if firsts[0] == self._ends[-1]:
            self._ends[-1] = ends.pop(0)
            firsts.pop(0)
        self._firsts += firsts
        self._ends += ends

    def add(self, offset: int) -> bool:
        """Add an offset. Returns False where it was already in the set."""
        if offset == self._ends[-1]:
            self._ends[-1] += 1
            return True
        at = bisect_right(self._firsts, offset) - 1
        if at >= 0 and offset < self._ends[at]:
            return False
        joins_left = at >= 0 and self._ends[at] == offset
        joins_right = at + 1 < len(self._firsts) and self._firsts[at + 1] == offset + 1
        if joins_left and joins_right:
            self._ends[at] = self._ends.pop(at + 1)
            del self._firsts[at + 1]
        elif joins_left:
            self._ends[at] += 1
        elif joins_right:
            self._firsts[at + 1] = offset
        else:
            self._firsts.insert(at + 1, offset)
            self._ends.insert(at + 1, offset + 1)
        return True
