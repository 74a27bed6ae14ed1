"""The bulk decoder of the Simple protocol in Avro.

It decodes rows in TiCDC's form. It leaves these to the reference decoder: schemas and watermarks, rows with only the
key, rows with a checksum (which is verified row by row), messages in JSON, malformed messages, and rows whose columns
or union branches differ from other rows of their table version.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.protocols.columnar.message_rows import (
    Bulk,
    BulkRows,
    Messages,
    RowHeaders,
    TableRows,
    heads_of,
    rows_of,
    take,
)
from ticdc_assets.protocols.columnar.raw_rows import RawRows
from ticdc_assets.protocols.formats.avro.batches import Ints, Mask, concatenated
from ticdc_assets.protocols.formats.avro.columns import BuiltColumn
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.simple.avro.batches import ColumnSetGroup, parts
from ticdc_assets.protocols.simple.avro.images import NOT_SENT, STRING, TIMESTAMP
from ticdc_assets.protocols.values import native_columns

_NONE: Final = -1
_OPS: Final = pa.array(["I", "U", "D"], pa.string())
"""The operations in the order of the schema's enum."""


def rows(messages: Messages, options: DecoderOptions) -> BulkRows:
    """The rows of a batch by table, version and set of columns."""
    return rows_of(len(messages), map(_table, parts(messages, options)))


def heads(messages: Messages, options: DecoderOptions) -> RowHeaders:
    """The row headers of a batch; messages are still read to their end, but no values are built."""
    names: dict[tuple[str, str], int] = {}
    message, name, op, commit_ts, version = [], [], [], [], []
    for part in parts(messages, options):
        sound = _sound(part)
        message.append(part.messages[sound])
        name.append(np.full(len(sound), names.setdefault(part.table[:2], len(names))))
        op.append(part.op[sound])
        commit_ts.append(part.commit_ts[sound])
        version.append(np.full(len(sound), part.table[2]))
    return heads_of(
        messages=len(messages),
        names=tuple(names),
        message=concatenated(message),
        name=pa.array(concatenated(name).astype(np.int32)),
        op=_OPS.take(pa.array(concatenated(op))),
        commit_ts=pa.array(concatenated(commit_ts)),
        schema_version=pa.array(concatenated(version)),
    )


BULK: Final = Bulk(heads, rows, native_columns.column)


def _sound(part: ColumnSetGroup) -> Ints:
    """The rows of a group whose texts are all UTF-8."""
    sound = np.ones(len(part.messages), np.bool_)
    for number, branch in enumerate(part.branches):
        if branch in (STRING, TIMESTAMP):
            _exclude_invalid_text(
                sound, part, part.wire.array(number, branch, part.slab), part.before.array(number, branch, part.slab)
            )
    return np.flatnonzero(sound)


def _exclude_invalid_text(sound: Mask, part: ColumnSetGroup, now: BuiltColumn, then: BuiltColumn) -> None:
    if now.rows is not None:
        sound &= ~now.rows
    if then.rows is not None:
        sound[part.old[then.rows]] = False


def _table(part: ColumnSetGroup) -> TableRows:
    count = len(part.messages)
    sound = np.ones(count, np.bool_)
    place = np.full(count, _NONE)
    place[part.old] = np.arange(len(part.old))
    place_of_old = pa.array(place, mask=place == _NONE)
    wire, before = [], []
    for number, branch in enumerate(part.branches):
        now, then = (grid.array(number, branch, part.slab) for grid in (part.wire, part.before))
        _exclude_invalid_text(sound, part, now, then)
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
    """The old values if they were sent, else the new ones."""
    return pc.if_else(pa.array(sent), then, now)
