"""Templates of JSON texts: TiCDC writes the members of a message in a known order, without spaces.

A `JsonTemplate` consists of pieces; `formats.json.texts` matches it against many texts at once. A whole text that
matches and is UTF-8 is valid JSON. A text that does not match may still be valid JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints
from ticdc_assets.tso import INT64_MAX

LITERAL, UNLESS, JUMP, SET, TEXT, COUNT, INTEGER, TEXTS, MEMBERS, IMAGE, REST = range(11)
"""What a step looks for; see `formats.json.scanner.scan`."""
CODES, STRINGS, STRINGS_OR_NULLS, WITH_TIMES, WITH_TYPES = range(5)
"""What the values of an object are: whole numbers of at most nine digits, strings, strings and nulls; these and times
with their zone (`{"location":"UTC","value":"2024-01-01 00:00:00"}`); strings, nulls and numbers, each in an object that
has its column's type (`{"t":3,"h":true,"f":65,"v":1}`)."""
_SKIPPED: Final = -1


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it does, its bytes, and two numbers whose meaning depends on what it does."""

    does: int
    text: bytes = b""
    first: int = 0
    second: int = 0


Steps = tuple[Step, ...]
_NEVER: Final = (Step(LITERAL, b"\0"),)
"""No text has this byte."""


def literal(text: bytes) -> Steps:
    """Matches exactly these bytes."""
    return (Step(LITERAL, text),)


def number(slot: int = _SKIPPED, most: int = INT64_MAX) -> Steps:
    """Matches a whole number from 0 on without leading zeros, and stores it as the text's number `slot`."""
    return (Step(COUNT, first=slot, second=most),)


def integer(slot: int = _SKIPPED) -> Steps:
    """Matches a whole number, which may be negative, without leading zeros, and stores it as the text's number
    `slot`."""
    return (Step(INTEGER, first=slot),)


def text(slot: int = _SKIPPED) -> Steps:
    """Matches a string, and stores it as the text's string `slot`."""
    return (Step(TEXT, first=slot),)


def texts() -> Steps:
    """Matches a list of strings, and stores nothing."""
    return (Step(TEXTS),)


def members(kind: int, may_be_empty: bool = False) -> Steps:
    """Matches an object of values of this kind, and stores nothing. Unless `may_be_empty`, it has one member or
    more."""
    return (Step(MEMBERS, first=kind, second=int(may_be_empty)),)


def image(which: int, kind: int = STRINGS_OR_NULLS, may_be_empty: bool = False) -> Steps:
    """Matches an object of values of this kind, and stores them by column as the text's image `which`. Unless
    `may_be_empty`, it has one member or more."""
    return (Step(IMAGE, first=which, second=2 * kind + may_be_empty),)


def rest() -> Steps:
    """Matches any bytes up to the end of the text."""
    return (Step(REST),)


def constant(slot: int, value: int) -> Steps:
    """Matches no bytes, and sets the text's number `slot` to `value`."""
    return (Step(SET, first=slot, second=value),)


def either(choices: Sequence[tuple[bytes, Steps]], otherwise: Steps = _NEVER) -> Steps:
    """Matches the steps of the first of `choices` whose beginning the text has, or `otherwise` if it has none of
    them."""
    found = otherwise
    for beginning, then in reversed(choices):
        taken = (*then, Step(JUMP, first=len(found)))
        found = (Step(UNLESS, beginning, first=len(taken)), *taken, *found)
    return found


def maybe(beginning: bytes, then: Steps) -> Steps:
    """Matches a beginning and the steps after it, or nothing."""
    return either([(beginning, then)], ())


@dataclass(frozen=True)
class JsonTemplate:
    """Pieces in their order, as numbers: of each step what it does, where its bytes are, and its two numbers."""

    pieces: Steps

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
        return self._slots(COUNT, INTEGER, SET)

    @cached_property
    def strings(self) -> int:
        """How many strings are kept of a text."""
        return self._slots(TEXT)

    @cached_property
    def images(self) -> int:
        """How many images are kept of a text."""
        return self._slots(IMAGE)

    @cached_property
    def has_marks(self) -> bool:
        """Whether some images have values other than strings and nulls."""
        return any(step.does == IMAGE and step.second >= 2 * WITH_TIMES for step in self.pieces)

    def _slots(self, *does: int) -> int:
        return 1 + max((step.first for step in self.pieces if step.does in does), default=-1)

    @cached_property
    def literals(self) -> Bytes:
        """The bytes of all steps."""
        return np.frombuffer(b"".join(step.text for step in self.pieces), np.uint8)
