"""Rewrites many small files of a table as few large ones, with Iceberg's own procedure in Spark.

The new snapshot has no progress; it is read from an ancestor. A run that merges meanwhile and comes second is
refused by its fence and continues from there when it is tried again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ticdc_assets.names import quote_path

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.tables.iceberg.jvm import JvmCatalog

FILES_MAX: Final = 64
"""Data and delete files of a table; with more it is worth compacting."""


@dataclass(frozen=True, slots=True)
class FileCounts:
    """The files of a current snapshot, or of several together."""

    data: int = 0
    deletes: int = 0

    def __add__(self, other: FileCounts) -> FileCounts:
        return FileCounts(self.data + other.data, self.deletes + other.deletes)

    @property
    def all(self) -> int:
        """The number of data and delete files."""
        return self.data + self.deletes


def counts_of(table: Table) -> FileCounts:
    """The data and delete files of the current snapshot, from its summary alone."""
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return FileCounts()
    totals = snapshot.summary.additional_properties
    return FileCounts(int(totals.get("total-data-files", 0)), int(totals.get("total-delete-files", 0)))


def has_many_files(table: Table) -> bool:
    """Whether the current snapshot has more than FILES_MAX files."""
    return counts_of(table).all > FILES_MAX


def compact(jvm: JvmCatalog, table: Table) -> int:
    """Rewrite the table's small files. Returns how many files were rewritten. Rows, progress and row ids stay as they
    are."""
    spark = jvm.thread_session()
    name = quote_path(table.name()).replace("\\", "\\\\").replace("'", "\\'")
    options = "map('rewrite-all', 'false', 'delete-file-threshold', '1')"
    call = f"CALL {quote_path((jvm.name,))}.system.rewrite_data_files(table => '{name}', options => {options})"
    return int(spark.sql(call).collect()[0]["rewritten_data_files_count"])
