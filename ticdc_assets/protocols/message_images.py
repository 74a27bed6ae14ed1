"""From the row images of a batch to the rows of each table, columns side by side.

Enters what a protocol found in its messages: heads, and for each image (the new or the old values of a row) its
columns in the order sent. Rows that belong to one table and send the same columns in the same order become one
`TableRows`. All is done on whole arrays, so that a batch of many tables costs little more than one of a single table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ticdc_assets.protocols.joined_texts import Ints
from ticdc_assets.protocols.json_strings import Strings
from ticdc_assets.protocols.message_rows import BulkRows, Heads, Mask, TableRows
from ticdc_assets.protocols.raw_rows import RawRows

NULL, TEXT_VALUE, NUMBER_VALUE, TIME_VALUE = range(4)
"""What a value is: SQL NULL, a string, a number, a time with its zone."""
NUMBER_TYPE: Final = pa.struct([("number", pa.string())])
"""How `wire` holds numbers of a protocol that has both numbers and strings: their digits as sent."""
TIME_TYPE: Final = pa.struct([("location", pa.string()), ("value", pa.string())])
"""How `wire` holds times that name their zone."""

_TABLES_MAX: Final = 128
_ROWS_MIN: Final = 16
"""A table costs as much as so many rows one by one: in a batch of more tables than that, smaller ones are left."""
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Images:
    """The columns of all images, image after image in the order sent.

    `image` is the ordinal of a column's image, of `count`; `name` says which of `names` it has; `kind` what its value
    is; `value` where that is: in `texts`, or in `numbers`. A TIME_VALUE has its zone there, and its time at `time`.
    """

    count: int
    image: Ints
    name: Ints
    names: tuple[str, ...]
    kind: npt.NDArray[np.uint8]
    value: Ints
    texts: pa.Array
    numbers: pa.Array | None = None
    time: Ints | None = None


def images_of(
    found: Strings,
    count: int,
    image: Ints,
    name: Ints,
    kind: Ints,
    value: Ints,
    numbers: pa.Array | None = None,
    number: Ints | None = None,
    time: Ints | None = None,
) -> Images:
    """The images whose columns are named by the strings of ordinals `name`.

    `value` and `time` are ordinals of strings too, `number` are places in `numbers`; each counts where `kind` says so.
    """
    coded = found.pool.take(pa.array(found.place[name])).dictionary_encode()
    last = len(found.place) - 1
    place = found.place[np.minimum(value, last)]
    return Images(
        count=count,
        image=image,
        name=coded.indices.to_numpy().astype(np.int64),
        names=tuple(coded.dictionary.to_pylist()),
        kind=kind.astype(np.uint8),
        value=place if number is None else np.where(kind == NUMBER_VALUE, number, place),
        texts=found.pool,
        numbers=numbers,
        time=None if time is None else found.place[np.minimum(time, last)],
    )


@dataclass(frozen=True, slots=True)
class RowImages:
    """The heads of rows and the ordinals of their images: `old` is -1 where there is no old one."""

    heads: Heads
    new: Ints
    old: Ints
    table_id: pa.Array | None = None
    partition_id: pa.Array | None = None
    upsert: bool = False


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows with one shape; `new` and `old` name the entry in Images of each column (one matrix row each), or -1."""

    rows: Ints
    names: Ints
    new: Ints
    old: Ints
    odd: Mask


def table_rows(rows: RowImages, images: Images) -> BulkRows:
    """The rows by table. A message is left, with all its rows, if one of them is odd: a column sent twice, an old
    column that the new row has not; or is one of few of its table in a batch of very many tables."""
    if not len(rows.heads):
        return BulkRows((), rows.heads.left)
    starts = np.searchsorted(images.image, np.arange(images.count + 1))
    message = rows.heads.message.to_numpy()
    left = rows.heads.left.copy()
    alike = list(_alike(rows, images, starts))
    if len(alike) > _TABLES_MAX:
        for few in (chosen for chosen in alike if len(chosen) < _ROWS_MIN):
            left[message[few]] = True
        alike = [chosen for chosen in alike if len(chosen) >= _ROWS_MIN]
    groups = [_group(chosen, rows, images, starts) for chosen in alike]
    for group in groups:
        left[message[group.rows[group.odd]]] = True
    kept = [part for group in groups for part in _by_kind(_without(group, left[message[group.rows]]), images)]
    return BulkRows(tuple(_tables(kept, rows, images)), left)


