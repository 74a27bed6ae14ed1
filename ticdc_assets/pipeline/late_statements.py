"""Statements that arrive late: at or below the TSO up to which a table was written without them.

They change the history. Where a changelog's rows stay the same, nothing happens. A changelog that only lacks rows, of a
name that its source table turns out to have had, is read again from its beginning. A changelog that has rows of other
columns or of another source table is held until `rebuild` reads it from the source. The tables of a source table that
the history no longer has are renamed: their rows belong to other source tables, which are read again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ticdc_assets.advice import Advice
from ticdc_assets.config import StorageSource
from ticdc_assets.errors import StaleRunError
from ticdc_assets.notes import UNFIT_CHANGELOGS, Note, NoteCode
from ticdc_assets.pipeline.changed_settings import settings_holds
from ticdc_assets.pipeline.commit_range import CommitRange, Hold, TableState
from ticdc_assets.pipeline.renamed_tables import changelog_of
from ticdc_assets.schema.history.source_table import SourceName, SourceTable, fold_name
from ticdc_assets.schema.history.written_history import WrittenHistory
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.locations import set_aside
from ticdc_assets.tables.progress import CHANGEFEED, source_table_of
from ticdc_assets.tables.written_with import Fit, KnownHistory, written_history_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.plan import Plan
    from ticdc_assets.tables.control.records import TableRecord


@dataclass(frozen=True, slots=True)
class LateStatements:
    """`again`: the source tables to read from their beginning. `held`: why others are held. The names are those whose
    rows may be in another source table's changelog."""

    again: frozenset[str] = frozenset()
    held: Mapping[str, Hold] = field(default_factory=dict)
    names: frozenset[SourceName] = frozenset()

    def took_rows_of(self, source_table: SourceTable) -> bool:
        """Whether rows under a name of this source table may be in another table's changelog."""
        return not self.names.isdisjoint(source_table.folded_names)


def late_statements(lake: Lake, plan: Plan) -> LateStatements:
    """The effect of late statements and of changed settings: which tables are read again, and which are held. Without
    a record, no table was written."""
    held = settings_holds(lake, plan)
    if plan.record is None or not has_comparable_times(lake):
        return LateStatements(held=held)
    again = set()
    replaced = [table for table in plan.record.tables if is_replaced(table, plan.source_tables)]
    names = {name for table in replaced for name in _names_of(lake, table)}
    for table in plan.record.tables:
        commit_range = plan.commit_ranges.get(table.source_table)
        if commit_range is None or table.changelog is None or table.source_table in held:
            continue
        now = WrittenHistory.of(commit_range.source_table)
        if table.history == now.digest:
            continue
        changelog = changelog_of(lake, plan, commit_range.source_table)
        if changelog is None:
            continue
        names |= {(schema, name) for schema, name, *_ in _lost(changelog, now)}
        match KnownHistory(now, table.watermark, lake.by_arrival).fit(changelog):
            case Fit.OTHER_ROWS:
                held[table.source_table] = written_otherwise(commit_range.source_table, lake.by_arrival)
            case Fit.LACKS_ROWS:
                again.add(table.source_table)
    return LateStatements(frozenset(again), held, frozenset(names))


def known_histories(lake: Lake, commit_ranges: Mapping[str, CommitRange]) -> dict[str, KnownHistory]:
    """The histories that the tables' changelogs are compared with; none where the TSO of a statement is no
    commit_ts."""
    if not has_comparable_times(lake):
        return {}
    return {
        i: KnownHistory(WrittenHistory.of(commit_range.source_table), commit_range.low, lake.by_arrival)
        for i, commit_range in commit_ranges.items()
    }


def written_otherwise_in(
    lake: Lake, commit_ranges: Mapping[str, CommitRange], changelogs: Mapping[str, Table]
) -> dict[str, Hold]:
    """Holds for the tables whose changelogs have rows of other columns or of another source table."""
    histories = known_histories(lake, commit_ranges)
    return {
        i: _otherwise(commit_ranges[i], lake.by_arrival)
        for i, changelog in changelogs.items()
        if i in histories and histories[i].fit(changelog) is Fit.OTHER_ROWS
    }


def _otherwise(commit_range: CommitRange, by_arrival: bool) -> Hold:
    if commit_range.hold is not None and commit_range.hold.code == NoteCode.LATE_STATEMENT:
        return commit_range.hold
    return written_otherwise(commit_range.source_table, by_arrival)


def has_comparable_times(lake: Lake) -> bool:
    """Whether a statement's TSO can be compared with a table's watermark. Messages ordered by arrival have no
    commit_ts."""
    return isinstance(lake.changefeed.source, StorageSource) or not lake.by_arrival


def _lost(changelog: Table, now: WrittenHistory) -> tuple[tuple[str, str, int, int | None], ...]:
    was = written_history_of(changelog)
    return () if was is None else was.names_lost(now)


def _names_of(lake: Lake, table: TableRecord) -> set[SourceName]:
    """The names under which records became rows of a table."""
    changelog = None if table.changelog is None else load_or_none(lake.catalog, tuple(table.changelog))
    was = written_history_of(changelog) if changelog is not None else None
    known = {(schema, name) for schema, name, *_ in was.names} if was is not None else set()
    return known | {fold_name(table.schema, table.table)}


