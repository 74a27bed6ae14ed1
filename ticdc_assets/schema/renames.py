"""The renames of one commit_ts: which tables they are about, and in what order they can be done."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.schema import ddl
from ticdc_assets.schema.lineage import SourceName, fold_name, same_name
from ticdc_assets.schema.session_names import beside

Pair = tuple[SourceName, SourceName]
"""The old name and the new one."""

Rename = tuple[DdlEvent, Pair]
"""What told of it, and the names."""


def rename_pairs(event: DdlEvent, statements: tuple[ddl.Statement, ...] | None) -> Iterator[Pair]:
    """The old and new names that an event tells; an old one's schema is "" where it is not told."""
    for statement in statements or ():
        pairs = [(beside(event, new, old), (new[0] or event.schema, new[1])) for old, new in _written(statement)]
        if event.as_written:  # one event for all of them
            yield from pairs
            continue
        ours = [pair for pair in pairs if same_name(pair[1], (event.schema, event.table))]
        if len(ours) == 1 and event.old_name is not None:
            yield event.old_name, ours[0][1]
        else:
            yield from ours or pairs


def _written(statement: ddl.Statement) -> Iterator[Pair]:
    if isinstance(statement, ddl.RenameTables):
        yield from statement.pairs
    elif isinstance(statement, ddl.AlterTable):
        for action in statement.actions:
            if isinstance(action, ddl.RenameTable):
                yield (statement.schema, statement.name), (action.schema, action.name)


def next_rename(waiting: Sequence[Rename], live: Container[SourceName], before: Container[SourceName]) -> Rename:
    """One whose new name is free; else one whose new name no table bears that is still to be renamed."""
    free = (rename for rename in waiting if _is_free(rename[1], live, before))
    outside = (rename for rename in waiting if not is_renamed(rename[1][1], waiting))
    return next(free, None) or next(outside, waiting[0])


def is_renamed(name: SourceName, waiting: Iterable[Rename]) -> bool:
    """Whether a table of this name is still to be renamed."""
    return any(fold_name(*old) == fold_name(*name) for _, (old, _) in waiting)


def _is_free(pair: Pair, live: Container[SourceName], before: Container[SourceName]) -> bool:
    old, new = fold_name(*pair[0]), fold_name(*pair[1])
    return (old in live or old in before) and (new == old or new not in live)
