"""Many JSON texts of one form: how many of them have it, and where their numbers, strings and columns are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import orjson

from ticdc_assets.protocols.byte_vectors import VECTOR
from ticdc_assets.protocols.joined_texts import Bytes, Ints, Places
from ticdc_assets.protocols.json_forms import Form
from ticdc_assets.protocols.json_machine import OTHER_NAME, scan

_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NAME_BYTES_MAX: Final = 1024
"""A name has 64 characters, and two escapes of six bytes tell one."""


@dataclass(frozen=True, slots=True)
class Names:
    """The columns that images may have, as their names are spelled in JSON."""

    columns: tuple[str, ...]
    spellings: tuple[tuple[bytes, int], ...]

    @staticmethod
    def of(columns: Iterable[str]) -> Names:
        """The columns of these names, those spelled without escapes; others are learnt where they are met."""
        every = tuple(columns)
        plain = [(orjson.dumps(name)[1:-1], place) for place, name in enumerate(every)]
        return Names(every, tuple((name, place) for name, place in plain if b"\\" not in name))

    def learnt(self, begin: bytes) -> Names | None:
        """With the spelling, one with escapes, of the name that begins there; None where it means no column."""
        found = _STRING.match(begin)
        if found is None or b"\\" not in found[0] or len(self.spellings) >= 2 * len(self.columns):
            return None
        try:
            name = orjson.loads(found[0])
        except orjson.JSONDecodeError:
            return None
        if name not in self.columns:
            return None
        return Names(self.columns, (*self.spellings, (found[0][1:-1], self.columns.index(name))))

    def as_arrays(self) -> tuple[Bytes, Ints, Ints]:
        """The spellings, each between its quotes and with its colon, one after the other; where each begins, one entry
        more for the end; what each means."""
        spelled = [b'"%s":' % spelling for spelling, _ in self.spellings]
        joined = b"".join(spelled)
        bounds = np.cumsum([0, *(len(name) for name in spelled)])
        return np.frombuffer(joined, np.uint8), bounds, np.array([place for _, place in self.spellings], np.int64)


@dataclass(frozen=True, slots=True)
class Noted:
    """What was noted of the first `count` texts; see `json_machine.scan` for the arrays."""

    count: int
    numbers: Ints
    strings: Places
    images: Places


def noted(data: Bytes, bounds: Ints, form: Form, names: Names) -> tuple[Noted, Names]:
    """What has the form, up to the first text that has not; and the names with the spellings that were met.

    Text n is `data[bounds[n]:bounds[n + 1]]`. Its bytes may still be other than UTF-8.
    """
    count = len(bounds) - 1
    numbers = np.empty((count, form.numbers), np.int64)
    strings = np.empty((count, form.strings, 2), np.int32)
    images = np.empty((form.images, count, len(names.columns), 2), np.int32)
    literals = _followed(form.literals)
    while True:
        spelled, starts, means = names.as_arrays()
        found, at, why = scan(
            data, bounds, form.steps, literals, _followed(spelled), starts, means, numbers, strings, images
        )
        more = names.learnt(data[at : at + _NAME_BYTES_MAX].tobytes()) if why == OTHER_NAME else None
        if more is None:
            return Noted(found, numbers[:found], strings[:found], images[:, :found]), names
        names = more


def _followed(pieces: Bytes) -> Bytes:
    return np.concatenate((pieces, np.zeros(VECTOR, np.uint8)))
