"""Commits that changed rows of a table of this project and that no run of it made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of

from ticdc_assets.tables.progress import CHANGEFEED, summary_of

_APPLICATION: Final = "spark.app.id"
_FILES: Final = ("added-data-files", "deleted-data-files")
_DELETES: Final = ("added-delete-files", "removed-delete-files")


@dataclass(frozen=True, slots=True)
class ForeignWrite:
    """A commit of another writer. `before` is the snapshot that it replaced, None where that is not known any more."""

    snapshot_id: int
    before: int | None
    rows_added: int
    rows_deleted: int


def foreign_writes(table: Table) -> tuple[ForeignWrite, ...]:
    """The commits of other writers that the rows of a table may still show, newest first, as far as its snapshots are
    kept. Those from before the table was last empty do not count, nor do compactions. Reads no file."""
    found: list[ForeignWrite] = []
    newer: Snapshot | None = None
    for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
        summary = summary_of(snapshot)
        is_own = CHANGEFEED in summary or _is_own_delete(snapshot, newer)
        if not is_own and _changes_rows(snapshot):
            known = table.metadata.snapshot_by_id(snapshot.parent_snapshot_id or 0)
            rows = (int(summary.get(name, "0")) for name in ("added-records", "deleted-records"))
            found.append(ForeignWrite(snapshot.snapshot_id, known.snapshot_id if known else None, *rows))
        if summary.get("total-records") == "0":
            break
        newer = snapshot
    return tuple(found)


def _changes_rows(snapshot: Snapshot) -> bool:
    is_rewritten = snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE
    return not is_rewritten and _has_any(snapshot, *_FILES, *_DELETES)


def _is_own_delete(snapshot: Snapshot, newer: Snapshot | None) -> bool:
    """Whether a run removed whole files with Spark: such a commit has no properties of this project. The run's next
    commit is of the same application, or has no files."""
    if (
        newer is None
        or CHANGEFEED not in summary_of(newer)
        or _has_any(snapshot, "added-data-files", "added-delete-files")
    ):
        return False
    is_same = summary_of(snapshot).get(_APPLICATION) == summary_of(newer).get(_APPLICATION)
    return is_same or not _has_any(newer, *_FILES, *_DELETES)


def _has_any(snapshot: Snapshot, *counts: str) -> bool:
    return any(summary_of(snapshot).get(count, "0") != "0" for count in counts)
