"""The interface of bulk decoders for messages: from a batch of messages to the row changes of each table as columns.

A bulk decoder decodes the row messages whose form it knows and marks all others as left: control messages, rows with
only the key, and unusual forms. Its result for a message equals that of the protocol's reference decoder. The messages
that are left go through the reference decoder, so both together give the reference's result, errors included.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ticdc_assets.protocols.columnar.raw_rows import RawRows
from ticdc_assets.protocols.formats.string_arrays import Ints, Mask
from ticdc_assets.schema.model import Column

if TYPE_CHECKING:
    from ticdc_assets.protocols.events import RowEvent


_MESSAGES_MIN: Final = 1024
_BYTES_MIN: Final = 2 << 20
"""A batch below both limits does not load the code. Loading takes 0.3 s, as long as the reference for 2500 rows."""


@dataclass(frozen=True, slots=True)
class Messages:
    """A bounded batch of Kafka messages in arrival order: keys and values as `binary` arrays, null if absent.

    The values of a batch are below 2 GiB in total; a batch of about 8 MiB (`limits.BATCH_BYTES`) is as fast as a
    larger one.
    """

    keys: pa.Array
    values: pa.Array

    def __post_init__(self) -> None:
        assert len(self.keys) == len(self.values)
        assert self.keys.type == self.values.type == pa.binary()

    @staticmethod
    def of(keys: pa.Array, values: pa.Array) -> Messages:
        """The batch of these keys and values, which may have any binary type."""
        return Messages(keys.cast(pa.binary()), values.cast(pa.binary()))

    @staticmethod
    def from_pairs(pairs: Iterable[tuple[bytes | None, bytes | None]]) -> Messages:
        """The batch of these (key, value) pairs."""
        every = list(pairs)
        return Messages(
            pa.array([key for key, _ in every], pa.binary()), pa.array([value for _, value in every], pa.binary())
        )

    def __len__(self) -> int:
        return len(self.values)

    def take(self, messages: pa.Array | npt.NDArray[np.int64]) -> Messages:
        """The messages at these indices."""
        indices = messages if isinstance(messages, pa.Array) else pa.array(messages)
        return Messages(self.keys.take(indices), self.values.take(indices))


@dataclass(frozen=True, slots=True)
class RowHeaders:
    """The headers of the rows of a batch, without their values; one entry per row change, in the order of the batch.

    names: the schema and table names, as written.
    message: int64, the index of the row's message.
    position: int64, the ordinal of the row among the events of its message.
    name: int32, an index into `names`.
    op: I, U or D.
    commit_ts, commit_ms, schema_version: int64, null if unknown.
    left: the messages that the bulk decoder did not decode.
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


_OF_ROWS: Final = ("message", "position", "name", "op", "commit_ts", "commit_ms", "schema_version")
"""The fields with one entry per row."""


def heads_of(
    messages: int,
    names: tuple[tuple[str, str], ...],
    message: Ints,
    name: pa.Array,
    op: pa.Array,
    commit_ts: pa.Array,
    commit_ms: pa.Array | None = None,
    schema_version: pa.Array | None = None,
    position: Ints | None = None,
) -> RowHeaders:
    """The headers of these rows in the order of the batch; messages without a row are marked as left.

    Args:
        messages: the number of messages in the batch.
        names: the different (schema, table) of the rows.
        message: int64, the index of each row's message.
        name: int32, the index of each row's table in `names`.
        op: I, U or D of each row.
        commit_ts, commit_ms, schema_version: int64; None stands for a column of nulls.
        position: int64, the ordinal of each row in its message; None stands for zeros.
    """
    nothing = pa.nulls(len(message), pa.int64())
    left = np.ones(messages, np.bool_)
    left[message] = False
    heads = RowHeaders(
        names=names,
        message=pa.array(message, pa.int64()),
        position=pa.array(np.zeros(len(message), np.int64) if position is None else position, pa.int64()),
        name=name,
        op=op.view(pa.string()),
        commit_ts=commit_ts,
        commit_ms=nothing if commit_ms is None else commit_ms,
        schema_version=nothing if schema_version is None else schema_version,
        left=left,
    )
    return heads if (message[1:] >= message[:-1]).all() else _in_order(heads)


def _in_order(heads: RowHeaders) -> RowHeaders:
    order = pa.array(np.lexsort((heads.position.to_numpy(), heads.message.to_numpy())))
    return replace(heads, **{name: getattr(heads, name).take(order) for name in _OF_ROWS})


@dataclass(frozen=True, slots=True)
class TableRows:
    """The row changes of one table, schema version and set of sent columns, in the order of the batch.

    rows: `rows.line` is the index of a row's message, `rows.columns` the names of the sent columns, as written.
        `rows.wire` and `rows.before` hold text or any Arrow type that the protocol's bulk `column` reads.
        `rows.before` holds whole old rows: values that were not sent come from the new row.
    position: int64, the ordinal of the row among the events of its message.
    table_id, partition_id: int64, as in RowEvent; None if the protocol does not send them.
    upsert: whether an I may also be an UPDATE.
    events: the rows as events, if the reference decoder decoded them. Then `rows.wire` and `rows.before` hold indices
        in `cells`.

    A batch may have several TableRows of one table, and their rows may interleave.
    """

    schema: str
    table: str
    schema_version: int | None
    rows: RawRows
    position: pa.Array
    table_id: pa.Array | None = None
    partition_id: pa.Array | None = None
    upsert: bool = False
    events: tuple[RowEvent, ...] = ()
    cells: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        assert len(self.rows) == len(self.position)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class BulkRows:
    """The rows of a batch by table; `left` marks the messages that the reference decoder has to decode."""

    tables: tuple[TableRows, ...]
    left: Mask


