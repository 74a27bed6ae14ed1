"""The history of all source tables, folded from the statements and schemas of a stream.

In: `DdlEvent`s in any order of arrival. Out: a `History`. The fold is deterministic: equal events give an equal
history, so a run may stop anywhere, and the next run has the same source tables, ids and uids.

A statement that cannot be read, or that does not lead to the columns that the stream sends, stops its source table at
that TSO: rows up to it are exact, rows after it wait for the user. If no source table has the name yet, the stop
applies to the first one that gets it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Final

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl_event import DdlEvent, gaps_of
from ticdc_assets.schema.history.fold.gaps import begin_gap, end_gap
from ticdc_assets.schema.history.fold.loaded import fold_copied, fold_loaded
from ticdc_assets.schema.history.fold.renames import fold_renames, old_names
from ticdc_assets.schema.history.fold.schemas import fold_schema, stop_at_displaced, stop_at_unexplained
from ticdc_assets.schema.history.fold.state import FoldState, Known
from ticdc_assets.schema.history.fold.statements import fold_statement
from ticdc_assets.schema.history.sent_statements import statements_of, subject_of
from ticdc_assets.schema.history.source_table import History

__all__ = ["Known", "fold", "in_order"]
_KEPT_MAX: Final = 4


def fold(events: Iterable[DdlEvent], known: Known | None = None) -> History:
    """Fold events into a history. Equal events (repeated statements) count once. Raises nothing: a statement that
    cannot be read stops its source table."""
    state, ordered = FoldState(known or Known()), in_order(events)
    gaps, gap = gaps_of(ordered), None
    for (ts, is_loaded, is_gap, is_copied), group in groupby(ordered, key=_moment):
        if gap is None and gaps and ts > gaps[0][0]:
            gap = begin_gap(state, gaps.pop(0)[0])
        if gap is not None and is_gap and not is_copied:
            end_gap(state, gap, list(group))
            gap = None
        elif is_copied:
            fold_copied(state, list(group))
        elif is_loaded:
            fold_loaded(state, list(group), ts)
        else:
            _fold_group(state, list(group))
    return state.history()


def in_order(events: Iterable[DdlEvent]) -> list[DdlEvent]:
    """The events by commit_ts and first arrival, each once. A dump comes after the statements of its own TSO, and so do
    the end of a gap and, behind that, copied tables."""
    unique: dict[tuple[object, ...], DdlEvent] = {}
    for e in events:
        of_row = (e.unexplained, e.lacking, e.displaced, e.gap_from)
        said = (e.commit_ts, e.loaded, e.copied, e.schema, e.table, e.query, e.hints.old_name, *of_row)
        unique.setdefault(e.origin.place or said, e)
    return sorted(unique.values(), key=_moment)


def _moment(event: DdlEvent) -> tuple[int, bool, bool, bool]:
    return event.commit_ts, event.loaded, event.copied or event.gap_from > 0, event.copied


def _fold_group(state: FoldState, events: list[DdlEvent]) -> None:
    """The events of one commit_ts: one statement each, or the parts of one that names several tables."""
    read = [(event, _read(state, event)) for event in events]
    parsed = [part for event, statements in read for part in state.written.parts(event, statements, state.live)]
    fold_renames(state, parsed)
    for event, statements in parsed:
        for statement in statements or ():
            fold_statement(state, event, statement)
    for event in events:
        stop_at_unexplained(state, event)
        stop_at_displaced(state, event)


def _read(state: FoldState, event: DdlEvent) -> tuple[ddl.Statement, ...] | None:
    """The statements of an event; None if they cannot be read or applied; their tables then stop."""
    if not event.query.strip():
        fold_schema(state, event)
        return ()
    if event.fault:
        state.stop_subject(subject_of(event), event.fault)
        for name in old_names(event):
            state.stop_subject(replace(event, schema=name[0], table=name[1]), event.fault)
        return None
    try:
        return statements_of(event)
    except SchemaError as error:
        state.stop_subject(subject_of(event), error)
        return None


class Folds:
    """`fold` with the user's schemas and keys; it keeps the newest histories and returns them for equal events."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self._kept: list[tuple[list[DdlEvent], History]] = []

    def of(self, events: Iterable[DdlEvent]) -> History:
        """The history of these events, in any order."""
        ordered = in_order(events)
        for number, (before, history) in enumerate(self._kept):
            if before == ordered:
                self._kept.insert(0, self._kept.pop(number))
                return history
        history = fold(ordered, self.known)
        self._kept = [(ordered, history), *self._kept[: _KEPT_MAX - 1]]
        return history
