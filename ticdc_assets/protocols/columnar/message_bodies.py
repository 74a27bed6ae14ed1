"""Selects the message bodies of a batch that a bulk decoder can read: present, of bounded size, decompressed, UTF-8.

All other messages are left to the reference decoder, which reports what is wrong with them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.formats.frames.bodies import decompress
from ticdc_assets.protocols.formats.string_arrays import Ints, Mask, joined

BODY_BYTES_MAX: Final = 32 << 20
"""Larger messages are rare, and bulk decoding does not make them faster."""
BATCH_BYTES_MAX: Final = 512 << 20
"""The size limit of a batch after decompression; messages beyond it are left. Offsets fit 31 bits."""


def bodies(values: pa.Array, compression: Compression) -> tuple[pa.Array, Ints]:
    """The decompressed bodies that a bulk decoder can read, and the indices of their values."""
    fit = _sized(values)
    if compression is not Compression.NONE:
        values, fit = _decompressed(values, fit, compression)
    fit &= _begins_with_brace(values)
    chosen = np.flatnonzero(fit)
    texts = values if len(chosen) == len(values) else values.take(pa.array(chosen))
    readable = _is_utf8(texts)
    return (texts, chosen) if readable.all() else (texts.filter(pa.array(readable)), chosen[readable])


def _begins_with_brace(values: pa.Array) -> Mask:
    data, offsets = joined(values)
    if not len(data):
        return np.zeros(len(values), np.bool_)
    return np.asarray(data[np.minimum(offsets[:-1], len(data) - 1)] == ord("{"))


def _sized(values: pa.Array) -> Mask:
    sizes = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.asarray((sizes > 0) & (sizes <= BODY_BYTES_MAX) & (np.cumsum(sizes) <= BATCH_BYTES_MAX))


def _decompressed(values: pa.Array, fit: Mask, compression: Compression) -> tuple[pa.Array, Mask]:
    """The values decompressed; null if decompression fails or exceeds the limits."""
    plain: list[bytes | None] = [None] * len(values)
    room = BATCH_BYTES_MAX
    for number in np.flatnonzero(fit):
        try:
            body = decompress(values[number].as_py(), compression, "", min(room, BODY_BYTES_MAX))
        except DecodeError:
            continue
        room -= len(body)
        plain[number] = body
    array = pa.array(plain, pa.binary())
    return array, np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def _is_utf8(values: pa.Array) -> Mask:
    try:
        values.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        return np.array([_decodes(value) for value in values.to_pylist()], np.bool_)
    return np.ones(len(values), np.bool_)


def _decodes(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
