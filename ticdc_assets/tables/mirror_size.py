"""How much a mirror shows, told without reading its rows where that can be.

In format 2 a summary cannot tell it: position deletes of data files that are gone, or were written anew, stay in the
table and stay counted there. In format 3 a deletion vector goes with its data file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ticdc_assets.changes import layout

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

_VECTORS_SINCE: Final = 3  # the format whose deletes are deletion vectors
_PATH_FIELD_ID: Final = 2147483546  # of a position delete's data file, as Iceberg's format reserves it


def has_files(table: Table) -> bool:
    """Whether the current snapshot may show rows, from its summary alone."""
    told = _summary(table)
    return told is not None and told.get("total-data-files") != "0"


def live_rows(table: Table) -> int:
    """How many rows the current snapshot shows."""
    told = _summary(table)
    if told is None:
        return 0
    deleted = int(told.get("total-position-deletes", 0))
    # pyiceberg cannot plan equality deletes; they are another writer's, and the count is to show that somebody wrote.
    if table.metadata.format_version >= _VECTORS_SINCE or not deleted or int(told.get("total-equality-deletes", 0)):
        return int(told.get("total-records", 0)) - deleted
    return _counted(table)


def _summary(table: Table) -> dict[str, str] | None:
    snapshot = table.current_snapshot()
    return None if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties


def _counted(table: Table) -> int:
    """The rows of the data files less those that deletes take away which apply."""
    tasks = list(table.scan().plan_files())
    if all(_is_of_one_file(deletes) for task in tasks for deletes in task.delete_files):
        return sum(t.file.record_count - sum(deletes.record_count for deletes in t.delete_files) for t in tasks)
    return table.scan(selected_fields=(layout.COMMIT_TS,)).count()


def _is_of_one_file(deletes: DataFile) -> bool:
    """Whether all positions of a delete file are of the same data file, as Spark writes them unless told otherwise."""
    lower, upper = ((bounds or {}).get(_PATH_FIELD_ID) for bounds in (deletes.lower_bounds, deletes.upper_bounds))
    return lower is not None and lower == upper
