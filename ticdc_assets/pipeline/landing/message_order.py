"""The order of the landed messages of a commit: by their timestamps, with the messages of a partition by offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from pyiceberg.io import FileIO

from ticdc_assets.pipeline.landing.segment_rows import times_ms
from ticdc_assets.sources.message_block import Ints

if TYPE_CHECKING:
    from ticdc_assets.tables.landings import LandedSegment

WINDOW_ROWS: Final = 1 << 18

Owners = npt.NDArray[np.unsignedinteger]
"""The segment of each message. The type is the smallest one that can number all segments."""


@dataclass(frozen=True, slots=True)
class MessageOrder:
    """The order of consecutive messages of a commit: the row of the first, the segment of each, and how many rows of
    each segment come before them."""

    at: int
    owners: Owners
    before: Ints

    def __len__(self) -> int:
        return len(self.owners)

    def part(self, begin: int, end: int) -> MessageOrder:
        """The order of some of these messages."""
        passed = np.bincount(self.owners[:begin], minlength=len(self.before))
        return MessageOrder(self.at + begin, self.owners[begin:end], self.before + passed)


def order_of(io: FileIO, segments: Sequence[LandedSegment]) -> MessageOrder:
    """The order of all messages of a commit. Raises SourceError where a file cannot be read."""
    if len(segments) == 1:
        owners = np.zeros(segments[0].rows, np.uint8)
    else:
        owners = owners_by_time([np.maximum.accumulate(times_ms(io, segment)) for segment in segments])
    return MessageOrder(0, owners, np.zeros(len(segments), np.int64))


def owners_by_time(times: Sequence[Ints], window_rows: int = WINDOW_ROWS) -> Owners:
    """The segment of each message in the order of time, where messages of one time are in the order of segments.

    Args:
        times: the times of each segment, ascending.
        window_rows: about how many messages are sorted at once: sorting takes several times their memory.
    """
    numbers = np.arange(len(times), dtype=np.min_scalar_type(len(times)))
    step = max(1, window_rows // len(times))
    edges = np.unique(np.sort(np.concatenate([of[::step] for of in times]))[:: len(times)])[1:]
    cuts = [[0, *np.searchsorted(of, edges).tolist(), len(of)] for of in times]
    found: list[Owners] = []
    for window in range(len(edges) + 1):
        parts = [of[cut[window] : cut[window + 1]] for of, cut in zip(times, cuts, strict=True)]
        order = np.argsort(np.concatenate(parts), kind="stable")
        found.append(np.repeat(numbers, [len(part) for part in parts])[order])
    return np.concatenate(found)
