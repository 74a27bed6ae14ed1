"""Rebuilds a changelog from the source, where the source still has all changes of the changelog.

A run reads the source from its beginning for one table, into a clone of the changelog (`tables.iceberg.clone`) and with
its own control tables, which are removed afterwards. Before the changelog takes over the clone's files, the two are
compared: the clone must have at least as many changes of every commit_ts. The clone carries the mark of a replay, so
that the mirror follows even if the rebuild ends here.

Of one day only, the clone's files of that day replace those of the changelog; changes of other days may be missing at
the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table

from ticdc_assets.changes import layout
from ticdc_assets.errors import ConfigError, SetBackError, SourceError
from ticdc_assets.names import quote, quote_path
from ticdc_assets.pipeline.changed_settings import known_settings, settings_hold
from ticdc_assets.pipeline.commit_range import TableState
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.quarantine import READ_AGAIN, quarantined_by_table
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.pipeline.set_back import require_whole
from ticdc_assets.pipeline.source import ChangeSource, Pending
from ticdc_assets.schema.history.source_table import History, SourceName, SourceTable, fold_name
from ticdc_assets.schema.history.written_history import WrittenHistory
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.tables.catalog import Identifier
from ticdc_assets.tables.changelog_day import DayFiles, files_of, replace_day, require_unchanged
from ticdc_assets.tables.control.records import QuarantinedRecord, TableRecord, WatermarkRecord
from ticdc_assets.tables.control.tables import Control
from ticdc_assets.tables.iceberg.properties import REPLAYED
from ticdc_assets.tables.locations import TableLocations
from ticdc_assets.tables.replayed import Replayed, unfollowed
from ticdc_assets.tables.written_with import written_history_of
from ticdc_assets.tso import from_physical_ms, now
from ticdc_assets.work_progress import OnProgress

if TYPE_CHECKING:
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog
    from ticdc_assets.tables.mirror.clone import Clone


@dataclass(frozen=True)
class _CloneLake(Lake):
    """The lake of a run that reads one table: its changelog is the clone, and its control tables are separate."""

    source_table_id: str = ""
    clone: Identifier = ()
    names: frozenset[SourceName] = frozenset()

    moves_tables = False

    @cached_property
    def control(self) -> Control:
        namespace = super().control.namespace
        return Control(self.catalog, (*namespace[:-1], f"{namespace[-1]}_{self.clone[-1]}"))

    def follows(self, schema: str, table: str) -> bool:
        return not table or fold_name(schema, table) in self.names

    def asks_for(self, source_table: SourceTable) -> bool:
        return source_table.id == self.source_table_id

    def table_locations(self, history: History) -> dict[str, TableLocations]:
        found = super().table_locations(history)
        own = {i: replace(found[i], changelog=self.clone) for i in found.keys() & {self.source_table_id}}
        return {**found, **own}


def changelog_from_source(
    lake: Lake,
    jvm: JvmCatalog,
    source_table: SourceTable,
    record: WatermarkRecord,
    clone: Clone,
    run_id: str,
    on_progress: OnProgress,
    day: date | None = None,
) -> None:
    """Fill the empty clone of a table's changelog from the source, move its files to the changelog, and record that.

    Args:
        day: the UTC day of commits to replace; None for all.

    Raises:
        StaleRunError: another run has changed the changelog, or the day, meanwhile.
        SourceError: the source lacks changes of the changelog; nothing is changed then.
        SetBackError: the changelog was set back, and a day alone is to be replaced.
    """
    if day is not None:
        _check_settings(lake, source_table, clone.table)
    was_set_back = _was_set_back(lake, source_table, record, clone.table, day)
    names = frozenset(source_table.folded_names)
    clone_lake = _CloneLake(lake.config, lake.changefeed, source_table.id, clone.identifier, names)
    old_files = {} if day is None else files_of(clone.table, day)
    try:
        clone_lake.control.keep_ddl_events(lake.control.ddl_events())
        run = run_of(clone_lake, record.tso)
        pending = run.scan()
        _check_is_read(source_table, pending)
        if day is None:
            _check_beginning(run.source, source_table, record, pending)
        run.publish_changelogs(pending, SparkWorkers(jvm.spark), on_progress)
        made = clone_lake.control.newest()
        found = Lake.recorded(made).get(source_table.id)
        old = Lake.recorded(record)[source_table.id]
        if made is None or found is None or found.state not in (str(TableState.LIVE), str(TableState.DROPPED)):
            note = found.note if found is not None else "none of its rows"
            raise _lacking(source_table, "to be read to its end", f"this: {note}")
        if found.watermark < old.watermark:
            raise _lacking(source_table, f"to reach {old.watermark}, as the changelog does", str(found.watermark))
        changelog = tuple(old.changelog or ())
        if day is not None:
            require_unchanged(clone.table, day, old_files)
        _check_all_is_there(lake, jvm, source_table, changelog, clone.identifier, day)
        if was_set_back and old.mirror is not None:
            _check_mirror_is_there(jvm, source_table, tuple(old.mirror), clone.identifier)
        mark = Replayed(run_id, 0, source_table.versions[0].from_ts)
        if day is not None:
            _replace_day(lake, clone, day, old_files, mark)
            _record_snapshot(lake, source_table, record, changelog)
            return
        bad = clone_lake.control.ever_quarantined()
        lake.control.quarantine(bad)
        lake.control.close_folders(clone_lake.control.closed_folders())
        clone.take_over({REPLAYED: mark.to_json()})
        _resolve(lake, source_table, bad, run_id)
        _record(lake, run.source, source_table, record, made, found, run_id)
    finally:
        _forget(clone_lake)


def _resolve(lake: Lake, source_table: SourceTable, bad: Sequence[QuarantinedRecord], run_id: str) -> None:
    """Resolve the table's records in quarantine that are not bad any more: its changelog has their changes."""
    still_bad = {record.position for record in bad}
    kept = quarantined_by_table(lake.history(), lake.control.quarantined()).get(source_table.id, [])
    lake.control.resolve({one.position: READ_AGAIN for one in kept if one.position not in still_bad}, run_id)


