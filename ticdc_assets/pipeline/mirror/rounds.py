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

from ticdc_assets.advice import Advice
from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.mirror.merge.plan import MergePlan, can_plan, plan
from ticdc_assets.pipeline.mirror.merge.task import MergeReport, MergeTask
from ticdc_assets.pipeline.mirror.merge.worker import merge
from ticdc_assets.pipeline.tasks import answers_of
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets.tables.mirror.writer import MirrorWriter, Segment
from ticdc_assets.tables.progress import Progress
from ticdc_assets.work_progress import Count, OnProgress, no_progress

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.spark import Workers

Answer = TypeVar("Answer")

MIRRORS_AT_ONCE: Final = 4  # commits and small statements wait for the driver; Spark shares the cores between them


@dataclass(frozen=True, slots=True)
class MirrorJob:
    """A mirror, its pending segments, and the progress that it has at the beginning."""

    writer: MirrorWriter
    source_table: SourceTable
    location: str | None
    changelog: Table
    planned: Progress
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a mirror stopped before its last segment."""

    note: Note


@dataclass(slots=True)
class _OpenMirror:
    """A mirror between two rounds: the segments that it still lacks, and the plan of the next one."""

    job: MirrorJob
    table: Table
    left: deque[Segment]
    failure: Failure | None = None
    plan: MergePlan | None = None  # None where Spark merges the segment

    def next_segment(self, lake: Lake) -> None:
        """Advance to the next segment that has rows, and plan it."""
        job = self.job
        while self.left:
            segment = self.left[0]
            self.table = job.writer.enter_version(self.table, job.source_table, segment.version, job.changelog)
            if segment.has_rows:
                self.plan = self._planned(lake, segment)
                return
            self.left.popleft()

    def _planned(self, lake: Lake, segment: Segment) -> MergePlan | None:
        if not can_plan(self.table, segment):
            return None
        live = self.job.writer.data_files(self.table)
        return plan(lake, self.job.source_table.id, self.table, self.job.changelog, segment, live, lake.cores)

    def finish_segment(self, reports: Sequence[MergeReport]) -> None:
        """Commit the workers' results for the planned segment, or let Spark merge it."""
        writer, segment = self.job.writer, self.left.popleft()
        plan = self.plan
        delta = plan.delta(reports) if plan is not None else None
        if plan is not None and delta is not None:
            self.table = writer.take(self.table, segment, plan.live, delta)
        else:
            for file in (file for report in reports for file in report.written):
                self.table.io.delete(file.uri)  # only workers that could merge
            self.table = writer.merge(self.table, self.job.changelog, segment)
        self.plan = None


def catch_up(
    lake: Lake, jobs: Iterable[MirrorJob], workers: Workers, on_progress: OnProgress = no_progress
) -> list[Table | Failure]:
    """Merge all pending segments into the mirrors of these jobs, in rounds.

    Returns:
        For each job, in their order, its mirror, or the Failure that stopped it.

    Raises:
        StaleRunError: another run has published first. Errors that are not of one table are raised too.
    """
    with ThreadPoolExecutor(MIRRORS_AT_ONCE) as pool:
        mirrors = list(pool.map(lambda job: guarded(lambda: _opened(job)), jobs))
        going = [mirror for mirror in mirrors if isinstance(mirror, _OpenMirror)]
        while going:
            list(pool.map(lambda mirror: _step(mirror, lambda: mirror.next_segment(lake)), going))
            going = [mirror for mirror in going if mirror.left and mirror.failure is None]
            tasks = [task for mirror in going if mirror.plan is not None for task in mirror.plan.tasks]
            reports = _by_source_table(_merged(workers, tasks))
            made = [reports.get(mirror.job.source_table.id, []) for mirror in going]
            list(pool.map(lambda mirror, given: _step(mirror, lambda: mirror.finish_segment(given)), going, made))
            going = [mirror for mirror in going if mirror.left and mirror.failure is None]
            on_progress(Count(len(mirrors) - len(going), len(mirrors), "mirror"))
    return [mirror if isinstance(mirror, Failure) else mirror.failure or mirror.table for mirror in mirrors]


def guarded(work: Callable[[], Answer]) -> Answer | Failure:
    """The answer of work on one mirror or history, or its Failure, whose note says what to do. Raises errors that are
    not of one table."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001  raised again where it is not of one table
        fault = of_one_table(error)
        if isinstance(error, TicdcAssetsError):
            return Failure(Note.of(NoteCode.MIRROR, fault))
        return Failure(Note(NoteCode.MIRROR, str(fault), (Advice.REBUILD_IF_IT_STAYS,)))


def _opened(job: MirrorJob) -> _OpenMirror:
    table = job.writer.open(job.source_table, job.location, job.changelog, job.planned)
    return _OpenMirror(job, table, deque(job.segments))


def _step(mirror: _OpenMirror, step: Callable[[], None]) -> None:
    done = guarded(step)
    if isinstance(done, Failure):
        mirror.failure = done


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