def rows_of(messages: int, tables: Iterable[TableRows]) -> BulkRows:
    """The tables that have rows; of so many messages, those without a row in them are marked as left."""
    left = np.ones(messages, np.bool_)
    kept = tuple(table for table in tables if len(table))
    for table in kept:
        left[table.rows.line.to_numpy()] = False
    return BulkRows(kept, left)


HeadsOf = Callable[[Messages, Any], RowHeaders]
RowsOf = Callable[[Messages, Any], BulkRows]
ColumnOf = Callable[[Column, pa.Array, str], pa.Array]


@dataclass(frozen=True, slots=True)
class Bulk:
    """The bulk decoder of a message protocol.

    heads: (messages, options) to the row headers; cheaper than `rows`.
    rows: (messages, options) to the rows. `heads` and `rows` may leave different messages.
    column: (column, array, zone) to an array of `arrow_type(column.type)`; the bulk form of the protocol's `value` for
        arrays of `rows.wire` and `rows.before`. Raises DecodeError if a value does not fit, without saying which.
    """

    heads: HeadsOf
    rows: RowsOf
    column: ColumnOf


def in_turn(first: Bulk, second: Bulk, column: ColumnOf) -> Bulk:
    """Combines two bulk decoders of one protocol: the second decodes messages that the first leaves.

    `column` must read the arrays of both.
    """

    def heads(messages: Messages, options: Any) -> RowHeaders:
        taken = first.heads(messages, options)
        if not taken.left.any():
            return taken
        rest = np.flatnonzero(taken.left)
        return _joined(taken, second.heads(messages.take(rest), options), rest)

    def rows(messages: Messages, options: Any) -> BulkRows:
        taken = first.rows(messages, options)
        if not taken.left.any():
            return taken
        rest = np.flatnonzero(taken.left)
        more = second.rows(messages.take(rest), options)
        return BulkRows((*taken.tables, *(_moved(table, rest) for table in more.tables)), _left(taken.left, more.left))

    return Bulk(heads, rows, column)


def _joined(taken: RowHeaders, more: RowHeaders, rest: npt.NDArray[np.int64]) -> RowHeaders:
    names = tuple(dict.fromkeys((*taken.names, *more.names)))
    number = {name: place for place, name in enumerate(names)}
    renumbered = pa.array([number[name] for name in more.names], pa.int32()).take(more.name)
    moved = replace(more, message=pa.array(rest).take(more.message), name=renumbered)
    joined = {name: pa.concat_arrays([getattr(taken, name), getattr(moved, name)]) for name in _OF_ROWS}
    return _in_order(RowHeaders(names=names, left=_left(taken.left, more.left), **joined))


def _left(left: Mask, left_of_rest: Mask) -> Mask:
    both = left.copy()
    both[np.flatnonzero(left)] = left_of_rest
    return both


def _moved(table: TableRows, rest: npt.NDArray[np.int64]) -> TableRows:
    line = pa.array(rest).take(table.rows.line)
    return replace(table, rows=replace(table.rows, line=line))


def take(table: TableRows, rows: pa.Array) -> TableRows:
    """The rows at these indices, in the given order."""
    return replace(
        table,
        rows=table.rows.take(rows),
        position=table.position.take(rows),
        table_id=None if table.table_id is None else table.table_id.take(rows),
        partition_id=None if table.partition_id is None else table.partition_id.take(rows),
        events=tuple(table.events[row] for row in rows.to_pylist()) if table.events else (),
    )


def compiled_bulk(module: str, column: ColumnOf) -> Bulk:
    """The bulk decoder `BULK` of a module, which is imported for the first large batch."""

    def heads(messages: Messages, options: Any) -> RowHeaders:
        if _is_left(messages, module):
            return _no_heads(messages)
        found: RowHeaders = import_module(module).BULK.heads(messages, options)
        return found

    def rows(messages: Messages, options: Any) -> BulkRows:
        if _is_left(messages, module):
            return BulkRows((), np.ones(len(messages), np.bool_))
        found: BulkRows = import_module(module).BULK.rows(messages, options)
        return found

    return Bulk(heads, rows, column)


def _is_left(messages: Messages, module: str) -> bool:
    is_small = len(messages) < _MESSAGES_MIN and messages.values.nbytes < _BYTES_MIN
    return is_small and module not in sys.modules


def _no_heads(messages: Messages) -> RowHeaders:
    nothing = pa.array([], pa.int64())
    no_op = pa.array([], pa.string())
    return heads_of(len(messages), (), np.zeros(0, np.int64), pa.array([], pa.int32()), no_op, nothing)
