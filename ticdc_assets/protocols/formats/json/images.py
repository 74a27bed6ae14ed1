"""Row images in JSON texts: objects that have the values of columns. All functions are compiled (see `formats.jit`)."""

from __future__ import annotations

from typing import Final

from ticdc_assets.protocols.formats.jit import compiled
from ticdc_assets.protocols.formats.json.literals import after_literal
from ticdc_assets.protocols.formats.json.strings import after_text
from ticdc_assets.protocols.formats.json.template import WITH_TIMES
from ticdc_assets.protocols.formats.json.values import read_value
from ticdc_assets.protocols.formats.string_arrays import NOT_SENT, Bytes, Ints, Places

_COMMA, _COLON, _OPEN, _CLOSE = b",:{}"
OTHER_FORM: Final = -1
OTHER_NAME: Final = -2


@compiled
def read_image(
    data: Bytes,
    at: int,
    end: int,
    kind: int,
    names: Bytes,
    name_bounds: Ints,
    name_columns: Ints,
    cells: Places,
    marks: Places,
) -> tuple[int, int]:
    """The offset after an image, or OTHER_FORM, or OTHER_NAME and the offset of that name.

    `kind` is twice the kind of its values, plus one if it may be empty.
    """
    has_marks = kind >= 2 * WITH_TIMES
    for column in range(len(cells)):
        cells[column, 0] = NOT_SENT
        cells[column, 1] = 0
        if has_marks:
            marks[column, 0] = NOT_SENT
            marks[column, 1] = 0
    if at + 1 >= end or data[at] != _OPEN:
        return OTHER_FORM, 0
    if kind & 1 and data[at + 1] == _CLOSE:
        return at + 2, 0
    name, count = -1, len(name_bounds) - 1
    while True:
        start = at + 1
        name += 1
        at = -1
        if name < count:
            at = after_literal(data, start, end, names, name_bounds[name], name_bounds[name + 1])
        if at < 0:
            at, _ = after_text(data, start, end)
            if at < 0 or at >= end or data[at] != _COLON:
                return OTHER_FORM, 0
            at += 1
            name = _known_name(data, start, at, name, names, name_bounds)
            if name < 0:
                return OTHER_NAME, start
        column = name_columns[name]
        if cells[column, 0] != NOT_SENT:
            return OTHER_FORM, 0
        at, cells[column, 0], cells[column, 1], mark, mark_end = read_value(data, at, end, kind >> 1)
        if has_marks:
            marks[column, 0], marks[column, 1] = mark, mark_end
        if at < 0:
            return OTHER_FORM, 0
        if at >= end:
            return OTHER_FORM, 0
        if data[at] == _CLOSE:
            return at + 1, 0
        if data[at] != _COMMA:
            return OTHER_FORM, 0


@compiled
def _known_name(data: Bytes, start: int, stop: int, guess: int, names: Bytes, name_bounds: Ints) -> int:
    """The index of the name that these bytes are, or -1; names from `guess` on are tried first."""
    count = len(name_bounds) - 1
    for turn in range(count):
        name = guess + turn
        if name >= count:
            name -= count
        if name_bounds[name + 1] - name_bounds[name] == stop - start:
            after = after_literal(data, start, stop, names, name_bounds[name], name_bounds[name + 1])
            if after == stop:
                return name
    return -1
