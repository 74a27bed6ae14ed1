"""The Avro protocol for whole batches of messages: what `confluent_avro` tells of rows, as columns.

Taken are the rows of registered schemas whose fields are all columns that TiCDC writes, and deletes by key. Left to
the reference are control messages, deletes without a key, rows with a checksum (it must be verified value by value)
or with old values, unknown schemas, and every message whose key or value is not exactly one value of its schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols import avro_schema as fields
from ticdc_assets.protocols import native_columns
from ticdc_assets.protocols.avro_lanes import SLAB_BYTES_MAX, Ints, Lanes, Mask, Slab, groups, in_large_groups
from ticdc_assets.protocols.avro_schema import Writer, writer
from ticdc_assets.protocols.avro_vectors import Read, Vector, reader
from ticdc_assets.protocols.confluent_avro import HEAD_BYTES, MS_MAX, OPS, TS_MAX, Options
from ticdc_assets.protocols.message_rows import Bulk, BulkRows, Heads, Messages, TableRows
from ticdc_assets.protocols.raw_rows import RawRows
from ticdc_assets.schema.model import Column

_PLANS_MAX: Final = 256
_NONE: Final = -1
_NEVER_IN_BULK: Final = frozenset({fields.CHECKSUM, fields.BEFORE})


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to read all messages of one schema."""

    writer: Writer
    reads: tuple[tuple[str, Read], ...]


@dataclass(slots=True)
class _Part:
    """The messages of one schema: their places in the batch, and their fields."""

    plan: _Plan
    schema_id: int
    messages: Ints
    lanes: Lanes
    vectors: dict[str, Vector]

    def good(self) -> Ints:
        """The rows that hold exactly one value of the schema, down to the encoding of their texts."""
        good = np.flatnonzero(self.lanes.ok)
        for vector in self.vectors.values():
            if vector.is_text:
                spoiled = vector.build(good).rows
                good = good if spoiled is None else good[~spoiled]
        return good


def rows(messages: Messages, options: Options, _connection: duckdb.DuckDBPyConnection) -> BulkRows:
    """The rows of a batch by schema id; deletes by the schema id of their key."""
    left = np.ones(len(messages), np.bool_)
    tables = []
    for part, deletes in _parts(messages, options):
        table = _table(part, options, deletes)
        if len(table):
            tables.append(table)
            left[table.rows.line.to_numpy()] = False
    return BulkRows(tuple(tables), left)


def heads(messages: Messages, options: Options) -> Heads:
    """The same of rows before their values are built; the whole of every message is read all the same."""
    left = np.ones(len(messages), np.bool_)
    names: dict[tuple[str, str], int] = {}
    found = []
    for part, deletes in _parts(messages, options):
        told = _told(part, deletes)
        name = names.setdefault(_name(part, options), len(names))
        found.append((told, name, _NONE if deletes else part.schema_id))
        left[told.message] = False
    return _heads(tuple(names), found, left)


def column(of: Column, array: pa.Array, zone: str) -> pa.Array:
    """The canonical values of an array of wire values."""
    return native_columns.column(of, array, zone, labels=True)


BULK: Final = Bulk(heads, rows, column)


# -- from a batch to the messages of one schema -----------------------------------------------------------------------


def _parts(messages: Messages, options: Options) -> Iterator[tuple[_Part, bool]]:
    """The messages of each value schema whose keys are sound, then those without a value by key schema."""
    if not len(messages) or max(messages.keys.nbytes, messages.values.nbytes) > SLAB_BYTES_MAX:
        return
    keys, values = (_Framed(array) for array in (messages.keys, messages.values))
    known = {number: _plan_of(number, options) for number in {*keys.different(), *values.different()}}
    key_is_sound = keys.is_absent.copy()
    key_parts = []
    for number, lanes in keys.by_id(keys.is_framed):
        plan = known[number]
        if plan is not None:
            part = _part(plan, number, lanes, keys.slab)
            key_is_sound[lanes[part.good()]] = True
            key_parts.append(part)
    for number, lanes in values.by_id(values.is_framed & key_is_sound):
        plan = known[number]
        if plan is not None:
            yield _part(plan, number, lanes[_fits(keys.ids[lanes], known, plan)], values.slab), False
    for part in key_parts:
        wanted = np.flatnonzero((values.is_absent & key_is_sound)[part.messages])
        if len(wanted):
            # Read once more, for the deletes alone: most keys are those of rows.
            yield _part(part.plan, part.schema_id, part.messages[wanted], keys.slab), True


def _fits(key_ids: Ints, known: dict[int, _Plan | None], plan: _Plan) -> Mask:
    """Where the key is made of the row's columns, or absent."""
    columns = set(plan.writer.columns)
    fitting = [_NONE]
    for number in np.unique(key_ids).tolist():
        key = known.get(number)
        if key is not None and {name for name, _ in key.reads} <= columns:
            fitting.append(number)
    return np.isin(key_ids, fitting)


