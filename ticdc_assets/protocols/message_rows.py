"""What the bulk decoders of messages share: a batch of messages in, the row changes of each table as columns out.

A bulk decoder takes the row messages that it is sure of and marks all others as left: control messages, rows of
which only the key was sent, and whatever is odd. What it tells of a message equals what the protocol's reference
`decode` tells; what is left goes through the reference, message by message. So the two together tell what the
reference alone would, errors included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ticdc_assets.protocols.raw_rows import RawRows
from ticdc_assets.schema.model import Column

Mask = npt.NDArray[np.bool_]
"""One flag for each message of a batch."""


@dataclass(frozen=True, slots=True)
class Messages:
    """A bounded batch of Kafka messages in arrival order: keys and values as `binary`, null where absent.

    Made with `of` from any kind of binary array. The values of a batch are below 2 GiB together; a batch of some
    8 MiB (`limits.BATCH_BYTES`) is as fast as a larger one.
    """

    keys: pa.Array
    values: pa.Array

    def __post_init__(self) -> None:
        assert len(self.keys) == len(self.values)
        assert self.keys.type == self.values.type == pa.binary()

    @staticmethod
    def of(keys: pa.Array, values: pa.Array) -> Messages:
        """The batch of these keys and values, whatever their binary type."""
        return Messages(keys.cast(pa.binary()), values.cast(pa.binary()))

    @staticmethod
    def from_pairs(pairs: Iterable[tuple[bytes | None, bytes | None]]) -> Messages:
        """The batch of these (key, value)."""
        every = list(pairs)
        return Messages(
            pa.array([key for key, _ in every], pa.binary()), pa.array([value for _, value in every], pa.binary())
        )

    def __len__(self) -> int:
        return len(self.values)

    def take(self, messages: pa.Array | npt.NDArray[np.int64]) -> Messages:
        """The messages of these indices."""
        indices = messages if isinstance(messages, pa.Array) else pa.array(messages)
        return Messages(self.keys.take(indices), self.values.take(indices))


@dataclass(frozen=True, slots=True)
class Heads:
    """What a first pass needs to know of the rows of a batch, before their values are parsed.

    One entry for each row change in the order of the batch: `message` (int64, its message's index), `position`
    (int64, its ordinal among its message's events), `name` (int32, an index into `names`, each of them schema and
    table as written), `op` (I, U or D), `commit_ts`, `commit_ms` and `schema_version` (int64, null where unknown).
    `left` marks the messages of which nothing is told here.
    """

    names: tuple[tuple[str, str], ...]
    message: pa.Array
    position: pa.Array
    name: pa.Array
    op: pa.Array
    commit_ts: pa.Array
    commit_ms: pa.Array
    schema_version: pa.Array
    left: Mask

    def __len__(self) -> int:
        return len(self.message)


@dataclass(frozen=True, slots=True)
class TableRows:
    """The row changes of one table, schema version and set of sent columns, in the order of the batch.

    `rows.line` is the index of a row's message, `position` (int64) its ordinal among that message's events.
    `rows.columns` are the columns sent, under the names as written, and no others; `rows.wire` and `rows.before`
    hold them as the wire does, for the protocol's bulk `column`: text, or whatever Arrow type it understands.
    `rows.before` holds whole old rows, what was not sent taken from the new row. `table_id` and `partition_id`
    (int64) are there where the protocol tells them, as in RowEvent; with `upsert` an I may be an UPDATE as well.
    A batch may hold several TableRows of one table, whose rows may interleave.
    """

    schema: str
    table: str
    schema_version: int | None
    rows: RawRows
    position: pa.Array
    table_id: pa.Array | None = None
    partition_id: pa.Array | None = None
    upsert: bool = False

    def __post_init__(self) -> None:
        assert len(self.rows) == len(self.position)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class BulkRows:
    """The rows of a batch by table; `left` marks the messages that are in no table and must go to the reference."""

    tables: tuple[TableRows, ...]
    left: Mask


HeadsOf = Callable[[Messages, Any], Heads]
RowsOf = Callable[[Messages, Any], BulkRows]
ColumnOf = Callable[[Column, pa.Array, str], pa.Array]


@dataclass(frozen=True, slots=True)
class Bulk:
    """The bulk form of a message protocol.

    `heads(messages, options)` is the cheaper first pass, `rows(messages, options)` gives the rows; they may leave
    different messages. `column(column, array, zone)` is `value` for a whole array of `rows.wire` or `rows.before`: an
    array of `arrow_type(column.type)`, or DecodeError where the type cannot hold one of its values (which one, only
    the reference tells).
    """

    heads: HeadsOf
    rows: RowsOf
    column: ColumnOf


def in_turn(first: Bulk, second: Bulk, column: ColumnOf) -> Bulk:
    """Two forms of one protocol: the second takes what it can of what the first leaves. `column` reads both's."""

    def heads(messages: Messages, options: Any) -> Heads:
        told = first.heads(messages, options)
        if not told.left.any():
            return told
        rest = np.flatnonzero(told.left)
        return _joined(told, second.heads(messages.take(rest), options), rest)

    def rows(messages: Messages, options: Any) -> BulkRows:
        told = first.rows(messages, options)
        if not told.left.any():
            return told
        rest = np.flatnonzero(told.left)
        more = second.rows(messages.take(rest), options)
        return BulkRows((*told.tables, *(_moved(table, rest) for table in more.tables)), _left(told.left, more.left))

    return Bulk(heads, rows, column)


def _joined(told: Heads, more: Heads, rest: npt.NDArray[np.int64]) -> Heads:
    names = tuple(dict.fromkeys((*told.names, *more.names)))
    number = {name: place for place, name in enumerate(names)}
    renumbered = pa.array([number[name] for name in more.names], pa.int32()).take(more.name)
    message = pa.concat_arrays([told.message, pa.array(rest).take(more.message)])
    position = pa.concat_arrays([told.position, more.position])
    order = pa.array(np.lexsort((position.to_numpy(), message.to_numpy())))
    return Heads(
        names=names,
        message=message.take(order),
        position=position.take(order),
        name=pa.concat_arrays([told.name, renumbered]).take(order),
        op=pa.concat_arrays([told.op, more.op]).take(order),
        commit_ts=pa.concat_arrays([told.commit_ts, more.commit_ts]).take(order),
        commit_ms=pa.concat_arrays([told.commit_ms, more.commit_ms]).take(order),
        schema_version=pa.concat_arrays([told.schema_version, more.schema_version]).take(order),
        left=_left(told.left, more.left),
    )


def _left(left: Mask, left_of_rest: Mask) -> Mask:
    both = left.copy()
    both[np.flatnonzero(left)] = left_of_rest
    return both


def _moved(table: TableRows, rest: npt.NDArray[np.int64]) -> TableRows:
    line = pa.array(rest).take(table.rows.line)
    return replace(table, rows=replace(table.rows, line=line))


def take(table: TableRows, rows: pa.Array) -> TableRows:
    """The rows of these indices, in that order."""
    return replace(
        table,
        rows=table.rows.take(rows),
        position=table.position.take(rows),
        table_id=None if table.table_id is None else table.table_id.take(rows),
        partition_id=None if table.partition_id is None else table.partition_id.take(rows),
    )
