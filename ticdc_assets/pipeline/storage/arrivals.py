"""Streams without commit_ts: a table's progress is by file, and its rows are ordered by arrival.

The recorded cursor shows which files all tables have. A run that ended before it recorded has published more files for
some table: the table's newest snapshot names them (`Progress.files`), so that they are neither lost nor read twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ticdc_assets.changes.typed import next_position
from ticdc_assets.schema.history.source_table import SchemaPeriod, SourceName, Timeline, fold_name
from ticdc_assets.sources.storage.paths import path_below

if TYPE_CHECKING:
    from ticdc_assets.sources.storage.cursor import Cursor
    from ticdc_assets.sources.storage.paths import SourceFile
    from ticdc_assets.tables.progress import Files, Progress


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


def has(progress: Progress, file: SourceFile) -> bool:
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
