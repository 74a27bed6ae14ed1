"""Verifies row-level checksums: the CRC32 that TiDB computed over a row, against the decoded values.

The CRC32 (IEEE) covers the columns in column-id order, each in TiDB's binary form, without NULLs. A checksum of 0 means
that there is none: TiCDC sends 0 for an image that the event does not have, and for both halves of a split update.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, Final
from zlib import crc32

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.values.native import LOCATION, Plain
from ticdc_assets.protocols.values.text import vector_numbers
from ticdc_assets.schema.model import Column, Kind, TableSchema

CORRUPTED: Final = "TiCDC marked this row as corrupted: its own check against TiDB had failed"
AMBIGUOUS_MAX: Final = 6
"""With more ambiguous TIMESTAMPs in a row, only two cases are tried: all are the first time, or all the second."""
_LOW_64: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Checksum:
    """The checksums in a message, of the new and of the old values; 0 means none.

    `corrupted` is whether TiCDC marked the row: its own check against TiDB had failed.
    """

    current: int
    previous: int
    corrupted: bool = False
    version: int = 0


@dataclass(frozen=True, slots=True)
class ChecksummedRow(RowEvent):
    """A row change with a checksum."""

    checksum: Checksum = Checksum(0, 0)


def with_checksum(row: RowEvent, checksum: Checksum) -> ChecksummedRow:
    """The row with the checksum of its message."""
    return ChecksummedRow(**{part.name: getattr(row, part.name) for part in fields(row)}, checksum=checksum)


ToPlain = Callable[[Column, Any, int], Plain]
"""(column, wire value, fold) to the value in TiDB: TIMESTAMP as text in UTC, ENUM and SET as numbers.

The wire value is not NULL. `fold` 1 reads a wall time that occurs twice as the second of the two times."""


def check(event: RowEvent, table: TableSchema, plain: ToPlain) -> str | None:
    """Why the row does not match its checksum, in one sentence without values; None if it matches.

    None also if the row cannot be checked: it has no checksum, or only its key or its changed columns were sent. The
    columns of `table` must be in column-id order, which is their order in streams with checksums.
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
    if next(_matching(expected, image, table, plain), None) is not None:
        return None
    return f"the {what} values do not have the row-level checksum that TiDB computed"


def _matching(expected: int, image: Mapping[str, Any], table: TableSchema, plain: ToPlain) -> Iterator[frozenset[str]]:
    """Each set of ambiguous TIMESTAMPs that gives the expected checksum if its members are the second of two times."""
    names = _ambiguous(image, table, plain)
    masks = range(1 << len(names)) if len(names) <= AMBIGUOUS_MAX else (0, (1 << len(names)) - 1)
    for mask in masks:
        second = frozenset(name for place, name in enumerate(names) if mask >> place & 1)
        if expected in row_checksums(image, table, plain, second):
            yield second


def _ambiguous(image: Mapping[str, Any], table: TableSchema, plain: ToPlain) -> list[str]:
    """The TIMESTAMP columns whose wall time occurs twice."""
    moments = [c for c in table.columns if c.type.kind is Kind.TIMESTAMP and image.get(c.name) is not None]
    return [c.name for c in moments if plain(c, image[c.name], 0) != plain(c, image[c.name], 1)]


def resolved(event: RowEvent, table: TableSchema, plain: ToPlain) -> RowEvent:
    """The row with its ambiguous TIMESTAMPs in UTC, as far as its checksum resolves them.

    The row is unchanged if it has no checksum, if no choice of times matches it, or if more than one does.
    """
    if not isinstance(event, ChecksummedRow) or event.handle_only:
        return event
    new, old = (0, event.checksum.previous) if event.op is Op.DELETE else (event.checksum.current, 0)
    wire = _in_utc(event.wire, new or old, table, plain)
    before = event.before
    if before is not None and not event.before_is_partial:
        before = _in_utc(before, event.checksum.previous, table, plain)
    return event if (wire, before) == (event.wire, event.before) else replace(event, wire=wire, before=before)


def _in_utc(image: Mapping[str, Any], expected: int, table: TableSchema, plain: ToPlain) -> Mapping[str, Any]:
    ambiguous = _ambiguous(image, table, plain) if expected else []
    if not 0 < len(ambiguous) <= AMBIGUOUS_MAX:
        return image
    found = list(islice(_matching(expected, image, table, plain), 2))
    if len(found) != 1:
        return image
    columns = {column.name: column for column in table.columns}
    utc_texts = {n: plain(columns[n], image[n], int(n in found[0])) for n in ambiguous}
    return {**image, **{name: {LOCATION: "UTC", "value": text} for name, text in utc_texts.items()}}


def row_checksums(
    image: Mapping[str, Any], table: TableSchema, plain: ToPlain, second: Collection[str] = ()
) -> tuple[int, int]:
    """The checksums of these values as TiDB and as TiCDC compute them; TiCDC's covers VECTORs as text.

    The ambiguous TIMESTAMPs of the columns `second` are read as the second of two times.
    """
    tidb = ticdc = 0
    for column in table.columns:
        wire = image.get(column.name)
        if wire is not None:
            found = plain(column, wire, int(column.name in second))
            tidb = crc32(_bytes(column, found), tidb)
            ticdc = crc32(_bytes(column, found, vector_as_text=True), ticdc)
    return tidb, ticdc


def _bytes(column: Column, found: Plain, vector_as_text: bool = False) -> bytes:
    if isinstance(found, int):
        return struct.pack("<Q", found & _LOW_64)
    if isinstance(found, float):
        return struct.pack("<d", found)
    if column.type.kind is Kind.VECTOR and isinstance(found, str) and not vector_as_text:
        return _vector(column, found)
    raw = found.encode() if isinstance(found, str) else found
    return struct.pack("<I", len(raw)) + raw


def _vector(column: Column, text: str) -> bytes:
    try:
        numbers = vector_numbers(text)
        return struct.pack(f"<I{len(numbers)}f", len(numbers), *numbers)
    except (ValueError, TypeError, struct.error, OverflowError):
        where = f"column `{column.name}`"
        raise DecodeError(where, "a VECTOR as [n, ...]", "other text", "Check the table's schema.") from None