# -- which rows are alike ---------------------------------------------------------------------------------------------


def _alike(rows: RowImages, images: Images, starts: Ints) -> Iterator[Ints]:
    """Runs of row ordinals, ascending, with one table, version and, in all likelihood, one list of columns."""
    ordinal = np.arange(len(images.image)) - starts[images.image]
    mixed = _mixed(images.name.astype(np.uint64) * _MIX + _mixed(ordinal.astype(np.uint64)))
    total = np.concatenate((np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)))
    shape = total[starts[rows.new + 1]] - total[starts[rows.new]]
    version = rows.heads.schema_version.fill_null(-1).to_numpy().astype(np.uint64)
    key = _mixed(_mixed(shape + rows.heads.name.to_numpy().astype(np.uint64) * _MIX) + version)
    order = np.argsort(key, kind="stable")
    breaks = np.flatnonzero(np.diff(key[order])) + 1
    yield from np.split(order, breaks)


def _mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        found = (numbers ^ (numbers >> np.uint64(31))) * _MIX
        return np.asarray(found ^ (found >> np.uint64(29)))


def _group(chosen: Ints, rows: RowImages, images: Images, starts: Ints) -> _Group:
    new, old = rows.new[chosen], rows.old[chosen]
    begin = starts[new]
    names = images.name[begin[0] : starts[new[0] + 1]]
    odd = _differs(chosen, rows, starts[new + 1] - begin, len(names))
    entries = np.where(odd, begin[0], begin)[:, None] + np.arange(len(names))
    odd |= (images.name[entries] != names).any(axis=1)
    if len(np.unique(names)) < len(names):
        odd[:] = True
    before, odd_before = _before(entries, names, old, images, starts)
    odd |= odd_before | _turned(images.kind, entries, before)
    return _Group(chosen, names, entries, before, odd)


def _differs(chosen: Ints, rows: RowImages, counts: Ints, count: int) -> Mask:
    """Which rows only share a hash with the first."""
    name = rows.heads.name.to_numpy()[chosen]
    version = rows.heads.schema_version.fill_null(-1).to_numpy()[chosen]
    return np.asarray((name != name[0]) | (version != version[0]) | (counts != count))


def _before(new: Ints, names: Ints, old: Ints, images: Images, starts: Ints) -> tuple[Ints, Mask]:
    """The entries of whole old rows, -1 in rows without: what was not sent is as in the new row."""
    before = np.full_like(new, -1)
    odd = np.zeros(len(new), np.bool_)
    some = np.flatnonzero(old >= 0)
    if not len(some):
        return before, odd
    begin, end = starts[old[some]], starts[old[some] + 1]
    regular = end - begin == len(names)
    entries = np.where(regular, begin, 0)[:, None] + np.arange(len(names))
    entries = np.minimum(entries, len(images.name) - 1)
    regular &= (images.name[entries] == names).all(axis=1)
    before[some[regular]] = entries[regular]
    rest = some[~regular]
    if len(rest):
        before[rest], odd[rest] = _overlaid(new[rest], names, begin[~regular], end[~regular], images)
    return before, odd


def _overlaid(new: Ints, names: Ints, begin: Ints, end: Ints, images: Images) -> tuple[Ints, Mask]:
    column_of = np.full(len(images.names), -1)
    column_of[names] = np.arange(len(names))
    counts = end - begin
    row = np.repeat(np.arange(len(new)), counts)
    entry = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(begin, counts)
    column = column_of[images.name[entry]]
    sent = np.full_like(new, -1)
    known = column >= 0
    sent[row[known], column[known]] = entry[known]
    odd = (sent >= 0).sum(axis=1) != counts
    return np.where(sent >= 0, sent, new), odd


def _turned(kind: npt.NDArray[np.uint8], new: Ints, old: Ints) -> Mask:
    """Rows in which a column's old value is of another kind than its new one."""
    now, then = kind[new], np.where(old >= 0, kind[old], NULL)
    return np.asarray(((now != then) & (now != NULL) & (then != NULL)).any(axis=1))


def _without(group: _Group, left: Mask) -> _Group:
    if not left.any():
        return group
    kept = ~left
    return _Group(group.rows[kept], group.names, group.new[kept], group.old[kept], group.odd[kept])


