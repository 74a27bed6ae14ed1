"""The source tables of a fold so far: their names, and where they stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ticdc_assets.advice import Advice
from ticdc_assets.errors import SchemaError
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.evolution.evolve import shape_of
from ticdc_assets.schema.evolution.schema_state import Change, Shape, TruncateRows
from ticdc_assets.schema.history.schema_compare import same_columns, unknowns
from ticdc_assets.schema.history.sent_statements import WrittenStatements
from ticdc_assets.schema.history.source_table import (
    History,
    NamePeriod,
    SourceName,
    SourceTableBuilder,
    Stop,
    Version,
    fold_name,
)
from ticdc_assets.schema.model import Collation, TableSchema

PendingStatement = tuple[DdlEvent, ddl.TruncateTable | ddl.AlterTable]


@dataclass(slots=True)
class PendingStatements:
    """The pending statements and stops by name, without regard to case."""

    _statements: dict[SourceName, list[PendingStatement]] = field(default_factory=dict)
    _stops: dict[SourceName, Stop] = field(default_factory=dict)
    _stops_of_databases: dict[str, Stop] = field(default_factory=dict)

    def called(self, table: str) -> set[SourceName]:
        """The pending names of this table in any database."""
        return {name for name in (*self._statements, *self._stops) if name[1] == fold(table)}

    def inside(self, schema: str) -> set[SourceName]:
        """The pending names in a database."""
        return {name for name in (*self._statements, *self._stops) if name[0] == fold(schema)}

    def change(self, event: DdlEvent, statement: ddl.TruncateTable | ddl.AlterTable) -> None:
        """Keep a statement on the event's table."""
        self._statements.setdefault(fold_name(event.schema, event.table), []).append((event, statement))

    def stop(self, name: SourceName, stop: Stop) -> None:
        """Stop the next table that gets this name; the first stop of a name counts."""
        self._stops.setdefault(fold_name(*name), stop)

    def stop_database(self, schema: str, stop: Stop) -> None:
        """Stop each new table of this database; of every database where `schema` is empty."""
        self._stops_of_databases.setdefault(fold(schema), stop)

    def take_changes(self, name: SourceName) -> list[PendingStatement]:
        """Remove and return the statements on a name."""
        return self._statements.pop(fold_name(*name), [])

    def take_stop(self, name: SourceName) -> Stop | None:
        """The earliest stop of the name and its database; the name's own stop is removed."""
        of_databases = (self._stops_of_databases.get(schema) for schema in ("", fold(name[0])))
        stops = [stop for stop in (self._stops.pop(fold_name(*name), None), *of_databases) if stop is not None]
        return min(stops, key=lambda stop: stop.ts, default=None)

    def forget(self, name: SourceName) -> None:
        """Remove what is pending for a name."""
        self._statements.pop(fold_name(*name), None)
        self._stops.pop(fold_name(*name), None)

    def forget_database(self, schema: str) -> None:
        """Remove the stop of a database that is dropped."""
        self._stops_of_databases.pop(fold(schema), None)


@dataclass(frozen=True, slots=True)
class Known:
    """What the user configures: `schema_files` of tables older than the stream by their folded names, the `keys` that
    the stream does not send, and the columns that the changefeed leaves out of rows (schema, table, column).
    `not_understood` says of a table why its text in `schema_files` is not: without a CREATE TABLE of the stream, it
    waits."""

    tables: Mapping[SourceName, TableSchema] = field(default_factory=dict)
    key_of: Callable[[str, str], tuple[str, ...] | None] = lambda _schema, _table: None
    leaves_out: Callable[[str, str, str], bool] = lambda _schema, _table, _column: False
    not_understood: Mapping[SourceName, str] = field(default_factory=dict)


