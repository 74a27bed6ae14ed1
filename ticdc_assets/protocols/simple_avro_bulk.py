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
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols import native_columns, simple_avro, simple_avro_images
from ticdc_assets.protocols.avro_lanes import SLAB_BYTES_MAX, Ints, Lanes, Mask, Slab, groups
from ticdc_assets.protocols.avro_reader import compiled, read_whole
from ticdc_assets.protocols.frame import MAX_BODY_BYTES, Compression, decompress
from ticdc_assets.protocols.message_rows import Bulk, BulkRows, Heads, Messages, TableRows, take
from ticdc_assets.protocols.raw_rows import RawRows
from ticdc_assets.protocols.simple import Options
from ticdc_assets.protocols.simple_avro_images import NOT_SENT, NULL, STRING, TIMESTAMP, Cells, Names
from ticdc_assets.schema.model import Column

_HEAD: Final = 0x060616
"""How every row begins: branch 11 of the schema, type DML, branch DML of the payload."""
_HEAD_BYTES: Final = 3
_VERSION: Final = 1
_NAMES: Final = compiled(
    {"type": "record", "name": "names", "fields": [{"name": n, "type": "string"} for n in ("database", "table")]}, ""
)
_INSERT, _UPDATE, _DELETE = range(3)
_OPS: Final = pa.array(["I", "U", "D"], pa.string())
_DECOMPRESSED_BYTES_MAX: Final = 512 << 20
"""What a batch may become once decompressed; messages beyond it are left."""
_SETS_MAX: Final = 4
"""How many sets of columns the rows of one table version may have in a batch; others are left."""


@dataclass(frozen=True, slots=True)
class _Fields:
    """What the messages say before their images, one entry for each lane."""

    op: Ints
    table_id: Ints
    commit_ts: Ints
    version: Ints
    name: npt.NDArray[np.int64]
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of one table, version and set of columns: their messages and images, and the branch of each column."""

    name: tuple[str, str]
    version: int
    messages: Ints
    op: Ints
    table_id: Ints
    commit_ts: Ints
    columns: tuple[str, ...]
    wire: Cells
    has_before: Mask
    before: Cells
    branches: tuple[int, ...]
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
        name = names.setdefault(part.name, len(names))
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
    for name in range(len(fields.names)):
        of_name = np.flatnonzero(lanes.ok & (fields.name == name))
        for version, some in groups(fields.version[of_name]):
            yield from _version_parts(lanes, fields, wanted, of_name[some], fields.names[name], version)


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
    name, names = _tables(lanes, named_from)
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
    return _Fields(op, table_id, commit_ts, version, name, names)


def _tables(lanes: Lanes, named_from: Ints) -> tuple[Ints, tuple[tuple[str, str], ...]]:
    """Which database and table each lane names; lanes whose names are no text fail."""
    coded = lanes.slab.pieces(named_from, lanes.at - named_from).dictionary_encode()
    number: Ints = coded.indices.to_numpy().astype(np.int64)
    names: list[tuple[str, str]] = []
    for place, raw in enumerate(coded.dictionary.to_pylist()):
        name = _name(raw)
        names.append(name or ("", ""))
        if name is None:
            lanes.fail(number == place)
    return number, tuple(names)


def _name(raw: bytes) -> tuple[str, str] | None:
    try:
        told = read_whole(_NAMES, raw, "")
    except DecodeError:
        return None
    return told["database"], told["table"]


def _version_parts(
    lanes: Lanes, fields: _Fields, messages: Ints, undecided: Ints, name: tuple[str, str], version: int
) -> Iterator[_Part]:
    """The rows of a table version by their sets of columns: the first undecided row tells the next set."""
    for _ in range(_SETS_MAX):
        names, undecided = _first_set(lanes.slab, messages, undecided)
        if names is None:
            return
        some = lanes.select(undecided)
        op = fields.op[undecided]
        wire, has_before, before = _images(some, op, names)
        taken, branches = _alike(some, wire, has_before, before)
        places = undecided[taken]
        yield _Part(
            name,
            version,
            messages[places],
            op[taken],
            fields.table_id[places],
            fields.commit_ts[places],
            names.names,
            wire.select(taken),
            has_before[taken],
            before.select(taken),
            branches,
            lanes.slab,
        )
        undecided = np.setdiff1d(undecided, places, assume_unique=True)


def _first_set(slab: Slab, messages: Ints, undecided: Ints) -> tuple[Names | None, Ints]:
    """The columns of the first row that the reference can read, and the rows from there on."""
    for number, message in enumerate(messages[undecided[:_SETS_MAX]]):
        body = slab.data[slab.starts[message] : slab.ends[message]].tobytes()
        try:
            told = simple_avro.message(body, "")
        except DecodeError:
            continue
        image = told["old"] if told["type"] == "DELETE" else told["data"]
        if image:
            return Names(list(image)), undecided[number:]
    return None, undecided


def _images(lanes: Lanes, op: Ints, names: Names) -> tuple[Cells, Mask, Cells]:
    """The images of all lanes: the row's values, and for updates that have them the old ones."""
    wire, before = (Cells.empty(len(names), lanes) for _ in range(2))
    has_new = lanes.small()
    lanes.fail(has_new != (op != _DELETE))
    new = np.flatnonzero(lanes.ok & (has_new == 1))
    _read_into(wire, new, lanes, new, names)
    has_old = lanes.small()
    lanes.fail((has_old > 1) | ((op == _INSERT) & (has_old == 1)) | ((op == _DELETE) & (has_old == 0)))
    has_before = lanes.ok & (op == _UPDATE) & (has_old == 1)
    old = np.flatnonzero(lanes.ok & (has_old == 1))
    is_update = op[old] == _UPDATE
    cells = Cells.empty(len(names), lanes.select(old))
    _read_into(cells, np.arange(len(old)), lanes, old, names)
    before.put(old[is_update], cells.select(np.flatnonzero(is_update)))
    wire.put(old[~is_update], cells.select(np.flatnonzero(~is_update)))
    lanes.fail_unfinished()
    return wire, has_before, before


