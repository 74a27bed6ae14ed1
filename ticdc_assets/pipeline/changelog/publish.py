"""Publishes the workers' files: removes repeats, keeps late rows, commits each changelog once, deletes unused files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ticdc_assets.changes import layout
from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.changelog import dedup
from ticdc_assets.pipeline.changelog.dedup import RemovalTask, RepeatReport
from ticdc_assets.pipeline.changelog.late_rows import LateTask, dealt_parts, late_parts
from ticdc_assets.pipeline.commit_range import CommitRange, Hold, TableState, is_held
from ticdc_assets.pipeline.tasks import ChangelogPart, TaskReport, answers_of
from ticdc_assets.schema.history.written_history import WrittenHistory
from ticdc_assets.tables import changelog
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.iceberg.commits import COMMITS_AT_ONCE
from ticdc_assets.tables.iceberg.written_file import WrittenFile
from ticdc_assets.tables.progress import Files, Progress, field_ids_by_uid, late_rows_since, progress_of
from ticdc_assets.tables.replayed import Replayed, replay_mark
from ticdc_assets.tables.written_with import HISTORY
from ticdc_assets.work_progress import OnProgress, each_counted, no_progress

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.changes.identity import Ints
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.plan import Plan
    from ticdc_assets.spark import Workers
    from ticdc_assets.tables.control.records import TableRecord

Parts = Mapping[str, Sequence[ChangelogPart]]
"""The parts of each source table, in order of consumption."""


@dataclass(frozen=True, slots=True)
class Published:
    """What one changelog gained. `late` rows are at or below the watermark that it had before."""

    table: Table
    rows_by_op: dict[str, int]
    repeats: int
    late: int = 0


@dataclass(frozen=True, slots=True)
class Publication:
    """The changelogs of one run, and what their commits need. Maps are by source table.

    consumed: the files that a changelog has after its commit, where progress is by file.
    deliveries_are_known, by_position: what identifies equal rows of the source (see `LateTask`).
    again: the source tables that were read from their beginning; they then have all rows of the history.
    """

    lake: Lake
    run_id: str
    plan: Plan
    tables: Mapping[str, Table]
    workers: Workers
    consumed: Mapping[str, Files]
    deliveries_are_known: bool
    again: Set[str] = frozenset()
    by_position: bool = False

    def publish(
        self, reports: Iterable[TaskReport], held: Mapping[str, Hold], on_progress: OnProgress = no_progress
    ) -> tuple[dict[str, Published], dict[str, Hold]]:
        """Commit the parts of every source table that is not held. The files of held tables are deleted: a later run
        reads their records again.

        Returns:
            By source table, what its changelog gained, or its hold. An error of one table holds only that table.
        """
        parts = _by_source_table(part for report in reports for part in report.parts)
        remove_parts(self.tables, [part for source_table_id in held for part in parts.pop(source_table_id, [])])
        once, errors = self._without_repeats(parts)
        broken = {i: _held(self.tables[i], error) for i, error in errors.items()}
        remove_parts(self.tables, [part for source_table_id in broken for part in once.pop(source_table_id).parts])

        def commit(source_table_id: str) -> tuple[str, Published | Hold]:
            try:
                return source_table_id, self._committed(source_table_id, once[source_table_id])
            except TicdcAssetsError:
                raise
            except Exception as error:  # noqa: BLE001  raised again where it is not of one table
                # Its files stay, since the commit may have succeeded. Maintenance removes files that no table names.
                return source_table_id, _held(self.tables[source_table_id], error)

        with ThreadPoolExecutor(COMMITS_AT_ONCE) as pool:
            answers = pool.map(commit, once)
            done = dict(next(answers) for _ in each_counted([*once], "table", on_progress))
        published = {i: found for i, found in done.items() if isinstance(found, Published)}
        broken |= {i: found for i, found in done.items() if isinstance(found, Hold)}
        gained = {source_table_id for source_table_id in published if once[source_table_id].parts}
        self._note_histories(self.again - gained - broken.keys() - held.keys())
        return published, broken

    def _key_names(self, source_table_id: str) -> dict[int, tuple[str, ...]]:
        return key_names(self.plan.commit_ranges[source_table_id], self.tables[source_table_id])

    def _committed(self, source_table_id: str, report: RepeatReport) -> Published:
        """The changelog after the commit of these parts."""
        table, late = self.tables[source_table_id], _late(report.parts)
        commit_range = self.plan.commit_ranges[source_table_id]
        if report.parts:
            mirror = load_or_none(self.lake.catalog, self.plan.locations[source_table_id].mirror) if late else None
            replayed = _replayed(self.run_id, late) if late else None
            mark = replay_mark(commit_range.source_table, table, mirror, replayed) if replayed else {}
            noted = _noted(commit_range) if source_table_id in self.again else {}
            table = self._commit(commit_range, table, report.parts, mark | noted)
        return Published(table, _counts(report.parts), report.repeats, sum(part.rows for part in late))

    def _commit(
        self,
        commit_range: CommitRange,
        table: Table,
        parts: Sequence[ChangelogPart],
        properties: Mapping[str, str],
    ) -> Table:
        parent = progress_of(table)
        by_arrival = self.lake.by_arrival
        position = max((part.max_seq for part in parts), default=parent.position) if by_arrival else parent.position
        consumed = self.consumed.get(commit_range.source_table.id, ())
        high = max(commit_range.high, parent.watermark)
        progress = Progress(high, max(position, parent.position), self.run_id, consumed)
        files = [WrittenFile(part.uri, part.size_bytes, part.footer) for part in parts]
        late_rows = sum(part.rows for part in _late(parts))
        return changelog.publish(table, self.lake.changefeed.name, files, parent, progress, properties, late_rows)

    def _note_histories(self, source_table_ids: Set[str]) -> None:
        """Set the history property of changelogs that were read again and gained no rows."""
        for source_table_id in source_table_ids:
            commit_range = self.plan.commit_ranges[source_table_id]
            if source_table_id in self.tables and not is_held(commit_range):
                changelog.note_history(self.tables[source_table_id], _noted(commit_range))

    # -- each change once ---------------------------------------------------------------------------------------------

    def _without_repeats(self, parts: Parts) -> tuple[dict[str, RepeatReport], dict[str, TicdcAssetsError]]:
        """Remove what is there twice, and delete the files that others replace.

        Returns:
            The report of each source table, and the errors of those that cannot be compared. The parts of these are all
            in their report.
        """
        done = {i: RepeatReport(tuple(found), 0, ()) for i, found in parts.items()}
        repeats, errors = self._repeats(parts)
        removals = {i: RemovalTask(tuple(parts[i]), found, self.lake.io_properties) for i, found in repeats.items()}
        reports = answers_of(self.workers, dedup.remove_repeats, [*removals.values()])
        for source_table_id, report in zip(removals, reports, strict=True):
            self._take(source_table_id, (), report, done, errors)
        late = {i: found for i, report in done.items() if i not in errors and (found := _late(report.parts))}
        tasks = [task for i, found in late.items() for task in self._late_tasks(i, found)]
        for task, report in zip(tasks, answers_of(self.workers, late_parts, tasks), strict=True):
            source_table_id = task.parts[0].source_table_id
            judged = {part.uri for part in task.parts}
            others = [part for part in done[source_table_id].parts if part.uri not in judged]
            self._take(source_table_id, others, report, done, errors)
        return done, errors

    def _repeats(self, parts: Parts) -> tuple[dict[str, dict[str, Ints]], dict[str, TicdcAssetsError]]:
        """The numbers of the repeats by source table and part URI, of those that have some, and the errors."""
        tasks = [
            (i, task)
            for i, found in parts.items()
            if dedup.overlaps(found)
            for task in dedup.repeat_tasks(found, self._key_names(i), self.lake.io_properties)
        ]
        answers = answers_of(self.workers, dedup.find_repeats, [task for _, task in tasks])
        repeats: dict[str, list[dict[str, Ints]]] = {}
        errors: dict[str, TicdcAssetsError] = {}
        for (source_table_id, _), answer in zip(tasks, answers, strict=True):
            if isinstance(answer, TicdcAssetsError):
                errors[source_table_id] = answer
            elif answer:
                repeats.setdefault(source_table_id, []).append(answer)
        return {i: dedup.joined(found) for i, found in repeats.items() if i not in errors}, errors

    def _late_tasks(self, source_table_id: str, late: Sequence[ChangelogPart]) -> list[LateTask]:
        keys, metadata = self._key_names(source_table_id), self.tables[source_table_id].metadata
        return [
            LateTask(some, keys, metadata, self.deliveries_are_known, self.lake.io_properties, self.by_position)
            for some in dealt_parts(late, keys)
        ]

    def _take(
        self,
        source_table_id: str,
        others: Iterable[ChangelogPart],
        report: RepeatReport | TicdcAssetsError,
        done: dict[str, RepeatReport],
        errors: dict[str, TicdcAssetsError],
    ) -> None:
        """Add a worker's report to those of its source table, whose `others` it is not about."""
        if isinstance(report, TicdcAssetsError):
            errors[source_table_id] = report
            return
        before = done[source_table_id]
        done[source_table_id] = RepeatReport((*others, *report.parts), before.repeats + report.repeats, ())
        for uri in report.replaced:
            self.tables[source_table_id].io.delete(uri)


