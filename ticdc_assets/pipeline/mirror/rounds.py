"""Merges pending segments into many mirrors at once: in rounds, one segment of each mirror per round.

In a round, every mirror is first brought to the version of its next segment; then one job merges the segments of all
mirrors; then each mirror is committed. So many small tables cost one job, not one job each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.pipeline.isolation import answers_of
from ticdc_assets.pipeline.mirror.merge import MergePlan, can_plan, plan
from ticdc_assets.pipeline.mirror.merge_task import MergeReport, MergeTask
from ticdc_assets.pipeline.mirror.merge_worker import merge
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets.tables.mirror.writer import MirrorWriter, Segment
from ticdc_assets.tables.progress import Progress

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.spark import Workers

Input = TypeVar("Input")

MIRRORS_AT_ONCE: Final = 4  # commits and small statements wait for the driver; Spark shares the cores between them


@dataclass(slots=True)
class MirrorJob:
    """A mirror, its pending segments, and the progress that it has at the beginning.

    After `catch_up`, `table` is the mirror, and `error` is why it stopped before its last segment.
    """

    writer: MirrorWriter
    source_table: SourceTable
    location: str | None
    changelog: Table
    planned: Progress
    left: deque[Segment]
    table: Table | None = None
    error: str = ""
    plan: MergePlan | None = None  # of the next segment; None where Spark merges it

    def next_segment(self, lake: Lake) -> None:
        """Advance to the next segment that has rows, and plan it."""
        if self.table is None:
            self.table = self.writer.open(self.source_table, self.location, self.changelog, self.planned)
        while self.left:
            segment = self.left[0]
            self.table = self.writer.enter_version(self.table, self.source_table, segment.version, self.changelog)
            if segment.has_rows:
                self.plan = self._planned(lake, self.table, segment)
                return
            self.left.popleft()

    def _planned(self, lake: Lake, table: Table, segment: Segment) -> MergePlan | None:
        if not can_plan(table, segment):
            return None
        live = self.writer.data_files(table)
        return plan(lake, self.source_table.id, table, self.changelog, segment, live, lake.cores)

    def finish_segment(self, reports: Sequence[MergeReport]) -> None:
        """Commit the workers' results for the planned segment, or let Spark merge it."""
        assert self.table is not None
        segment = self.left.popleft()
        delta = self.plan.delta(reports) if self.plan is not None else None
        if delta is not None:
            self.table = self.writer.take(self.table, segment, delta)
        else:
            for file in (file for report in reports for file in report.written):
                self.table.io.delete(file.uri)  # of workers that were not unfit
            self.table = self.writer.merge(self.table, self.changelog, segment)
        self.plan = None


def catch_up(lake: Lake, jobs: Iterable[MirrorJob], workers: Workers) -> None:
    """Bring all mirrors to the end of their segments. An error of one table stops only its mirror; any other is raised,
    such as StaleRunError where another run was first."""
    going = list(jobs)
    with ThreadPoolExecutor(MIRRORS_AT_ONCE) as pool:
        while going:
            list(pool.map(lambda job: _guarded(job, job.next_segment, lake), going))
            going = [job for job in going if job.left and not job.error]
            tasks = [task for job in going if job.plan is not None for task in job.plan.tasks]
            reports = _by_source_table(_merged(workers, tasks))
            made = [reports.get(job.source_table.id, []) for job in going]
            list(pool.map(lambda job, reports: _guarded(job, job.finish_segment, reports), going, made))
            going = [job for job in going if job.left and not job.error]


def _merged(workers: Workers, tasks: Sequence[MergeTask]) -> list[MergeReport]:
    """The workers' reports. A segment without reports is merged by Spark, which raises the error of its mirror."""
    answers = zip(tasks, answers_of(workers, merge, tasks), strict=True)
    return [
        MergeReport(task.source_table_id, unfit=type(answer).__name__)
        if isinstance(answer, TicdcAssetsError)
        else answer
        for task, answer in answers
    ]


def _by_source_table(reports: Iterable[MergeReport]) -> dict[str, list[MergeReport]]:
    found: dict[str, list[MergeReport]] = {}
    for report in reports:
        found.setdefault(report.source_table_id, []).append(report)
    return found


def _guarded(job: MirrorJob, step: Callable[[Input], None], given: Input) -> None:
    try:
        step(given)
    except Exception as error:  # noqa: BLE001  raised again where it is not of one table
        job.error = str(of_one_table(error))
