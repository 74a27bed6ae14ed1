"""The result of a scan of a bucket."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ticdc_assets.notes import LAKE_FAULTS
from ticdc_assets.pipeline.commit_range import CommitRange, TableState
from ticdc_assets.pipeline.late_statements import is_unrecorded
from ticdc_assets.pipeline.record import unknown_id
from ticdc_assets.pipeline.source import Pending
from ticdc_assets.schema.history.source_table import SourceName, fold_name
from ticdc_assets.tables.control.records import TableRecord

if TYPE_CHECKING:
    from ticdc_assets.sources.storage.cursor import Cursor
    from ticdc_assets.sources.storage.paths import SourceFile
    from ticdc_assets.sources.storage.scan_result import Problem, Scan


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePending(Pending):
    """The result of a scan of a bucket.

    `columns` gives the columns in each schema file, by table and version. `by_arrival` is true if progress is by file,
    not by TSO. `late` are the tables that are selected since this run: their files are read from the beginning.
    `is_rewound` is true if the cursor is before versions that were finished.
    """

    cursor: Cursor
    scan: Scan
    columns: dict[tuple[SourceName, int], tuple[str, ...]] = field(default_factory=dict)
    by_arrival: bool = False
    late: frozenset[str] = frozenset()
    is_rewound: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether a run would change nothing. Seen files with rows above the TSO wait for a later TSO; unseen files may
        hold late rows."""
        known = self.record.tso if self.record else 0
        if self.new_events or self.changed_events or self.high > known:
            return False
        if self.again or is_unrecorded(self.plan):
            return False
        if self.by_arrival and self.scan.data:
            return False
        if any(self._may_be_read(file) for file in self.scan.unseen):
            return False
        recorded = self.plan.recorded
        if any(self._is_news_of_unknown(table) for table in recorded.values()):
            return False
        return all(
            i in recorded and recorded[i].watermark >= n.high and not _is_news(recorded[i], n)
            for i, n in self.commit_ranges.items()
        )

    def _may_be_read(self, file: SourceFile) -> bool:
        """Whether the file's table is selected and advances. Late rows of a stopped table wait."""
        commit_ranges = (
            self.commit_ranges.get(source_table.id)
            for source_table in self.history.ever_called(file.schema, file.table)
        )
        return any(commit_range is not None and commit_range.hold is None for commit_range in commit_ranges)

    def _is_news_of_unknown(self, recorded: TableRecord) -> bool:
        """Whether a table without a known schema is held for another reason than the recorded one, or no longer."""
        if recorded.source_table != unknown_id(recorded.schema, recorded.table):
            return False
        name = fold_name(recorded.schema, recorded.table)
        problem = next((p for p in self.problems if fold_name(p.schema, p.table) == name), None)
        if problem is not None:
            return recorded.notes != (problem.note,)
        return not any(fold_name(file.schema, file.table) == name for file in self.scan.data)

    @property
    def checkpoint(self) -> int:
        """The TSO of `metadata`, or `until` where that is smaller; 0 without `metadata`."""
        return self.scan.checkpoint_ts or 0

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why tables are held."""
        return self.scan.problems

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about files that hold no table."""
        return self.scan.notes


def _is_news(recorded: TableRecord, commit_range: CommitRange) -> bool:
    """Whether a table is held only since this scan, for another reason than the recorded one, or no longer."""
    hold = commit_range.hold
    if recorded.state == TableState.LIVE:
        return hold is not None
    if recorded.state not in (TableState.WAITING, TableState.STOPPED) or recorded.has(*LAKE_FAULTS):
        return False
    return hold is None or hold.note not in recorded.notes