def _by_kind(group: _Group, images: Images) -> Iterator[_Group]:
    """The group, split where one column holds values of several kinds: its type has changed in between."""
    if not len(group.rows):
        return
    if images.numbers is None and images.time is None:
        yield group
        return
    kinds = np.maximum(images.kind[group.new], np.where(group.old >= 0, images.kind[group.old], NULL))
    most, least = kinds.max(axis=0), np.where(kinds == NULL, TIME_VALUE, kinds).min(axis=0)
    several = (most != NULL) & (least != most)
    if not several.any():
        yield group
        return
    _, part = np.unique(kinds[:, several], axis=0, return_inverse=True)
    for number in range(part.max() + 1):
        yield _without(group, part.reshape(-1) != number)


# -- their columns ----------------------------------------------------------------------------------------------------


def _tables(groups: list[_Group], rows: RowImages, images: Images) -> Iterator[TableRows]:
    """All columns of all groups are taken at once, since each single take costs as much as dozens of rows."""
    if not groups:
        return
    new = _Cells(np.concatenate([group.new.T.ravel() for group in groups]), images)
    old = _Cells(np.concatenate([group.old.T.ravel() for group in groups]), images)
    at = 0
    for group in groups:
        yield _table(group, rows, images.names, new, old, at)
        at += group.new.size


class _Cells:
    """The values of entries, taken once for each kind."""

    def __init__(self, entries: Ints, images: Images) -> None:
        self._kind = np.where(entries >= 0, images.kind[entries], NULL).astype(np.uint8)
        self._by_kind = {TEXT_VALUE: images.texts.take(_places(images.value[entries], self._kind == TEXT_VALUE))}
        if images.numbers is not None:
            numbers = images.numbers.take(_places(images.value[entries], self._kind == NUMBER_VALUE))
            self._by_kind[NUMBER_VALUE] = _structs(NUMBER_TYPE, [numbers])
        if images.time is not None:
            zones = images.texts.take(_places(images.value[entries], self._kind == TIME_VALUE))
            times = images.texts.take(_places(images.time[entries], self._kind == TIME_VALUE))
            self._by_kind[TIME_VALUE] = _structs(TIME_TYPE, [zones, times])

    def kind(self, at: int, count: int) -> int:
        """The one kind of these cells, TEXT_VALUE if all are null."""
        return int(self._kind[at : at + count].max(initial=NULL)) or TEXT_VALUE

    def values(self, kind: int, at: int, count: int) -> pa.Array:
        return self._by_kind[kind].slice(at, count)


def _places(places: Ints, wanted: Mask) -> pa.Array:
    return pa.array(places, mask=~wanted)


def _structs(kind: pa.StructType, arrays: list[pa.Array]) -> pa.Array:
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=arrays[0].is_null())


def _table(group: _Group, rows: RowImages, names: tuple[str, ...], new: _Cells, old: _Cells, at: int) -> TableRows:
    heads, chosen, count = rows.heads, pa.array(group.rows), len(group.rows)
    places = range(at, at + group.new.size, count)
    kinds = [max(new.kind(place, count), old.kind(place, count)) for place in places]
    has_before = rows.old[group.rows] >= 0
    some_before = bool(has_before.any())
    schema, table = heads.names[heads.name[group.rows[0]].as_py()]
    raw = RawRows(
        op=heads.op.take(chosen),
        commit_ts=heads.commit_ts.take(chosen),
        commit_ms=heads.commit_ms.take(chosen),
        line=heads.message.take(chosen),
        columns=tuple(names[code] for code in group.names),
        wire=_values(new, kinds, places, count),
        before=_values(old, kinds, places, count) if some_before else None,
        has_before=pa.array(has_before) if some_before else None,
    )
    return TableRows(
        schema=schema,
        table=table,
        schema_version=heads.schema_version[group.rows[0]].as_py(),
        rows=raw,
        position=heads.position.take(chosen),
        table_id=None if rows.table_id is None else rows.table_id.take(chosen),
        partition_id=None if rows.partition_id is None else rows.partition_id.take(chosen),
        upsert=rows.upsert,
    )


def _values(cells: _Cells, kinds: list[int], places: range, count: int) -> tuple[pa.Array, ...]:
    return tuple(cells.values(kind, place, count) for kind, place in zip(kinds, places, strict=True))
