"""Decides for each scanned file: read it, leave it for a later run, or pass it unread.

A file is passed unread only where none of its rows can be missing: its table is not selected, or an earlier run has
read it and the table has its rows. A file that no run has read may hold late rows, whatever its table's watermark. It
is left where its table is held. The history gives the tables whose rows a file may hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from ticdc_assets.changes.typed import next_position
from ticdc_assets.pipeline.commit_range import CommitRange, is_held, may_have_rows
from ticdc_assets.pipeline.tasks import TaskFile
from ticdc_assets.schema.history.source_table import History, SchemaPeriod, SourceName, Timeline, fold_name
from ticdc_assets.sources.storage.paths import SourceFile, path_below

if TYPE_CHECKING:
    from ticdc_assets.sources.storage.cursor import Cursor
    from ticdc_assets.tables.progress import Files, Progress


_Key = TypeVar("_Key")


class FilePlan(StrEnum):
    """What a run does with a file; UNKNOWN where its table has no schema."""

    READ = "read"
    LEFT = "left"
    DONE = "done"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class FilePlans:
    """The plan of every scanned file. `progress` is that of each changelog; a new source table has none.

    `schema_columns` gives the columns in the schema file of a name's version. `seen` are the paths of the files of
    which an earlier run has read a part.
    """

    files: Sequence[SourceFile]
    history: History
    commit_ranges: Mapping[str, CommitRange]
    progress: Mapping[str, Progress]
    cursor: Cursor
    by_arrival: bool
    follows: Callable[[str, str], bool]
    schema_columns: Mapping[tuple[SourceName, int], tuple[str, ...]] = field(default_factory=dict)
    seen: Collection[str] = frozenset()

    @cached_property
    def timelines(self) -> dict[SourceName, Timeline]:
        return self.history.timelines()

    @cached_property
    def open(self) -> set[str]:
        """The source tables whose rows may be published."""
        asked = (
            i
            for i, commit_range in self.commit_ranges.items()
            if not is_held(commit_range) and not commit_range.is_exhausted
        )
        return {i for i in asked if i in self.progress}

    @cached_property
    def held(self) -> dict[str, int]:
        """The source tables whose rows are left for a later run, with the TSO above which they are."""
        left = {i: n.low for i, n in self.commit_ranges.items() if not n.is_exhausted}
        return {i: low for i, low in left.items() if i not in self.open}

    @cached_property
    def file_plans(self) -> dict[str, FilePlan]:
        """The plan of each scanned file, by path."""
        return {file.path: self._file_plan(file) for file in self.files}

    def source_tables_of(self, file: SourceFile) -> set[str]:
        """The source tables whose rows the file may hold."""
        if self.by_arrival:
            found = source_table_of_file(self.timelines, file)
            return {found} if found else set()
        return self._bearers.get(fold_name(file.schema, file.table), set())

    def awaiting(self, file: SourceFile) -> set[str]:
        """The selected tables that may not have all rows of the file yet."""
        asked = self.source_tables_of(file) & self.commit_ranges.keys()
        if self.by_arrival:
            return {i for i in asked if not self._has(i, file)}
        name = fold_name(file.schema, file.table)
        return {i for i in asked if may_have_rows(self.commit_ranges[i], name)}

    def concerned(self, file: SourceFile) -> set[str]:
        """The selected tables that lack rows of the file, or may lack them: of a file that no run has read, all tables
        that ever had its name."""
        if self.by_arrival or file.path in self.seen:
            return self.awaiting(file)
        asked = self.source_tables_of(file) & self.commit_ranges.keys()
        return {i for i in asked if not self.commit_ranges[i].is_exhausted}

    def held_by(self, file: SourceFile) -> set[str]:
        """The tables that cannot advance while the file cannot be read: those expected to have rows in it."""
        return self.awaiting(file) or self.concerned(file)

    def _has(self, source_table_id: str, file: SourceFile) -> bool:
        """Whether the table, by arrival, has the file or does not need it."""
        commit_range = self.commit_ranges[source_table_id]
        if commit_range.is_exhausted or (commit_range.is_over and self._is_beyond_stop(source_table_id, file)):
            return True
        return source_table_id in self.progress and has_file(self.progress[source_table_id], file)

    @cached_property
    def _bearers(self) -> dict[SourceName, set[str]]:
        """By name, the source tables that ever had it."""
        found: dict[SourceName, set[str]] = {}
        for source_table in self.history.source_tables:
            for name in source_table.folded_names:
                found.setdefault(name, set()).add(source_table.id)
        return found

    def _file_plan(self, file: SourceFile) -> FilePlan:
        source_tables = self.source_tables_of(file)
        if not source_tables:
            return FilePlan.UNKNOWN if self.follows(file.schema, file.table) else FilePlan.DONE
        concerned = self.concerned(file)
        if not concerned:
            return FilePlan.DONE
        readable = {i for i in concerned & self.open if not (self.by_arrival and self._is_beyond_stop(i, file))}
        return FilePlan.READ if readable else FilePlan.LEFT

    def _is_beyond_stop(self, source_table_id: str, file: SourceFile) -> bool:
        """Whether the file's folder begins after the statement that stops the table."""
        stop = self.commit_ranges[source_table_id].source_table.stop
        return stop is not None and file.version >= stop.ts

    # -- what is read -------------------------------------------------------------------------------------------------

    @cached_property
    def read(self) -> list[SourceFile]:
        """The files to read, in order of consumption by name."""
        wanted = [file for file in self.files if self.file_plans[file.path] is FilePlan.READ]
        return sorted(wanted, key=lambda file: (fold_name(file.schema, file.table), file.order))

    def task_files(self) -> list[TaskFile]:
        """The files to read with their ordinals: counted per run where rows have commit_ts, else over the table's
        life."""
        ordinals = self._ordinals()
        return [
            TaskFile(
                f.path, f.size, name, f.schema, f.table, f.version, ordinals[f.path],
                self._listed_columns(name, f), f.path in self.seen,
            )
            for f in self.read
            for name in [fold_name(f.schema, f.table)]
        ]  # fmt: skip

    def _listed_columns(self, name: SourceName, file: SourceFile) -> tuple[str, ...]:
        """The columns of the file where no version of its tables has them: it begins after a statement that stops its
        table, or before the copy of a table, whose earlier versions are not known."""
        asked = self.source_tables_of(file) & self.commit_ranges.keys()
        is_unknown = any(self._is_beyond_stop(i, file) for i in self.concerned(file)) or any(
            self.commit_ranges[i].source_table.copied_ts > file.version for i in asked
        )
        return self.schema_columns.get((name, file.version), ()) if is_unknown else ()

    def consumed(self) -> dict[str, Files]:
        """By source table, the files for its next snapshot; empty where rows have commit_ts."""
        if not self.by_arrival:
            return {}
        return {
            source_table_id: files_with(self.progress[source_table_id], files, self.cursor)
            for source_table_id, files in self._by_source_table().items()
        }

    def _ordinals(self) -> dict[str, int]:
        ordinals: dict[str, int] = {}
        if self.by_arrival:
            for source_table_id, files in self._by_source_table().items():
                ordinals |= ordinals_by_path(files, next_ordinal(self.progress[source_table_id]))
            return ordinals
        for files in _grouped(self.read, lambda file: fold_name(file.schema, file.table)).values():
            ordinals |= ordinals_by_path(files, 0)
        return ordinals

    def _by_source_table(self) -> dict[str, list[SourceFile]]:
        return _grouped(self.read, lambda file: next(iter(self.source_tables_of(file))))