def check_can_be_read_again(lake: Lake) -> None:
    """Raise ConfigError where tables cannot be rebuilt from this source."""
    if lake.by_arrival:
        found = "a stream without commit_ts, which is read in the order of arrival"
        advice = (
            "Rebuild its mirrors from their changelogs; or read the source in a changefeed of another name, with "
            "another `target`."
        )
        raise ConfigError(f"changefeed {lake.changefeed.name}, --from source", "rows with a commit_ts", found, advice)


def _lacking(source_table: SourceTable, expected: str, found: str) -> SourceError:
    advice = "Nothing was changed. Restore what the source lacks."
    return SourceError(f"{'.'.join(source_table.name)} from the source", expected, found, advice)


def _check_is_read(source_table: SourceTable, pending: Pending) -> None:
    commit_range = pending.commit_ranges.get(source_table.id)
    if commit_range is None:
        raise _lacking(source_table, "the table", "none of its files or messages")
    if commit_range.hold is not None and commit_range.source_table.dropped_ts is None:
        raise _lacking(source_table, "to be read to its end", f"this: {commit_range.hold.reason(source_table)}")


def _check_beginning(
    source: ChangeSource[Any], source_table: SourceTable, record: WatermarkRecord, pending: Pending
) -> None:
    missing = source.missing_since(record.cursor, pending)
    if missing is not None:
        raise _lacking(source_table, missing.expected, missing.found)


def _check_all_is_there(
    lake: Lake,
    jvm: JvmCatalog,
    source_table: SourceTable,
    changelog: Identifier,
    clone: Identifier,
    day: date | None,
) -> None:
    """Raise where the clone has fewer changes of a commit_ts than the changelog, on that day if one is given. Rows of
    another table do not count. Where the key was different, an update may be one change or two."""
    written = lake.catalog.load_table(changelog)
    was = written_history_of(written) or WrittenHistory.of(source_table)
    now = WrittenHistory.of(source_table)
    others = "".join(
        f" AND NOT (o.ts > {after_ts}{'' if until_ts is None else f' AND o.ts <= {until_ts}'})"
        for *_, after_ts, until_ts in was.names_lost(now)
    )
    split_ts = -1 if known_settings(lake, source_table).fault(written) else was.other_columns_after(now)
    wanted = "o.n" if split_ts is None else f"CASE WHEN o.ts > {split_ts} THEN 1 ELSE o.n END"
    ts = quote(layout.COMMIT_TS)
    of_day = "" if day is None else " WHERE {0} >= {1} AND {0} < {2}".format(ts, *_tsos_of(day))
    counted = "SELECT {0} AS ts, count(*) AS n FROM {1}{2} GROUP BY {0}"
    here, there = (counted.format(ts, quote_path((jvm.name, *name)), of_day) for name in (changelog, clone))
    query = (
        f"SELECT count(*) AS n, min(o.ts) AS first FROM ({here}) o LEFT JOIN ({there}) f ON o.ts = f.ts "  # noqa: S608
        f"WHERE coalesce(f.n, 0) < {wanted}{others}"
    )
    [lost] = jvm.thread_session().sql(query).collect()
    if lost["n"]:
        found = f"fewer at {lost['n']} of them, first at {lost['first']}"
        raise _lacking(source_table, "all changes of every commit_ts that the changelog has", found)


def _check_settings(lake: Lake, source_table: SourceTable, changelog: Table) -> None:
    hold = settings_hold(lake, source_table, changelog)
    if hold is not None:
        advice = "Nothing was changed. Rebuild the whole table, without --day."
        raise SourceError(".".join(changelog.name()), "the settings of the config", hold.reason(source_table), advice)


def _was_set_back(
    lake: Lake, source_table: SourceTable, record: WatermarkRecord, changelog: Table, day: date | None
) -> bool:
    """Whether the changelog lacks changes that it had. Raises the error where a `day` would bring back a part only."""
    try:
        require_whole(lake, Lake.recorded(record)[source_table.id], record.recorded_at, changelog)
    except SetBackError:
        if day is not None:
            raise
        return True
    return False


