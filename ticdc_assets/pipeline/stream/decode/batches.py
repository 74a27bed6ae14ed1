"""Decodes the rows of whole batches of messages to typed changes, with the bulk decoder of their protocol.

If any row of a message cannot be decided here, the whole message goes to the reference decoder, so that no row is
decoded twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa

from ticdc_assets.changes.typed import TypedChanges
from ticdc_assets.errors import DecodeError
from ticdc_assets.pipeline.rows.bad_rows import strict_changes
from ticdc_assets.pipeline.rows.place import Bools, Ints
from ticdc_assets.pipeline.stream.decode.message_batch import MessageBatch
from ticdc_assets.pipeline.stream.decode.place import NamedRows, by_name, counts, messages_of, to_write
from ticdc_assets.pipeline.stream.decode.row_schemas import column_rules, sample_is_unlike
from ticdc_assets.pipeline.stream.decode.task import MessageTask
from ticdc_assets.pipeline.stream.decode.values import in_bulk, rules_of
from ticdc_assets.protocols.columnar.message_rows import Bulk, TableRows
from ticdc_assets.schema.history.source_table import SchemaPeriod, SourceName

REFERENCE_DECIDES: Final = "The reference decoder reads it."


@dataclass(frozen=True, slots=True)
class Piece:
    """Typed changes of one name, schema period and delivery. `position` is a row's ordinal among its message's events.
    A `late` piece has rows at or below its table's watermark."""

    name: SourceName
    period: SchemaPeriod
    delivery: int
    position: Ints
    changes: TypedChanges
    late: bool = False


@dataclass(slots=True)
class BulkOutcome:
    """The result of a batch: typed changes, counts by name, and the indices of messages for the reference decoder."""

    pieces: list[Piece] = field(default_factory=list)
    row_counts: list[tuple[SourceName, tuple[int, int, int]]] = field(default_factory=list)
    left: list[int] = field(default_factory=list)


def decode_in_bulk(task: MessageTask, bulk: Bulk, batch: MessageBatch) -> BulkOutcome:
    """What the bulk decoder can decode of a batch."""
    decoded = bulk.rows(batch.keys_and_values, task.decoding.options)
    every = [named for table in decoded.tables for named in by_name(task, batch, table)]
    fallback = decoded.left.copy()
    for named in every:
        fallback[named.messages[~named.has_schema]] = True
    outcome, read = BulkOutcome(), batch.was_read(task)
    typed = [piece for named in every for piece in _typed(task, bulk, batch, named, fallback, read)]
    outcome.row_counts = [(named.name, counts(task, batch, named, ~fallback, read)) for named in every]
    outcome.pieces = [piece for piece in (_without(piece, batch, fallback) for piece in typed) if len(piece.changes)]
    outcome.left = [int(index) for index in np.flatnonzero(fallback)]
    return outcome


def _typed(
    task: MessageTask, bulk: Bulk, batch: MessageBatch, named: NamedRows, fallback: Bools, read: Bools
) -> Iterator[Piece]:
    """The changes that this run writes. Messages whose values cannot be typed are marked in `fallback`."""
    for period, delivery, late, table in to_write(task, batch, named, ~fallback, read):
        try:
            _refuse_other_columns(task, batch, named, period, table)
            changes = _changes(task, bulk, batch, period, table)
        except DecodeError:
            fallback[messages_of(table)] = True
            continue
        position = np.asarray(table.position.to_numpy(), np.int64)
        yield Piece(named.name, period, delivery, position, changes, late)


def _refuse_other_columns(
    task: MessageTask, batch: MessageBatch, named: NamedRows, period: SchemaPeriod, table: TableRows
) -> None:
    """Raise DecodeError where rows have other columns than their version; the reference decoder then finds which."""
    known = period.version.table
    rules = column_rules(task, known, named.source or (table.schema, table.table))
    unlike = rules.unknown(table.rows.columns)
    unlike = rules.lacking_in(table.rows) if unlike is None else unlike
    last = batch.block.message(int(messages_of(table)[-1]))
    if unlike is not None or sample_is_unlike(task, known, named.name, last):
        raise DecodeError(table.table, "the columns of its version", "others", REFERENCE_DECIDES)


def _changes(
    task: MessageTask, bulk: Bulk, batch: MessageBatch, period: SchemaPeriod, table: TableRows
) -> TypedChanges:
    """The rows with the types of their period. Raises DecodeError where a value cannot be typed, or a key may have no
    value in the lake: the reference decoder then finds the row and reports it."""
    rules = rules_of(task, period.version.table, in_bulk(task, bulk), batch.message_of)
    return strict_changes(replace(table.rows, line=pa.array(batch.ordinals[messages_of(table)])), rules)


def _without(piece: Piece, batch: MessageBatch, fallback: Bools) -> Piece:
    """The piece without rows of messages that go to the reference decoder."""
    if not fallback.any():
        return piece
    bad = batch.ordinals[np.flatnonzero(fallback)]
    kept = np.flatnonzero(~np.isin(piece.changes.line.to_numpy(), bad))
    if len(kept) == len(piece.changes):
        return piece
    return replace(piece, position=piece.position[kept], changes=piece.changes.take(pa.array(kept)))