class _Framed:
    """The keys or the values of a batch: which are absent, which begin with a schema id, and which id that is.

    `ids` has -1 for those that do not.
    """

    def __init__(self, array: pa.Array) -> None:
        self.slab = Slab(array.fill_null(b""))
        length = self.slab.ends - self.slab.starts
        self.is_absent: Mask = length == 0
        head = self.slab.words[self.slab.starts].byteswap()
        self.is_framed: Mask = (length >= HEAD_BYTES) & (head >> np.uint64(56) == 0)
        self.ids: Ints = np.where(self.is_framed, (head >> np.uint64(24)).astype(np.int64), _NONE)
        self.is_framed &= in_large_groups(self.ids)

    def different(self) -> list[int]:
        """The ids there are."""
        found: list[int] = np.unique(self.ids[self.is_framed]).tolist()
        return found

    def by_id(self, wanted: Mask) -> Iterator[tuple[int, Ints]]:
        """The wanted ones of each id."""
        places = np.flatnonzero(wanted)
        for number, some in groups(self.ids[places]):
            yield number, places[some]


def _part(plan: _Plan, schema_id: int, messages: Ints, slab: Slab) -> _Part:
    lanes = Lanes(slab, slab.starts[messages] + HEAD_BYTES, slab.ends[messages])
    vectors = {name: read(lanes, None) for name, read in plan.reads}
    lanes.fail_unfinished()
    return _Part(plan, schema_id, messages, lanes, vectors)


def _plan_of(schema_id: int, options: Options) -> _Plan | None:
    try:
        return _plan(options.schemas(schema_id))
    except (LookupError, DecodeError):
        return None


@lru_cache(maxsize=_PLANS_MAX)
def _plan(text: str) -> _Plan | None:
    found = writer(text)
    reads = []
    for one in found.fields:
        read = reader(one["type"])
        if read is None:
            return None
        reads.append((one["name"], read))
    return None if found.extension & _NEVER_IN_BULK else _Plan(found, tuple(reads))


# -- from the messages of one schema to rows --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Told:
    """What the messages of one schema say beside their columns. `place` are the rows that are taken."""

    place: Ints
    message: Ints
    op: pa.Array
    commit_ts: pa.Array
    commit_ms: pa.Array


def _told(part: _Part, deletes: bool) -> _Told:
    place = part.good()
    if deletes:
        nothing = pa.nulls(len(place), pa.int64())
        return _Told(place, part.messages[place], _repeated("D", len(place)), nothing, nothing)
    extension = part.plan.writer.extension
    op = _repeated("I", len(place))
    if fields.OP in extension:
        op = _ops(part.vectors[fields.OP].build(place).array)
    times = [_time(part, name, place) for name in (fields.COMMIT_TS, fields.COMMIT_MS)]
    sound = pc.is_valid(op)
    for time, most in zip(times, (TS_MAX, MS_MAX), strict=True):
        within = pc.and_(pc.greater(time, 0), pc.less_equal(time, most))
        sound = pc.and_(sound, pc.fill_null(within, True))
    kept = np.flatnonzero(sound.to_numpy(zero_copy_only=False))
    op, commit_ts, commit_ms = (array.take(pa.array(kept)) for array in (op, *times))
    return _Told(place[kept], part.messages[place[kept]], op, commit_ts, commit_ms)


def _ops(written: pa.Array) -> pa.Array:
    """I, U or D; null for what is none of the protocol's."""
    known = pa.array([str(op) for op in OPS.values()], pa.string())
    return known.take(pc.index_in(written, pa.array(list(OPS), pa.string())))


def _time(part: _Part, name: str, place: Ints) -> pa.Array:
    if name not in part.plan.writer.extension:
        return pa.nulls(len(place), pa.int64())
    numbers = part.vectors[name].build(place).array
    return pc.if_else(pc.equal(numbers, 0), pa.scalar(None, pa.int64()), numbers)


def _repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _name(part: _Part, options: Options) -> tuple[str, str]:
    return options.table or (part.plan.writer.schema, part.plan.writer.table)


def _table(part: _Part, options: Options, deletes: bool) -> TableRows:
    told = _told(part, deletes)
    schema, table = _name(part, options)
    columns = tuple(part.vectors) if deletes else part.plan.writer.columns
    raw = RawRows(
        op=told.op,
        commit_ts=told.commit_ts,
        commit_ms=told.commit_ms,
        line=pa.array(told.message),
        columns=columns,
        wire=tuple(part.vectors[name].build(told.place).array for name in columns),
    )
    return TableRows(
        schema=schema,
        table=table,
        schema_version=None if deletes else part.schema_id,
        rows=raw,
        position=pa.array(np.zeros(len(raw), np.int64)),
        upsert=not deletes and fields.OP not in part.plan.writer.extension,
    )


def _heads(names: tuple[tuple[str, str], ...], found: list[tuple[_Told, int, int]], left: Mask) -> Heads:
    message = _joined([told.message for told, _, _ in found])
    order = np.argsort(message, kind="stable")
    name = np.repeat([name for _, name, _ in found], [len(told.place) for told, _, _ in found])
    version = np.repeat([version for _, _, version in found], [len(told.place) for told, _, _ in found])
    return Heads(
        names=names,
        message=pa.array(message[order]),
        position=pa.array(np.zeros(len(order), np.int64)),
        name=pa.array(name[order].astype(np.int32)),
        op=_sorted([told.op for told, _, _ in found], pa.string(), order),
        commit_ts=_sorted([told.commit_ts for told, _, _ in found], pa.int64(), order),
        commit_ms=_sorted([told.commit_ms for told, _, _ in found], pa.int64(), order),
        schema_version=pa.array(version[order].astype(np.int64), mask=version[order] == _NONE),
        left=left,
    )


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _sorted(parts: list[pa.Array], of: pa.DataType, order: Ints) -> pa.Array:
    return pa.chunked_array(parts, of).take(pa.array(order)).combine_chunks()
