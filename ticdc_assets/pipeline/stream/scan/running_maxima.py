"""Finds the messages of a partition whose commit_ts is above that of all earlier ones; stores three numbers of each."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class RunningMaxima:
    """The offset, commit_ts and ordinal of each such message, in their order, batch by batch.

    Where an offset is smaller than the previous one, the sequence begins again.
    """

    _batches: list[Ints] = field(default_factory=list)

    def add(self, offsets: Ints, commit_ts: Ints, ordinals: Ints) -> None:
        """Add the messages of a batch."""
        if len(offsets):
            self._batches.append(np.column_stack((offsets, commit_ts, ordinals)))

    @property
    def newest(self) -> int:
        """The commit_ts of the last one, -1 where there is none."""
        return int(self._batches[-1][-1, 1]) if self._batches else -1

    def first_offset_above(self, commit_ts: int) -> int | None:
        """The smallest offset of a message above a commit_ts."""
        found = [batch[batch[:, 1] > commit_ts, 0] for batch in self._batches]
        return min((int(offsets.min()) for offsets in found if len(offsets)), default=None)

    def first_ordinal_above(self, commit_ts: int) -> int | None:
        """The ordinal of the first message above a commit_ts."""
        found = (batch[batch[:, 1] > commit_ts, 2] for batch in self._batches)
        return next((int(ordinals[0]) for ordinals in found if len(ordinals)), None)

    def first_offset_from(self, offset: int) -> int | None:
        """The smallest offset that is not below another."""
        found = [batch[batch[:, 0] >= offset, 0] for batch in self._batches]
        return min((int(offsets.min()) for offsets in found if len(offsets)), default=None)
