"""Many small files of a table into few large ones, by Iceberg's own procedure in Spark.

The new snapshot has no progress; it is read from an ancestor. A run that merges meanwhile and comes second is
refused by its fence and goes on from there when it is tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ticdc_assets.names import quote_path

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.tables.iceberg.jvm import JvmCatalog

FILES_MAX: Final = 64
"""Data and delete files of a table; with more it is worth compacting."""

_TOTALS: Final = ("total-data-files", "total-delete-files")


def is_scattered(table: Table) -> bool:
    """Whether the current snapshot has more files than it should, from its summary alone."""
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return False
    totals = snapshot.summary.additional_properties
    return sum(int(totals.get(name, 0)) for name in _TOTALS) > FILES_MAX


def compact(jvm: JvmCatalog, table: Table) -> int:
    """Rewrite the table's small files; how many went into new ones. Rows, progress and row ids stay as they are."""
    spark = jvm.thread_session()
    name = quote_path(table.name()).replace("\\", "\\\\").replace("'", "\\'")
    options = "map('rewrite-all', 'false', 'delete-file-threshold', '1')"
    call = f"CALL {quote_path((jvm.name,))}.system.rewrite_data_files(table => '{name}', options => {options})"
    return int(spark.sql(call).collect()[0]["rewritten_data_files_count"])
