"""What the renames of one commit_ts do to the source tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ticdc_assets.errors import SchemaError
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.evolution.evolve import shape_of
from ticdc_assets.schema.history.fold.state import FoldState
from ticdc_assets.schema.history.fold.statements import add_described
from ticdc_assets.schema.history.schema_compare import same_columns
from ticdc_assets.schema.history.sent_statements import candidates, listed, statements_of, with_schema
from ticdc_assets.schema.history.source_table import SourceName, SourceTableBuilder, fold_name, same_name

_REPEATED: Final = (
    "a RENAME came again, after its names had gone to other tables: rows that came again under them are of one of "
    "these, and the stream does not show of which one."
)

Parsed = tuple[DdlEvent, tuple[ddl.Statement, ...] | None]
"""An event and its statements; None where they cannot be read."""
NamePair = tuple[SourceName, SourceName]
"""The old name and the new one."""

Rename = tuple[DdlEvent, NamePair]
"""The event, and the old and new names."""


def rename_pairs(event: DdlEvent, statements: tuple[ddl.Statement, ...] | None) -> Iterator[NamePair]:
    """The old and new names of an event; the schema of an old name is "" where it is unknown."""
    for statement in statements or ():
        pairs = [(with_schema(event, new, old), (new[0] or event.schema, new[1])) for old, new in _written(statement)]
        if event.origin.as_written:  # one event for all of them
            yield from pairs
            continue
        own = [pair for pair in pairs if same_name(pair[1], (event.schema, event.table))]
        if len(own) == 1 and event.hints.old_name is not None:
            yield event.hints.old_name, own[0][1]
        else:
            yield from own or pairs


def old_names(event: DdlEvent) -> list[SourceName]:
    """The names that the event takes from tables; none if its statement cannot be read."""
    try:
        statements = statements_of(event)
    except SchemaError:
        return []
    return [(old[0] or event.schema, old[1]) for old, _ in rename_pairs(event, statements)]


def _written(statement: ddl.Statement) -> Iterator[NamePair]:
    if isinstance(statement, ddl.RenameTables):
        yield from statement.pairs
    elif isinstance(statement, ddl.AlterTable):
        for action in statement.actions:
            if isinstance(action, ddl.RenameTable):
                yield (statement.schema, statement.name), (action.schema, action.name)


def are_in_order(renames: Iterable[Rename], live: Container[SourceName]) -> bool:
    """Whether the renames can be applied in the order of arrival: each new name is free when its rename is applied.

    Messages arrive in the statement's order. Schema files arrive in the order of their folders, which has no meaning;
    their version is their commit_ts.
    """
    taken: set[SourceName] = set()
    left: set[SourceName] = set()
    present: dict[SourceName, SourceName] = {}
    for event, pair in renames:
        old, new = fold_name(*pair[0]), fold_name(*pair[1])
        is_free = new not in taken and (new not in live or new in left)
        if event.hints.version == event.commit_ts or not (is_free or new == old):
            return False
        source = present.get(old, old)
        taken.discard(source)
        left.add(source)
        taken.add(new)
        present[old] = new
    return True


def next_rename(waiting: Sequence[Rename], live: Container[SourceName], before: Container[SourceName]) -> Rename:
    """The rename to apply next: one whose new name is free, preferably one whose new name is no other rename's old
    name; else one whose new name belongs to a table that is not renamed."""
    free = [rename for rename in waiting if _is_free(rename[1], live, before)]
    outside = (rename for rename in waiting if not is_renamed(rename[1][1], waiting))
    last = (rename for rename in free if not is_renamed(rename[1][1], waiting))
    return next(last, None) or next(iter(free), None) or next(outside, waiting[0])


def is_renamed(name: SourceName, waiting: Iterable[Rename]) -> bool:
    """Whether a rename of this table is still waiting."""
    return any(fold_name(*old) == fold_name(*name) for _, (old, _) in waiting)


def _is_free(pair: NamePair, live: Container[SourceName], before: Container[SourceName]) -> bool:
    old, new = fold_name(*pair[0]), fold_name(*pair[1])
    return (old in live or old in before) and (new == old or new not in live)


def fold_renames(state: FoldState, parsed: list[Parsed]) -> None:
    """Fold the renames of the events of one commit_ts."""
    pairs = [(event, *pair) for event, statements in parsed for pair in _pairs(state, event, statements)]
    olds = [(event, _old_name(state, event, old, new), new) for event, old, new in pairs]
    _rename_all(state, with_sources(state, [(event, (old, new)) for event, old, new in olds if old is not None]))


def _pairs(state: FoldState, event: DdlEvent, statements: tuple[ddl.Statement, ...] | None) -> list[NamePair]:
    """The renames of an event; none for a repeat that cannot be applied again, whose tables stop.

    After a rename of several names, each name is that of another table. After a rename of one name, another table may
    have the old name while a table has the new one. The stream then does not show to which table a repeated row
    belongs.
    """
    pairs = list(rename_pairs(event, statements))
    if not state.written.is_repeat(event):
        return pairs
    names = {fold_name(schema or event.schema, table) for pair in pairs for schema, table in pair}
    builders = [state.live[name] for name in names if name in state.live]
    if len(builders) < 2:
        return pairs
    for builder in builders:
        state.stop(builder, event, _REPEATED)
    return []


def _old_name(state: FoldState, event: DdlEvent, old: SourceName, new: SourceName) -> SourceName | None:
    """The old name with its schema; None if it may refer to several tables, which then stop."""
    if old[0]:
        return old
    builders = [
        builder
        for builder in candidates(state.live, old, event.after, event.hints.after_is_ordered)
        if not same_name(builder.name, new)
    ]
    described = {n for n in state.known.tables if n[1] == fold(old[1]) and not state.was_used(n)}
    absent = state.pending.called(old[1]).union(described) - {fold_name(*new)}
    names = [*(builder.name for builder in builders), *sorted(absent)]
    if len(names) < 2:
        # A table of that name in the event's own database that is not a candidate must not be renamed.
        own = (event.schema, old[1])
        return names[0] if names else old if fold_name(*own) in state.live else own
    reason = f"{listed(names)} is now {'.'.join(new)}: the stream does not show which one"
    for builder in builders:
        state.stop(builder, event, reason)
    state.stop_subject(event, reason, rows_are_missing=True)
    return None


def _rename_all(state: FoldState, renames: list[Rename]) -> None:
    """Apply all renames of one commit_ts. A storage sink does not keep their order, so each waits until its new name is
    free. An old name that was already renamed refers to the table that had it before the statement."""
    before = dict(state.live)
    moved: set[SourceName] = set()
    waiting = list(renames)
    in_order = are_in_order(renames, before)
    while waiting:
        ready = waiting[0] if in_order else next_rename(waiting, state.live, before)
        waiting.remove(ready)
        event, (old, new) = ready
        source = fold_name(*old)
        builder = (before if source in moved else state.live).get(source)
        gets_its_name_back = source not in before and builder is before.get(fold_name(*new))
        if gets_its_name_back and not in_order:
            builder = None  # schema files are not in the statement's order: the name is that of a table not known yet
        moved.add(source)
        if builder is None and _is_known_by_its_new_name(state, event, old, new):
            continue
        if builder is None:
            builder = state.add_before(event, old) or add_described(state, old, event.after)
        if is_renamed(new, waiting) and fold_name(*new) in state.live:
            moved.add(fold_name(*new))  # names are swapped: the table that has this name is renamed later
        else:
            _free_name(state, builder, new, event.commit_ts)
        if builder is None or builder.dropped_ts is not None:
            _rename_unknown(state, event, old, new)
        else:
            state.rename(builder, new, event.commit_ts)


def _is_known_by_its_new_name(state: FoldState, event: DdlEvent, old: SourceName, new: SourceName) -> bool:
    """Whether the stream showed the table under its new name before the rename; it then gets its old name for earlier
    rows."""
    builder = state.live.get(fold_name(*new))
    if builder is None or event.hints.version is None or builder.id != f"{new[0]}.{new[1]}@{event.hints.version}":
        return False
    state.rename_before(builder, old, new, event.commit_ts)
    return True


def _free_name(state: FoldState, builder: SourceTableBuilder | None, new: SourceName, ts: int) -> None:
    """Drop another table that still has the new name: the stream lacks its DROP."""
    holder = state.live.get(fold_name(*new))
    if holder is not None and holder is not builder and holder.name_periods[-1].after_ts < ts:
        state.drop(new, ts)


def _rename_unknown(state: FoldState, event: DdlEvent, old: SourceName, new: SourceName) -> None:
    """Rename a table that is not known: a stop of its old name goes to the new one."""
    stop = state.pending.take_stop(old)
    if stop is not None:
        state.pending.stop(new, stop)
    if event.after is not None and fold_name(*new) not in state.live:
        table, marks = state.completed(new, event.after)
        state.add(new, shape_of(table), event.commit_ts, event.commit_ts, marks)


# Renames of one statement whose schema files a storage sink has overwritten.
#
# TiDB gives the parts of a RENAME of several tables their final names, and TiCDC names the schema file of a part
# after it: of `RENAME TABLE t1 TO tmp, t2 TO t1, tmp TO t2`, the first and the third part are one file of t2, in
# which the third stays. What is left shows that t1 lost its name, and that a table of certain columns came from a
# name that none had. Where one table fits, it is this one; else the tables of the statement stop before it.


def with_sources(state: FoldState, renames: list[Rename]) -> list[Rename]:
    """The renames, each with the name that its table had before the statement; without those of a statement that does
    not show which table is which. The tables of these stop."""
    parts = [(event, (old, (event.schema, event.table))) for event, (old, _) in renames if _is_part(event)]
    if not parts:
        return renames
    others = [rename for rename in renames if not _is_part(rename[0])]
    sources = _Sources.of(state, parts)
    reason, involved = sources.doubt()
    if not reason:
        for name in sources.found.values():
            if name not in state.live:
                add_described(state, name)
        return [*others, *((event, (sources.found.get(new, old), new)) for event, (old, new) in parts)]
    for event, (old, _) in parts:
        for name in {fold_name(*old), *involved} & state.live.keys():
            state.stop(state.live[name], event, reason)
        state.stop_subject(event, reason, rows_are_missing=True)
    return others


def _is_part(event: DdlEvent) -> bool:
    """Whether the event is a schema file of a RENAME of several tables: TiCDC ends each part with a semicolon."""
    return event.hints.version == event.commit_ts and event.query.rstrip().endswith(";")


@dataclass(frozen=True, slots=True)
class _Sources:
    """Which table each part of a statement renames.

    lost: the names that tables lost, as other tables have them now.
    unclear: the parts whose old name is that of no table, or of several parts.
    found: of unclear parts, the lost name by the new one.
    """

    state: FoldState
    renamed: frozenset[SourceName]
    lost: tuple[SourceName, ...]
    unclear: tuple[Rename, ...]
    found: dict[SourceName, SourceName] = field(default_factory=dict)

    @classmethod
    def of(cls, state: FoldState, parts: list[Rename]) -> _Sources:
        """The sources of all parts of a statement."""
        olds = Counter(fold_name(*old) for _, (old, _) in parts)
        news = {fold_name(*new) for _, (_, new) in parts}
        exist = {name for name in {*olds, *news} if name in state.live or state.described(name)}
        renamed = frozenset(old for old, count in olds.items() if count == 1 and (old in exist or old in news))
        lost = sorted(name for name in exist if name not in renamed and (name in news or olds[name] > 1))
        sources = cls(state, renamed, tuple(lost), tuple(p for p in parts if fold_name(*p[1][0]) not in renamed))
        for part in sources.unclear:
            fitting = [name for name in lost if sources.fits(name, part)]
            if len(fitting) == 1 and sum(sources.fits(fitting[0], other) for other in sources.unclear) == 1:
                sources.found[part[1][1]] = fitting[0]
        return sources

    def fits(self, name: SourceName, part: Rename) -> bool:
        """Whether the table of this name may be the one of the part. The columns of a stopped table are not known.

        A table that takes its own name again must get another spelling: else the file of another part is missing.
        """
        sent, builder = part[0].after, self.state.live.get(name)
        if builder is not None and builder.name == part[1][1]:
            return False
        table = builder.shape.table if builder is not None else self.state.known.tables[name]
        is_stopped = builder is not None and builder.stop is not None
        return is_stopped or sent is None or same_columns(table, sent, ordered=builder is not None)

    def doubt(self) -> tuple[str, list[SourceName]]:
        """Why the statement does not show which table is which, and of which tables; "" where it does."""
        homeless = [name for name in self.lost if name in self.state.live and name not in self.found.values()]
        left = [part for part in self.unclear if part[1][1] not in self.found]
        now = listed(new for _, (_, new) in left)
        if homeless and not left:
            return (
                f"{_LOST}, and none shows what {listed(homeless)} is now. Restore the file if it is missing",
                homeless,
            )
        if homeless:
            return f"{_LOST}, and the others do not show whether {listed(homeless)} is now {now}", homeless
        candidates = [
            name
            for name in sorted(self.state.live.keys() - self.renamed - set(self.found.values()))
            if self.state.live[name].stop is None and any(self.fits(name, part) for part in left)
        ]
        if not left or not candidates:
            return "", []
        older = listed(old for _, (old, _) in left)
        advice = f"If it was {older}, older than the stream, give the CREATE TABLE of {older} in `schema_files`"
        return (
            f"{_LOST}, and the others do not show whether {now} was {listed(candidates)} before. {advice}",
            candidates,
        )


_LOST = "a storage sink overwrites schema files of a RENAME of several tables in which a name is used twice"
