"""What a run does with each file that the scan offers: read it, leave it for a later run, or be done with it unread.

A file is done with unread only where none of its rows can be missing: nobody asked for its table, or an earlier run has
read it and the table has its rows. A file that no run has read may hold late rows, whatever its table's watermark is.
It is left where its table is held. Which tables a file may hold rows of follows from the history.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from ticdc_assets.pipeline import arrivals
from ticdc_assets.pipeline.interval import Interval, is_held, may_have_rows
from ticdc_assets.pipeline.task import TaskFile
from ticdc_assets.schema.lineage import History, Slot, SourceName, fold_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from ticdc_assets.sources.storage_cursor import Cursor
    from ticdc_assets.sources.storage_paths import DataFile
    from ticdc_assets.tables.progress import Files, Progress


_Key = TypeVar("_Key")


class Fate(StrEnum):
    """What becomes of a file in this run; UNKNOWN where no schema tells whose rows it holds."""

    READ = "read"
    LEFT = "left"
    DONE = "done"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Plan:
    """The fate of every offered file. `progress` is what each changelog says of itself; a new lineage has none.

    `told` gives the columns that the schema file of a name's version lists. `seen` are the paths of the files that an
    earlier run has read, in part.
    """

    files: Sequence[DataFile]
    history: History
    intervals: Mapping[str, Interval]
    progress: Mapping[str, Progress]
    cursor: Cursor
    by_arrival: bool
    follows: Callable[[str, str], bool]
    told: Mapping[tuple[SourceName, int], tuple[str, ...]] = field(default_factory=dict)
    seen: Collection[str] = frozenset()

    @cached_property
    def timelines(self) -> dict[SourceName, tuple[Slot, ...]]:
        return self.history.timelines()

    @cached_property
    def open(self) -> set[str]:
        """The lineages that rows may be published of."""
        asked = (i for i, interval in self.intervals.items() if not is_held(interval) and not interval.is_spent)
        return {i for i in asked if i in self.progress}

    @cached_property
    def held(self) -> dict[str, int]:
        """The lineages whose rows are left for a later run, from which TSO on."""
        left = {i: n.low for i, n in self.intervals.items() if not n.is_spent}
        return {i: low for i, low in left.items() if i not in self.open}

    @cached_property
    def fates(self) -> dict[str, Fate]:
        """By path."""
        return {file.path: self._fate(file) for file in self.files}

    def lineages_of(self, file: DataFile) -> set[str]:
        """The lineages that the file may hold rows of."""
        if self.by_arrival:
            found = arrivals.lineage_of(self.timelines, file)
            return {found} if found else set()
        return self._bearers.get(fold_name(file.schema, file.table), set())

    def awaiting(self, file: DataFile) -> set[str]:
        """Those of the asked-for tables that may not have all rows of the file yet."""
        asked = self.lineages_of(file) & self.intervals.keys()
        if self.by_arrival:
            return {i for i in asked if not self._has(i, file)}
        name = fold_name(file.schema, file.table)
        return {i for i in asked if may_have_rows(self.intervals[i], name)}

    def concerned(self, file: DataFile) -> set[str]:
        """Those of the asked-for tables that lack rows of the file, or may: of one that no run has read before, all
        that ever bore its name."""
        if self.by_arrival or file.path in self.seen:
            return self.awaiting(file)
        asked = self.lineages_of(file) & self.intervals.keys()
        return {i for i in asked if not self.intervals[i].is_spent}

    def held_by(self, file: DataFile) -> set[str]:
        """The tables that cannot go on while the file cannot be read: those it is expected to have rows of."""
        return self.awaiting(file) or self.concerned(file)

    def _has(self, lineage_id: str, file: DataFile) -> bool:
        """Whether the table, by arrival, has the file or is to go without."""
        interval = self.intervals[lineage_id]
        if interval.is_spent or (interval.is_over and self._is_beyond_stop(lineage_id, file)):
            return True
        return lineage_id in self.progress and arrivals.has(self.progress[lineage_id], file)

    @cached_property
    def _bearers(self) -> dict[SourceName, set[str]]:
        """Whoever bore a name."""
        found: dict[SourceName, set[str]] = {}
        for lineage in self.history.lineages:
            for tenure in lineage.tenures:
                found.setdefault(fold_name(tenure.schema, tenure.table), set()).add(lineage.id)
        return found

    def _fate(self, file: DataFile) -> Fate:
        lineages = self.lineages_of(file)
        if not lineages:
            return Fate.UNKNOWN if self.follows(file.schema, file.table) else Fate.DONE
        concerned = self.concerned(file)
        if not concerned:
            return Fate.DONE
        readable = {i for i in concerned & self.open if not (self.by_arrival and self._is_beyond_stop(i, file))}
        return Fate.READ if readable else Fate.LEFT

    def _is_beyond_stop(self, lineage_id: str, file: DataFile) -> bool:
        """Whether the file's folder begins behind the statement that stops the table."""
        stop = self.intervals[lineage_id].lineage.stop
        return stop is not None and file.version >= stop.ts

    # -- what is read -------------------------------------------------------------------------------------------------

    @cached_property
    def read(self) -> list[DataFile]:
        """The files to read, in order of consumption by name."""
        wanted = [file for file in self.files if self.fates[file.path] is Fate.READ]
        return sorted(wanted, key=lambda file: (fold_name(file.schema, file.table), file.order))

    def task_files(self) -> list[TaskFile]:
        """The files to read with their ordinals: per run where rows have commit_ts, else over the table's life."""
        ordinals = self._ordinals()
        return [
            TaskFile(
                f.path, f.size, name, f.schema, f.table, f.version, ordinals[f.path],
                self._told_columns(name, f), f.path in self.seen,
            )
            for f in self.read
            for name in [fold_name(f.schema, f.table)]
        ]  # fmt: skip

    def _told_columns(self, name: SourceName, file: DataFile) -> tuple[str, ...]:
        beyond = any(self._is_beyond_stop(i, file) for i in self.concerned(file))
        return self.told.get((name, file.version), ()) if beyond else ()

    def consumed(self) -> dict[str, Files]:
        """By lineage, what its next snapshot says of the files it holds; nothing where rows have commit_ts."""
        if not self.by_arrival:
            return {}
        return {
            lineage_id: arrivals.files_with(self.progress[lineage_id], files, self.cursor)
            for lineage_id, files in self._by_lineage().items()
        }

    def _ordinals(self) -> dict[str, int]:
        ordinals: dict[str, int] = {}
        if self.by_arrival:
            for lineage_id, files in self._by_lineage().items():
                ordinals |= arrivals.numbered(files, arrivals.next_ordinal(self.progress[lineage_id]))
            return ordinals
        for files in _grouped(self.read, lambda file: fold_name(file.schema, file.table)).values():
            ordinals |= arrivals.numbered(files, 0)
        return ordinals

    def _by_lineage(self) -> dict[str, list[DataFile]]:
        return _grouped(self.read, lambda file: next(iter(self.lineages_of(file))))


def _grouped(files: Iterable[DataFile], key: Callable[[DataFile], _Key]) -> dict[_Key, list[DataFile]]:
    groups: dict[_Key, list[DataFile]] = {}
    for file in files:
        groups.setdefault(key(file), []).append(file)
    return groups
