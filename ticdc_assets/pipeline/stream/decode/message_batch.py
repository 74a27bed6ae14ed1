"""The messages of a task in batches that are decoded together, with their ordinals in the capture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ticdc_assets.errors import SourceError
from ticdc_assets.pipeline.rows.place import Bools, Ints
from ticdc_assets.pipeline.stream.decode.task import Arrival, MessageTask, Stretch
from ticdc_assets.protocols.columnar.message_rows import Messages
from ticdc_assets.sources.capture import Message, digest_of
from ticdc_assets.sources.message_block import MessageBlock


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

    def message_of(self, ordinal: int) -> Message:
        """The message with this ordinal."""
        return self.block.message(int(np.searchsorted(self.ordinals, ordinal)))

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


def batches_of(stretch: Stretch) -> Iterator[MessageBatch]:
    """The messages of a stretch that a task decodes.

    Raises:
        SourceError: the log has other messages than those that were scanned.
    """
    ordinal, twice = stretch.begin.ordinal, np.fromiter(stretch.twice, np.int64)
    given = np.array(stretch.ordinals, np.int64)
    for block in stretch.log.blocks(stretch.begin.place):
        read = ordinal - stretch.begin.ordinal
        ordinals = given[read : read + len(block)] if len(given) else np.arange(ordinal, ordinal + len(block))
        _require_scanned(stretch, block, ordinal)
        ordinal += len(block)
        wanted = (ordinals < stretch.last) & ~np.isin(ordinals, twice)
        for partition, indices in block.of_partitions():
            wanted[indices] &= stretch.window.mask(partition, block.offsets[indices])
        if wanted.any():
            yield MessageBatch(ordinals, block).take(wanted)
        if ordinal >= stretch.last:
            return
    _require_scanned(stretch, None, ordinal)


def _require_scanned(stretch: Stretch, block: MessageBlock | None, ordinal: int) -> None:
    """Raise SourceError where a block is not of the messages that were scanned, or is missing."""
    for at, digest in stretch.witnesses.items():
        is_here = block is not None and ordinal <= at < ordinal + len(block)
        if is_here and digest_of(block.message(at - ordinal)) == digest:  # type: ignore[union-attr]
            continue
        if is_here or (block is None and at >= ordinal):
            raise SourceError(
                "the capture",
                "the messages that this run has scanned",
                "others, since it was replaced meanwhile",
                "Nothing was published; run again. A capture may grow during a run.",
            )
