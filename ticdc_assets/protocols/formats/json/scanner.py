"""Matches many JSON texts against a template (`formats.json.template`) in one pass, and records the offsets of values.

All functions are compiled (see `formats.jit`). All positions are offsets into the data.
"""

from __future__ import annotations

from typing import Final

from ticdc_assets.protocols.formats.jit import compiled
from ticdc_assets.protocols.formats.json.images import OTHER_FORM, OTHER_NAME, read_image
from ticdc_assets.protocols.formats.json.literals import after_literal
from ticdc_assets.protocols.formats.json.numbers import read_count, read_integer
from ticdc_assets.protocols.formats.json.strings import after_text, after_texts
from ticdc_assets.protocols.formats.json.template import (
    COUNT,
    IMAGE,
    INTEGER,
    JUMP,
    LITERAL,
    MEMBERS,
    REST,
    SET,
    TEXT,
    TEXTS,
    UNLESS,
)
from ticdc_assets.protocols.formats.json.values import after_members
from ticdc_assets.protocols.formats.string_arrays import Bytes, Ints, Places

HAS_FORM: Final = -2


@compiled
def scan(
    data: Bytes,
    starts: Ints,
    ends: Ints,
    steps: Ints,
    literals: Bytes,
    names: Bytes,
    name_bounds: Ints,
    name_columns: Ints,
    numbers: Ints,
    strings: Places,
    images: Places,
    marks: Places,
    outcomes: Ints,
) -> None:
    """Match each text against the steps of a template, and record the values and their offsets.

    Text n is `data[starts[n]:ends[n]]`. `names` are the names of columns with quotes and colon, `name_columns` which
    column each means. Of text n, `numbers[n, slot]`, `strings[n, slot]` and `images[which, n, column]` are set; the
    last two hold start and end. A column that an image does not have starts at NOT_SENT, one that is null at IS_NULL.
    `marks[which, n, column]` hold start and end of a time's zone and of a number's digits; of strings they are IS_NULL.
    Where all values are strings and nulls `marks` may be `images` itself.
    `outcomes[n]` is HAS_FORM, OTHER_FORM, or the offset of a column's name that is not in `names`. A text with a column
    twice in an image is of another form.
    """
    for row in range(len(starts)):
        at, end = starts[row], ends[row]
        step, outcome = 0, HAS_FORM
        while step < len(steps):
            does, first, second = steps[step, 0], steps[step, 3], steps[step, 4]
            begin = at
            if does == LITERAL:
                at = after_literal(data, at, end, literals, steps[step, 1], steps[step, 2])
            elif does == UNLESS:
                after = after_literal(data, at, end, literals, steps[step, 1], steps[step, 2])
                if after < 0:
                    step += first
                else:
                    at = after
            elif does == JUMP:
                step += first
            elif does == SET:
                numbers[row, first] = second
            elif does == COUNT:
                at, value = read_count(data, at, end, second)
                if first >= 0:
                    numbers[row, first] = value
            elif does == INTEGER:
                at, value = read_integer(data, at, end)
                if first >= 0:
                    numbers[row, first] = value
            elif does == TEXT:
                at, escaped = after_text(data, at, end)
                if at >= 0 and first >= 0:
                    strings[row, first, 0] = begin + 1
                    strings[row, first, 1] = -at if escaped else at - 1
            elif does == TEXTS:
                at = after_texts(data, at, end)
            elif does == MEMBERS:
                at = after_members(data, at, end, first, second)
            elif does == IMAGE:
                cells, marked = images[first, row], marks[first, row]
                at, where = read_image(data, at, end, second, names, name_bounds, name_columns, cells, marked)
                if at == OTHER_NAME:
                    outcome = where
            elif does == REST:
                at = end
            if at < 0:
                break
            step += 1
        if outcome == HAS_FORM and at != end:
            outcome = OTHER_FORM
        outcomes[row] = outcome
