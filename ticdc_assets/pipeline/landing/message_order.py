"""The order of the landed messages of a commit: by their timestamps, with the messages of a partition by offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from pyiceberg.io import FileIO

from ticdc_assets.pipeline.landing.segment_rows import times_ms
from ticdc_assets.sources.message_block import Ints

if TYPE_CHECKING:
    from ticdc_assets.tables.landings import LandedSegment

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
    numbers = np.arange(len(segments), dtype=np.min_scalar_type(len(segments)))
    rows = [segment.rows for segment in segments]
    owners = np.repeat(numbers, rows)
    if len(segments) > 1:
        times = np.empty(sum(rows), np.int64)
        for segment, end in zip(segments, np.cumsum(rows).tolist(), strict=True):
            np.maximum.accumulate(times_ms(io, segment), out=times[end - segment.rows : end])
        owners = owners[np.argsort(times, kind="stable")]
    return MessageOrder(0, owners, np.zeros(len(segments), np.int64))
