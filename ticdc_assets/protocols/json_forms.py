"""What JSON texts of one kind look like, piece by piece: TiCDC writes their members in a known order, without spaces.

A `Form` is put together of pieces and then looked for in many texts at once (`json_scan`). A text that has a form, as
a whole, and that is UTF-8, is one that a strict JSON parser accepts; what does not have it may still be JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ticdc_assets.protocols.joined_texts import Bytes, Ints
from ticdc_assets.tso import INT64_MAX

LITERAL, UNLESS, JUMP, SET, TEXT, COUNT, TEXTS, MEMBERS, IMAGE = range(9)
"""What a step looks for; see `json_machine.scan`."""
_SKIPPED: Final = -1


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it does, its bytes, and two numbers whose meaning depends on what it does."""

    does: int
    text: bytes = b""
    first: int = 0
    second: int = 0


Piece = tuple[Step, ...]
_NEVER: Final = (Step(LITERAL, b"\0"),)
"""No text has this byte."""


def literal(text: bytes) -> Piece:
    """Just these bytes."""
    return (Step(LITERAL, text),)


def number(slot: int = _SKIPPED, most: int = INT64_MAX) -> Piece:
    """A whole number from 0 on without leading zeros, kept as the text's number `slot`."""
    return (Step(COUNT, first=slot, second=most),)


def text(slot: int = _SKIPPED) -> Piece:
    """A string, kept as the text's string `slot`."""
    return (Step(TEXT, first=slot),)


def texts() -> Piece:
    """A list of strings, not kept."""
    return (Step(TEXTS),)


def members_of_texts() -> Piece:
    """An object of strings, not kept; it has one member or more."""
    return (Step(MEMBERS, first=1),)


def members_of_codes() -> Piece:
    """An object of whole numbers of at most nine digits, not kept; it has one member or more."""
    return (Step(MEMBERS, first=0),)


def image(which: int, may_be_empty: bool = False) -> Piece:
    """An object of strings and nulls, kept by column as the text's image `which`."""
    return (Step(IMAGE, first=which, second=int(may_be_empty)),)


def told(slot: int, value: int) -> Piece:
    """Nothing; the text's number `slot` becomes `value`."""
    return (Step(SET, first=slot, second=value),)


def either(choices: Sequence[tuple[bytes, Piece]], otherwise: Piece = _NEVER) -> Piece:
    """What follows the first of these beginnings that is found; else what is given for that."""
    found = otherwise
    for beginning, then in reversed(choices):
        taken = (*then, Step(JUMP, first=len(found)))
        found = (Step(UNLESS, beginning, first=len(taken)), *taken, *found)
    return found


def maybe(beginning: bytes, then: Piece) -> Piece:
    """A beginning with what follows it, or nothing at all."""
    return either([(beginning, then)], ())


@dataclass(frozen=True)
class Form:
    """Pieces in their order, as numbers: of each step what it does, where its bytes are, and its two numbers."""

    pieces: Piece

    @cached_property
    def steps(self) -> Ints:
        """One row of five numbers for each step."""
        ends = np.cumsum([len(step.text) for step in self.pieces])
        rows = [
            (step.does, end - len(step.text), end, step.first, step.second)
            for step, end in zip(self.pieces, ends, strict=True)
        ]
        return np.array(rows, np.int64)

    @cached_property
    def numbers(self) -> int:
        """How many numbers are kept of a text."""
        return self._slots(COUNT, SET)

    @cached_property
    def strings(self) -> int:
        """How many strings are kept of a text."""
        return self._slots(TEXT)

    @cached_property
    def images(self) -> int:
        """How many images are kept of a text."""
        return self._slots(IMAGE)

    def _slots(self, *does: int) -> int:
        return 1 + max((step.first for step in self.pieces if step.does in does), default=-1)

    @cached_property
    def literals(self) -> Bytes:
        """The bytes of all steps."""
        return np.frombuffer(b"".join(step.text for step in self.pieces), np.uint8)
