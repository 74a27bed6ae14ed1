"""The owner and the progress of an Iceberg table, kept in the table itself.

A table property names the source table. The summary of each snapshot that a run commits has its watermark. Maintenance
commits snapshots too, so progress is read from the newest ancestor of the current snapshot that has it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from ticdc_assets.errors import StaleRunError
from ticdc_assets.tables.iceberg.properties import BORN, COLUMNS, SOURCE_TABLE, VERSION

CHANGEFEED: Final = "ticdc.changefeed"
WATERMARK: Final = "ticdc.watermark"
PARENT_WATERMARK: Final = "ticdc.parent-watermark"
POSITION: Final = "ticdc.position"
RUN_ID: Final = "ticdc.run-id"
FILES: Final = "ticdc.files"
LATE_ROWS: Final = "ticdc.late-rows"

Files = tuple[tuple[str, int], ...]
"""File sequences by name, each with the number of its last file that is in the table."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a table: it is complete up to `watermark`.

    In a stream without commit_ts, `position` is its last `_ticdc_seq`, and `files` are the files in the table that no
    recorded cursor has passed.
    """

    watermark: int = 0
    position: int = -1
    run_id: str = ""
    files: Files = ()

    def summary(self, changefeed: str, parent: Progress) -> dict[str, str]:
        """The snapshot properties that publish this progress on top of `parent`."""
        summary = {
            CHANGEFEED: changefeed,
            WATERMARK: str(self.watermark),
            PARENT_WATERMARK: str(parent.watermark),
            POSITION: str(self.position),
            RUN_ID: self.run_id,
        }
        if self.files:
            summary[FILES] = json.dumps(dict(self.files), ensure_ascii=False, separators=(",", ":"))
        return summary


def newest_summary(table: Table, key: str = WATERMARK) -> Mapping[str, str] | None:
    """The summary of the newest snapshot on the table's main branch that has a property; None where none has it."""
    summaries = map(summary_of, ancestors_of(table.current_snapshot(), table.metadata))
    return next((summary for summary in summaries if key in summary), None)


def summary_of(snapshot: Snapshot | None) -> Mapping[str, str]:
    """The properties of a snapshot; empty where there is none."""
    return snapshot.summary.additional_properties if snapshot is not None and snapshot.summary is not None else {}


def progress_of(table: Table) -> Progress:
    """The newest published progress on the table's main branch."""
    summary = newest_summary(table)
    return Progress() if summary is None else from_summary(summary)


def version_of(mirror: Table) -> int:
    """The version of the mirror's rows, from its newest snapshot with progress.

    The table property `ticdc.version` is not used for this: it stays when a user sets an earlier snapshot.
    """
    summary = newest_summary(mirror)
    if summary is None:
        return int(mirror.properties[BORN])
    return int(summary.get(VERSION, mirror.properties[VERSION]))  # snapshots of older releases lack it


def from_summary(summary: Mapping[str, str]) -> Progress:
    """The progress that a snapshot carries in its summary."""
    files = tuple(sorted(json.loads(summary.get(FILES, "{}")).items()))
    return Progress(int(summary[WATERMARK]), int(summary.get(POSITION, "-1")), summary.get(RUN_ID, ""), files)


def late_rows_since(table: Table, snapshot_id: int | None) -> int:
    """The number of late rows in the commits after a snapshot, including commits of runs that ended early."""
    rows = 0
    for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
        if snapshot.snapshot_id == snapshot_id:
            return rows
        rows += int(summary_of(snapshot).get(LATE_ROWS, "0"))
    return rows if snapshot_id is None else 0


def stale(table: Table, parent: Progress, found: Progress) -> StaleRunError:
    """The error of a run when another run has published since it was planned."""
    return StaleRunError(
        ".".join(table.name()),
        f"watermark {parent.watermark}, which this run was planned from",
        f"{found.watermark} by run {found.run_id or 'unknown'}",
        "Another run published first, and nothing was written twice. Run again to continue from there.",
    )


def source_table_of(table: Table) -> str | None:
    """The id of the source table whose rows the table has; None for a table that is not of this project."""
    return table.properties.get(SOURCE_TABLE)


def field_ids_by_uid(properties: Mapping[str, str]) -> dict[int, list[int]]:
    """uid of each source column -> its field ids in this table."""
    return {int(uid): ids for uid, ids in json.loads(properties.get(COLUMNS, "{}")).items()}


def columns_property(columns: Mapping[int, list[int]]) -> str:
    """The field ids of columns as a table property: JSON, by the ids of source columns."""
    return json.dumps({str(uid): ids for uid, ids in sorted(columns.items())}, separators=(",", ":"))
