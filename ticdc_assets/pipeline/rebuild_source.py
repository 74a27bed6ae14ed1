"""A changelog made anew from the source, where the source still has all that the changelog has.

A run reads the source from its beginning for one table alone, into a clone of the changelog (`tables.clone`) and with
control tables of its own, which go afterwards. Before the clone is taken over it is compared with the changelog: it
must have at least as many changes of every commit_ts. With the clone comes the mark of a replay, so that the mirror
follows even if the rebuild ends here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from ticdc_assets.changes import layout
from ticdc_assets.config import StorageSource
from ticdc_assets.errors import ConfigError, SourceError
from ticdc_assets.names import quote, quote_path
from ticdc_assets.pipeline.interval import TableState
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.message_pending import PendingMessages, StreamCursor
from ticdc_assets.pipeline.runs import run_of
from ticdc_assets.schema.lineage import SourceName, fold_name
from ticdc_assets.sources.storage_cursor import Cursor
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.tables.control import Control, TableRecord, WatermarkRecord, now
from ticdc_assets.tables.progress import REPLAYED
from ticdc_assets.tables.replayed import Replayed

if TYPE_CHECKING:
    from ticdc_assets.pipeline.storage_run import Pending
    from ticdc_assets.schema.lineage import History, Lineage
    from ticdc_assets.tables.catalog import Identifier
    from ticdc_assets.tables.clone import Clone
    from ticdc_assets.tables.iceberg_jvm import JvmCatalog
    from ticdc_assets.tables.places import Place


@dataclass(frozen=True)
class _Beside(Lake):
    """The lake as a run sees it that reads one table: its changelog is the clone, its control tables are others."""

    lineage_id: str = ""
    clone: Identifier = ()
    names: frozenset[SourceName] = frozenset()

    @cached_property
    def control(self) -> Control:
        namespace = super().control.namespace
        return Control(self.catalog, (*namespace[:-1], f"{namespace[-1]}_{self.clone[-1]}"))

    def follows(self, schema: str, table: str) -> bool:
        return not table or fold_name(schema, table) in self.names

    def asks_for(self, lineage: Lineage) -> bool:
        return lineage.id == self.lineage_id

    def places(self, history: History) -> dict[str, Place]:
        found = super().places(history)
        own = {i: replace(found[i], changelog=self.clone) for i in found.keys() & {self.lineage_id}}
        return {**found, **own}

    def settle_changelogs(self, history: History, record: WatermarkRecord | None) -> dict[str, Identifier]:
        return {}  # no table is this run's to move


def changelog_from_source(
    lake: Lake,
    jvm: JvmCatalog,
    lineage: Lineage,
    record: WatermarkRecord,
    clone: Clone,
    run_id: str,
    say: Callable[[str], None],
) -> None:
    """Fill the empty clone of a table's changelog from the source, let the changelog take it over, and record that.

    Raises SourceError where the source does not have all that the changelog has; then nothing is changed.
    """
    names = frozenset(fold_name(tenure.schema, tenure.table) for tenure in lineage.tenures)
    beside = _Beside(lake.config, lake.changefeed, lineage.id, clone.identifier, names)
    try:
        beside.control.keep_ddl_events(lake.control.ddl_events())
        run = run_of(beside, record.tso)
        pending = run.look()
        _check_beginning(lake, lineage, record, pending)
        run.publish_changelogs(pending, SparkWorkers(jvm.spark), say)  # type: ignore[arg-type]
        made = beside.control.newest()
        found = Lake.recorded(made).get(lineage.id)
        old = Lake.recorded(record)[lineage.id]
        if made is None or found is None or found.state not in (str(TableState.LIVE), str(TableState.DROPPED)):
            note = found.note if found is not None else "none of its rows"
            raise _lacking(lineage, "to be read to its end", f"this: {note}")
        if found.watermark < old.watermark:
            raise _lacking(lineage, f"to reach {old.watermark}, as the changelog does", str(found.watermark))
        _check_all_is_there(jvm, lineage, tuple(old.changelog or ()), clone.identifier)
        lake.control.quarantine(beside.control.ever_quarantined())
        mark = Replayed(run_id, 0, lineage.versions[0].from_ts)
        clone.take_over({REPLAYED: mark.to_json()})
        _record(lake, lineage, record, made, found, run_id)
    finally:
        _forget(beside)


def check_can_be_read_again(lake: Lake, names_given: bool) -> None:
    """Raise ConfigError where tables cannot be made anew from this source."""
    if not names_given:
        todo = "Name them with --table: the source is read once for each."
        raise ConfigError("--from source", "tables to make anew", "none named", todo)
    if lake.by_arrival:
        found = "a stream that is read in the order of arrival"
        todo = "Rebuild its mirrors from their changelogs; or read the source in a changefeed of another name."
        raise ConfigError(f"changefeed {lake.changefeed.name}, --from source", "rows with a commit_ts", found, todo)


def _lacking(lineage: Lineage, expected: str, found: str) -> SourceError:
    todo = "Nothing was changed. Put back what the source lacks, or rebuild from the changelog."
    return SourceError(f"{'.'.join(lineage.name)} from the source", expected, found, todo)


def _check_beginning(lake: Lake, lineage: Lineage, record: WatermarkRecord, pending: Pending | PendingMessages) -> None:
    interval = pending.intervals.get(lineage.id)
    if interval is None:
        raise _lacking(lineage, "the table", "none of its files or messages")
    if interval.hold is not None and interval.lineage.dropped_ts is None:
        raise _lacking(lineage, "to be read to its end", f"this: {interval.hold.reason}")
    if not isinstance(pending, PendingMessages):
        return
    cursor = StreamCursor.from_json(record.cursor)
    partition = cursor.gone(pending.look)
    if partition is not None:
        begin, there = cursor.begins.get(partition, 0), pending.look.begins.get(partition)
        expected = f"the messages of {partition[0]}[{partition[1]}] from offset {begin} on"
        raise _lacking(lineage, expected, "none" if there is None else f"those from {there} on")


def _check_all_is_there(jvm: JvmCatalog, lineage: Lineage, changelog: Identifier, clone: Identifier) -> None:
    """The clone has at least as many changes of every commit_ts as the changelog."""
    ts = quote(layout.COMMIT_TS)
    counted = "SELECT {0} AS ts, count(*) AS n FROM {1} GROUP BY {0}"
    here, there = (counted.format(ts, quote_path((jvm.name, *name))) for name in (changelog, clone))
    query = (
        f"SELECT count(*) AS n, min(o.ts) AS first FROM ({here}) o LEFT JOIN ({there}) f ON o.ts = f.ts "  # noqa: S608
        "WHERE coalesce(f.n, 0) < o.n"
    )
    [lost] = jvm.thread_session().sql(query).collect()
    if lost["n"]:
        found = f"fewer at {lost['n']} of them, first at {lost['first']}"
        raise _lacking(lineage, "all changes of every commit_ts that the changelog has", found)


# -- the record --------------------------------------------------------------------------------------------------------


def _record(
    lake: Lake, lineage: Lineage, record: WatermarkRecord, made: WatermarkRecord, found: TableRecord, run_id: str
) -> None:
    """Say how far the table is now, and that its files were read. Another record that came meanwhile stays: the next
    run sees in the changelog itself how far it is."""
    newest = lake.control.newest()
    if newest != record:
        return
    places = lake.places(lake.history())
    told = {
        "state": found.state,
        "note": found.note,
        "watermark": found.watermark,
        "changelog": list(places[lineage.id].changelog),
        "changelog_snapshot_id": found.changelog_snapshot_id,
    }
    tables = tuple(replace(t, **told) if t.lineage == lineage.id else t for t in record.tables)  # type: ignore[arg-type]
    cursor = record.cursor
    if isinstance(lake.changefeed.source, StorageSource):
        cursor = _with_folders(lake, lineage, record.cursor, made.cursor)
    lake.control.record(replace(record, recorded_at=now(), run_id=run_id, complete=False, cursor=cursor, tables=tables))


def _with_folders(lake: Lake, lineage: Lineage, kept: str, made: str) -> str:
    """The cursor with what the run has read of folders that are this table's alone."""
    others = {
        fold_name(tenure.schema, tenure.table)
        for other in lake.history().lineages
        if other.id != lineage.id
        for tenure in other.tenures
    }
    cursor, fresh = Cursor.from_json(kept), Cursor.from_json(made)
    own = {
        folder: state
        for folder, state in fresh.tables.items()
        if others.isdisjoint(fold_name(*name) for name in ((state.schema, state.table), *state.renamed.values()))
        and any(fold_name(state.schema, state.table) == fold_name(t.schema, t.table) for t in lineage.tenures)
    }
    return replace(cursor, tables={**cursor.tables, **own}).to_json()


def _forget(beside: _Beside) -> None:
    """Remove the control tables of the run, with their files, and what a killed one of this table left."""
    own = beside.control.namespace
    of_the_table = own[-1].rpartition("_")[0]
    for namespace in beside.catalog.list_namespaces(own[:-1]):
        if namespace[-1].startswith(f"{of_the_table}_"):
            with suppress(NoSuchNamespaceError):
                _remove(beside, namespace)


def _remove(beside: _Beside, namespace: Identifier) -> None:
    for identifier in beside.catalog.list_tables(namespace):
        with suppress(NoSuchTableError):
            try:
                beside.catalog.purge_table(identifier)
            except NotImplementedError:  # pyiceberg cannot with Hive
                beside.catalog.drop_table(identifier)
    beside.catalog.drop_namespace(namespace)
