"""Which source table a name means at a TSO, and its statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from ticdc_assets.errors import ConfigError, NotYetError
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.evolution.schema_state import TruncateRows
from ticdc_assets.schema.history.fold.events import in_order
from ticdc_assets.schema.history.source_table import History, SourceName, SourceTable, Version, fold_name


def split_name(text: str) -> SourceName:
    """Schema and table of `schema.table`; the schema ends at the first dot."""
    schema, _, table = text.partition(".")
    return schema, table


def version_after(source_table: SourceTable, tso: int) -> Version:
    """The version with all statements up to `tso`."""
    return source_table.version_at(tso + 1)


def empties(version: Version) -> bool:
    """Whether the statement of this version removed all rows."""
    return any(isinstance(effect, TruncateRows) for effect in version.effects)


def table_at(lake: Lake, history: History, name: SourceName, tso: int) -> SourceTable:
    """The source table that has the name at `tso`.

    Raises:
        ConfigError: no table has the name then; the error names the TSOs at which one has.
        NotYetError: there was no run.
    """
    named = history.ever_called(*name)
    for source_table in named:
        found = source_table.name_at(tso)
        if found is not None and fold_name(*found) == fold_name(*name):
            return source_table
    where = f"changefeed {lake.changefeed.name}"
    wanted = ".".join(part for part in name if part)
    if lake.control.newest() is None:
        raise NotYetError(where, "a run", "none", "Run `ticdc-assets run`.")
    if not named:
        known = {".".join(found.name) for found in history.source_tables}
        near = get_close_matches(wanted, known, n=1)
        meant = f"Did you mean {near[0]}? " if near else ""
        advice = f"{meant}`ticdc-assets tables` lists the tables. A table is named as schema.table."
        raise ConfigError(where, f"a table {wanted}", "none of that name at any TSO", advice)
    periods = ", ".join(_periods(named, name))
    raise ConfigError(where, f"a table {wanted} at {tso}", "none", f"Tables had the name {periods}.")


def _periods(named: Sequence[SourceTable], name: SourceName) -> Iterator[str]:
    for source_table in named:
        for period in source_table.name_periods:
            if period.folded == fold_name(*name):
                end = "" if period.until_ts is None else f" until {period.until_ts}"
                yield f"from {period.after_ts}{end}"


def statements_between(
    source_table: SourceTable, events: Iterable[DdlEvent], after: int, until: int | None = None
) -> list[DdlEvent]:
    """The statements on a source table with commit_ts in `(after, until]`, in their order."""
    inside = (e for e in in_order(events) if after < e.commit_ts and (until is None or e.commit_ts <= until))
    return [event for event in inside if event.query.strip() and _concerns(event, source_table)]


def _concerns(event: DdlEvent, source_table: SourceTable) -> bool:
    around = (source_table.name_at(event.commit_ts - 1), source_table.name_at(event.commit_ts))
    names = {fold_name(*name) for name in around if name is not None}
    if not event.table:  # DROP DATABASE
        return event.commit_ts == source_table.dropped_ts
    return fold_name(event.schema, event.table) in names