def _read_into(cells: Cells, places: Ints, lanes: Lanes, some: Ints, names: Names) -> None:
    if len(some):
        chosen = lanes.select(some)
        cells.put(places, simple_avro_images.read_images(chosen, names))
        lanes.put(some, chosen)


def _alike(lanes: Lanes, wire: Cells, has_before: Mask, before: Cells) -> tuple[Ints, tuple[int, ...]]:
    """The lanes that sent every column, each in its usual branch or null, and those branches."""
    good = lanes.ok & (wire.branch != NOT_SENT).all(axis=0)
    branches = []
    for now, then in zip(wire.branch, before.branch, strict=True):
        counts = np.bincount(now[good] + 1, minlength=9)[2:] + np.bincount(then[good & has_before] + 1, minlength=9)[2:]
        usual = int(counts.argmax()) + 1 if counts.any() else STRING
        branches.append(usual)
        good &= ((now == usual) | (now <= NULL)) & ((then == usual) | (then <= NULL))
    return np.flatnonzero(good), tuple(branches)


# -- from rows to columns ---------------------------------------------------------------------------------------------


def _sound(part: _Part) -> Ints:
    """The rows of a part whose texts are all UTF-8."""
    sound = np.ones(len(part.messages), np.bool_)
    old = np.flatnonzero(part.has_before)
    before = part.before.select(old)
    for number, branch in enumerate(part.branches):
        if branch in (STRING, TIMESTAMP):
            spoiled = part.wire.array(number, branch, part.slab).rows
            spoiled_before = before.array(number, branch, part.slab).rows
            if spoiled is not None:
                sound &= ~spoiled
            if spoiled_before is not None:
                sound[old[spoiled_before]] = False
    return np.flatnonzero(sound)


def _table(part: _Part) -> TableRows:
    sound = np.ones(len(part.messages), np.bool_)
    old = np.flatnonzero(part.has_before)
    before_cells = part.before.select(old)
    place = np.cumsum(part.has_before) - 1
    place_of_old = pa.array(place, mask=~part.has_before)
    wire, before = [], []
    for number, branch in enumerate(part.branches):
        now = part.wire.array(number, branch, part.slab)
        then = before_cells.array(number, branch, part.slab)
        if now.rows is not None:
            sound &= ~now.rows
        if then.rows is not None:
            sound[old[then.rows]] = False
        wire.append(now.array)
        if len(old):
            sent = before_cells.branch[number] != NOT_SENT
            whole = then.array if sent.all() else _filled(then.array, sent, now.array.take(pa.array(old)))
            before.append(whole.take(place_of_old))
    count = len(part.messages)
    raw = RawRows(
        op=_OPS.take(pa.array(part.op)),
        commit_ts=pa.array(part.commit_ts),
        commit_ms=pa.nulls(count, pa.int64()),
        line=pa.array(part.messages),
        columns=part.columns,
        wire=tuple(wire),
        before=tuple(before) if len(old) else None,
        has_before=pa.array(part.has_before) if len(old) else None,
    )
    table = TableRows(
        schema=part.name[0],
        table=part.name[1],
        schema_version=part.version,
        rows=raw,
        position=pa.array(np.zeros(count, np.int64)),
        table_id=pa.array(part.table_id),
    )
    return table if sound.all() else take(table, pa.array(np.flatnonzero(sound)))


def _filled(then: pa.Array, sent: Mask, now: pa.Array) -> pa.Array:
    """Old values where they were sent, else the new ones."""
    return pc.if_else(pa.array(sent), then, now)


def _heads(names: tuple[tuple[str, str], ...], found: list[tuple[_Part, Ints, int]], left: Mask) -> Heads:
    message = _joined([part.messages[whole] for part, whole, _ in found])
    order = np.argsort(message, kind="stable")
    op, commit_ts = (_joined([part.op[w] for part, w, _ in found]), _joined([p.commit_ts[w] for p, w, _ in found]))
    name, version = (
        np.repeat(np.array(each, np.int64), [len(whole) for _, whole, _ in found])
        for each in ([name for _, _, name in found], [part.version for part, _, _ in found])
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
