"""What each kind of statement does to the source tables; renames are in `fold.renames`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ticdc_assets.errors import SchemaError
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.evolution.evolve import alter_all, create, shape_of
from ticdc_assets.schema.evolution.schema_state import Change, ExchangedRows, Shape
from ticdc_assets.schema.history.fold.state import FoldState
from ticdc_assets.schema.history.schema_compare import as_made, same_columns
from ticdc_assets.schema.history.sent_statements import candidates, exchanged_names, listed, with_schema
from ticdc_assets.schema.history.source_table import SourceName, SourceTableBuilder, fold_name, same_name
from ticdc_assets.schema.model import UNNAMED, TableSchema
from ticdc_assets.schema.partitions.rows import PartitionRows, partition_rows

_NOT_SHOWN: Final = (
    "it restores rows that the stream does not show: only the table that a DROP TABLE dropped last under the name "
    "continues with its rows"
)
_ADVICE: Final = "EXCHANGE PARTITION moves rows that the stream does not send; load both tables again."


def fold_statement(state: FoldState, event: DdlEvent, statement: ddl.Statement) -> None:
    """Fold one statement of an event. Its renames are folded before."""
    match statement:
        case ddl.CreateTable():
            _create(state, event, statement)
        case ddl.DropTables(names=names):
            for schema, table in names:
                _drop(state, event, (schema or event.schema, table))
        case ddl.CreateDatabase(name=schema) | ddl.AlterDatabase(name=schema):
            state.collations[fold(schema)] = statement.collation
        case ddl.DropDatabase(name=schema):
            state.pending.forget_database(schema)
            for name in [n for n in state.recoverable if n[0] == fold(schema)]:
                del state.recoverable[name]
            for name in {n for n in state.live if n[0] == fold(schema)} | state.pending.inside(schema):
                state.drop(name, event.commit_ts)
        case ddl.AlterTable(actions=actions) if any(isinstance(a, ddl.ExchangePartition) for a in actions):
            _exchange(state, event, statement)
        case ddl.TruncateTable() | ddl.AlterTable():
            if isinstance(statement, ddl.TruncateTable):
                state.recoverable.pop(fold_name(event.schema, event.table), None)
            fold_alter(state, event, statement)
        case ddl.RecoverTable():
            _recover(state, event, statement)
        case _:
            pass  # renames, and statements without effect on tables


def fold_alter(state: FoldState, event: DdlEvent, statement: ddl.TruncateTable | ddl.AlterTable) -> None:
    """Fold a statement on the table that the event names; it is pending where no table has the name yet."""
    builder = state.live.get(fold_name(event.schema, event.table))
    if builder is None:
        builder = state.add_before(event, (event.schema, event.table)) or _add_described_before(state, event, statement)
    if builder is None:
        if event.after is not None:
            state.add_first_seen(event, event.after)
        else:
            state.pending.change(event, statement)
        return
    if builder.stop is not None:
        return
    try:
        change = alter_all(builder.shape, statement).with_times_of(event.after)
    except SchemaError as error:
        if not state.written.is_repeat(event):
            state.stop(builder, event, error)
        return
    state.change(builder, change, event.commit_ts)
    if isinstance(statement, ddl.AlterTable):
        actions = (action for action in statement.actions if isinstance(action, ddl.NoEffect))
        _mark_unknown(builder, event, [action.unknown_option for action in actions if action.unknown_option])
    state.check(builder, event)


def _mark_unknown(builder: SourceTableBuilder, event: DdlEvent, options: Sequence[str]) -> None:
    builder.marks += [
        f"{event.where}: the option {option} is not known; it is taken to change no column" for option in options
    ]


def add_described(state: FoldState, name: SourceName, sent: TableSchema | None = None) -> SourceTableBuilder | None:
    """Add a table that the stream names only as the other table of a statement, from `schema_files` of that name; None
    where these have other columns than those that the stream sends. Pending statements are applied to it first."""
    known = state.described(name)
    if known is None or (sent is not None and not same_columns(known, sent, ordered=False)):
        return None
    state.add(name, shape_of(known), 0, 0)
    for event, statement in state.pending.take_changes(name):
        fold_alter(state, event, statement)
    return state.live[fold_name(*name)]


def _add_described_before(
    state: FoldState, event: DdlEvent, statement: ddl.TruncateTable | ddl.AlterTable
) -> SourceTableBuilder | None:
    """Add a table that the stream shows for the first time after a statement, from `schema_files` that describe it
    before; None where the statement does not lead from there to the columns that the stream sends."""
    name = (event.schema, event.table)
    known = state.described(name)
    if known is None or event.after is None:
        return None
    try:
        after = alter_all(shape_of(known), statement).shape.table
    except SchemaError:
        return None  # the user described the table after the statement
    if after.columns == known.columns or not same_columns(after, event.after, event.hints.after_is_ordered):
        return None
    table, marks = state.completed(name, known)
    state.add(name, shape_of(table), event.commit_ts, 0, marks)
    return state.live[fold_name(*name)]


def _create(state: FoldState, event: DdlEvent, statement: ddl.CreateTable) -> None:
    name = (event.schema, event.table or statement.name)
    shape = _shape_of_create(state, event, statement, name)
    if shape is None:
        return
    state.drop(name, event.commit_ts)  # in case the stream lacks the DROP
    state.add(name, shape, event.commit_ts, event.commit_ts)
    builder = state.live[fold_name(*name)]
    builder.stop = None  # a stop of its database is before all rows of the new table
    builder.is_whole = builder.is_made = True
    _mark_unknown(builder, event, statement.unknown_options)
    state.check(builder, event)


def _shape_of_create(state: FoldState, event: DdlEvent, statement: ddl.CreateTable, name: SourceName) -> Shape | None:
    """The shape of the new table; None where it is not known and the table stops."""
    if statement.like is None:
        try:
            named = replace(statement, schema=name[0], name=name[1])
            return create(named, state.collations.get(fold(name[0]), UNNAMED))
        except SchemaError as error:
            state.stop_subject(event, error)
            return None
    like = with_schema(event, (statement.schema, statement.name), statement.like)
    models = candidates(state.live, like, event.after, event.hints.after_is_ordered)
    copies = [replace(model.shape.table, schema=name[0], name=name[1]) for model in models]
    is_known = event.after is not None or not any(model.stop for model in models)
    if is_known and len({as_made(copy) for copy in copies}) == 1:
        return shape_of(copies[0])
    if copies:
        why = "the stream does not show which one" if len(models) > 1 else "which has stopped"
        state.stop_subject(event, f"CREATE TABLE LIKE {listed(model.name for model in models)}: {why}")
        return None
    described = state.described(like)
    if described is not None and event.after is not None and same_columns(described, event.after, ordered=False):
        return shape_of(replace(described, schema=name[0], name=name[1]))
    if event.after is None:
        state.stop_subject(event, "CREATE TABLE LIKE a table that the stream does not know")
        return None
    return shape_of(state.completed(name, event.after)[0])


def _drop(state: FoldState, event: DdlEvent, name: SourceName) -> None:
    if same_name(name, (event.schema, event.table)) and not state.was_used(name):
        state.add_before(event, name)
    dropped, before = state.drop(name, event.commit_ts), state.recoverable.get(fold_name(*name))
    if dropped is not None:
        state.recoverable[fold_name(*name)] = dropped
    elif before is not None and before.dropped_ts != event.commit_ts:
        del state.recoverable[fold_name(*name)]  # a table that is not known was dropped since


def _recover(state: FoldState, event: DdlEvent, statement: ddl.RecoverTable) -> None:
    """RECOVER and FLASHBACK bring back the table that DROP TABLE dropped last under the name: it continues, with the
    rows that it had. Else the table stops before its next row: it was truncated, dropped with its database or before
    the stream, or the statement names a job."""
    name = (event.schema, event.table)
    source = (statement.schema or event.schema, statement.name or event.table)
    named = (event.schema, statement.new_name or source[1])
    is_free = fold_name(*name) not in state.live
    if statement.name is not None and is_free and same_name(name, named):
        dropped = state.recoverable.pop(fold_name(*source), None)
        if dropped is not None:
            state.recover(dropped, name, event.commit_ts)
            state.check(dropped, event)
            return
    last = next((builder for builder in reversed(state.all) if same_name(builder.name, source)), None)
    if last is not None and event.after is None and is_free:
        table = replace(last.shape.table, schema=name[0], name=name[1])
        state.add(name, shape_of(table), event.commit_ts, event.commit_ts)
    state.stop_subject(event, _NOT_SHOWN, rows_are_missing=True)


def _exchange(state: FoldState, event: DdlEvent, statement: ddl.AlterTable) -> None:
    """EXCHANGE PARTITION moves rows between two tables, and the stream does not send them. Both tables get the effect
    where it is known which rows move; else both stop."""
    for name in exchanged_names(event, statement):
        if fold_name(*name) not in state.live:
            add_described(state, name, event.after if same_name(name, (event.schema, event.table)) else None)
    try:
        pair = pair_of(state.live, event, statement)
    except SchemaError as error:
        _stop_exchanged(state, event, statement, error)
        return
    effect = ExchangedRows(pair.partitioned.id, pair.table.id, pair.rows)
    for builder, other in ((pair.partitioned, pair.table), (pair.table, pair.partitioned)):
        if builder.is_whole and not other.is_whole:
            reason = f"EXCHANGE PARTITION brought rows of {listed([other.name])} here, which is older than the stream"
            state.stop(builder, event, f"{reason}: its earlier rows were not sent")
        else:
            state.change(builder, Change(builder.shape, (effect,)), event.commit_ts)


def _stop_exchanged(state: FoldState, event: DdlEvent, statement: ddl.AlterTable, reason: SchemaError) -> None:
    """Stop both tables, also one that appears later."""
    state.stop_subject(event, reason, rows_are_missing=True)
    subject = state.live.get(fold_name(event.schema, event.table))
    for name in exchanged_names(event, statement):
        builders = candidates(state.live, name, subject.shape.table if subject is not None else None)
        for builder in builders:
            state.stop(builder, event, reason)
        if not builders and name[0]:
            state.stop_name(name, event, reason)


@dataclass(frozen=True, slots=True)
class ExchangePair:
    """A partitioned table, the table that it exchanges a partition with, and the rows of the partition."""

    partitioned: SourceTableBuilder
    table: SourceTableBuilder
    rows: PartitionRows


def pair_of(live: Mapping[SourceName, SourceTableBuilder], event: DdlEvent, statement: ddl.AlterTable) -> ExchangePair:
    """The pair of a statement. Raises SchemaError where its tables or rows are not known."""
    actions = [action for action in statement.actions if isinstance(action, ddl.ExchangePartition)]
    if len(statement.actions) != 1 or not actions:
        raise _fault(event, "EXCHANGE PARTITION alone in its statement", "other actions too")
    partitioned, table = _both(live, event, statement)
    one, other = partitioned.shape.table, table.shape.table
    stopped = [each.name for each, of in ((one, partitioned), (other, table)) if of.stop is not None]
    if stopped:
        raise _fault(event, "two tables that are not stopped", f"{' and '.join(stopped)} stopped")
    if not same_columns(one, other, ordered=False) or any(
        (found := other.column(c.name)) is None or arrow_type(c.type) != arrow_type(found.type) for c in one.columns
    ):
        raise _fault(event, f"the columns of {one.name} in {other.name}", "other columns")
    if not one.key or sorted(fold(n) for n in one.key) != sorted(fold(n) for n in other.key):
        raise _fault(event, f"one key in {one.name} and {other.name}", f"{_key_text(one)} and {_key_text(other)}")
    [rows] = partition_rows(one, (actions[0].name,))
    return ExchangePair(partitioned, table, rows)


def _both(
    live: Mapping[SourceName, SourceTableBuilder], event: DdlEvent, statement: ddl.AlterTable
) -> tuple[SourceTableBuilder, SourceTableBuilder]:
    _, first, second = exchanged_names(event, statement)
    # A name without a database refers to the only table of that name with the other table's columns.
    of_first, of_second = candidates(live, first, None), candidates(live, second, None)
    if len(of_first) == 1:
        of_second = candidates(live, second, of_first[0].shape.table, ordered=False)
    elif len(of_second) == 1:
        of_first = candidates(live, first, of_second[0].shape.table, ordered=False)
    if len(of_first) != 1 or len(of_second) != 1 or of_first[0] is of_second[0]:
        raise _fault(event, "two tables that the stream has sent", "one that is not known, or several of its name")
    return of_first[0], of_second[0]


def _key_text(table: TableSchema) -> str:
    return f"({', '.join(table.key)})" if table.key else "no key"


def _fault(event: DdlEvent, expected: str, found: str) -> SchemaError:
    return SchemaError(f"EXCHANGE PARTITION of {event.schema}.{event.table}", expected, found, _ADVICE)
