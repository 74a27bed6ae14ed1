"""The renames of one commit_ts: which tables they are about, and in what order they can be done."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.schema import ddl
from ticdc_assets.schema.lineage import SourceName, fold_name

Rename = tuple[DdlEvent, tuple[SourceName, SourceName]]
"""What told of it, the old name and the new one."""


def rename_pairs(
    event: DdlEvent, statements: tuple[ddl.Statement, ...] | None
) -> Iterator[tuple[SourceName, SourceName]]:
    """The old and new names that an event tells."""
    for statement in statements or ():
        if isinstance(statement, ddl.RenameTables):
            ours = [p for p in statement.pairs if fold_name(*p[1]) == fold_name(event.schema, event.table)]
            yield from ours or statement.pairs
        elif isinstance(statement, ddl.AlterTable):
            for action in statement.actions:
                if isinstance(action, ddl.RenameTable):
                    yield event.old_name or (statement.schema, statement.name), (event.schema, event.table)


def next_rename(waiting: Sequence[Rename], live: Container[SourceName], before: Container[SourceName]) -> Rename:
    """One whose new name is free; else one whose new name no table bears that is still to be renamed."""
    free = (rename for rename in waiting if _is_free(rename[1], live, before))
    outside = (rename for rename in waiting if not is_renamed(rename[1][1], waiting))
    return next(free, None) or next(outside, waiting[0])


def is_renamed(name: SourceName, waiting: Iterable[Rename]) -> bool:
    """Whether a table of this name is still to be renamed."""
    return any(fold_name(*old) == fold_name(*name) for _, (old, _) in waiting)


def _is_free(pair: tuple[SourceName, SourceName], live: Container[SourceName], before: Container[SourceName]) -> bool:
    old, new = fold_name(*pair[0]), fold_name(*pair[1])
    return (old in live or old in before) and (new == old or new not in live)
