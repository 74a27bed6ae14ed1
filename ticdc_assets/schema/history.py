"""Every version of every source table, folded from the statements and schemas that a stream tells.

In: `DdlEvent`s in any order of arrival. Out: a `History` of lineages. The fold is deterministic: the same events give
the same history, so a run may stop anywhere and the next one sees the same lineages, ids and uids.

A statement that cannot be read, or that does not lead to the columns the stream itself tells, stops its lineage at
that TSO: rows up to it are still exact, rows after it wait for the user. Nothing is guessed. Where no lineage bears
the name yet, the one that rows or schemas begin under it is stopped from its birth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

from ticdc_assets.errors import SchemaError
from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.schema import ddl
from ticdc_assets.schema.collations import UNNAMED, Collation
from ticdc_assets.schema.evolution import (
    Change,
    ExchangedRows,
    FillColumn,
    Shape,
    TruncateRows,
    adopt,
    alter_all,
    create,
    shape_of,
)
from ticdc_assets.schema.exchanging import pair_of
from ticdc_assets.schema.growing import Growing
from ticdc_assets.schema.lineage import History, SourceName, Stop, Tenure, Version, fold_name, same_name
from ticdc_assets.schema.model import Default, TableSchema
from ticdc_assets.schema.renames import Rename, is_renamed, next_rename, rename_pairs
from ticdc_assets.schema.row_told import widened
from ticdc_assets.schema.session_names import bearers, beside, exchanged, one_of, statements_of
from ticdc_assets.schema.told import as_made, same_columns, same_key, unknowns
from ticdc_assets.schema.unborn import Unborn
from ticdc_assets.schema.written import Written, subject_of


@dataclass(frozen=True, slots=True)
class Known:
    """What the user told: schemas of tables older than the stream, and keys that the stream does not tell."""

    tables: Mapping[SourceName, TableSchema] = field(default_factory=dict)
    key_of: Callable[[str, str], tuple[str, ...] | None] = lambda _schema, _table: None


def fold(events: Iterable[DdlEvent], known: Known | None = None) -> History:
    """Fold events into a history. Equal events (redelivered statements) count once. Raises nothing: what cannot be
    read stops the lineage it is about."""
    state = _Fold(known or Known())
    for _, group in groupby(in_order(events), key=lambda event: event.commit_ts):
        state.statement_group(list(group))
    return state.history()


def in_order(events: Iterable[DdlEvent]) -> list[DdlEvent]:
    """The events by commit_ts and arrival, each once."""
    unique = {e.place or (e.commit_ts, e.schema, e.table, e.query, e.old_name): e for e in reversed(list(events))}
    in_arrival = list(reversed(unique.values()))
    return sorted(in_arrival, key=lambda event: event.commit_ts)


class _Fold:
    def __init__(self, known: Known) -> None:
        self._known = known
        self._all: list[Growing] = []
        self._live: dict[SourceName, Growing] = {}
        self._borne: Counter[SourceName] = Counter()
        self._collations: dict[str, Collation] = {}
        self._unborn = Unborn()
        self._written = Written()

    def history(self) -> History:
        return History(tuple(g.frozen() for g in self._all))

    def statement_group(self, events: list[DdlEvent]) -> None:
        """The events of one commit_ts: one statement each, or the parts of one that names several tables."""
        told = [(event, self._parse(event)) for event in events]
        parsed = [part for event, statements in told for part in self._written.parts(event, statements, self._live)]
        pairs = [(e, *pair) for e, statements in parsed for pair in rename_pairs(e, statements)]
        self._rename([(e, (old, new)) for e, name, new in pairs if (old := self._renamed(e, name, new)) is not None])
        for event, statements in parsed:
            for statement in statements or ():
                self._apply(event, statement)

    def _parse(self, event: DdlEvent) -> tuple[ddl.Statement, ...] | None:
        if not event.query.strip():
            self._snapshot(event)
            return ()
        try:
            return statements_of(event)
        except SchemaError as error:
            self._stop_event(subject_of(event), str(error))
            return None

    # -- births ---------------------------------------------------------------------------------------------------

    def _snapshot(self, event: DdlEvent) -> None:
        """A schema without a statement: a table older than the stream, or one already known."""
        if not event.table or event.after is None:
            return
        growing = self._live.get(fold_name(event.schema, event.table))
        if growing is None:
            self._first_seen(event)
        elif event.after.inferred and event.version is None and growing.shape.table.inferred:
            self._widen(growing, event)
        elif event.after.inferred:
            self._adopt(growing, event)
        elif growing.stop is None and not same_columns(growing.shape.table, event.after, event.after_is_ordered):
            self._stop(growing, event, "the stream shows other columns than its statements lead to")

    def _adopt(self, growing: Growing, event: DdlEvent) -> None:
        """A newer shape without a statement (the Avro protocol): columns that came hold their default in older rows.

        Another key is another table, and so is one of another type: no later row could ever meet one of before.
        """
        assert event.after is not None
        told = replace(event.after, named_key=growing.shape.table.named_key)
        if not same_key(growing.shape.table, told):
            self._drop((event.schema, event.table), event.commit_ts)
            self._first_seen(event)
            return
        shape = adopt(growing.shape, told)
        had = {column.uid for column in growing.shape.table.columns}
        fills = tuple(
            FillColumn(c.uid, c.name, c.type, c.default or Default())
            for c in shape.table.columns
            if c.uid not in had and growing.shape.table.column(c.name) is None
        )
        self._changed(growing, Change(shape, fills), event.commit_ts)

    def _widen(self, growing: Growing, event: DdlEvent) -> None:
        """A row with columns or types that earlier rows of its table had not."""
        assert event.after is not None
        if growing.stop is not None:
            return
        try:
            told = widened(growing.shape.table, event.after)
        except SchemaError as error:
            self._stop(growing, event, str(error))
            return
        self._changed(growing, Change(adopt(growing.shape, told)), event.commit_ts)

    def _first_seen(self, event: DdlEvent) -> None:
        name = (event.schema, event.table)
        assert event.after is not None
        table, marks = self._enriched(name, event.after)
        after_ts = event.commit_ts if self._is_borne(name) else 0
        self._born(name, shape_of(table), event.commit_ts, after_ts, marks)

    def _enriched(self, name: SourceName, told: TableSchema) -> tuple[TableSchema, list[str]]:
        known = self._known.tables.get(fold_name(*name))
        marks = []
        table = told
        if known is not None and same_columns(known, told, ordered=False):
            table = replace(known, schema=name[0], name=name[1])
        else:
            marks.append("older than the stream")
            if known is not None:
                marks.append("schema_files describe other columns")
        return table, [*marks, *unknowns(table, self._known.key_of(*name) is not None)]

    def _born(self, name: SourceName, shape: Shape, ts: int, after_ts: int, marks: Iterable[str] = ()) -> None:
        shape = replace(shape, table=replace(shape.table, named_key=self._known.key_of(*name) or ()))
        growing = Growing(
            id=f"{name[0]}.{name[1]}@{ts}",
            shape=shape,
            tenures=[],
            versions=[Version(after_ts, shape.table)],
            stop=self._unborn.take_stop(name),
            marks=list(marks),
        )
        self._all.append(growing)
        self._call(growing, name, after_ts)

    def _call(self, growing: Growing, name: SourceName, after_ts: int) -> None:
        growing.tenures.append(Tenure(*name, after_ts))
        self._borne[fold_name(*name)] += 1
        self._live[fold_name(*name)] = growing

    # -- deaths, names --------------------------------------------------------------------------------------------

    def _drop(self, name: SourceName, ts: int) -> None:
        self._unborn.forget(name)
        growing = self._live.pop(fold_name(*name), None)
        if growing is not None:
            growing.dropped_ts = ts
            growing.tenures[-1] = replace(growing.tenures[-1], until_ts=ts)

    def _renamed(self, event: DdlEvent, old: SourceName, new: SourceName) -> SourceName | None:
        """The old name of a rename with its schema; None where that may be any of several, whose tables stop."""
        if old[0]:
            return old
        found = [g for g in bearers(self._live, old, event.after, event.after_is_ordered) if not same_name(g.name, new)]
        described = {n for n in self._known.tables if n[1] == old[1].lower() and not self._is_borne(n)}
        unborn = self._unborn.called(old[1]).union(described) - {fold_name(*new)}
        names = [*(growing.name for growing in found), *sorted(unborn)]
        if len(names) < 2:
            # One that bears the name in the event's own database, and is not meant, is not to be found by it.
            own = (event.schema, old[1])
            return names[0] if names else old if fold_name(*own) in self._live else own
        reason = f"{one_of(names)} is now {'.'.join(new)}: the stream does not tell which"
        for growing in found:
            self._stop(growing, event, reason)
        self._stop_event(event, reason, though_described=True)
        return None

    def _rename(self, renames: list[Rename]) -> None:
        """All renames of one commit_ts. Storage does not tell their order, so each waits until its new name is free;
        a source that was already renamed away means the table that bore that name before the statement."""
        before = dict(self._live)
        moved: set[SourceName] = set()
        waiting = list(renames)
        while waiting:
            ready = next_rename(waiting, self._live, before)
            waiting.remove(ready)
            event, (old, new) = ready
            source = fold_name(*old)
            growing = (before if source in moved else self._live).get(source)
            moved.add(source)
            if growing is None and self._is_known_by_its_new_name(event, old, new):
                continue
            if growing is None:
                growing = self._as_it_was(event, old) or self._as_the_user_told(old)
            if is_renamed(new, waiting) and fold_name(*new) in self._live:
                moved.add(fold_name(*new))  # names change hands: who bears this one is renamed after it lost it
            else:
                self._make_way(growing, new, event.commit_ts)
            if growing is None or growing.dropped_ts is not None:
                self._unknown_renamed(event, old, new)
            else:
                self._move(growing, new, event.commit_ts)

    def _is_told_by(self, event: DdlEvent, name: SourceName) -> bool:
        """Whether nothing was heard of a table before the statement that drops it, which says how it was."""
        return same_name(name, (event.schema, event.table)) and not self._is_borne(name)

    def _is_borne(self, name: SourceName) -> bool:
        """Whether any table bears the name, or ever did."""
        return self._borne[fold_name(*name)] > 0

    def _is_known_by_its_new_name(self, event: DdlEvent, old: SourceName, new: SourceName) -> bool:
        """Whether the stream showed the table under its new name before it told how it came by it; till then it bore
        the old one."""
        growing = self._live.get(fold_name(*new))
        if growing is None or event.version is None or growing.id != f"{new[0]}.{new[1]}@{event.version}":
            return False
        growing.tenures[-1] = replace(growing.tenures[-1], schema=old[0], table=old[1], until_ts=event.commit_ts)
        self._borne.update({fold_name(*old): 1, fold_name(*new): -1})
        self._call(growing, new, event.commit_ts)
        return True

    def _as_it_was(self, event: DdlEvent, name: SourceName) -> Growing | None:
        """A table that is first heard of by a statement on it, as the stream says it was before."""
        if event.before is None:
            return None
        table, marks = self._enriched(name, event.before)
        self._born(name, shape_of(replace(table, schema=name[0], name=name[1])), event.before_version or 0, 0, marks)
        return self._live[fold_name(*name)]

    def _as_the_user_told(self, name: SourceName) -> Growing | None:
        """A table that is named a first time by its rename, where `schema_files` have it under its old name: what
        came before the rename is done on it now."""
        known = self._known.tables.get(fold_name(*name))
        if known is None or self._is_borne(name):
            return None
        self._born(name, shape_of(replace(known, schema=name[0], name=name[1])), 0, 0)
        for event, statement in self._unborn.take_changes(name):
            self._alter(event, statement)
        return self._live[fold_name(*name)]

    def _make_way(self, growing: Growing | None, new: SourceName, ts: int) -> None:
        """Another table that still bears the new name is gone: the stream did not tell of its drop."""
        holder = self._live.get(fold_name(*new))
        if holder is not None and holder is not growing and holder.tenures[-1].after_ts < ts:
            self._drop(new, ts)

    def _move(self, growing: Growing, new: SourceName, ts: int) -> None:
        old = growing.tenures[-1]
        if self._live.get(fold_name(old.schema, old.table)) is growing:
            del self._live[fold_name(old.schema, old.table)]
        if old.after_ts == ts:
            growing.tenures.pop()  # a name borne only inside the statement
            self._borne[fold_name(old.schema, old.table)] -= 1
        else:
            growing.tenures[-1] = replace(old, until_ts=ts)
        table = replace(growing.shape.table, schema=new[0], name=new[1])
        growing.shape = replace(growing.shape, table=table)
        growing.versions[-1] = replace(growing.versions[-1], table=table)
        self._call(growing, new, ts)

    def _unknown_renamed(self, event: DdlEvent, old: SourceName, new: SourceName) -> None:
        stop = self._unborn.take_stop(old)
        if stop is not None:
            self._unborn.stop(new, stop)
        if event.after is not None and fold_name(*new) not in self._live:
            table, marks = self._enriched(new, event.after)
            self._born(new, shape_of(table), event.commit_ts, event.commit_ts, marks)

    # -- statements -----------------------------------------------------------------------------------------------

    def _apply(self, event: DdlEvent, statement: ddl.Statement) -> None:
        match statement:
            case ddl.CreateTable():
                self._create(event, statement)
            case ddl.DropTables(names=names):
                for name in ((schema or event.schema, table) for schema, table in names):
                    if self._is_told_by(event, name):
                        self._as_it_was(event, name)
                    self._drop(name, event.commit_ts)
            case ddl.CreateDatabase(name=schema) | ddl.AlterDatabase(name=schema):
                self._collations[schema.lower()] = statement.collation
            case ddl.DropDatabase(name=schema):
                self._unborn.forget_database(schema)
                for name in {n for n in self._live if n[0] == schema.lower()} | self._unborn.inside(schema):
                    self._drop(name, event.commit_ts)
            case ddl.AlterTable(actions=actions) if any(isinstance(a, ddl.ExchangePartition) for a in actions):
                self._exchange(event, statement)
            case ddl.TruncateTable() | ddl.AlterTable():
                self._alter(event, statement)
            case ddl.RecoverTable():
                self._recover(event, statement)
            case _:
                pass  # renames are done; databases and statements without effect on tables

    def _create(self, event: DdlEvent, statement: ddl.CreateTable) -> None:
        name = (event.schema, event.table or statement.name)
        shape = self._shape_of_create(event, statement, name)
        if shape is None:
            return
        self._drop(name, event.commit_ts)  # the stream did not tell of the drop
        self._born(name, shape, event.commit_ts, event.commit_ts)
        growing = self._live[fold_name(*name)]
        growing.stop = None  # whatever was done to its database, all its rows come after this
        growing.is_whole = True
        self._check(growing, event)

    def _shape_of_create(self, event: DdlEvent, statement: ddl.CreateTable, name: SourceName) -> Shape | None:
        if statement.like is None:
            try:
                named = replace(statement, schema=name[0], name=name[1])
                return create(named, self._collations.get(name[0].lower(), UNNAMED))
            except SchemaError as error:
                self._stop_event(event, str(error))
                return None
        like = beside(event, (statement.schema, statement.name), statement.like)
        models = bearers(self._live, like, event.after, event.after_is_ordered)
        copies = [replace(model.shape.table, schema=name[0], name=name[1]) for model in models]
        is_known = event.after is not None or not any(model.stop for model in models)
        if is_known and len({as_made(copy) for copy in copies}) == 1:
            return shape_of(copies[0])
        if copies:
            why = "the stream does not tell which" if len(models) > 1 else "which has stopped"
            self._stop_event(event, f"CREATE TABLE LIKE {one_of(model.name for model in models)}: {why}")
            return None
        if event.after is None:
            self._stop_event(event, "CREATE TABLE LIKE a table that the stream does not know")
            return None
        return shape_of(self._enriched(name, event.after)[0])

    def _alter(self, event: DdlEvent, statement: ddl.TruncateTable | ddl.AlterTable) -> None:
        growing = self._live.get(fold_name(event.schema, event.table))
        if growing is None:
            growing = self._as_it_was(event, (event.schema, event.table))
        if growing is None:
            if event.after is not None:
                self._first_seen(event)
            else:
                self._unborn.change(event, statement)
            return
        if growing.stop is not None:
            return
        try:
            change = alter_all(growing.shape, statement)
        except SchemaError as error:
            if not self._written.is_repeat(event):
                self._stop(growing, event, str(error))
            return
        self._changed(growing, change, event.commit_ts)
        self._check(growing, event)

    def _recover(self, event: DdlEvent, statement: ddl.RecoverTable) -> None:
        """RECOVER and FLASHBACK: the table is stopped before its next row comes, as far as it is known what it was."""
        name = (event.schema, event.table)
        source = (statement.schema or event.schema, statement.name or event.table)
        was = next((g for g in reversed(self._all) if same_name(g.name, source)), None)
        if was is not None and event.after is None and fold_name(*name) not in self._live:
            table = replace(was.shape.table, schema=name[0], name=name[1])
            self._born(name, shape_of(table), event.commit_ts, event.commit_ts)
        reason = "RECOVER and FLASHBACK bring rows back that the stream does not send"
        self._stop_event(event, reason, though_described=True)

    def _exchange(self, event: DdlEvent, statement: ddl.AlterTable) -> None:
        """EXCHANGE PARTITION moves rows between two tables without sending them: both have them at once, where it is
        known which rows these are; else both stop."""
        try:
            pair = pair_of(self._live, event, statement)
        except SchemaError as error:
            self._stop_exchanged(event, statement, str(error))
            return
        effect = ExchangedRows(pair.partitioned.id, pair.table.id, pair.rows)
        for growing, other in ((pair.partitioned, pair.table), (pair.table, pair.partitioned)):
            if growing.is_whole and not other.is_whole:
                reason = (
                    f"EXCHANGE PARTITION brought rows of {one_of([other.name])} here, which is older than the stream"
                )
                self._stop(growing, event, f"{reason}: what it had before was not sent; load this table anew")
            else:
                self._changed(growing, Change(growing.shape, (effect,)), event.commit_ts)

    def _stop_exchanged(self, event: DdlEvent, statement: ddl.AlterTable, reason: str) -> None:
        """Stop both tables, those too that are told of only later."""
        self._stop_event(event, reason, though_described=True)
        ours = self._live.get(fold_name(event.schema, event.table))
        for name in exchanged(event, statement):
            found = bearers(self._live, name, ours.shape.table if ours is not None else None)
            for growing in found:
                self._stop(growing, event, reason)
            if not found and name[0]:
                self._unborn.stop(name, _stop_at(event, reason))

    def _changed(self, growing: Growing, change: Change, ts: int) -> None:
        old = growing.versions[-1]
        growing.is_whole = growing.is_whole or any(isinstance(e, TruncateRows) for e in change.effects)
        growing.shape = change.shape
        table = change.shape.table
        same = (old.table.stored_columns, old.table.key) == (table.stored_columns, table.key)
        if same and not change.effects:
            growing.versions[-1] = replace(old, table=table)
        elif old.from_ts == ts:  # a second part of one statement
            growing.versions[-1] = Version(ts, table, old.effects + change.effects)
        else:
            growing.versions.append(Version(ts, table, change.effects))

    # -- checks ---------------------------------------------------------------------------------------------------

    def _check(self, growing: Growing, event: DdlEvent) -> None:
        """Hold the fold against the columns that the stream itself tells."""
        if event.after is not None and not same_columns(growing.shape.table, event.after, event.after_is_ordered):
            told = ", ".join(c.name for c in event.after.columns)
            folded = ", ".join(c.name for c in growing.shape.table.columns)
            self._stop(growing, event, f"the stream tells the columns ({told}), its statements lead to ({folded})")

    def _stop_event(self, event: DdlEvent, reason: str, though_described: bool = False) -> None:
        """Stop what the statement is about. Where the stream tells a table's columns and the user's `schema_files` too,
        a new one goes on from them, but not `though_described`: where rows are missing."""
        name = (event.schema, event.table)
        growing = self._live.get(fold_name(*name))
        if growing is not None:
            self._stop(growing, event, reason)
        elif not event.table:
            self._stop_database(event, reason)
        elif event.after is None:
            self._unborn.stop(name, _stop_at(event, reason))
        else:
            table, marks = self._enriched(name, event.after)
            self._born(name, shape_of(table), event.commit_ts, event.commit_ts, marks)
            if marks or though_described:
                self._stop(self._live[fold_name(*name)], event, reason)

    def _stop_database(self, event: DdlEvent, reason: str) -> None:
        """Stop the tables of the event's database, those too that are first told of later and were not made then. Of
        all databases where the event has none (Simple)."""
        schema = event.schema.lower()
        self._unborn.stop_database(schema, _stop_at(event, reason))
        for name, growing in self._live.items():
            if schema in ("", name[0]):
                self._stop(growing, event, reason)

    def _stop(self, growing: Growing, event: DdlEvent, reason: str) -> None:
        if growing.stop is None:
            growing.stop = _stop_at(event, reason)


def _stop_at(event: DdlEvent, reason: str) -> Stop:
    return Stop(event.commit_ts, f"{event.where}: {reason}" if event.where else reason)
