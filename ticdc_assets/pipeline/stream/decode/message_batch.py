"""Messages of one block that are decoded together, with their ordinals in the capture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ticdc_assets.pipeline.stream.decode.task import Arrival, MessageTask
from ticdc_assets.protocols.columnar.message_rows import Messages
from ticdc_assets.sources.message_block import MessageBlock

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Messages with their ordinals in the capture."""

    ordinals: Ints
    block: MessageBlock

    def __len__(self) -> int:
        return len(self.ordinals)

    @property
    def keys_and_values(self) -> Messages:
        return Messages(self.block.keys, self.block.values)

    def was_read(self, task: MessageTask) -> Bools:
        """Which messages an earlier run has read."""
        read = np.zeros(len(self), np.bool_)
        for partition, indices in self.block.of_partitions() if task.stretch.read else ():
            first, end = task.stretch.read.get(partition, (0, 0))
            read[indices] = (self.block.offsets[indices] >= first) & (self.block.offsets[indices] < end)
        return read

    def taken(self, arrival: Arrival) -> Bools:
        """Which messages a table takes."""
        taken = np.ones(len(self), np.bool_)
        for partition, indices in self.block.of_partitions():
            offsets = self.block.offsets[indices]
            taken[indices] = offsets >= arrival.since.get(partition, 0)
            if partition in arrival.until:
                taken[indices] &= offsets < arrival.until[partition]
        return taken

    def take(self, wanted: Bools) -> MessageBatch:
        """The messages that the mask selects."""
        return MessageBatch(self.ordinals[wanted], self.block.take(wanted))
