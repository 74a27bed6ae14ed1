"""Each change once: no repeats among the parts of a run, and of parts that may be late only the rows that their
changelog lacks. Workers compare; the driver deals their tasks, for all tables in one job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.pipeline.changelog import dedup
from ticdc_assets.pipeline.changelog.dedup import RemovalTask, RepeatReport
from ticdc_assets.pipeline.changelog.late_rows import LateTask, dealt_parts, late_parts
from ticdc_assets.pipeline.isolation import answers_of
from ticdc_assets.pipeline.tasks import ChangelogPart

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.changes.identity import Ints
    from ticdc_assets.spark import Workers

Parts = Mapping[str, Sequence[ChangelogPart]]
"""The parts of each source table, in order of consumption."""


@dataclass(frozen=True, slots=True)
class Once:
    """What the comparison needs: the changelogs by source table, and the key columns by version of a source table.

    deliveries_are_known, by_position: what identifies equal rows (see `LateTask`).
    """

    tables: Mapping[str, Table]
    keys_of: Callable[[str], dict[int, tuple[str, ...]]]
    workers: Workers
    deliveries_are_known: bool
    io_properties: dict[str, str]
    by_position: bool = False

    def of(self, parts: Parts) -> tuple[dict[str, RepeatReport], dict[str, TicdcAssetsError]]:
        """Remove what is there twice, and delete the files that others replace.

        Returns:
            The report of each source table, and the errors of those that cannot be compared. The parts of these are all
            in their report.
        """
        done = {i: RepeatReport(tuple(found), 0, ()) for i, found in parts.items()}
        repeats, errors = self._repeats(parts)
        removals = {i: RemovalTask(tuple(parts[i]), found, self.io_properties) for i, found in repeats.items()}
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
            for task in dedup.repeat_tasks(found, self.keys_of(i), self.io_properties)
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
        keys, metadata = self.keys_of(source_table_id), self.tables[source_table_id].metadata
        return [
            LateTask(some, keys, metadata, self.deliveries_are_known, self.io_properties, self.by_position)
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


def _late(parts: Iterable[ChangelogPart]) -> list[ChangelogPart]:
    return [part for part in parts if part.late]
