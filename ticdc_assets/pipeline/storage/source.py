"""A bucket that TiCDC's storage sink writes to, as a source of changes."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from pyiceberg.table import Table

from ticdc_assets.advice import Advice
from ticdc_assets.errors import SourceError
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.commit_range import Hold, TableState, commit_ranges
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.late_statements import LateStatements, late_statements
from ticdc_assets.pipeline.late_tables import (
    LateTables,
    before_late_schemas,
    late_tables,
    not_followed_yet,
    obstacle_by_arrival,
    without_folders,
)
from ticdc_assets.pipeline.load.progress import FINISHED, behind_the_load, require_finished
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets.pipeline.record import table_record
from ticdc_assets.pipeline.source import ChangeSource
from ticdc_assets.pipeline.storage.batch import StorageBatch
from ticdc_assets.pipeline.storage.late_files import is_due, with_late_files
from ticdc_assets.pipeline.storage.pending import StoragePending
from ticdc_assets.pipeline.storage.plan import FilePlans
from ticdc_assets.pipeline.storage.record import holds_of
from ticdc_assets.schema.ddl_event import gaps_of
from ticdc_assets.schema.history.source_table import History, SourceName, SourceTable, fold_name
from ticdc_assets.sources.filesystem import Root, open_root
from ticdc_assets.sources.storage.cursor import Cursor
from ticdc_assets.sources.storage.folders import NOTES_MAX
from ticdc_assets.sources.storage.paths import METADATA, Layout
from ticdc_assets.sources.storage.scan import read_checkpoint, scan
from ticdc_assets.sources.storage.scan_result import Problem
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.control.records import WatermarkRecord
from ticdc_assets.tables.progress import Progress, progress_of, source_table_of
from ticdc_assets.tso import now


class StorageChanges(ChangeSource[StoragePending]):
    """The changes in one changefeed's bucket, up to the TSO `until` where given."""

    def __init__(self, lake: Lake, until: int | None = None) -> None:
        self._lake = lake
        self._changefeed = lake.changefeed
        self._until = until
        self._root: Root = open_root(lake.storage_uri)

    def checkpoint(self) -> int | None:
        """The TSO of `metadata`, read without a scan; 0 where there is none."""
        return read_checkpoint(self._root) or 0

    # -- scan -----------------------------------------------------------------------------------------------------

    def scan(self) -> StoragePending:
        """What is pending. `metadata` is read before files are listed, so that every file up to its TSO is seen."""
        record = self._lake.control.newest()
        require_finished(self._changefeed.name, record)
        cursor = Cursor.from_json(record.cursor) if record and record.cursor else Cursor.empty()
        checkpoint = self._checkpoint(record)
        bound = checkpoint if checkpoint is None or self._until is None else min(checkpoint, self._until)
        high = max(record.tso if record else 0, bound or 0)
        upto = None if bound is None and not high else high
        pending = self._with_late_files(self._scanned(record, cursor, high, upto), upto)
        found = pending.cursor
        before = found if self._lake.by_arrival else before_late_schemas(found, pending.scan)
        if before != found:
            pending = self._scanned(record, before, high, upto)
        statements = late_statements(self._lake, pending.plan)
        late = self._late(pending, statements)
        if late.again:
            pending = self._scanned(record, late.cursor, high, upto)
        gone = without_folders((pending.commit_ranges[i].source_table for i in late.again), pending.scan.tables)
        read_again = late.again.difference(gone)
        behind = (
            behind_the_load(self._lake.control.ddl_events(), pending.commit_ranges, bound or 0)
            if record is not None and (bound or 0) < record.tso
            else {}
        )
        pending = pending.with_held({**late.held, **gone, **statements.held, **behind})
        return replace(
            pending,
            late=read_again - statements.again,
            again=read_again & statements.again,
            is_rewound=before.tables != cursor.tables,
        )

    def _with_late_files(self, pending: StoragePending, upto: int | None) -> StoragePending:
        """The pending changes, with files that were added to closed folders. A run with new input looks for them once a
        day."""
        at = now()
        if pending.is_empty or not is_due(pending.cursor, at):
            return pending
        late, cursor = with_late_files(self._lake, self._root, pending.cursor, at)
        if late.places:
            pending = self._scanned(pending.record, cursor, pending.high, upto)
        notes = (*(f"{folder}: {why}" for folder, why in late.unread.items()), *pending.scan.notes)[:NOTES_MAX]
        return replace(pending, cursor=cursor, scan=replace(pending.scan, notes=notes))

    def _late(self, pending: StoragePending, statements: LateStatements) -> LateTables:
        """The tables that were not selected when the cursor passed their files, and those to be read again."""
        late = not_followed_yet(pending.record, pending.commit_ranges)
        late += [pending.commit_ranges[i].source_table for i in sorted(statements.again)]
        followed = (
            [n.source_table for n in pending.commit_ranges.values() if n.source_table not in late] if late else []
        )

        def obstacle(source_table: SourceTable) -> Advice | None:
            if not self._lake.by_arrival:
                return None
            table = load_or_none(self._lake.catalog, pending.plan.locations[source_table.id].changelog)
            is_there = (
                table is not None and source_table_of(table) == source_table.id and progress_of(table) != Progress()
            )
            return obstacle_by_arrival(source_table, followed, is_there)

        whole = bool(statements.again or statements.names)
        return late_tables(pending.cursor, pending.scan.tables, late, obstacle, whole=whole)

    def _checkpoint(self, record: WatermarkRecord | None) -> int | None:
        """The source's TSO. Raises SourceError where an earlier run had one and there is none now."""
        checkpoint = read_checkpoint(self._root)
        if checkpoint is None and record is not None and record.tso and record.cursor != FINISHED:
            raise SourceError(
                self._root.where(METADATA),
                f"a checkpoint, since the lake is complete up to {record.tso} from it",
                "no such file",
                "Check that `sink_uri` or `source.storage` names the folder that TiCDC writes to. Nothing was read.",
            )
        return checkpoint

    def _scanned(self, record: WatermarkRecord | None, cursor: Cursor, high: int, upto: int | None) -> StoragePending:
        skip = self._changefeed.bad_input.skip_files
        kept = {event.where: event for event in self._lake.control.ddl_events()}
        found = scan(
            self._root,
            Layout.of(self._changefeed.sink),
            cursor,
            checkpoint_ts=upto,
            skip_files=skip,
            recognises_repeats=not self._lake.by_arrival,
            kept_schemas=kept,
        )
        listed = [file.to_ddl_event() for file in found.schema_files]
        # Another bucket after a gap tells the columns under the same paths, without the statements that led to them.
        begun = max((end for _, end in gaps_of(kept.values())), default=-1)
        fresh = [e for e in listed if kept.get(e.where) != e and (e.where not in kept or e.commit_ts > begun)]
        events = {**kept, **{event.where: event for event in fresh}}.values()
        history = self._lake.folds.of(events)
        chosen = [source_table for source_table in history.source_tables if self._lake.asks_for(source_table)]
        ranges = commit_ranges(chosen, self._lake.lows(record), high, self._holds(found.problems, history))
        return StoragePending(
            run_id=uuid.uuid4().hex,
            high=high,
            plan=Plan.of(self._lake, record, history, ranges),
            cursor=cursor,
            scan=found,
            new_events=tuple(event for event in fresh if event.where not in kept),
            changed_events=tuple(event for event in fresh if event.where in kept),
            columns={
                (fold_name(e.schema, e.table), e.commit_ts): tuple(c.name for c in e.after.columns)
                for e in events
                if e.after is not None
            },
            by_arrival=self._lake.by_arrival,
        )

    def _holds(self, problems: Sequence[Problem], history: History) -> dict[SourceName, Hold]:
        known = {name for n in history.source_tables if self._lake.asks_for(n) for name in n.folded_names}
        followed = (
            p for p in problems if self._lake.follows(p.schema, p.table) or fold_name(p.schema, p.table) in known
        )
        return holds_of(followed, history)

    # -- decode -------------------------------------------------------------------------------------------------------

    def prepare(self, pending: StoragePending) -> StoragePending:
        """Record the tables that are selected since this run, at no watermark, with the cursor where their files begin.
        A run that ends after it published some of them, or kept a late schema, then leaves them like any others. The
        record does not have tables that begin after its TSO."""
        if not (pending.late or pending.is_rewound) or pending.record is None:
            return pending
        detail = "`tables` selects it since this run; the next run reads it from its beginning."
        hold = Hold(TableState.WAITING, Note(NoteCode.NOT_SELECTED, detail))
        ranges, places = pending.commit_ranges, pending.plan.locations
        begun = [i for i in sorted(pending.late) if ranges[i].source_table.first_event_ts <= pending.record.tso]
        new = [table_record(ranges[i], hold, None, places[i], None, ()) for i in begun]
        record = replace(
            pending.record,
            recorded_at=now(),
            run_id=pending.run_id,
            complete=False,
            cursor=pending.cursor.to_json(),
            tables=(*(t for t in pending.record.tables if t.source_table not in pending.late), *new),
        )
        self._lake.control.record(record)
        return replace(pending, plan=pending.plan.with_record(record))

    def batch(self, pending: StoragePending, tables: dict[str, Table]) -> StorageBatch:
        """The files that are pending, in tasks of about equal bytes."""
        return StorageBatch(self._lake, pending, self._plan(pending, tables), tables)

    def _plan(self, pending: StoragePending, tables: dict[str, Table]) -> FilePlans:
        progress = {source_table_id: progress_of(table) for source_table_id, table in tables.items()}
        beyond = {name for i in pending.beyond for name in pending.commit_ranges[i].source_table.folded_names}
        seen = {f.path for f in pending.scan.data if fold_name(f.schema, f.table) not in beyond} & pending.scan.seen
        return FilePlans(
            files=pending.scan.data,
            history=pending.history,
            commit_ranges=pending.commit_ranges,
            progress=progress,
            cursor=pending.cursor,
            by_arrival=self._lake.by_arrival,
            follows=self._lake.follows,
            schema_columns=pending.columns,
            seen=seen,
        )

    # -- rebuild ------------------------------------------------------------------------------------------------------

    def cursor_with(self, kept: str, made: str, source_table: SourceTable, history: History) -> str:
        """The cursor `kept`, with what the other run read of the folders that belong to this table alone."""
        others = {name for n in history.source_tables if n.id != source_table.id for name in n.folded_names}
        cursor, fresh = Cursor.from_json(kept), Cursor.from_json(made)
        own = {
            folder: state
            for folder, state in fresh.tables.items()
            if others.isdisjoint(fold_name(*name) for name in ((state.schema, state.table), *state.renamed.values()))
            and fold_name(state.schema, state.table) in source_table.folded_names
        }
        return replace(cursor, tables={**cursor.tables, **own}).to_json()
