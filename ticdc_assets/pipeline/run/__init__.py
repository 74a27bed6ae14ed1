"""One run of a changefeed: scan its source, decode what is pending, publish the changelogs, record.

`scan` is cheap and needs no JVM: it shows whether anything is pending. `publish_changelogs` decodes and publishes, and
writes a record with the source's cursor. The mirrors follow in `mirror.run`, from the record alone. A run may end
anywhere: each table's progress is in its own snapshots, and the next run continues from there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.advice import Advice
from ticdc_assets.errors import ConfigError, StaleRunError
from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.changelog.publish import Publication, Published, late_rows, remove_parts
from ticdc_assets.pipeline.changelog.tables import changelogs_to_write
from ticdc_assets.pipeline.commit_range import Hold, TableState
from ticdc_assets.pipeline.late_statements import set_replaced_aside
from ticdc_assets.pipeline.quarantine import with_quarantine
from ticdc_assets.pipeline.record import ChangelogReport, Findings, says_the_same, table_record
from ticdc_assets.pipeline.run.mostly_bad import require_mostly_sound
from ticdc_assets.pipeline.set_back import require_control_tables
from ticdc_assets.pipeline.source import ChangeSource, Pending, SourceBatch
from ticdc_assets.pipeline.sources import source_of
from ticdc_assets.plurals import counted
from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord
from ticdc_assets.tso import now
from ticdc_assets.work_progress import OnProgress, no_progress

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.tasks import TaskReport
    from ticdc_assets.schema.history.source_table import History
    from ticdc_assets.spark import Workers

READS_MAX: Final = 11
"""How often one run reads the same records because their rows add columns. Tables whose rows add more are held."""

NOT_SELECTED: Final = Hold(
    TableState.WAITING, Note(NoteCode.NOT_SELECTED, "It was not selected in the last run.", (Advice.RUN_ALL,))
)


def run_of(lake: Lake, until: int | None = None) -> ChangelogRun:
    """A run of the changefeed, up to the TSO `until` where given. Raises the ConfigError of `source_of`."""
    return ChangelogRun(lake, source_of(lake, until))


class ChangelogRun:
    """Advances the changelogs of one changefeed to what its source has."""

    def __init__(self, lake: Lake, source: ChangeSource[Any]) -> None:
        self._lake = lake
        self.source = source

    def scan(self) -> Pending:
        """What is pending. Needs no JVM and writes nothing. Raises SetBackError where a control table was set back."""
        require_control_tables(self._lake)
        pending: Pending = self.source.scan()
        return pending

    def publish_changelogs(
        self,
        pending: Pending,
        workers: Workers,
        on_progress: OnProgress = no_progress,
        only: Collection[str] | None = None,
    ) -> ChangelogReport:
        """Decode what is pending, append it to every changelog, and write a record with the cursor.

        Args:
            only: the source tables to advance, by id. All others wait, and the cursor stays before their rows.

        Raises:
            StaleRunError: another run was first.
        """
        try:
            return self._publish_changelogs(pending, workers, on_progress, only)
        except ConfigError as error:
            newest = self._lake.control.newest()
            if newest is None or newest == pending.record or newest.run_id == pending.run_id:
                raise
            advice = "Another run recorded first, and may have renamed tables. Run again to go on from there."
            raise StaleRunError(error.where, "the tables that this run was planned with", "others", advice) from None

    def _publish_changelogs(
        self, pending: Pending, workers: Workers, on_progress: OnProgress, only: Collection[str] | None
    ) -> ChangelogReport:
        hit(Failpoint.SCANNED)
        self._lake.control.claim()
        decoded = self._decoded(_selected(pending, only), workers, on_progress)
        for _ in range(READS_MAX - 1):
            if not self._keep_new_schemas(decoded):
                break
            pending = replace(_selected(self.scan(), only), run_id=decoded.pending.run_id)
            decoded = self._decoded(pending, workers, on_progress)
        return self._published(decoded, workers, on_progress)

    # -- decode -------------------------------------------------------------------------------------------------------

    def _decoded(self, pending: Pending, workers: Workers, on_progress: OnProgress) -> _Decoded:
        """The workers' answers; nothing of them is published yet."""
        control = self._lake.control
        pending = self.source.prepare(pending)
        control.replace_ddl_events(pending.changed_events)
        control.keep_ddl_events(pending.new_events)
        hit(Failpoint.SCHEMAS_KEPT)
        plan, tables = changelogs_to_write(self._lake, pending.plan)
        hit(Failpoint.CHANGELOGS_MADE)
        pending = replace(pending, plan=plan)
        batch = self.source.batch(pending, tables)
        on_progress(f"decoding {batch.amount} in {counted(len(batch.tasks), 'task')}")
        reports = workers.map(batch.decode, batch.tasks)
        hit(Failpoint.DECODED)
        return _Decoded(pending, tables, batch, reports)

    def _keep_new_schemas(self, decoded: _Decoded) -> bool:
        """Keep the columns that rows add to the known ones. False where there are none."""
        new = decoded.batch.new_schemas(decoded.reports)
        if not new:
            return False
        self._lake.control.keep_ddl_events(new)
        decoded.remove_parts()
        return True

    # -- publish ------------------------------------------------------------------------------------------------------

    def _published(self, decoded: _Decoded, workers: Workers, on_progress: OnProgress) -> ChangelogReport:
        pending, tables, batch, reports = decoded.pending, decoded.tables, decoded.batch, decoded.reports
        held = batch.holds(reports)
        # Before any commit: a record is then in a changelog or in quarantine, wherever a run ends.
        bad = batch.bad_records(reports, held)
        try:
            require_mostly_sound(self._lake, pending, bad, reports, batch.records)
        except ConfigError:
            decoded.remove_parts()
            raise
        self._lake.control.quarantine(bad)
        hit(Failpoint.QUARANTINED)
        on_progress("publishing changelogs")
        publication = Publication(
            lake=self._lake,
            run_id=pending.run_id,
            plan=pending.plan,
            tables=tables,
            workers=workers,
            consumed=batch.consumed(tables),
            deliveries_are_known=batch.deliveries_are_known,
            again=pending.again,
        )
        published, broken = publication.publish(reports, held, on_progress)
        held |= broken
        record = self._record(decoded, held, published)
        return ChangelogReport(
            run_id=pending.run_id,
            high=pending.high,
            rows_by_op={i: changelog.rows_by_op for i, changelog in published.items() if changelog.rows_by_op},
            late_rows=late_rows(published, tables, pending.plan.recorded),
            findings=_findings(pending.history, reports, published),
            quarantined=len(bad),
            records_read=batch.records,
            record=record,
        )

    # -- record -------------------------------------------------------------------------------------------------------

    def _record(self, decoded: _Decoded, held: dict[str, Hold], published: dict[str, Published]) -> WatermarkRecord:
        plan, batch, reports = decoded.pending.plan, decoded.batch, decoded.reports
        tables = batch.with_unknown_tables(self._table_records(decoded, held, published), reports)
        record = WatermarkRecord(
            recorded_at=now(),
            run_id=decoded.pending.run_id,
            tso=decoded.pending.high,
            complete=False,
            cursor=batch.cursor(reports, held),
            tables=with_quarantine(self._lake, tables, plan.history),
        )
        newest = self._lake.control.newest()
        if newest is not None and (newest != plan.record or says_the_same(record, newest)):
            return newest  # nothing is new, or another run has recorded meanwhile and may be further
        hit(Failpoint.BEFORE_CURSOR)
        self._lake.control.record(record)
        hit(Failpoint.AFTER_CURSOR)
        return record

    def _table_records(
        self, decoded: _Decoded, held: dict[str, Hold], published: dict[str, Published]
    ) -> list[TableRecord]:
        plan, records = decoded.pending.plan, []
        for source_table_id, commit_range in plan.commit_ranges.items():
            old, hold = plan.recorded.get(source_table_id), held.get(source_table_id)
            gained = published.get(source_table_id)
            table = gained.table if gained is not None else decoded.tables.get(source_table_id)
            warnings = decoded.batch.warnings(commit_range.source_table, old)
            records.append(table_record(commit_range, hold, old, plan.locations[source_table_id], table, warnings))
        return [*records, *set_replaced_aside(self._lake, plan)]


