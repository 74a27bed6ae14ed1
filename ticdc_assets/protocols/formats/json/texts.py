"""Matches many JSON texts against a template and returns the offsets of their numbers, strings and columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import orjson

from ticdc_assets.protocols.formats.json.scanner import HAS_FORM, scan
from ticdc_assets.protocols.formats.json.template import JsonTemplate
from ticdc_assets.protocols.formats.simd import VECTOR
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints, Places, read_only

_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NAME_BYTES_MAX: Final = 1024
"""A name has at most 64 characters, each at most two escapes of six bytes."""
_LOOKED_AT_MAX: Final = 16
"""The maximum number of unknown names that are parsed; Go has one spelling per name, so a few suffice."""


@dataclass(frozen=True, slots=True)
class JsonColumnNames:
    """The columns that images may have, as their names are spelled in JSON."""

    columns: tuple[str, ...]
    spellings: tuple[tuple[bytes, int], ...]

    @staticmethod
    def of(columns: Iterable[str]) -> JsonColumnNames:
        """The columns of these names, those spelled without escapes; `extended_by` adds others where they are met."""
        every = tuple(columns)
        plain = [(orjson.dumps(name)[1:-1], place) for place, name in enumerate(every)]
        return JsonColumnNames(every, tuple((name, place) for name, place in plain if b"\\" not in name))

    def extended_by(self, begins: Iterable[bytes]) -> JsonColumnNames | None:
        """These names with one more spelling, which has escapes: that of the first of these texts that begins with the
        name of a column. None if none does."""
        return next((more for begin in begins if (more := self._extended_by(begin)) is not None), None)

    def _extended_by(self, begin: bytes) -> JsonColumnNames | None:
        found = _STRING.match(begin)
        if found is None or b"\\" not in found[0] or len(self.spellings) >= 2 * len(self.columns):
            return None
        try:
            name = orjson.loads(found[0])
        except orjson.JSONDecodeError:
            return None
        if name not in self.columns:
            return None
        return JsonColumnNames(self.columns, (*self.spellings, (found[0][1:-1], self.columns.index(name))))

    def as_arrays(self) -> tuple[Bytes, Ints, Ints]:
        """The spellings, each between its quotes and with its colon, one after the other; where each begins, one entry
        more for the end; what each means."""
        spelled = [b'"%s":' % spelling for spelling, _ in self.spellings]
        joined = b"".join(spelled)
        bounds = np.cumsum([0, *(len(name) for name in spelled)])
        return np.frombuffer(joined, np.uint8), bounds, np.array([place for _, place in self.spellings], np.int64)


NO_NAMES: Final = JsonColumnNames.of(())
"""For forms without images."""


@dataclass(frozen=True, slots=True)
class ScannedTexts:
    """The scan results of the texts that match a template; see `formats.json.scanner.scan` for the arrays.

    `rows` are the ordinals of these texts. `others` are the ordinals of texts that match except for the name of a
    column, which is not among the given names. If all values are strings and nulls, `marks` is `images`.
    """

    rows: Ints
    others: Ints
    numbers: Ints
    strings: Places
    images: Places
    marks: Places

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def has_marks(self) -> bool:
        """Whether some values are other than strings and nulls."""
        return self.marks is not self.images

    def take(self, which: Ints) -> ScannedTexts:
        """The results of the texts at these indices."""
        images = np.take(self.images, which, axis=1)
        marks = images if not self.has_marks else np.take(self.marks, which, axis=1)
        return ScannedTexts(self.rows[which], self.others, self.numbers[which], self.strings[which], images, marks)


def scan_texts(
    data: Bytes, starts: Ints, ends: Ints, form: JsonTemplate, names: JsonColumnNames
) -> tuple[ScannedTexts, JsonColumnNames]:
    """The scan results of the texts that match a template.

    Args:
        data: uint8, the bytes of all texts; VECTOR bytes must follow the last one.
        starts, ends: int64, text n is `data[starts[n]:ends[n]]`. It may still have bytes that are not UTF-8.
        names: the columns that images may have, in the spellings known so far.

    Returns:
        The results, and the names with the spellings that were found.
    """
    count = len(starts)
    images = np.empty((form.images, count, len(names.columns), 2), np.int32)
    found = ScannedTexts(
        np.arange(count),
        np.zeros(0, np.int64),
        np.empty((count, form.numbers), np.int64),
        np.empty((count, form.strings, 2), np.int32),
        images,
        np.empty_like(images) if form.has_marks else images,
    )
    outcomes = _scanned(data, starts, ends, form, names, found)
    others = np.flatnonzero(outcomes >= 0)
    while len(others) and (more := names.extended_by(_names_at(data, outcomes[others]))) is not None:
        names = more
        again = found.take(others)
        outcomes[others] = _scanned(data, starts[others], ends[others], form, names, again)
        found.numbers[others], found.strings[others] = again.numbers, again.strings
        found.images[:, others], found.marks[:, others] = again.images, again.marks
        others = np.flatnonzero(outcomes >= 0)
    has_form = outcomes == HAS_FORM
    found = replace(found, others=others)
    return (found if has_form.all() else found.take(np.flatnonzero(has_form))), names


def _scanned(
    data: Bytes, starts: Ints, ends: Ints, form: JsonTemplate, names: JsonColumnNames, into: ScannedTexts
) -> Ints:
    """The outcomes of a scan; its results are written to `into`."""
    outcomes = np.empty(len(starts), np.int64)
    spelled, bounds, means = names.as_arrays()
    literals, spelled = _followed(form.literals), _followed(spelled)
    kept = (into.numbers, into.strings, into.images, into.marks)
    scan(read_only(data), starts, ends, form.steps, literals, spelled, bounds, means, *kept, outcomes)
    return outcomes


def _names_at(data: Bytes, places: Ints) -> Iterator[bytes]:
    """The bytes from each unknown column name on; of many places only some are read."""
    return (data[at : at + _NAME_BYTES_MAX].tobytes() for at in places[:_LOOKED_AT_MAX])


def _followed(pieces: Bytes) -> Bytes:
    return np.concatenate((pieces, np.zeros(VECTOR, np.uint8)))
