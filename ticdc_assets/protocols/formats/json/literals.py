"""Fixed bytes in JSON texts. All functions are compiled (see `formats.jit`)."""

from __future__ import annotations

import numpy as np

from ticdc_assets.protocols.formats.jit import inlined
from ticdc_assets.protocols.formats.simd import VECTOR, differing
from ticdc_assets.protocols.formats.string_arrays import Bytes

_U, _N, _L = b"unl"


@inlined
def signed(number: np.uint8) -> int:
    """The number as a signed one: NumPy would combine an unsigned and a signed number to a float."""
    return np.int64(number)  # type: ignore[return-value]


@inlined
def after_literal(data: Bytes, at: int, end: int, literals: Bytes, start: int, stop: int) -> int:
    """The offset after `literals[start:stop]`, or -1; VECTOR bytes must follow the last literal."""
    size = stop - start
    if at + size > end:
        return -1
    if size <= VECTOR and at + VECTOR <= len(data):
        others = differing(data, at, literals, start) & ((1 << size) - 1)
        return -1 if others else at + size
    for place in range(size):
        if data[at + place] != literals[start + place]:
            return -1
    return at + size


@inlined
def after_null(data: Bytes, at: int, end: int) -> int:
    """The offset after a null, or -1."""
    if at + 4 > end or data[at] != _N or data[at + 1] != _U or data[at + 2] != _L or data[at + 3] != _L:
        return -1
    return at + 4
