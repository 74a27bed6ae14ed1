"""Schemas that the stream sends without a statement: of a table older than the stream, or of one already known."""

from __future__ import annotations

from dataclasses import replace

from ticdc_assets.advice import Advice
from ticdc_assets.errors import DISPLACED, SchemaError
from ticdc_assets.names.encoding import sanitised
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.evolution.evolve import adopt
from ticdc_assets.schema.evolution.schema_state import Change, FillColumn
from ticdc_assets.schema.history.fold.state import FoldState
from ticdc_assets.schema.history.schema_compare import same_columns, same_key, widened
from ticdc_assets.schema.history.source_table import SourceTableBuilder, fold_name
from ticdc_assets.schema.model import Default, TableSchema


def fold_schema(state: FoldState, event: DdlEvent) -> None:
    """Fold an event without a statement: add its table, or compare the table with the schema."""
    if not event.table or event.after is None:
        return
    builder = state.live.get(fold_name(event.schema, event.table))
    if builder is None:
        state.add_first_seen(event, event.after)
    elif event.after.inferred and event.hints.version is None and builder.shape.table.inferred:
        _widen(state, builder, event, event.after)
    elif event.after.inferred and event.hints.version is None and _is_known(builder, event.after):
        pass  # a statement or a schema has more than these rows
    elif event.after.inferred:
        _adopt(state, builder, event, event.after)
    elif builder.stop is None and not same_columns(builder.shape.table, event.after, event.hints.after_is_ordered):
        state.stop(builder, event, "the stream shows other columns than its statements lead to")


def stop_at_unexplained(state: FoldState, event: DdlEvent) -> None:
    """Stop a table whose rows have a column that its statements do not give it, or lack one: a statement is missing."""
    is_of_row = bool(event.unexplained or event.lacking)
    builder = state.live.get(fold_name(event.schema, event.table)) if is_of_row else None
    if builder is None:
        return
    table, expected = builder.shape.table, "expected the columns that statements give the table"
    if event.unexplained and not _is_known_by(table, event.unexplained):
        state.stop(builder, event, f"{expected}, found {event.unexplained!r} in a row", Advice.LOST_STATEMENT)
    elif event.lacking and _is_sent(state, event, table):
        found = f"{expected}, found a row without {event.lacking!r}"
        state.stop(builder, event, found, Advice.LEFT_OUT, Advice.LOST_STATEMENT)


def stop_at_displaced(state: FoldState, event: DdlEvent) -> None:
    """Stop the table that had the name of a row last, where no table has it any more."""
    name = fold_name(event.schema, event.table)
    if not event.displaced or name in state.live:
        return
    for builder in reversed(state.all):
        if any(period.folded == name for period in builder.name_periods):
            state.stop(builder, event, f"{event.schema}.{event.table}: {DISPLACED}")
            return


def _is_known_by(table: TableSchema, spelt: str) -> bool:
    """Whether rows that spell a column so may have it from the table: Avro does not allow all characters in names."""
    return any(fold(spelt) in (fold(column.name), fold(sanitised(column.name))) for column in table.columns)


def _is_sent(state: FoldState, event: DdlEvent, table: TableSchema) -> bool:
    """Whether rows have the column that the row of the event lacks."""
    column = table.column(event.lacking)
    is_stored = column is not None and not column.virtual
    return is_stored and not state.known.leaves_out(event.schema, event.table, event.lacking)


def _is_known(builder: SourceTableBuilder, inferred: TableSchema) -> bool:
    """Whether the columns inferred from rows add nothing to the table."""
    return builder.is_made or same_columns(builder.shape.table, inferred, ordered=False)


def _adopt(state: FoldState, builder: SourceTableBuilder, event: DdlEvent, after: TableSchema) -> None:
    """Take a newer schema that no statement explains (Avro). Older rows hold the defaults of its new columns.

    A schema with another key, or a key of another type, is a new table: its rows cannot match rows of the old one.
    """
    sent = replace(after, named_key=builder.shape.table.named_key)
    if not same_key(builder.shape.table, sent):
        state.drop((event.schema, event.table), event.commit_ts)
        state.add_first_seen(event, after)
        return
    shape = adopt(builder.shape, sent)
    uids_before = {column.uid for column in builder.shape.table.columns}
    fills = tuple(
        FillColumn(c.uid, c.name, c.type, c.default or Default())
        for c in shape.table.columns
        if c.uid not in uids_before and builder.shape.table.column(c.name) is None
    )
    state.change(builder, Change(shape, fills).with_times_of(shape.table), event.commit_ts)


def _widen(state: FoldState, builder: SourceTableBuilder, event: DdlEvent, inferred: TableSchema) -> None:
    """Add the columns and types of a row that earlier rows of its table do not have."""
    if builder.stop is not None:
        return
    try:
        table = widened(builder.shape.table, inferred)
    except SchemaError as error:
        state.stop(builder, event, error)
        return
    state.change(builder, Change(adopt(builder.shape, table)), event.commit_ts)
