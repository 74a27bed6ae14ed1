"""The Simple protocol in Avro for whole batches of messages: what `simple` tells of rows, as columns.

Taken are rows in the form that TiCDC writes them. Left to the reference are schemas and watermarks, rows of which
only the key was sent, rows with a checksum (it must be verified value by value), messages in JSON, and whatever is
not exactly one message or not alike its neighbours: rows of one table version whose columns or branches differ.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.protocols import native_columns
from ticdc_assets.protocols.avro_lanes import Ints, Mask, joined
from ticdc_assets.protocols.avro_vectors import Spoiled
from ticdc_assets.protocols.message_rows import Bulk, BulkRows, Heads, Messages, TableRows, take
from ticdc_assets.protocols.raw_rows import RawRows
from ticdc_assets.protocols.simple import Options
from ticdc_assets.protocols.simple_avro_images import NOT_SENT, STRING, TIMESTAMP
from ticdc_assets.protocols.simple_avro_parts import Part, parts
from ticdc_assets.schema.model import Column

_NONE: Final = -1
_OPS: Final = pa.array(["I", "U", "D"], pa.string())
"""By their numbers in the schema's enum."""


def rows(messages: Messages, options: Options) -> BulkRows:
    """The rows of a batch by table, version and set of columns."""
    left = np.ones(len(messages), np.bool_)
    tables = []
    for part in parts(messages, options):
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
    for part in parts(messages, options):
        whole = _sound(part)
        name = names.setdefault(part.table[:2], len(names))
        found.append((part, whole, name))
        left[part.messages[whole]] = False
    return _heads(tuple(names), found, left)


def column(of: Column, array: pa.Array, zone: str) -> pa.Array:
    """The canonical values of an array of wire values."""
    return native_columns.column(of, array, zone)


BULK: Final = Bulk(heads, rows, column)


def _sound(part: Part) -> Ints:
    """The rows of a part whose texts are all UTF-8."""
    sound = np.ones(len(part.messages), np.bool_)
    for number, branch in enumerate(part.branches):
        if branch in (STRING, TIMESTAMP):
            _spoil(
                sound, part, part.wire.array(number, branch, part.slab), part.before.array(number, branch, part.slab)
            )
    return np.flatnonzero(sound)


def _spoil(sound: Mask, part: Part, now: Spoiled, then: Spoiled) -> None:
    if now.rows is not None:
        sound &= ~now.rows
    if then.rows is not None:
        sound[part.old[then.rows]] = False


def _table(part: Part) -> TableRows:
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


def _heads(names: tuple[tuple[str, str], ...], found: list[tuple[Part, Ints, int]], left: Mask) -> Heads:
    message = joined([part.messages[whole] for part, whole, _ in found])
    order = np.argsort(message, kind="stable")
    op, commit_ts = (joined([part.op[w] for part, w, _ in found]), joined([p.commit_ts[w] for p, w, _ in found]))
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
