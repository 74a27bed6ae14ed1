"""Reads batches of Simple messages in Avro and groups them by table version, for `simple.avro.bulk`.

A message is read only if it is exactly one row message in TiCDC's form, has the same columns as other rows of its table
version, each once, and the same union branch per column as those rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.columnar.message_rows import Messages
from ticdc_assets.protocols.formats.avro.batches import (
    SLAB_BYTES_MAX,
    AvroBatchReader,
    ByteSlab,
    Ints,
    Mask,
    concatenated,
    groups,
    in_large_groups,
)
from ticdc_assets.protocols.formats.avro.reader import read_whole, reader_of
from ticdc_assets.protocols.formats.bodies import MAX_BODY_BYTES, decompress
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.formats.limits import COLUMNS_MAX
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.simple import avro_message as simple_avro
from ticdc_assets.protocols.simple.avro.images import NULL, STRING, Cells, Grid, column_names, empty_cells, read_images

_HEAD: Final = 0x060616
"""The first bytes of every row: branch 11 of the schema, type DML, branch DML of the payload."""
_HEAD_BYTES: Final = 3
_VERSION: Final = 1
_NAMES: Final = reader_of(
    {"type": "record", "name": "names", "fields": [{"name": n, "type": "string"} for n in ("database", "table")]}, ""
)
_INSERT, _UPDATE, _DELETE = range(3)
_NONE: Final = -1
_DECOMPRESSED_BYTES_MAX: Final = 512 << 20
"""The size limit of a batch after decompression; messages beyond it are left."""
_ENTRY_BYTES_MIN: Final = 2
"""The minimum size of a column in an image: one byte for the length of its name, one for the branch of its value."""
_NAME_BYTES_MAX: Final = 256
"""TiDB's 64 characters."""
_SETS_MAX: Final = 4
"""The maximum number of column sets per table version in a batch; rows with others are left."""


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields before the images, one entry per lane. `group` is an index into `tables`."""

    op: Ints
    table_id: Ints
    commit_ts: Ints
    group: Ints
    tables: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True)
class ColumnSetGroup:
    """Rows of one table, version and set of columns, and the branch of each column's values.

    `messages`, `op`, `table_id`, `commit_ts` and `wire` have an entry for each row, `before` for those of `old`.
    """

    table: tuple[str, str, int]
    messages: Ints
    op: Ints
    table_id: Ints
    commit_ts: Ints
    columns: tuple[str, ...]
    branches: tuple[int, ...]
    wire: Grid
    old: Ints
    before: Grid
    slab: ByteSlab


def parts(messages: Messages, options: DecoderOptions) -> Iterator[ColumnSetGroup]:
    """The rows of a batch, in groups of one schema and one set of columns.

    The caller decodes a message of no group by the reference decoder: a statement, a watermark, a row of a small group,
    a body that cannot be decompressed, or one in another form than that of the encoder.
    """
    bodies = _bodies(messages.values, options.compression)
    if not len(bodies) or bodies.nbytes > SLAB_BYTES_MAX:
        return
    slab = ByteSlab(bodies)
    size = slab.ends - slab.starts
    begins = slab.words[slab.starts] & np.uint64(0xFFFFFF)
    wanted = np.flatnonzero((begins == _HEAD) & (size > _HEAD_BYTES) & (size <= MAX_BODY_BYTES))
    if not len(wanted):
        return
    lanes = AvroBatchReader(slab, slab.starts[wanted] + _HEAD_BYTES, slab.ends[wanted])
    fields = _fields(lanes)
    undecided = np.flatnonzero(lanes.ok)
    undecided = undecided[in_large_groups(fields.group[undecided])]
    for _ in range(_SETS_MAX):
        sets, undecided, first = _next_sets(slab, wanted, fields, undecided)
        if not sets:
            return
        walk = _walk(lanes, fields, undecided, sets)
        yield from _parts_of(walk, fields, wanted, sets)
        # A first row that cannot be read with its own columns cannot be read with others.
        undecided = np.setdiff1d(undecided, concatenated([first, walk.decided]))


def _bodies(values: pa.Array, compression: Compression) -> pa.Array:
    """The decompressed bodies of all messages; empty if a message has none or cannot be decompressed."""
    if compression is Compression.NONE:
        return values.fill_null(b"")
    room = _DECOMPRESSED_BYTES_MAX
    bodies = []
    for value in values.to_pylist():
        try:
            body = decompress(value, compression, "", room) if value else b""
        except DecodeError:
            body = b""
        room -= len(body)
        bodies.append(body)
    return pa.array(bodies, pa.binary())


def _fields(lanes: AvroBatchReader) -> _Fields:
    lanes.fail(lanes.long() != _VERSION)
    named_from = lanes.at
    for _ in range(2):
        lanes.fail(lanes.blob()[1] == 0)
    named_to = lanes.at
    table_id = lanes.long()
    op = lanes.small()
    lanes.fail(op > _DELETE)
    commit_ts, _, version = (lanes.long() for _ in range(3))
    lanes.fail((commit_ts <= 0) | (version <= 0))
    lanes.fail(lanes.small() != 0)  # claimCheckLocation
    is_said = lanes.small()  # handleKeyOnly
    lanes.fail(is_said > 1)
    lanes.fail((lanes.slab.data[lanes.skip(1, is_said == 1)] != 0) & (is_said == 1))
    lanes.fail(lanes.small() != 0)  # checksum
    group, tables = _tables(lanes, named_from, named_to, version)
    return _Fields(op, table_id, commit_ts, group, tables)


def _tables(
    lanes: AvroBatchReader, named_from: Ints, named_to: Ints, version: Ints
) -> tuple[Ints, tuple[tuple[str, str, int], ...]]:
    """The table and version of each lane; lanes whose names are not UTF-8 fail."""
    coded = lanes.slab.pieces(named_from, np.where(lanes.ok, named_to - named_from, 0)).dictionary_encode()
    name: Ints = coded.indices.to_numpy().astype(np.int64)
    names = [_names(raw) for raw in coded.dictionary.to_pylist()]
    lanes.fail(np.array([one is None for one in names], np.bool_)[name])
    different, number = np.unique(version, return_inverse=True)
    pairs, group = np.unique(name * len(different) + number, return_inverse=True)
    tables = tuple(
        (*(names[pair // len(different)] or ("", "")), int(different[pair % len(different)])) for pair in pairs.tolist()
    )
    return group.astype(np.int64), tables


def _names(raw: bytes) -> tuple[str, str] | None:
    try:
        names = read_whole(_NAMES, raw, "")
    except DecodeError:
        return None
    return names["database"], names["table"]


_Sets = dict[int, tuple[str, ...]]
"""The expected columns of the rows of each group."""


def _next_sets(slab: ByteSlab, messages: Ints, fields: _Fields, undecided: Ints) -> tuple[_Sets, Ints, Ints]:
    """For each group, the columns of its first row that the reference decoder can read. Returns also the rows of the
    groups from that row on, and that row of each group."""
    sets: _Sets = {}
    rest, first = [], []
    for group, places in groups(fields.group[undecided]):
        of_group = undecided[places]
        for number, message in enumerate(messages[of_group[:_SETS_MAX]]):
            columns = _columns(slab.data[slab.starts[message] : slab.ends[message]].tobytes())
            if columns:
                sets[group] = columns
                rest.append(of_group[number:])
                first.append(of_group[number : number + 1])
                break
    return sets, np.sort(concatenated(rest)), concatenated(first)


def _columns(body: bytes) -> tuple[str, ...]:
    try:
        parsed = simple_avro.message(body, "")
    except DecodeError:
        return ()
    columns = tuple((parsed["old"] if parsed["type"] == "DELETE" else parsed["data"]) or ())
    is_usual = len(columns) <= COLUMNS_MAX and all(len(name.encode()) <= _NAME_BYTES_MAX for name in columns)
    return columns if is_usual else ()


@dataclass(frozen=True, slots=True)
class _Walk:
    """The undecided rows that have as many columns as their group's set, read up to their ends.

    `places` are those of all lanes. `wire` holds their images from `base` on, `before` those of old values from
    `old_base` on, which is -1 where there are none. `decided` are the rows that have just the columns of the set.
    """

    lanes: AvroBatchReader
    places: Ints
    decided: Ints
    wire: Cells
    base: Ints
    before: Cells
    old_base: Ints


def _walk(every: AvroBatchReader, fields: _Fields, undecided: Ints, sets: _Sets) -> _Walk:
    number = np.zeros(len(fields.tables), np.int64)
    number[list(sets)] = np.arange(len(sets))
    widths = np.array([len(columns) for columns in sets.values()])
    lanes, places = _standing_at_images(every, fields, undecided, widths[number[fields.group[undecided]]])
    of_set = number[fields.group[places]]
    columns = widths[of_set]
    names = column_names(list(sets.values()))
    wire, base = _cells(columns)
    read_images(lanes, names, of_set, wire, base)
    decided = places[lanes.ok]
    old = _has_old(lanes, fields.op[places])
    before, some_base = _cells(columns[old])
    some = lanes.select(old)
    read_images(some, names, of_set[old], before, some_base)
    lanes.put(old, some)
    lanes.fail_unfinished()
    old_base = np.full(len(places), _NONE)
    old_base[old] = some_base
    return _Walk(lanes, places, decided, wire, base, before, old_base)


def _parts_of(walk: _Walk, fields: _Fields, messages: Ints, sets: _Sets) -> Iterator[ColumnSetGroup]:
    slab = walk.lanes.slab
    good = np.flatnonzero(walk.lanes.ok)
    for group, some in groups(fields.group[walk.places[good]]):
        rows, columns = good[some], sets[group]
        start = slab.starts[messages[walk.places[rows]]]
        old = np.flatnonzero(walk.old_base[rows] != _NONE)
        now = Grid.of(walk.wire, walk.base[rows], len(columns), start)
        then = Grid.of(walk.before, walk.old_base[rows[old]], len(columns), start[old])
        chosen, branches = _alike(now, then, old)
        if not chosen.all():
            kept = chosen[old]
            now, then = now.select(np.flatnonzero(chosen)), then.select(np.flatnonzero(kept))
            old, rows = (np.cumsum(chosen) - 1)[old[kept]], rows[chosen]
        lane = walk.places[rows]
        head = (fields.op[lane], fields.table_id[lane], fields.commit_ts[lane])
        yield ColumnSetGroup(fields.tables[group], messages[lane], *head, columns, branches, now, old, then, slab)


def _standing_at_images(
    every: AvroBatchReader, fields: _Fields, undecided: Ints, columns: Ints
) -> tuple[AvroBatchReader, Ints]:
    """The undecided lanes whose row has the given number of `columns`, each positioned at its image, and their indices.

    This comes before anything is allocated for images: one wide row must not widen many small ones.
    """
    lanes = every.select(undecided)
    op = fields.op[undecided]
    lanes.fail(lanes.small() != (op != _DELETE))
    deletes = np.flatnonzero(op == _DELETE)
    some = lanes.select(deletes)
    some.fail(some.small() != 1)
    lanes.put(deletes, some)
    peek = lanes.select(np.arange(len(lanes)))
    count = peek.long()
    has_bytes = peek.end - peek.at >= count * _ENTRY_BYTES_MIN
    fitting = np.flatnonzero(lanes.ok & (count == columns) & has_bytes)
    return lanes.select(fitting), undecided[fitting]


def _cells(columns: Ints) -> tuple[Cells, Ints]:
    """Cells for images with these numbers of columns, and the index of the first cell of each image."""
    ends = np.cumsum(columns)
    return empty_cells(int(ends[-1]) if len(ends) else 0), ends - columns


def _has_old(lanes: AvroBatchReader, op: Ints) -> Ints:
    """The updates that have old values. Their lanes are then positioned at these."""
    others = np.flatnonzero(op != _DELETE)
    some = lanes.select(others)
    has_old = some.small()
    some.fail((has_old > 1) | ((op[others] == _INSERT) & (has_old == 1)))
    lanes.put(others, some)
    updates: Ints = others[some.ok & (has_old == 1)]
    return updates


def _alike(now: Grid, then: Grid, then_rows: Ints) -> tuple[Mask, tuple[int, ...]]:
    """The rows whose values are each of the column's usual branch or null, and those branches."""
    chosen = np.ones(now.branch.shape[1], np.bool_)
    usual = []
    for new, old in zip(now.branch, then.branch, strict=True):
        counts = np.bincount(new + 1, minlength=9) + np.bincount(old + 1, minlength=9)
        branch = int(counts[2:].argmax()) + 1 if counts[2:].any() else STRING
        usual.append(branch)
        if counts[2:].sum() > counts[branch + 1]:
            chosen &= (new == branch) | (new <= NULL)
            chosen[then_rows] &= (old == branch) | (old <= NULL)
    return chosen, tuple(usual)
