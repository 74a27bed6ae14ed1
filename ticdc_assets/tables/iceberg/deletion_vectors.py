"""Deletion vectors as Iceberg's format 3 keeps them: the positions of one data file's rows that are gone.

A Puffin file holds the blobs of several data files between four magic bytes and a footer in JSON (Iceberg's Puffin
specification). A blob is the length of what follows without the checksum (4 bytes, big endian), four magic bytes, the
positions as a 64-bit roaring bitmap in its portable form, and the CRC-32 of magic and bitmap (big endian).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from pyroaring import BitMap64

_MAGIC: Final = bytes.fromhex("d1d33964")
_PUFFIN_MAGIC: Final = b"PFA1"
_NO_FLAGS: Final = bytes(4)  # of a footer that is not compressed
_POSITION_FIELD_ID: Final = 2147483645  # of a row's position, as Iceberg's format reserves it
_INHERITED: Final = -1  # snapshot and sequence number of a deletion vector are those of its commit
_CREATED_BY: Final = "ticdc_assets"


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The new deletion vector of a data file: its blob and the number of rows it deletes."""

    data_uri: str
    blob: bytes
    rows: int


def puffin_of(vectors: Sequence[DeletionVector]) -> tuple[bytes, list[int]]:
    """A Puffin file of the vectors, and the offset of each blob in bytes."""
    offsets, end = [], len(_PUFFIN_MAGIC)
    for vector in vectors:
        offsets.append(end)
        end += len(vector.blob)
    blobs = [_shown(vector, offset) for vector, offset in zip(vectors, offsets, strict=True)]
    payload = orjson.dumps({"blobs": blobs, "properties": {"created-by": _CREATED_BY}})
    footer = _PUFFIN_MAGIC + payload + len(payload).to_bytes(4, "little") + _NO_FLAGS + _PUFFIN_MAGIC
    return b"".join((_PUFFIN_MAGIC, *(vector.blob for vector in vectors), footer)), offsets


def _shown(vector: DeletionVector, offset: int) -> dict[str, object]:
    return {
        "type": "deletion-vector-v1",
        "fields": [_POSITION_FIELD_ID],
        "snapshot-id": _INHERITED,
        "sequence-number": _INHERITED,
        "offset": offset,
        "length": len(vector.blob),
        "properties": {"referenced-data-file": vector.data_uri, "cardinality": str(vector.rows)},
    }


def blob_of(positions: Iterable[int]) -> bytes:
    """The blob of a Puffin file that marks the rows at `positions` as deleted."""
    body = _MAGIC + BitMap64(positions).serialize()
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def positions_of(blob: bytes) -> BitMap64:
    """The positions that a blob marks as deleted. Raises ValueError if it is no such blob, or damaged."""
    length = int.from_bytes(blob[:4], "big")
    body, crc = blob[4 : 4 + length], blob[4 + length :]
    if body[:4] != _MAGIC or len(crc) != 4 or zlib.crc32(body) != int.from_bytes(crc, "big"):
        raise ValueError("a deletion vector that is damaged or of an unknown form")
    return BitMap64.deserialize(body[4:])
