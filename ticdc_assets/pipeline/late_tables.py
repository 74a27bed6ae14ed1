"""Tables that are asked for only now: `tables` was widened, or a rename gave them a name that it asks for.

While nobody asked for such a table, what came of it was passed unread. It may claim no watermark before that is read
as well: files and messages are read again from its beginning, and repeats are left out as ever. Where they cannot be,
the table is held, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ticdc_assets.pipeline.interval import Hold, Interval, TableState
from ticdc_assets.schema.lineage import Lineage, SourceName, Tenure, fold_name
from ticdc_assets.sources.storage_cursor import Cursor, TableScan
from ticdc_assets.sources.storage_cursor import TableState as FolderState

if TYPE_CHECKING:
    from ticdc_assets.tables.control import WatermarkRecord

PASSED: Final = "passed unread: "
"""How the note of a table begins that lacks what came while nobody asked for it."""


@dataclass(frozen=True, slots=True)
class LateTables:
    """By lineage, the tables whose folders are read again with `cursor`, and why others are `held`."""

    cursor: Cursor
    again: frozenset[str] = frozenset()
    held: Mapping[str, Hold] = field(default_factory=dict)


def not_followed_yet(record: WatermarkRecord | None, intervals: Mapping[str, Interval]) -> list[Lineage]:
    """The tables that no run before this one has read; none where there was no run."""
    if record is None:
        return []
    followed = {table.lineage for table in record.tables if not table.note.startswith(PASSED)}
    return [interval.lineage for interval in intervals.values() if interval.lineage.id not in followed]


def with_holds(intervals: Mapping[str, Interval], held: Mapping[str, Hold]) -> dict[str, Interval]:
    """The intervals, those of held tables closed."""
    return {i: replace(n, high=n.low, hold=held[i]) if i in held else n for i, n in intervals.items()}


def is_passed(interval: Interval) -> bool:
    """Whether the table is held because what came before cannot be read again."""
    return interval.hold is not None and interval.hold.reason.startswith(PASSED)


# -- messages ---------------------------------------------------------------------------------------------------------


def messages_gone(lineage: Lineage, partition: tuple[str, int], begin: int, now: int | None) -> Hold:
    """Why a table waits for messages that the capture does not have any more."""
    name, found = ".".join(lineage.name), "none" if now is None else f"those from {now} on"
    return _held(
        lineage,
        f"expected the messages of {partition[0]}[{partition[1]}] from offset {begin} on, since `tables` asks for "
        f"{name} only now, found {found}. Put them back into the capture, or read it in a changefeed of its own.",
    )


# -- files ------------------------------------------------------------------------------------------------------------


def late_tables(
    cursor: Cursor, found: Iterable[TableScan], lineages: Sequence[Lineage], obstacle: Callable[[Lineage], str]
) -> LateTables:
    """Which of these tables the cursor has folders of; one is held where files of these were passed and `obstacle`
    says what to do instead, and where there is no folder of its, neither in the cursor nor `found` behind it.

    Their schema files come again also where no file was passed: so a bucket without the folder is noticed.
    """
    folders = _folders(cursor) if lineages else {}
    held = without_folders(lineages, found, folders)
    again, moved = set(), dict(cursor.tables)
    for lineage in (lineage for lineage in lineages if lineage.id not in held):
        known = [
            (folder, tenure)
            for tenure in lineage.tenures
            for folder in folders.get(fold_name(tenure.schema, tenure.table), ())
        ]
        has_passed = any(_has_passed(cursor.tables[folder], tenure) for folder, tenure in known)
        todo = obstacle(lineage) if has_passed else ""
        if todo:
            held[lineage.id] = _files_passed(lineage, todo)
        elif known:
            again.add(lineage.id)
            for folder, tenure in known:
                moved[folder] = _before(moved[folder], tenure.after_ts)
    return LateTables(replace(cursor, tables=moved), frozenset(again), held)


def without_folders(
    lineages: Iterable[Lineage], found: Iterable[TableScan], more: Collection[SourceName] = ()
) -> dict[str, Hold]:
    """Holds of the tables of which a source has nothing: neither `found` nor under the names of `more`."""
    seen = {fold_name(*name) for table in found for name in table.names}.union(more)
    return {
        lineage.id: _no_folder(lineage)
        for lineage in lineages
        if not any(fold_name(tenure.schema, tenure.table) in seen for tenure in lineage.tenures)
    }


def obstacle_by_arrival(lineage: Lineage, followed: Iterable[Lineage], has_rows: bool) -> str:
    """What to do where rows have no commit_ts and nothing tells which files were read: of this table, which has rows
    already, or of one of those `followed` that took its name after it."""
    if has_rows:
        return "Without commit_ts nothing tells which: drop its changelog and mirror to have it read anew, or read"
    borne = [tenure for other in followed for tenure in other.tenures]
    if any(_is_after(theirs, mine) for theirs in borne for mine in lineage.tenures):
        return "Without commit_ts they cannot be told from those of the table that took its name: read"
    return ""


def _is_after(tenure: Tenure, other: Tenure) -> bool:
    same = fold_name(tenure.schema, tenure.table) == fold_name(other.schema, other.table)
    return same and other.until_ts is not None and tenure.after_ts >= other.until_ts


def _folders(cursor: Cursor) -> dict[SourceName, list[str]]:
    found: dict[SourceName, list[str]] = {}
    for folder, state in cursor.tables.items():
        for name in {fold_name(*name) for name in ((state.schema, state.table), *state.renamed.values())}:
            found.setdefault(name, []).append(folder)
    return found


def _has_passed(state: FolderState, tenure: Tenure) -> bool:
    """Whether files were passed that may hold rows of a table from while it bore the name."""
    opened = (v for v in state.open if v >= tenure.after_ts and (tenure.until_ts is None or v < tenure.until_ts))
    return state.closed_below > tenure.after_ts or any(opened)


def _before(state: FolderState, ts: int) -> FolderState:
    return replace(
        state,
        schemas={version: sums for version, sums in state.schemas.items() if version < ts},
        closed_below=min(state.closed_below, ts),
        dropped=state.dropped if state.dropped is not None and state.dropped < ts else None,
        open={version: opened for version, opened in state.open.items() if version < ts},
        renamed={version: names for version, names in state.renamed.items() if version < ts},
    )


def _files_passed(lineage: Lineage, todo: str) -> Hold:
    name = ".".join(lineage.name)
    return _held(
        lineage,
        f"expected all files of {name} to be read, since `tables` asks for it, found some that were passed while it "
        f"did not. {todo} it in a changefeed of its own.",
    )


def _no_folder(lineage: Lineage) -> Hold:
    name = ".".join(lineage.name)
    return _held(
        lineage,
        f"expected a folder of {name} in the source, since `tables` asks for it only now, found none. Check that "
        "`sink_uri` names the right bucket; if the folder was removed, load the table anew.",
    )


def _held(lineage: Lineage, sentence: str) -> Hold:
    """One that is dropped by now holds nothing back."""
    state = TableState.STOPPED if lineage.dropped_ts is None else TableState.DROPPED
    return Hold(state, PASSED + sentence)
