"""Splits the length-prefixed frames of many messages at once: the bulk form of `formats.frames.frames`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from ticdc_assets.protocols.columnar.message_rows import Mask
from ticdc_assets.protocols.formats.frames import LENGTH_BYTES
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints, joined

FRAMES_MAX: Final = 256
"""TiCDC's max-batch-size is 16 by default; each further frame costs a pass."""


@dataclass(frozen=True, slots=True)
class Frames:
    """The bodies of frames by message and place: `ordinal` is a frame's place in its message."""

    message: Ints
    ordinal: Ints
    bodies: pa.Array

    def of(self, messages: Mask) -> Frames:
        """Those of some messages."""
        kept = messages[self.message]
        if kept.all():
            return self
        return Frames(self.message[kept], self.ordinal[kept], self.bodies.filter(pa.array(kept)))


def split(messages: pa.Array, prefix: bytes) -> tuple[Frames, Ints]:
    """The frames after `prefix` and their number per message; 0 for a message that is not a prefix and whole frames."""
    data, offsets = joined(messages)
    starts, ends = offsets[:-1] + len(prefix), offsets[1:]
    active = np.flatnonzero(messages.is_valid().to_numpy(zero_copy_only=False) & (starts <= ends))
    if prefix and len(active):
        found = data[starts[active, None] - len(prefix) + np.arange(len(prefix))]
        active = active[(found == np.frombuffer(prefix, np.uint8)).all(axis=1)]
    rounds, whole = _rounds(data, starts.copy(), ends, active)
    message, ordinal, begin, end = (np.concatenate(parts) for parts in zip(*rounds, strict=True))
    kept = np.flatnonzero(whole[message])
    kept = kept[np.lexsort((ordinal[kept], message[kept]))]
    bodies = _cut(data, begin[kept], end[kept])
    return Frames(message[kept], ordinal[kept], bodies), np.bincount(message[kept], minlength=len(messages))


def _rounds(data: Bytes, at: Ints, ends: Ints, active: Ints) -> tuple[list[tuple[Ints, Ints, Ints, Ints]], Mask]:
    """The n-th frames of all messages in the n-th round, and which messages are frames to their last byte."""
    nothing = np.zeros(0, np.int64)
    rounds = [(nothing, nothing, nothing, nothing)]
    whole = np.zeros(len(ends), np.bool_)
    for ordinal in range(FRAMES_MAX):
        whole[active[at[active] == ends[active]]] = True
        active = active[at[active] + LENGTH_BYTES <= ends[active]]
        if not len(active):
            break
        begin = at[active] + LENGTH_BYTES
        lengths = _lengths(data, at[active])
        fits = (lengths >= 0) & (lengths <= ends[active] - begin)
        active, begin, lengths = active[fits], begin[fits], lengths[fits]
        at[active] = begin + lengths
        rounds.append((active, np.full(len(active), ordinal), begin, begin + lengths))
    return rounds, whole


def _lengths(data: Bytes, at: Ints) -> Ints:
    eight = np.ascontiguousarray(data[at[:, None] + np.arange(LENGTH_BYTES)])
    return eight.view(">i8").reshape(-1).astype(np.int64)


def _cut(data: Bytes, begin: Ints, end: Ints) -> pa.Array:
    """The bodies, a copy; they ascend, and every frame's length lies between two of them."""
    offsets = np.empty(2 * len(begin), np.int32)
    offsets[0::2], offsets[1::2] = begin, end
    count = max(0, len(offsets) - 1)
    array = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return array.take(pa.array(np.arange(len(begin)) * 2))