@dataclass(frozen=True, slots=True)
class _Decoded:
    """What a run has read: the pending input, the changelogs by source table, and the workers' answers."""

    pending: Pending
    tables: dict[str, Table]
    batch: SourceBatch
    reports: Sequence[TaskReport]

    def remove_parts(self) -> None:
        """Delete the files of the answers: nothing of them is published."""
        remove_parts(self.tables, (part for report in self.reports for part in report.parts))


def _selected(pending: Pending, only: Collection[str] | None) -> Pending:
    """The same with all tables held that are not selected."""
    if only is None:
        return pending
    ranges = pending.commit_ranges
    return pending.with_held({i: NOT_SELECTED for i, n in ranges.items() if i not in only and n.hold is None})


def _findings(
    history: History, reports: Sequence[TaskReport], published: Mapping[str, Published]
) -> dict[str, Findings]:
    """The findings by source table. A name that several tables had counts for the last of them."""
    found: dict[str, Findings] = {i: Findings(repeats=changelog.repeats) for i, changelog in published.items()}
    for file in (file for report in reports for file in report.files):
        tables = history.ever_called(*file.name)
        source_table_id = tables[-1].id if tables else ".".join(file.name)
        count = Findings(file.repeats, file.zero_dates, file.ambiguous_times)
        found[source_table_id] = found.get(source_table_id, Findings()) + count
    return {i: count for i, count in found.items() if count != Findings()}
