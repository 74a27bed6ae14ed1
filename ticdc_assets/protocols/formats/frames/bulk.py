"""Splits the length-prefixed frames of many messages at once: the bulk form of `formats.frames.frames`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ticdc_assets.protocols.formats.frames.scanner import count_frames, cut_frames
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints, Mask, joined, read_only


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of many messages. Of each its `message`, its place in it, `ordinal`, and its body
    `data[begins:ends]`."""

    message: Ints
    ordinal: Ints
    data: Bytes
    begins: Ints
    ends: Ints

    def of(self, messages: Mask) -> Frames:
        """The frames of some messages."""
        kept = messages[self.message]
        if kept.all():
            return self
        return Frames(self.message[kept], self.ordinal[kept], self.data, self.begins[kept], self.ends[kept])

    @property
    def bodies(self) -> pa.Array:
        """A copy of the bodies. They ascend, and every frame's length lies between two of them."""
        offsets = np.empty(2 * len(self.begins), np.int32)
        offsets[0::2], offsets[1::2] = self.begins, self.ends
        count = max(0, len(offsets) - 1)
        array = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(self.data)])
        return array.take(pa.array(np.arange(len(self.begins)) * 2))


def split(messages: pa.Array, prefix: bytes) -> tuple[Frames, Ints]:
    """The frames after `prefix` and their number per message; 0 for a message that is not a prefix and whole frames."""
    data, offsets = joined(messages)
    data = read_only(data)
    starts, ends = offsets[:-1] + len(prefix), offsets[1:]
    counts = np.zeros(len(messages), np.int64)
    count_frames(data, starts, ends, counts)
    counts[~_begin_with(data, offsets, prefix) | ~messages.is_valid().to_numpy(zero_copy_only=False)] = 0
    message, ordinal, begins, stops = (np.empty(int(counts.sum()), np.int64) for _ in range(4))
    cut_frames(data, starts, ends, counts, message, ordinal, begins, stops)
    return Frames(message, ordinal, data, begins, stops), counts


def _begin_with(data: Bytes, offsets: Ints, prefix: bytes) -> Mask:
    begin = offsets[:-1] + len(prefix) <= offsets[1:]
    if prefix:
        at = offsets[:-1][begin]
        begin[begin] = (data[at[:, None] + np.arange(len(prefix))] == np.frombuffer(prefix, np.uint8)).all(axis=1)
    return np.asarray(begin)
