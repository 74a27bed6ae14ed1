"""The Simple protocol in Avro for whole batches of messages: what `simple` tells of rows, as columns.

Taken are rows in the form that TiCDC writes them. Left to the reference are schemas and watermarks, rows of which
only the key was sent, rows with a checksum (it must be verified value by value), messages in JSON, and whatever is
not exactly one message or not alike its neighbours: rows of one table version whose columns or branches differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols import native_columns, simple_avro
from ticdc_assets.protocols.avro_lanes import SLAB_BYTES_MAX, Ints, Lanes, Mask, Slab, groups, in_large_groups
from ticdc_assets.protocols.avro_reader import compiled, read_whole
from ticdc_assets.protocols.avro_vectors import Spoiled
from ticdc_assets.protocols.frame import MAX_BODY_BYTES, Compression, decompress
from ticdc_assets.protocols.message_rows import Bulk, BulkRows, Heads, Messages, TableRows, take
from ticdc_assets.protocols.raw_rows import RawRows
from ticdc_assets.protocols.simple import Options
from ticdc_assets.protocols.simple_avro_images import NOT_SENT, NULL, STRING, TIMESTAMP, Cells, Grid, Names, read_images
from ticdc_assets.schema.model import Column

_HEAD: Final = 0x060616
"""How every row begins: branch 11 of the schema, type DML, branch DML of the payload."""
_HEAD_BYTES: Final = 3
_VERSION: Final = 1
_NAMES: Final = compiled(
    {"type": "record", "name": "names", "fields": [{"name": n, "type": "string"} for n in ("database", "table")]}, ""
)
_INSERT, _UPDATE, _DELETE = range(3)
_NONE: Final = -1
_OPS: Final = pa.array(["I", "U", "D"], pa.string())
_DECOMPRESSED_BYTES_MAX: Final = 512 << 20
"""What a batch may become once decompressed; messages beyond it are left."""
_SETS_MAX: Final = 4
"""How many sets of columns the rows of one table version may have in a batch; others are left."""


@dataclass(frozen=True, slots=True)
class _Fields:
    """What the messages say before their images, one entry for each lane. `group` is an index into `tables`."""

    op: Ints
    table_id: Ints
    commit_ts: Ints
    group: Ints
    tables: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True)
class _Part:
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
    slab: Slab


def rows(messages: Messages, options: Options, _connection: duckdb.DuckDBPyConnection) -> BulkRows:
    """The rows of a batch by table, version and set of columns."""
    left = np.ones(len(messages), np.bool_)
    tables = []
    for part in _parts(messages, options):
        table = _table(part)
        if len(table):
            tables.append(table)
            left[table.rows.line.to_numpy()] = False
    return BulkRows(tuple(tables), left)


def heads(messages: Messages, options: Options) -> Heads:
    """The same of rows before their values are built; the whole of every message is read all the same."""
    left = np.ones(len(messages), np.bool_)
    names: dict[tuple[str, str], int] = {}
    found = []
    for part in _parts(messages, options):
        whole = _sound(part)
        name = names.setdefault(part.table[:2], len(names))
        found.append((part, whole, name))
        left[part.messages[whole]] = False
    return _heads(tuple(names), found, left)


def column(of: Column, array: pa.Array, zone: str) -> pa.Array:
    """The canonical values of an array of wire values."""
    return native_columns.column(of, array, zone)


BULK: Final = Bulk(heads, rows, column)


# -- from a batch to the rows of one table version --------------------------------------------------------------------


def _parts(messages: Messages, options: Options) -> Iterator[_Part]:
    bodies = _bodies(messages.values, options.compression)
    if not len(bodies) or bodies.nbytes > SLAB_BYTES_MAX:
        return
    slab = Slab(bodies)
    size = slab.ends - slab.starts
    begins = slab.words[slab.starts] & np.uint64(0xFFFFFF)
    wanted = np.flatnonzero((begins == _HEAD) & (size > _HEAD_BYTES) & (size <= MAX_BODY_BYTES))
    if not len(wanted):
        return
    lanes = Lanes(slab, slab.starts[wanted] + _HEAD_BYTES, slab.ends[wanted])
    fields = _fields(lanes)
    undecided = np.flatnonzero(lanes.ok)
    undecided = undecided[in_large_groups(fields.group[undecided])]
    for _ in range(_SETS_MAX):
        sets, undecided = _next_sets(slab, wanted, fields, undecided)
        if not sets:
            return
        taken = []
        for part, places in _parts_of_sets(lanes, fields, wanted, undecided, sets):
            taken.append(places)
            yield part
        undecided = np.setdiff1d(undecided, _joined(taken), assume_unique=True)


def _bodies(values: pa.Array, compression: Compression) -> pa.Array:
    """The bodies of all messages; empty where there is none, or none that may be looked at."""
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


def _fields(lanes: Lanes) -> _Fields:
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
    lanes: Lanes, named_from: Ints, named_to: Ints, version: Ints
) -> tuple[Ints, tuple[tuple[str, str, int], ...]]:
    """Which table and version each lane is of; lanes whose names are no text fail."""
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
        told = read_whole(_NAMES, raw, "")
    except DecodeError:
        return None
    return told["database"], told["table"]


_Sets = dict[int, tuple[str, ...]]
"""The columns to look for in the rows of a group."""


def _next_sets(slab: Slab, messages: Ints, fields: _Fields, undecided: Ints) -> tuple[_Sets, Ints]:
    """The columns of each group's first row that the reference can read, and the rows from there on."""
    sets: _Sets = {}
    rest = []
    for group, places in groups(fields.group[undecided]):
        of_group = undecided[places]
        for number, message in enumerate(messages[of_group[:_SETS_MAX]]):
            columns = _columns(slab.data[slab.starts[message] : slab.ends[message]].tobytes())
            if columns:
                sets[group] = columns
                rest.append(of_group[number:])
                break
    return sets, np.sort(_joined(rest))


