"""The bodies of frames that are JSON objects in UTF-8; they are not copied unless they are compressed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ticdc_assets.protocols.columnar.message_bodies import BATCH_BYTES_MAX, BODY_BYTES_MAX, bodies
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.formats.frames.bulk import Frames
from ticdc_assets.protocols.formats.frames.scanner import objects
from ticdc_assets.protocols.formats.simd import VECTOR
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints, joined, read_only


@dataclass(frozen=True, slots=True)
class Texts:
    """Text n is `data[starts[n]:ends[n]]`, the body of frame `frame[n]`."""

    data: Bytes
    starts: Ints
    ends: Ints
    frame: Ints

    def __len__(self) -> int:
        return len(self.frame)


def texts_of(frames: Frames, compression: Compression) -> Texts:
    """The texts of frames, as `columnar.message_bodies.bodies` selects them."""
    if compression is not Compression.NONE:
        found, frame = bodies(frames.bodies, compression)
        data, bounds = joined(found)
        return Texts(read_only(data), bounds[:-1], bounds[1:], frame)
    sizes = frames.ends - frames.begins
    fit = np.empty(len(sizes), np.bool_)
    objects(frames.data, frames.begins, frames.ends, np.zeros(2 * VECTOR, np.uint8), fit)
    fit &= (sizes <= BODY_BYTES_MAX) & (np.cumsum(sizes) <= BATCH_BYTES_MAX)
    frame = np.flatnonzero(fit)
    return Texts(frames.data, frames.begins[frame], frames.ends[frame], frame)
