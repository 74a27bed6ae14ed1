"""Row-level checksums: what TiDB computed over a row, checked against what arrived.

CRC32 (IEEE) over the columns in column-id order, each in TiDB's own form; NULL adds nothing. A checksum of 0 means
there is none: TiCDC sends 0 for the image an event lacks, and for both halves of an update that it split.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final
from zlib import crc32

import orjson

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.native_values import Plain
from ticdc_assets.schema.model import Column, Kind, TableSchema

CORRUPTED: Final = "TiCDC marked this row as corrupted: its own check against TiDB had failed"
_LOW_64: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Checksum:
    """What a message says of its row: the checksums of the new and the old values, 0 where there is none."""

    current: int
    previous: int
    corrupted: bool = False
    version: int = 0


@dataclass(frozen=True, slots=True)
class ChecksummedRow(RowEvent):
    """A row change that came with a checksum."""

    checksum: Checksum = Checksum(0, 0)


def with_checksum(row: RowEvent, checksum: Checksum) -> ChecksummedRow:
    """The row with what its message says of it; `checksum_error` is set where TiCDC itself found it corrupted."""
    told = {part.name: getattr(row, part.name) for part in fields(row)}
    told["checksum_error"] = CORRUPTED if checksum.corrupted else None
    return ChecksummedRow(**told, checksum=checksum)


ToPlain = Callable[[Column, Any, int], Plain]
"""A wire value that is not NULL as its protocol means it, TIMESTAMP as text in UTC, ENUM and SET by number.

The number is 1 where wall times that occur twice shall be the second ones."""


def check(event: RowEvent, table: TableSchema, plain: ToPlain) -> str | None:
    """Why the row is not what TiDB had, in one sentence without values; None when it is, or when nothing can tell.

    The columns of `table` are taken in column-id order, which is how streams that carry checksums list them. Rows cut
    down to their key or to their changes cannot be checked.
    """
    if not isinstance(event, ChecksummedRow):
        return None
    if event.checksum.corrupted:
        return CORRUPTED
    if event.handle_only:
        return None
    new, old = (None, event.wire) if event.op is Op.DELETE else (event.wire, event.before)
    if event.before_is_partial:
        old = None
    return _mismatch("new", event.checksum.current, new, table, plain) or _mismatch(
        "old", event.checksum.previous, old, table, plain
    )


def _mismatch(
    what: str, expected: int, image: Mapping[str, Any] | None, table: TableSchema, plain: ToPlain
) -> str | None:
    if not expected or image is None:
        return None
    # Where a clock is set back, the text of a TIMESTAMP does not tell which of two times it was.
    if any(expected in row_checksums(image, table, plain, fold) for fold in (0, 1)):
        return None
    return f"the {what} values do not have the row-level checksum that TiDB computed"


def row_checksums(image: Mapping[str, Any], table: TableSchema, plain: ToPlain, fold: int = 0) -> tuple[int, int]:
    """The checksum of these values: as TiDB computes it, and as TiCDC does, whose VECTORs count as text."""
    tidb = ticdc = 0
    for column in table.columns:
        wire = image.get(column.name)
        if wire is not None:
            found = plain(column, wire, fold)
            tidb = crc32(_bytes(column, found), tidb)
            ticdc = crc32(_bytes(column, found, vector_as_text=True), ticdc)
    return tidb, ticdc


def _bytes(column: Column, found: Plain, vector_as_text: bool = False) -> bytes:
    if isinstance(found, int):
        return struct.pack("<Q", found & _LOW_64)
    if isinstance(found, float):
        # TiCDC turns what is not finite to 0, and TiDB follows it here.
        return struct.pack("<d", found if abs(found) < float("inf") else 0.0)
    if column.type.kind is Kind.VECTOR and isinstance(found, str) and not vector_as_text:
        return _vector(column, found)
    raw = found.encode() if isinstance(found, str) else found
    return struct.pack("<I", len(raw)) + raw


def _vector(column: Column, text: str) -> bytes:
    try:
        numbers = orjson.loads(text)
        return struct.pack(f"<I{len(numbers)}f", len(numbers), *numbers)
    except (ValueError, TypeError, struct.error, OverflowError):
        where = f"column `{column.name}`"
        raise DecodeError(where, "a VECTOR as [n, ...]", "other text", "Check the table's schema.") from None
