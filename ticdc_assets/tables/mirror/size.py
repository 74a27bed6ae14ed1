"""The number of rows of a mirror, from metadata where possible.

In format 2 the summary is not enough: position deletes of removed or rewritten data files stay in the table and in its
counts. In format 3 a deletion vector is removed with its data file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyiceberg.expressions import GreaterThan

from ticdc_assets.changes import layout
from ticdc_assets.tables.progress import summary_of

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

_VECTORS_SINCE: Final = 3  # the format whose deletes are deletion vectors
_PATH_FIELD_ID: Final = 2147483546  # of a position delete's data file, as Iceberg's format reserves it


def has_files(table: Table) -> bool:
    """Whether the current snapshot may have rows, from its summary alone."""
    totals = summary_of(table.current_snapshot())
    return bool(totals) and totals.get("total-data-files") != "0"


def has_newer_rows(mirror: Table, ts: int) -> bool:
    """Whether the mirror has a row that changed after `ts`."""
    newer = GreaterThan(layout.COMMIT_TS, ts)
    return len(mirror.scan(row_filter=newer, selected_fields=(layout.COMMIT_TS,), limit=1).to_arrow()) > 0


def live_rows(table: Table) -> int:
    """The number of rows of the current snapshot."""
    totals = summary_of(table.current_snapshot())
    deleted = int(totals.get("total-position-deletes", 0))
    # pyiceberg cannot plan equality deletes. Only other writers make them; the count then shows that one wrote.
    if table.metadata.format_version >= _VECTORS_SINCE or not deleted or int(totals.get("total-equality-deletes", 0)):
        return int(totals.get("total-records", 0)) - deleted
    return _counted(table)


def _counted(table: Table) -> int:
    """The rows of the data files without those that applicable deletes remove."""
    tasks = list(table.scan().plan_files())
    if all(_is_of_one_file(deletes) for task in tasks for deletes in task.delete_files):
        return sum(t.file.record_count - sum(deletes.record_count for deletes in t.delete_files) for t in tasks)
    return table.scan(selected_fields=(layout.COMMIT_TS,)).count()


def _is_of_one_file(deletes: DataFile) -> bool:
    """Whether all positions of a delete file are in one data file, as Spark writes them by default."""
    lower, upper = ((bounds or {}).get(_PATH_FIELD_ID) for bounds in (deletes.lower_bounds, deletes.upper_bounds))
    return lower is not None and lower == upper
