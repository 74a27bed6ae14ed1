"""Deletion vectors as Iceberg's format 3 keeps them: the positions of one data file's rows that are gone.

A blob is the length of what follows without the checksum (4 bytes, big endian), four magic bytes, the positions as a
64-bit roaring bitmap in its portable form, and the CRC-32 of magic and bitmap (big endian).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

from pyroaring import BitMap64

_MAGIC: Final = bytes.fromhex("d1d33964")


def blob_of(positions: Iterable[int]) -> bytes:
    """The blob of a Puffin file that says that the rows at `positions` are gone."""
    body = _MAGIC + BitMap64(positions).serialize()
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def positions_of(blob: bytes) -> BitMap64:
    """The positions that a blob says are gone. Raises ValueError where it is none, or damaged."""
    length = int.from_bytes(blob[:4], "big")
    body, crc = blob[4 : 4 + length], blob[4 + length :]
    if body[:4] != _MAGIC or len(crc) != 4 or zlib.crc32(body) != int.from_bytes(crc, "big"):
        raise ValueError("a deletion vector that is damaged or of an unknown form")
    return BitMap64.deserialize(body[4:])
