"""Converts string arrays to contiguous bytes and offsets."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int32]
"""Where texts begin and end; the end is `-1 - end` of a text that has escapes."""

NOT_SENT: Final = -2
"""The begin of a text that is not there."""
IS_NULL: Final = -1
"""The begin of a text that is null."""

BACKSLASH: Final = ord("\\")


def read_only(data: Bytes) -> Bytes:
    """The same bytes, read-only: a compiled function would be compiled once more for writable arrays."""
    view = data.view()
    view.flags.writeable = False
    return view


def joined(texts: pa.Array) -> tuple[Bytes, Ints]:
    """The bytes of all texts, one after the other, and where each begins; one entry more for the end."""
    if not len(texts):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets_buffer, data = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    if data is None:
        return np.zeros(0, np.uint8), offsets - offsets[0]
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def not_utf8(values: pa.Array) -> Mask | None:
    """Which of these binary values are not UTF-8; None if all are."""
    try:
        values.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        return np.array([not _decodes(value) for value in values.to_pylist()], np.bool_)
    return None


def _decodes(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