def _columns(body: bytes) -> tuple[str, ...]:
    try:
        told = simple_avro.message(body, "")
    except DecodeError:
        return ()
    return tuple((told["old"] if told["type"] == "DELETE" else told["data"]) or ())


def _parts_of_sets(
    every: Lanes, fields: _Fields, messages: Ints, undecided: Ints, sets: _Sets
) -> Iterator[tuple[_Part, Ints]]:
    """The undecided rows that have just the columns of their group's set, and their places."""
    number = np.zeros(len(fields.tables), np.int64)
    number[list(sets)] = np.arange(len(sets))
    widths = np.array([len(columns) for columns in sets.values()])
    lanes, places = _standing_at_images(every, fields, undecided, widths[number[fields.group[undecided]]])
    op, of_set = fields.op[places], number[fields.group[places]]
    columns = widths[of_set]
    names = Names(list(sets.values()))
    wire, base = _cells(columns)
    read_images(lanes, names, of_set, columns, wire, base)
    old = _has_old(lanes, op)
    before, old_base = _cells(columns[old])
    some = lanes.select(old)
    read_images(some, names, of_set[old], columns[old], before, old_base)
    lanes.put(old, some)
    lanes.fail_unfinished()
    base_of_old = np.full(len(places), _NONE)
    base_of_old[old] = old_base
    good = np.flatnonzero(lanes.ok)
    for group, some_good in groups(fields.group[places[good]]):
        rows = good[some_good]
        start = lanes.slab.starts[messages[places[rows]]]
        now = wire.grid(base[rows], len(sets[group]), start)
        then_rows = np.flatnonzero(base_of_old[rows] != _NONE)
        then = before.grid(base_of_old[rows[then_rows]], len(sets[group]), start[then_rows])
        chosen, branches = _alike(now, then, then_rows)
        if not chosen.all():
            kept = chosen[then_rows]
            now, then = now.select(np.flatnonzero(chosen)), then.select(np.flatnonzero(kept))
            then_rows, rows = (np.cumsum(chosen) - 1)[then_rows[kept]], rows[chosen]
        lane = places[rows]
        told = (fields.op[lane], fields.table_id[lane], fields.commit_ts[lane])
        part = _Part(
            fields.tables[group], messages[lane], *told, sets[group], branches, now, then_rows, then, lanes.slab
        )
        yield part, lane


