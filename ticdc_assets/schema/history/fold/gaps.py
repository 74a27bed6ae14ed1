"""Gaps: TSOs between which no changes are known, since the stream was lost and began anew at a later TSO.

What a new stream has of the time in the gap belongs to source tables of their own, which no run follows: the tables
after the gap have the rows of TiDB at its end. A table that TiDB has there with the columns that it had before goes on;
any other table ends where the gap begins, or begins with a copy at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.state import FoldState, PendingStatements
from ticdc_assets.schema.history.source_table import SourceName, SourceTableBuilder, fold_name


@dataclass(frozen=True, slots=True)
class OpenGap:
    """A gap whose end is not folded yet: the tables that were live before, by name, and how many tables there were."""

    live: dict[SourceName, SourceTableBuilder]
    known: int


def begin_gap(state: FoldState, begin: int) -> OpenGap:
    """End all tables where the gap begins. What the stream has of their names until the gap ends belongs to copies."""
    found = OpenGap(dict(state.live), len(state.all))
    for builder in found.live.values():
        builder.dropped_ts = begin
        builder.name_periods[-1] = replace(builder.name_periods[-1], until_ts=begin)
    state.live.clear()
    state.recoverable.clear()
    state.pending = PendingStatements()
    for builder in found.live.values():
        state.add(builder.name, builder.shape, begin, begin)
    return found


def end_gap(state: FoldState, gap: OpenGap, events: Sequence[DdlEvent]) -> None:
    """Set aside the tables that the stream has of the time in the gap, and let those that the events name go on. Rows
    at the end of the gap itself are those of TiDB."""
    [begin, end] = next((event.gap_from, event.commit_ts) for event in events if not event.table)
    for name in list(state.live):
        state.drop(name, end - 1)
    for number, builder in enumerate(state.all[gap.known :]):
        # A statement may name a table by a version from before the gap, whose id a table of that time has.
        builder.id = f"{builder.id.rpartition('@')[0]}#{number}@{end}"
        builder.name_periods[:] = [replace(p, after_ts=max(p.after_ts, begin)) for p in builder.name_periods]
        builder.is_contained = True
    state.recoverable.clear()
    state.pending = PendingStatements()
    for event in events:
        builder_before = gap.live.get(fold_name(event.schema, event.table))
        if event.table and builder_before is not None:
            _go_on(state, builder_before, event)


def _go_on(state: FoldState, builder: SourceTableBuilder, event: DdlEvent) -> None:
    last = builder.name_periods[-1]
    builder.name_periods[-1] = replace(last, until_ts=event.gap_from)
    builder.dropped_ts = None
    builder.copied_ts = event.commit_ts
    builder.gaps.append((event.gap_from, event.commit_ts))
    state.give_name(builder, (last.schema, last.table), event.commit_ts - 1)