def _noted(commit_range: CommitRange) -> dict[str, str]:
    return {HISTORY: WrittenHistory.of(commit_range.source_table).to_json()}


def _held(table: Table, error: Exception) -> Hold:
    return Hold(TableState.STOPPED, Note.of(NoteCode.CHANGELOG, of_one_table(error), ".".join(table.name())))


def late_rows(
    published: Mapping[str, Published], tables: Mapping[str, Table], records: Mapping[str, TableRecord]
) -> dict[str, int]:
    """By source table, the number of late rows: of this run, and of runs that ended before they could record them."""
    recorded = {i: table.changelog_snapshot_id for i, table in records.items()}
    counts = {i: late_rows_since(table, recorded.get(i)) for i, table in tables.items() if i not in published}
    for source_table_id, one in published.items():
        counts[source_table_id] = max(one.late, late_rows_since(one.table, recorded.get(source_table_id)))
    return {source_table_id: rows for source_table_id, rows in counts.items() if rows}


def _late(parts: Iterable[ChangelogPart]) -> list[ChangelogPart]:
    return [part for part in parts if part.late]


def _replayed(run_id: str, late: Sequence[ChangelogPart]) -> Replayed:
    return Replayed(run_id, min(map(_first, late)), min(part.version_ts for part in late))