def _standing_at_images(every: Lanes, fields: _Fields, undecided: Ints, columns: Ints) -> tuple[Lanes, Ints]:
    """Those of the lanes whose row has so many columns, in front of its image, and their places.

    This comes before anything is allocated for images: one wide row must not widen many small ones.
    """
    lanes = every.select(undecided)
    op = fields.op[undecided]
    lanes.fail(lanes.small() != (op != _DELETE))
    deletes = np.flatnonzero(op == _DELETE)
    some = lanes.select(deletes)
    some.fail(some.small() != 1)
    lanes.put(deletes, some)
    count = lanes.select(np.arange(len(lanes))).long()
    fitting = np.flatnonzero(lanes.ok & (count == columns))
    return lanes.select(fitting), undecided[fitting]


def _cells(columns: Ints) -> tuple[Cells, Ints]:
    """Places for images of so many columns, and where those of each begin."""
    ends = np.cumsum(columns)
    return Cells.empty(int(ends[-1]) if len(ends) else 0), ends - columns


def _has_old(lanes: Lanes, op: Ints) -> Ints:
    """The updates that have old values, now standing in front of them."""
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


# -- from rows to columns ---------------------------------------------------------------------------------------------


def _sound(part: _Part) -> Ints:
    """The rows of a part whose texts are all UTF-8."""
    sound = np.ones(len(part.messages), np.bool_)
    for number, branch in enumerate(part.branches):
        if branch in (STRING, TIMESTAMP):
            _spoil(
                sound, part, part.wire.array(number, branch, part.slab), part.before.array(number, branch, part.slab)
            )
    return np.flatnonzero(sound)


def _spoil(sound: Mask, part: _Part, now: Spoiled, then: Spoiled) -> None:
    if now.rows is not None:
        sound &= ~now.rows
    if then.rows is not None:
        sound[part.old[then.rows]] = False


def _table(part: _Part) -> TableRows:
    count = len(part.messages)
    sound = np.ones(count, np.bool_)
    place = np.full(count, _NONE)
    place[part.old] = np.arange(len(part.old))
    place_of_old = pa.array(place, mask=place == _NONE)
    wire, before = [], []
    for number, branch in enumerate(part.branches):
        now, then = (grid.array(number, branch, part.slab) for grid in (part.wire, part.before))
        _spoil(sound, part, now, then)
        wire.append(now.array)
        if len(part.old):
            sent = part.before.branch[number] != NOT_SENT
            whole = then.array if sent.all() else _filled(then.array, sent, now.array.take(pa.array(part.old)))
            before.append(whole.take(place_of_old))
    raw = RawRows(
        op=_OPS.take(pa.array(part.op)),
        commit_ts=pa.array(part.commit_ts),
        commit_ms=pa.nulls(count, pa.int64()),
        line=pa.array(part.messages),
        columns=part.columns,
        wire=tuple(wire),
        before=tuple(before) if len(part.old) else None,
        has_before=pa.array(place != _NONE) if len(part.old) else None,
    )
    schema, table, version = part.table
    position = pa.array(np.zeros(count, np.int64))
    rows_of_table = TableRows(schema, table, version, raw, position, pa.array(part.table_id))
    return rows_of_table if sound.all() else take(rows_of_table, pa.array(np.flatnonzero(sound)))


def _filled(then: pa.Array, sent: Mask, now: pa.Array) -> pa.Array:
    """Old values where they were sent, else the new ones."""
    return pc.if_else(pa.array(sent), then, now)


def _heads(names: tuple[tuple[str, str], ...], found: list[tuple[_Part, Ints, int]], left: Mask) -> Heads:
    message = _joined([part.messages[whole] for part, whole, _ in found])
    order = np.argsort(message, kind="stable")
    op, commit_ts = (_joined([part.op[w] for part, w, _ in found]), _joined([p.commit_ts[w] for p, w, _ in found]))
    name, version = (
        np.repeat(np.array(each, np.int64), [len(whole) for _, whole, _ in found])
        for each in ([name for _, _, name in found], [part.table[2] for part, _, _ in found])
    )
    return Heads(
        names=names,
        message=pa.array(message[order]),
        position=pa.array(np.zeros(len(order), np.int64)),
        name=pa.array(name[order].astype(np.int32)),
        op=_OPS.take(pa.array(op[order])),
        commit_ts=pa.array(commit_ts[order]),
        commit_ms=pa.nulls(len(order), pa.int64()),
        schema_version=pa.array(version[order]),
        left=left,
    )


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
