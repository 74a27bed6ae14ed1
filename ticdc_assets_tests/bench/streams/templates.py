"""Recorded bytes with the places marked at which a copy differs: keys, TSOs, times, table names.

A copy of a stream is the same bytes in the encoded form, with every key and every commit_ts moved by one distance;
nothing is decoded or encoded again, so what is measured stays what TiCDC wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

LOGICAL_BITS: Final = 18


class Place(Enum):
    """What stands at a marked place."""

    KEY = "key"
    TSO = "tso"
    MS = "ms"
    TABLE = "table"


@dataclass(frozen=True)
class Shift:
    """How far a copy is from the recorded stream. `tso` is a whole number of milliseconds."""

    key: int = 0
    tso: int = 0
    table: bytes | None = None

    def __post_init__(self) -> None:
        assert self.tso % (1 << LOGICAL_BITS) == 0

    @property
    def ms(self) -> int:
        return self.tso >> LOGICAL_BITS


@dataclass(frozen=True)
class Mark:
    """A marked place: where it is, and the number that stands there (0 for a name)."""

    start: int
    end: int
    place: Place
    number: int


Write = Callable[[int], bytes]


def decimal(number: int) -> bytes:
    """A number as JSON and CSV write it."""
    return b"%d" % number


def zigzag(number: int) -> bytes:
    """A number as Avro writes it."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def unzigzag(data: bytes) -> int:
    """The number that a whole Avro varint holds."""
    rest = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(data))
    return (rest >> 1) ^ -(rest & 1)


class Template:
    """Bytes with marked places, from which shifted copies are made."""

    def __init__(self, data: bytes, marks: Iterable[Mark], write: Write = decimal) -> None:
        self._write = write
        self._pieces: list[bytes] = []
        self._places: list[tuple[int, Place, int]] = []
        at = 0
        for mark in marks:
            self._pieces += [data[at : mark.start], data[mark.start : mark.end]]
            self._places.append((len(self._pieces) - 1, mark.place, mark.number))
            at = mark.end
        self._pieces.append(data[at:])

    def shifted(self, shift: Shift) -> bytes:
        """The bytes of the copy at that distance."""
        pieces = self._pieces.copy()
        distances = {Place.KEY: shift.key, Place.TSO: shift.tso, Place.MS: shift.ms}
        for number, place, value in self._places:
            if place is not Place.TABLE:
                pieces[number] = self._write(value + distances[place])
            elif shift.table is not None:
                pieces[number] = shift.table
        return b"".join(pieces)

    @property
    def keys(self) -> list[int]:
        """Its keys, in order."""
        return [number for _, place, number in self._places if place is Place.KEY]

    @property
    def tsos(self) -> list[int]:
        """Its TSOs, in order."""
        return [number for _, place, number in self._places if place is Place.TSO]


def marked(data: bytes, pattern: re.Pattern[bytes], read: Callable[[bytes], int] = int) -> list[Mark]:
    """Every place that a group of the pattern matches. Groups are named for places, with a digit where one recurs."""
    groups = {number: Place(name.rstrip("0123456789")) for name, number in pattern.groupindex.items()}
    marks = []
    for match in pattern.finditer(data):
        for number, place in groups.items():
            start, end = match.span(number)
            if start >= 0:
                marks.append(Mark(start, end, place, 0 if place is Place.TABLE else read(match[number])))
    return sorted(marks, key=lambda mark: mark.start)
