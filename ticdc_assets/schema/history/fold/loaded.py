"""Tables that were loaded from a dump or copied from TiDB: their history begins at the TSO of their first rows.

The rows have what the stream did to these tables up to the TSO. What the stream has of them up to there belongs to
source tables of their own. Those that a dump has are `is_contained`, and no run follows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ticdc_assets.errors import SchemaError
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.evolution.evolve import create
from ticdc_assets.schema.evolution.schema_state import Shape
from ticdc_assets.schema.history.fold.state import FoldState
from ticdc_assets.schema.history.source_table import NamePeriod, SourceName, fold_name, same_name


def fold_loaded(state: FoldState, events: Sequence[DdlEvent], ts: int) -> None:
    """Fold the CREATE DATABASE and CREATE TABLE statements of a dump at the TSO `ts`.

    The rows of the dump have the commit_ts `ts`, so the first version begins before it. Rows of the stream belong to
    the table only above `ts`.
    """
    for event in events:
        if event.table:
            _load_table(state, event)
            continue
        for statement in parse(event.query, event.schema, restored=False):
            if isinstance(statement, ddl.CreateDatabase):
                state.collations[fold(event.schema)] = statement.collation
    state.recoverable.clear()  # the dump does not have the rows of tables that were dropped before it
    for builder in state.all:
        builder.is_contained = builder.is_contained or (builder.dropped_ts is not None and builder.dropped_ts <= ts)


def fold_copied(state: FoldState, events: Sequence[DdlEvent]) -> None:
    """Begin tables that are copied from TiDB. A table that had the name before ends there."""
    for event in events:
        name = (event.schema, event.table)
        is_first = not state.was_used(name)
        _load_table(state, event)
        for builder in state.all:
            if is_first and builder.dropped_ts is not None and same_name(builder.name, name):
                builder.is_contained = True
            if builder.dropped_ts is None and builder.name_periods[-1] == NamePeriod(*name, event.commit_ts):
                builder.copied_ts = event.commit_ts


def _load_table(state: FoldState, event: DdlEvent) -> None:
    """Begin the table. Where its text is not understood, the table that has the name next stops before all its rows,
    since those of the dump are not loaded; a text of the same dump that was corrected counts instead."""
    name, ts = (event.schema, event.table), event.commit_ts
    try:
        shape = created(event)
    except SchemaError as error:
        builder = state.live.get(fold_name(*name))
        if builder is None or builder.name_periods[-1].after_ts < ts:
            state.drop(name, ts)
            reason = f"the rows of the dump are not loaded, since its CREATE TABLE is not understood: {error}"
            state.stop_name(name, replace(event, commit_ts=0), reason)
        return
    _begin(state, name, shape, ts)


def created(event: DdlEvent) -> Shape:
    """The table of a dump's CREATE TABLE. Raises SchemaError where the text cannot be read."""
    for statement in parse(event.query, event.schema, restored=False):
        if isinstance(statement, ddl.CreateTable):
            return create(replace(statement, schema=event.schema, name=event.table))
    advice = "Dump the schema again."
    raise SchemaError(event.where, "a CREATE TABLE statement", "none", advice)


def has_stored_columns(event: DdlEvent) -> bool:
    """Whether a dump's CREATE TABLE has generated columns that are stored."""
    return any(
        column.computed == "STORED"
        for statement in parse(event.query, event.schema, restored=False)
        if isinstance(statement, ddl.CreateTable)
        for column in statement.columns
    )


def _begin(state: FoldState, name: SourceName, shape: Shape, ts: int) -> None:
    _end(state, name, shape, ts)
    state.add(name, shape, ts, ts)
    builder = state.live[fold_name(*name)]
    builder.versions[0] = replace(builder.versions[0], from_ts=ts - 1)
    builder.stop = None
    builder.is_whole = builder.is_made = True


def _end(state: FoldState, name: SourceName, shape: Shape, ts: int) -> None:
    """End the table that has the name in the stream. If the stream has none, a table with the columns of the dump is
    added and ended."""
    if not state.was_used(name):
        state.add(name, shape, 0, 0)
    builder = state.live.get(fold_name(*name))
    if builder is not None and builder.name_periods[-1].after_ts >= ts:  # it got the name at the dump's own TSO
        builder.name_periods.pop()
        del state.live[fold_name(*name)]
        builder.dropped_ts = ts
        if not builder.name_periods:
            state.all.remove(builder)
    state.drop(name, ts)
