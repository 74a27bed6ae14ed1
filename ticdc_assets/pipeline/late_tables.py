"""Tables that `tables` did not select in earlier runs: the setting was widened, or a rename gave them a selected name.

Earlier runs passed their files and messages unread. Such a table gets a watermark only after these are read: from the
table's beginning, with repeats removed. Where that is not possible, the table is held, and the others advance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ticdc_assets.advice import Advice
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.commit_range import CommitRange, Hold, TableState
from ticdc_assets.schema.history.source_table import NamePeriod, SourceName, SourceTable, fold_name
from ticdc_assets.sources.storage.cursor import Cursor
from ticdc_assets.sources.storage.cursor import TableCursor as FolderState
from ticdc_assets.sources.storage.scan_result import Scan, TableScan

if TYPE_CHECKING:
    from ticdc_assets.tables.control.records import WatermarkRecord


@dataclass(frozen=True, slots=True)
class LateTables:
    """By source table, the tables whose folders are read again with `cursor`, and why others are `held`."""

    cursor: Cursor
    again: frozenset[str] = frozenset()
    held: Mapping[str, Hold] = field(default_factory=dict)


def not_followed_yet(record: WatermarkRecord | None, commit_ranges: Mapping[str, CommitRange]) -> list[SourceTable]:
    """The tables that no earlier run has read; empty before the first run."""
    if record is None:
        return []
    followed = {table.source_table for table in record.tables if not table.has(NoteCode.PASSED_UNREAD)}
    return [
        commit_range.source_table
        for commit_range in commit_ranges.values()
        if commit_range.source_table.id not in followed
    ]


def is_passed(commit_range: CommitRange) -> bool:
    """Whether the table is held because its earlier records cannot be read again."""
    return commit_range.hold is not None and commit_range.hold.code == NoteCode.PASSED_UNREAD


# -- messages ---------------------------------------------------------------------------------------------------------


def messages_gone(source_table: SourceTable, partition: tuple[str, int], begin: int, now: int | None) -> Hold:
    """The hold of a table whose messages are no longer in the capture."""
    name, found = ".".join(source_table.name), "none" if now is None else f"those from {now} on"
    return _held(
        source_table,
        f"expected the messages of {partition[0]}[{partition[1]}] from offset {begin} on, since `tables` selects "
        f"{name} only now, found {found}.",
        Advice.RESTORE_OR_READ_APART,
    )


# -- files ------------------------------------------------------------------------------------------------------------


def late_tables(
    cursor: Cursor,
    found: Iterable[TableScan],
    source_tables: Sequence[SourceTable],
    obstacle: Callable[[SourceTable], Advice | None],
    *,
    whole: bool = False,
) -> LateTables:
    """The cursor from which folders of tables that are selected now are read again, and the tables that must be held.

    A table is held if its files were passed and `obstacle` gives a reason, or if it has no folder. A folder is read
    again from the version at which the table took its name. Its schema files are listed again even if no file was
    passed, so that a missing folder is noticed.

    Args:
        found: the table folders of this scan.
        source_tables: the tables that no earlier run has read.
        obstacle: (source table) to advice for the user, if its files cannot be read again; None if they can.
        whole: read folders again from their first version.
    """
    folders = _folders(cursor) if source_tables else {}
    held = without_folders(source_tables, found, folders)
    again, moved = set(), dict(cursor.tables)
    for source_table in (source_table for source_table in source_tables if source_table.id not in held):
        known = [
            (folder, name_period)
            for name_period in source_table.name_periods
            for folder in folders.get(name_period.folded, ())
        ]
        has_passed = any(_has_passed(cursor.tables[folder], name_period) for folder, name_period in known)
        advice = obstacle(source_table) if has_passed else None
        if advice is not None:
            held[source_table.id] = _files_passed(source_table, advice)
        elif known:
            again.add(source_table.id)
            for folder, name_period in known:
                moved[folder] = _before(moved[folder], 0 if whole else name_period.after_ts)
    return LateTables(replace(cursor, tables=moved), frozenset(again), held)


def before_late_schemas(cursor: Cursor, found: Scan) -> Cursor:
    """The cursor before the finished versions whose schema file arrived since: rows may have arrived with it."""
    moved = dict(cursor.tables)
    for table in found.tables:
        state = cursor.tables.get(table.folder)
        late = [file.version for file in table.schema_files if state is not None and file.version < state.closed_below]
        if state is not None and late:
            moved[table.folder] = _before(state, min(late))
    return replace(cursor, tables=moved)


def without_folders(
    source_tables: Iterable[SourceTable], found: Iterable[TableScan], more: Collection[SourceName] = ()
) -> dict[str, Hold]:
    """Holds for the tables that the source lacks: not in `found`, and with no name in `more`."""
    seen = {fold_name(*name) for table in found for name in table.names}.union(more)
    absent = (source_table for source_table in source_tables if seen.isdisjoint(source_table.folded_names))
    return {source_table.id: _no_folder(source_table) for source_table in absent}


def obstacle_by_arrival(source_table: SourceTable, followed: Iterable[SourceTable], has_rows: bool) -> Advice | None:
    """Advice where rows have no commit_ts and nothing records which files were read: for this table if it has rows, or
    for one of those `followed` that took its name later."""
    if has_rows:
        return Advice.UNKNOWN_FILES_APART
    others = [name_period for other in followed for name_period in other.name_periods]
    if any(_is_after(other, own) for other in others for own in source_table.name_periods):
        return Advice.MIXED_FILES_APART
    return None


def _is_after(name_period: NamePeriod, other: NamePeriod) -> bool:
    is_same = name_period.folded == other.folded
    return is_same and other.until_ts is not None and name_period.after_ts >= other.until_ts


def _folders(cursor: Cursor) -> dict[SourceName, list[str]]:
    found: dict[SourceName, list[str]] = {}
    for folder, state in cursor.tables.items():
        for name in {fold_name(*name) for name in ((state.schema, state.table), *state.renamed.values())}:
            found.setdefault(name, []).append(folder)
    return found


def _has_passed(state: FolderState, name_period: NamePeriod) -> bool:
    """Whether files were passed that may hold rows of a table from the period of this name."""
    opened = (
        v
        for v in state.open
        if v >= name_period.after_ts and (name_period.until_ts is None or v < name_period.until_ts)
    )
    return state.closed_below > name_period.after_ts or any(opened)


def _before(state: FolderState, ts: int) -> FolderState:
    return replace(
        state,
        schemas={version: sums for version, sums in state.schemas.items() if version < ts},
        closed_below=min(state.closed_below, ts),
        dropped=state.dropped if state.dropped is not None and state.dropped < ts else None,
        open={version: opened for version, opened in state.open.items() if version < ts},
        renamed={version: names for version, names in state.renamed.items() if version < ts},
        unlisted_below=min(state.unlisted_below, ts),
    )


def _files_passed(source_table: SourceTable, advice: Advice) -> Hold:
    name = ".".join(source_table.name)
    return _held(
        source_table,
        f"expected all files of {name} to be read, since `tables` selects it, found some that were passed while it "
        "did not.",
        advice,
    )


def _no_folder(source_table: SourceTable) -> Hold:
    name = ".".join(source_table.name)
    return _held(
        source_table,
        f"expected a folder of {name} in the source, since `tables` selects it only now, found none.",
        Advice.CHECK_FOLDER,
    )


def _held(source_table: SourceTable, detail: str, advice: Advice) -> Hold:
    """The hold; a dropped table holds nothing back."""
    state = TableState.STOPPED if source_table.dropped_ts is None else TableState.DROPPED
    return Hold(state, Note(NoteCode.PASSED_UNREAD, detail, (advice,)))
