"""Streams without commit_ts: a table's progress is by file, and its order is that of arrival.

The recorded cursor says which files all tables have. A table that was published by a run which ended before it could
record has more: its own newest snapshot names them (`Progress.files`), so that they are neither lost nor read twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ticdc_assets.changes.order import next_position
from ticdc_assets.schema.lineage import Slot, SourceName, fold_name
from ticdc_assets.sources.storage_paths import below

if TYPE_CHECKING:
    from ticdc_assets.sources.storage_cursor import Cursor
    from ticdc_assets.sources.storage_paths import DataFile
    from ticdc_assets.tables.progress import Files, Progress


def lineage_of(timelines: Mapping[SourceName, tuple[Slot, ...]], file: DataFile) -> str | None:
    """The one lineage whose rows a file holds: the one that bore its name at its folder's version."""
    reached = [s for s in timelines.get(fold_name(file.schema, file.table), ()) if s.after_ts <= file.version]
    return reached[-1].lineage_id if reached else None


def series_of(file: DataFile) -> str:
    """The name of the sequence that a file's number counts in: table folder, version, place, dispatcher."""
    partition = "" if file.partition_id is None else str(file.partition_id)
    spot = below(partition, file.date or "")
    parent = file.path.rpartition("/")[0]
    folder = (parent.removesuffix(f"/{spot}") if spot else parent).rpartition("/")[0]
    return f"{folder}//{file.version}//{spot}//{file.dispatcher or ''}"  # no path has two slashes in a row


def has(progress: Progress, file: DataFile) -> bool:
    """Whether the table has the file already."""
    return dict(progress.files).get(series_of(file), 0) >= file.number


def files_with(progress: Progress, read: Iterable[DataFile], cursor: Cursor) -> Files:
    """What the table's next snapshot says of its files: those it reads now, and those that no cursor has passed."""
    last = {series: number for series, number in progress.files if not _is_passed(cursor, series, number)}
    for file in read:
        series = series_of(file)
        last[series] = max(last.get(series, 0), file.number)
    return tuple(sorted(last.items()))


def next_ordinal(progress: Progress) -> int:
    """The ordinal of the table's next file: beyond every file whose rows are in the changelog."""
    return progress.position // next_position(1) + 1 if progress.position >= 0 else 0


def numbered(files: Sequence[DataFile], first: int) -> dict[str, int]:
    """By path, the ordinals of a table's files in the order in which they are consumed, whatever it was called."""
    return {file.path: first + n for n, file in enumerate(sorted(files, key=lambda file: file.order))}


def _is_passed(cursor: Cursor, series: str, number: int) -> bool:
    folder, version, spot, dispatcher = series.split("//")
    state = cursor.tables.get(folder)
    if state is None:
        return False
    if int(version) < state.closed_below:
        return True
    opened = state.open.get(int(version))
    if opened is None:
        return False
    partition, _, date = spot.rpartition("/")
    if partition in opened.over and date <= opened.over[partition]:
        return True
    done = opened.done.get((spot, dispatcher or None))
    return done is not None and done.number >= number