def _first(part: ChangelogPart) -> int:
    """The smallest commit_ts, or position where rows have none."""
    if part.commit_ts is not None:
        return part.first_ts
    seq = part.footer.schema.names.index(layout.SEQ)
    return min(int(part.footer.row_group(n).column(seq).statistics.min) for n in range(part.footer.num_row_groups))


def caught_up(commit_ranges: Mapping[str, CommitRange], tables: Mapping[str, Table]) -> dict[str, CommitRange]:
    """The commit ranges, each from its changelog's own watermark: a run that ended before it recorded has published
    more."""
    return {i: _from(commit_range, tables.get(i)) for i, commit_range in commit_ranges.items()}


def _from(commit_range: CommitRange, table: Table | None) -> CommitRange:
    watermark = progress_of(table).watermark if table is not None else 0
    return replace(commit_range, low=max(commit_range.low, watermark), high=max(commit_range.high, watermark))


def _by_source_table(parts: Iterable[ChangelogPart]) -> dict[str, list[ChangelogPart]]:
    found: dict[str, list[ChangelogPart]] = {}
    for part in parts:
        found.setdefault(part.source_table_id, []).append(part)
    return found


def key_names(commit_range: CommitRange, table: Table) -> dict[int, tuple[str, ...]]:
    """The key columns of each version, under their names in the changelog."""
    places = field_ids_by_uid(table.properties)
    names = {uid: table.schema().find_field(ids[0]).name for uid, ids in places.items()}
    return {
        version.from_ts: tuple(
            names[c.uid] for c in version.table.stored_columns if c.name in version.table.key and c.uid in names
        )
        for version in commit_range.source_table.versions
    }


def _counts(parts: Sequence[ChangelogPart]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for part in parts:
        for op, rows in part.rows_by_op.items():
            counts[op] = counts.get(op, 0) + rows
    return counts


def remove_parts(tables: Mapping[str, Table], parts: Iterable[ChangelogPart]) -> None:
    """Delete the files of parts that no changelog names."""
    for part in parts:
        if part.source_table_id in tables:
            tables[part.source_table_id].io.delete(part.uri)