class FoldState:
    """The source tables so far.

    `live` holds the tables that exist by their current names, `all` also the dropped ones. `recoverable` holds, by the
    name that it had, the dropped table that RECOVER TABLE brings back. `pending` holds statements and stops for names
    that no table has yet.
    """

    def __init__(self, known: Known) -> None:
        self.known = known
        self.all: list[SourceTableBuilder] = []
        self.live: dict[SourceName, SourceTableBuilder] = {}
        self.recoverable: dict[SourceName, SourceTableBuilder] = {}
        self.pending = PendingStatements()
        self.written = WrittenStatements()
        self.collations: dict[str, Collation] = {}
        self._uses: Counter[SourceName] = Counter()

    def history(self) -> History:
        """The source tables, frozen."""
        return History(tuple(builder.frozen() for builder in self.all))

    # -- new tables -----------------------------------------------------------------------------------------------

    def add(self, name: SourceName, shape: Shape, ts: int, after_ts: int, marks: Iterable[str] = ()) -> None:
        """Add a source table.

        Args:
            ts: the TSO in its id.
            after_ts: it has the name for rows with a commit_ts above this TSO.
            marks: what the user should know about the table.
        """
        shape = replace(shape, table=replace(shape.table, named_key=self.known.key_of(*name) or ()))
        builder = SourceTableBuilder(
            id=f"{name[0]}.{name[1]}@{ts}",
            shape=shape,
            name_periods=[],
            versions=[Version(after_ts, shape.table)],
            stop=self.pending.take_stop(name),
            marks=list(marks),
        )
        self.all.append(builder)
        self.give_name(builder, name, after_ts)

    def add_first_seen(self, event: DdlEvent, schema: TableSchema) -> None:
        """Add a table that the stream shows for the first time, with this schema from the event on."""
        name = (event.schema, event.table)
        table, marks = self.completed(name, schema)
        after_ts = event.commit_ts if self.was_used(name) else 0
        self.add(name, shape_of(table), event.commit_ts, after_ts, marks)
        self._wait_if_not_understood(name)

    def _wait_if_not_understood(self, name: SourceName) -> None:
        why = self.known.not_understood.get(fold_name(*name))
        if why is not None:
            self.live[fold_name(*name)].stop = Stop(0, why, waits_for_schema=True)

    def add_before(self, event: DdlEvent, name: SourceName) -> SourceTableBuilder | None:
        """Add a table that a statement mentions for the first time, with the columns before the statement; None where
        the stream does not send these."""
        if event.before is None:
            return None
        table, marks = self.completed(name, event.before)
        self.add(
            name, shape_of(replace(table, schema=name[0], name=name[1])), event.hints.before_version or 0, 0, marks
        )
        self._wait_if_not_understood(name)
        return self.live[fold_name(*name)]

    def completed(self, name: SourceName, sent: TableSchema) -> tuple[TableSchema, list[str]]:
        """The schema that the stream sends, or the user's where it has the same columns, and its marks."""
        known = self.known.tables.get(fold_name(*name))
        marks = []
        table = replace(sent, virtual_unknown=not sent.inferred)
        if known is not None and same_columns(known, sent, ordered=False):
            table = replace(known, schema=name[0], name=name[1])
        else:
            marks.append("older than the stream")
            if known is not None:
                marks.append("schema_files describe other columns")
        return table, [*marks, *unknowns(table, self.known.key_of(*name) is not None)]

    def described(self, name: SourceName) -> TableSchema | None:
        """The table of `schema_files` that has this name, if no table of the stream has or had it."""
        known = self.known.tables.get(fold_name(*name))
        return None if known is None or self.was_used(name) else replace(known, schema=name[0], name=name[1])

    # -- names ----------------------------------------------------------------------------------------------------

    def was_used(self, name: SourceName) -> bool:
        """Whether any table has or had the name."""
        return self._uses[fold_name(*name)] > 0

    def give_name(self, builder: SourceTableBuilder, name: SourceName, after_ts: int) -> None:
        """Give a table a name for rows with a commit_ts above `after_ts`."""
        builder.name_periods.append(NamePeriod(*name, after_ts))
        self._uses[fold_name(*name)] += 1
        self.live[fold_name(*name)] = builder

    def drop(self, name: SourceName, ts: int) -> SourceTableBuilder | None:
        """Drop the table of this name, if there is one, and what is pending for the name."""
        self.pending.forget(name)
        builder = self.live.pop(fold_name(*name), None)
        if builder is not None:
            builder.dropped_ts = ts
            builder.name_periods[-1] = replace(builder.name_periods[-1], until_ts=ts)
            self.recoverable.pop(fold_name(*name), None)
        return builder

    def recover(self, builder: SourceTableBuilder, name: SourceName, ts: int) -> None:
        """Bring a dropped table back under a name, with the columns and rows that it had."""
        builder.dropped_ts = None
        stop = self.pending.take_stop(name)
        if builder.stop is None and stop is not None:
            builder.stop = replace(stop, ts=ts)
        self._name_anew(builder, name, ts)

    def rename(self, builder: SourceTableBuilder, new: SourceName, ts: int) -> None:
        """Give a table a new name instead of its current one."""
        old = builder.name_periods[-1]
        if self.live.get(fold_name(old.schema, old.table)) is builder:
            del self.live[fold_name(old.schema, old.table)]
        if old.after_ts == ts:
            builder.name_periods.pop()  # the table has this name only inside the statement
            self._uses[fold_name(old.schema, old.table)] -= 1
        else:
            builder.name_periods[-1] = replace(old, until_ts=ts)
        self._name_anew(builder, new, ts)

    def _name_anew(self, builder: SourceTableBuilder, name: SourceName, ts: int) -> None:
        table = replace(builder.shape.table, schema=name[0], name=name[1])
        builder.shape = replace(builder.shape, table=table)
        builder.versions[-1] = replace(builder.versions[-1], table=table)
        self.give_name(builder, name, ts)

    def rename_before(self, builder: SourceTableBuilder, old: SourceName, new: SourceName, ts: int) -> None:
        """Give a table that is known by its new name its old name for rows up to `ts`."""
        builder.name_periods[-1] = replace(builder.name_periods[-1], schema=old[0], table=old[1], until_ts=ts)
        self._uses.update({fold_name(*old): 1, fold_name(*new): -1})
        self.give_name(builder, new, ts)

    # -- versions -------------------------------------------------------------------------------------------------

    def change(self, builder: SourceTableBuilder, change: Change, ts: int) -> None:
        """Add a version where rows after `ts` have other columns, or where the statement changed rows."""
        old = builder.versions[-1]
        builder.is_whole = builder.is_whole or any(isinstance(e, TruncateRows) for e in change.effects)
        builder.shape = change.shape
        table = change.shape.table
        same = (old.table.stored_columns, old.table.key) == (table.stored_columns, table.key)
        if same and not change.effects:
            builder.versions[-1] = replace(old, table=table)
        elif old.from_ts == ts:  # another part of the same statement
            builder.versions[-1] = Version(ts, table, old.effects + change.effects)
        else:
            builder.versions.append(Version(ts, table, change.effects))

    # -- stops ----------------------------------------------------------------------------------------------------

    def check(self, builder: SourceTableBuilder, event: DdlEvent) -> None:
        """Stop a table whose columns are not those that the stream sends with the statement."""
        if event.after is not None and not same_columns(builder.shape.table, event.after, event.hints.after_is_ordered):
            sent = ", ".join(c.name for c in event.after.columns)
            folded = ", ".join(c.name for c in builder.shape.table.columns)
            self.stop(builder, event, f"the stream has the columns ({sent}), its statements lead to ({folded})")

    def stop_subject(self, event: DdlEvent, reason: str | SchemaError, rows_are_missing: bool = False) -> None:
        """Stop the table or the database of an event.

        A table that is new, and whose columns both the stream and `schema_files` have, does not stop unless
        `rows_are_missing`.
        """
        name = (event.schema, event.table)
        builder = self.live.get(fold_name(*name))
        if builder is not None:
            self.stop(builder, event, reason)
        elif not event.table:
            self._stop_database(event, reason)
        elif event.after is None:
            self.stop_name(name, event, reason)
        else:
            table, marks = self.completed(name, event.after)
            self.add(name, shape_of(table), event.commit_ts, event.commit_ts, marks)
            if marks or rows_are_missing:
                self.stop(self.live[fold_name(*name)], event, reason)

    def stop_name(self, name: SourceName, event: DdlEvent, reason: str | SchemaError) -> None:
        """Stop the next table that gets this name."""
        self.pending.stop(name, _stop_at(event, reason))

    def _stop_database(self, event: DdlEvent, reason: str | SchemaError) -> None:
        """Stop the tables of the event's database, and those that appear later without a CREATE. An event without a
        database (Simple) stops the tables of all databases."""
        schema = fold(event.schema)
        self.pending.stop_database(schema, _stop_at(event, reason))
        for name, builder in self.live.items():
            if schema in ("", name[0]):
                self.stop(builder, event, reason)

    def stop(self, builder: SourceTableBuilder, event: DdlEvent, reason: str | SchemaError, *advice: Advice) -> None:
        """Stop a table at the event; the first stop stays."""
        if builder.stop is None:
            builder.stop = _stop_at(event, reason, *advice)


def _stop_at(event: DdlEvent, reason: str | SchemaError, *advice: Advice) -> Stop:
    if isinstance(reason, SchemaError):
        advice = (reason.advice,) if isinstance(reason.advice, Advice) else ()
        reason = reason.finding if advice else str(reason)
    return Stop(event.commit_ts, f"{event.where}: {reason}" if event.where else reason, advice=advice)