def _check_mirror_is_there(jvm: JvmCatalog, source_table: SourceTable, mirror: Identifier, clone: Identifier) -> None:
    """Raise where the clone lacks a commit_ts of the mirror's rows: the changelog had these changes before it was set
    back."""
    ts = quote(layout.COMMIT_TS)
    query = (
        f"SELECT count(DISTINCT m.{ts}) AS n, min(m.{ts}) AS first FROM {quote_path((jvm.name, *mirror))} m "  # noqa: S608
        f"LEFT ANTI JOIN {quote_path((jvm.name, *clone))} c ON m.{ts} = c.{ts} WHERE m.{ts} IS NOT NULL"
    )
    [lost] = jvm.thread_session().sql(query).collect()
    if lost["n"]:
        found = f"none at {lost['n']} of them, first at {lost['first']}"
        raise _lacking(source_table, "changes of every commit_ts that the mirror has", found)


# -- one day -----------------------------------------------------------------------------------------------------------


def _tsos_of(day: date) -> tuple[int, int]:
    """The first TSO of a UTC day and that of the next day."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    first, end = (int(at.timestamp()) * 1000 for at in (start, start + timedelta(days=1)))
    return from_physical_ms(first), from_physical_ms(end)


def _replace_day(lake: Lake, clone: Clone, day: date, old: DayFiles, mark: Replayed) -> None:
    table, made = clone.table, lake.catalog.load_table(clone.identifier)
    if made.schema() != table.schema():
        advice = "Nothing was changed. Rebuild the whole table, without --day."
        raise SourceError(".".join(clone.identifier), "the columns of the changelog", "other columns", advice)
    joined = mark.joined(unfollowed(table, None))
    replace_day(table, day, old, files_of(made, day), {REPLAYED: joined.to_json()})


def _record_snapshot(lake: Lake, source_table: SourceTable, record: WatermarkRecord, changelog: Identifier) -> None:
    """Record the changelog's new snapshot, also where another run has recorded the one before it meanwhile."""
    newest, snapshot = lake.control.newest(), lake.catalog.load_table(changelog).current_snapshot()
    if newest is None or snapshot is None:
        return
    recorded = Lake.recorded(newest)[source_table.id].changelog_snapshot_id
    if newest != record and snapshot.parent_snapshot_id != recorded:
        return  # the next run records it
    _record_table(lake, newest, source_table.id, changelog_snapshot_id=snapshot.snapshot_id)


# -- the record --------------------------------------------------------------------------------------------------------


def _record(
    lake: Lake,
    source: ChangeSource[Any],
    source_table: SourceTable,
    record: WatermarkRecord,
    made: WatermarkRecord,
    found: TableRecord,
    run_id: str,
) -> None:
    """Record the table's new watermark and the files that were read. To a record that another run wrote meanwhile, only
    the snapshot is added: the next run reads the watermark from the changelog itself."""
    newest, snapshot_id = lake.control.newest(), found.changelog_snapshot_id
    if newest is not None and newest != record:
        replaced = Lake.recorded(record)[source_table.id].changelog_snapshot_id
        if Lake.recorded(newest)[source_table.id].changelog_snapshot_id == replaced:
            _record_table(lake, newest, source_table.id, changelog_snapshot_id=snapshot_id)
        return
    places = lake.table_locations(lake.history())
    fields = {
        "state": found.state,
        "notes": found.notes,
        "watermark": found.watermark,
        "changelog": list(places[source_table.id].changelog),
        "changelog_snapshot_id": snapshot_id,
    }
    cursor = source.cursor_with(record.cursor, made.cursor, source_table, lake.history())
    _record_table(lake, replace(record, run_id=run_id, cursor=cursor), source_table.id, **fields)


def _record_table(lake: Lake, record: WatermarkRecord, source_table_id: str, **fields: Any) -> None:
    tables = tuple(replace(t, **fields) if t.source_table == source_table_id else t for t in record.tables)
    lake.control.record(replace(record, recorded_at=now(), complete=False, settled=False, tables=tables))


def _forget(clone_lake: _CloneLake) -> None:
    """Remove the control tables of this rebuild and of killed rebuilds of the table, with their files."""
    own = clone_lake.control.namespace
    of_the_table = own[-1].rpartition("_")[0]
    for namespace in clone_lake.catalog.list_namespaces(own[:-1]):
        if namespace[-1].startswith(f"{of_the_table}_"):
            with suppress(NoSuchNamespaceError):
                _remove(clone_lake, namespace)


def _remove(clone_lake: _CloneLake, namespace: Identifier) -> None:
    for identifier in clone_lake.catalog.list_tables(namespace):
        with suppress(NoSuchTableError):
            try:
                clone_lake.catalog.purge_table(identifier)
            except NotImplementedError:  # pyiceberg cannot with Hive
                clone_lake.catalog.drop_table(identifier)
    clone_lake.catalog.drop_namespace(namespace)