def _grouped(files: Iterable[SourceFile], key: Callable[[SourceFile], _Key]) -> dict[_Key, list[SourceFile]]:
    groups: dict[_Key, list[SourceFile]] = {}
    for file in files:
        groups.setdefault(key(file), []).append(file)
    return groups


# -- streams without commit_ts -----------------------------------------------------------------------------------------
#
# A table's progress is then by file, and its rows are ordered by arrival. The recorded cursor shows which files all
# tables have. A run that ended before it recorded has published more files for some table: the table's newest snapshot
# names them (`Progress.files`), so that they are neither lost nor read twice.


def source_table_of_file(timelines: Mapping[SourceName, Timeline], file: SourceFile) -> str | None:
    """The source table of a file's rows: the one that had its name at its folder's version."""
    reached = [s for s in timelines.get(fold_name(file.schema, file.table), ()) if s.after_ts <= file.version]
    return reached[-1].source_table_id if reached and isinstance(reached[-1], SchemaPeriod) else None


def series_of(file: SourceFile) -> str:
    """The name of the sequence of a file's number: table folder, version, partition folder, dispatcher."""
    partition = "" if file.partition_id is None else str(file.partition_id)
    data_folder = path_below(partition, file.date or "")
    parent = file.path.rpartition("/")[0]
    folder = (parent.removesuffix(f"/{data_folder}") if data_folder else parent).rpartition("/")[0]
    return f"{folder}//{file.version}//{data_folder}//{file.dispatcher or ''}"  # no path has two slashes in a row


def has_file(progress: Progress, file: SourceFile) -> bool:
    """Whether the table has the file."""
    return dict(progress.files).get(series_of(file), 0) >= file.number


def files_with(progress: Progress, read: Iterable[SourceFile], cursor: Cursor) -> Files:
    """The files for the table's next snapshot: those that it reads now, and those that the cursor has not passed."""
    last = {series: number for series, number in progress.files if not _is_passed(cursor, series, number)}
    for file in read:
        series = series_of(file)
        last[series] = max(last.get(series, 0), file.number)
    return tuple(sorted(last.items()))


def next_ordinal(progress: Progress) -> int:
    """The ordinal of the table's next file: above that of every file in the changelog."""
    return progress.position // next_position(1) + 1 if progress.position >= 0 else 0


def ordinals_by_path(files: Sequence[SourceFile], first: int) -> dict[str, int]:
    """By path, the ordinals of a table's files in order of consumption, under all its names."""
    return {file.path: first + n for n, file in enumerate(sorted(files, key=lambda file: file.order))}


def _is_passed(cursor: Cursor, series: str, number: int) -> bool:
    folder, version, data_folder, dispatcher = series.split("//")
    state = cursor.tables.get(folder)
    if state is None:
        return False
    if int(version) < state.closed_below:
        return True
    opened = state.open.get(int(version))
    if opened is None:
        return False
    partition, _, date = data_folder.rpartition("/")
    if partition in opened.over and date in opened.over[partition]:
        return True
    done = opened.done.get((data_folder, dispatcher or None))
    return done is not None and done.number >= number