# -- tables that are held ---------------------------------------------------------------------------------------------


def written_otherwise(source_table: SourceTable, by_arrival: bool) -> Hold:
    """The hold of a table whose changelog has rows of other columns or of another source table."""
    detail = (
        f"{'.'.join(source_table.name)}: expected all statements before the rows that come after them, found one that "
        "came later, so that its changelog has rows of other columns or of another table."
    )
    advice = Advice.READ_ELSEWHERE if by_arrival else Advice.REBUILD_FROM_SOURCE
    return Hold(TableState.STOPPED, Note(NoteCode.LATE_STATEMENT, detail, (advice,)))


def lacks_messages(source_table: SourceTable, partition: tuple[str, int], begin: int, now: int | None) -> Hold:
    """The hold of a table whose rows are in another table's changelog, and no longer in the capture."""
    name, found = ".".join(source_table.name), "none" if now is None else f"those from {now} on"
    detail = (
        f"{name}: expected the messages of {partition[0]}[{partition[1]}] from offset {begin} on, since a statement "
        f"that came late shows that some are its rows, found {found}."
    )
    advice = (Advice.RESTORE_OR_READ_APART, Advice.CREATE_AGAIN)
    return Hold(TableState.STOPPED, Note(NoteCode.LATE_STATEMENT, detail, advice))


def without_dropped(held: Mapping[str, Hold], commit_ranges: Mapping[str, CommitRange]) -> dict[str, Hold]:
    """The holds, where the source lacks messages that earlier runs have read, so that no rebuild can read a table
    again: a dropped table then holds nothing back. It keeps its note."""
    dropped = {i for i in held if commit_ranges[i].source_table.dropped_ts is not None}
    return {i: replace(hold, state=TableState.DROPPED) if i in dropped else hold for i, hold in held.items()}


def is_unrecorded(plan: Plan) -> bool:
    """Whether the newest record does not yet state the effect of late statements and of changed settings."""
    for table in plan.recorded.values():
        commit_range = plan.commit_ranges.get(table.source_table)
        hold = commit_range.hold if commit_range is not None else None
        if hold is not None and hold.code in UNFIT_CHANGELOGS and not table.has(hold.code):
            return True
        if commit_range is not None and hold is None and table.has(NoteCode.SETTINGS, NoteCode.KEYS):
            return True
        if is_replaced(table, plan.source_tables) and not table.has(NoteCode.REPLACED):
            return True
    return False


# -- tables that are gone from the history -----------------------------------------------------------------------------


def is_replaced(table: TableRecord, known: Container[str]) -> bool:
    """Whether a recorded table belongs to a source table that is not among the `known` ones of the history."""
    return (table.changelog is not None or table.mirror is not None) and table.source_table not in known


def set_replaced_aside(lake: Lake, plan: Plan) -> tuple[TableRecord, ...]:
    """Rename the tables of source tables that the history no longer has, so that their names are free. Returns their
    records."""
    replaced = (table for table in plan.recorded.values() if is_replaced(table, plan.source_tables))
    return tuple(_set_aside(lake, table) for table in replaced)


def set_unrecorded_aside(lake: Lake, plan: Plan, wanted: Iterable[str]) -> bool:
    """Rename the tables that a run without a record made for source tables that the history no longer has, where one
    of the `wanted` source tables needs their name. Returns whether there was one.

    No rows are lost: without a record, the next run reads what that run has read.

    Raises:
        StaleRunError: another run has recorded since the plan, so the table may belong to that run.
    """
    is_found = False
    for source_table_id in wanted:
        place = plan.locations[source_table_id]
        changelog = load_or_none(lake.catalog, place.changelog)
        owner = source_table_of(changelog) if changelog is not None else None
        if changelog is None or owner is None or owner in plan.source_tables or owner in plan.recorded:
            continue
        if changelog.properties.get(CHANGEFEED) != lake.changefeed.name:
            continue
        if lake.control.newest() != plan.record:
            advice = "Another run recorded first, and no table was renamed. Run again to continue from there."
            where = ".".join(place.changelog)
            raise StaleRunError(where, "the record that this run was planned from", "a newer one", advice)
        set_aside(lake.catalog, owner, place.mirror)
        set_aside(lake.catalog, owner, place.changelog)
        set_aside(lake.catalog, owner, place.history_table)
        is_found = True
    return is_found


def _set_aside(lake: Lake, table: TableRecord) -> TableRecord:
    def moved(name: list[str] | None) -> list[str] | None:
        if name is None:
            return None
        return list(set_aside(lake.catalog, table.source_table, tuple(name)))

    detail = f"a statement came late: the rows of {table.schema}.{table.table} are those of other source tables."
    state = str(TableState.DROPPED)
    return replace(
        table,
        state=state,
        notes=(Note(NoteCode.REPLACED, detail, (Advice.DROP_REPLACED,)),),
        mirror=moved(table.mirror),
        changelog=moved(table.changelog),
        history_table=moved(table.history_table),
    )
