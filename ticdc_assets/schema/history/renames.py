"""The renames of one commit_ts: their tables, and an order in which they can be applied."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl import parser as ddl
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.session_names import statements_of, with_schema
from ticdc_assets.schema.history.source_table import SourceName, fold_name, same_name

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
