"""The bulk decoder of the Avro protocol.

It decodes rows of registered schemas and deletes by key. It leaves these to the reference decoder: control messages,
deletes without a key, rows with a checksum (which is verified row by row), unknown schemas, and messages whose key or
value is not exactly one value of its schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.protocols.avro import table_schema as fields
from ticdc_assets.protocols.avro.batches import NONE, Before, SchemaGroup, parts
from ticdc_assets.protocols.avro.decoder import MS_MAX, OPS, TS_MAX
from ticdc_assets.protocols.columnar.message_rows import (
    Bulk,
    BulkRows,
    Messages,
    RowHeaders,
    TableRows,
    heads_of,
    rows_of,
)
from ticdc_assets.protocols.columnar.raw_rows import RawRows
from ticdc_assets.protocols.formats.avro.batches import Ints, concatenated
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.values import native_columns
from ticdc_assets.schema.model import Column


def rows(messages: Messages, options: DecoderOptions) -> BulkRows:
    """The rows of a batch by schema id; deletes by the schema id of their key."""
    return rows_of(len(messages), (_table(part, options, deletes) for part, deletes in parts(messages, options)))


def heads(messages: Messages, options: DecoderOptions) -> RowHeaders:
    """The row headers of a batch; messages are still read to their end, but no values are built."""
    names: dict[tuple[str, str], int] = {}
    groups, name, version = [], [], []
    for part, deletes in parts(messages, options):
        group = _heads_of(part, deletes)
        groups.append(group)
        name.append(np.full(len(group.message), names.setdefault(_name(part, options), len(names))))
        version.append(np.full(len(group.message), NONE if deletes else part.schema_id))
    versions = concatenated(version)
    return heads_of(
        messages=len(messages),
        names=tuple(names),
        message=concatenated([group.message for group in groups]),
        name=pa.array(concatenated(name).astype(np.int32)),
        op=_whole([group.op for group in groups], pa.string()),
        commit_ts=_whole([group.commit_ts for group in groups], pa.int64()),
        commit_ms=_whole([group.commit_ms for group in groups], pa.int64()),
        schema_version=pa.array(versions, mask=versions == NONE),
    )


def _whole(parts: list[pa.Array], of: pa.DataType) -> pa.Array:
    return pa.chunked_array(parts, of).combine_chunks()


def column(of: Column, array: pa.Array, zone: str) -> pa.Array:
    """The canonical values of an array of wire values."""
    return native_columns.column(of, array, zone, labels=True)


BULK: Final = Bulk(heads, rows, column)


@dataclass(frozen=True, slots=True)
class _GroupHeads:
    """The header fields of the messages of one schema. `place` has the rows that are decoded."""

    place: Ints
    message: Ints
    op: pa.Array
    commit_ts: pa.Array
    commit_ms: pa.Array


def _heads_of(part: SchemaGroup, deletes: bool) -> _GroupHeads:
    place = part.good()
    if deletes:
        nothing = pa.nulls(len(place), pa.int64())
        return _GroupHeads(place, part.messages[place], _repeated("D", len(place)), nothing, nothing)
    extension = part.writer.extension
    op = _repeated("I", len(place))
    if fields.OP in extension:
        op = _ops(part.vectors[fields.OP].build(place).array)
    times = [_time(part, name, place) for name in (fields.COMMIT_TS, fields.COMMIT_MS)]
    sound = pc.is_valid(op)
    for time, most in zip(times, (TS_MAX, MS_MAX), strict=True):
        within = pc.and_(pc.greater(time, 0), pc.less_equal(time, most))
        sound = pc.and_(sound, pc.fill_null(within, True))
    if pc.all(sound).as_py():
        return _GroupHeads(place, part.messages[place], op, *times)
    kept = np.flatnonzero(sound.to_numpy(zero_copy_only=False))
    op, commit_ts, commit_ms = (array.take(pa.array(kept)) for array in (op, *times))
    return _GroupHeads(place[kept], part.messages[place[kept]], op, commit_ts, commit_ms)


def _ops(written: pa.Array) -> pa.Array:
    """I, U or D; null for an unknown operation."""
    known = pa.array([str(op) for op in OPS.values()], pa.string())
    return known.take(pc.index_in(written, pa.array(list(OPS), pa.string())))


def _time(part: SchemaGroup, name: str, place: Ints) -> pa.Array:
    if name not in part.writer.extension:
        return pa.nulls(len(place), pa.int64())
    numbers = part.vectors[name].build(place).array
    return pc.if_else(pc.equal(numbers, 0), pa.scalar(None, pa.int64()), numbers)


def _repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _name(part: SchemaGroup, options: DecoderOptions) -> tuple[str, str]:
    return options.table or (part.writer.schema, part.writer.table)


def _table(part: SchemaGroup, options: DecoderOptions, deletes: bool) -> TableRows:
    group = _heads_of(part, deletes)
    schema, table = _name(part, options)
    columns = tuple(part.vectors) if deletes else part.writer.columns
    now = tuple(part.vectors[name].build(group.place).array for name in columns)
    wire, before, has_before = (now, None, None) if part.before is None else _with_old(part.before, group, columns, now)
    raw = RawRows(
        op=group.op,
        commit_ts=group.commit_ts,
        commit_ms=group.commit_ms,
        line=pa.array(group.message),
        columns=columns,
        wire=wire,
        before=before,
        has_before=has_before,
    )
    return TableRows(
        schema=schema,
        table=table,
        schema_version=None if deletes else part.schema_id,
        rows=raw,
        position=pa.array(np.zeros(len(raw), np.int64)),
        upsert=not deletes and fields.OP not in part.writer.extension,
    )


_Arrays = tuple[pa.Array, ...]


def _with_old(
    old: Before, group: _GroupHeads, columns: tuple[str, ...], now: _Arrays
) -> tuple[_Arrays, _Arrays, pa.Array]:
    """The values of rows with old values: a delete has its old values as `wire`, an insert has none as `before`."""
    place = old.place[group.place]
    has_old = place != NONE
    op = group.op.to_numpy(zero_copy_only=False)
    has_before, is_gone = has_old & (op == "U"), pa.array(has_old & (op == "D"))
    ordinal = np.cumsum(has_old) - 1
    wire, before = [], []
    for name, array in zip(columns, now, strict=True):
        then = old.vectors[name].build(place[has_old]).array
        wire.append(pc.if_else(is_gone, then.take(pa.array(ordinal, mask=~has_old)), array))
        before.append(then.take(pa.array(ordinal, mask=~has_before)))
    return tuple(wire), tuple(before), pa.array(has_before)
