"""Rewrites many small files of a table as few, in this project's workers: for tables that small runs write all the
time.

Iceberg's own procedure in Spark (`tables.maintenance.compaction`) plans and runs several queries for each table, which
takes many times longer than to copy such files. It does the rest: large files, and deletes of other forms.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from ticdc_assets.tables.maintenance.compaction import FILES_MAX, compact, counts_of
from ticdc_assets.tables.maintenance.rewrite_worker import RewriteTask, rewrite
from ticdc_assets.tables.maintenance.rewriting import file_schema, merge_groups, replace_files, small_files

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.spark import Workers
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog


def compact_small(
    jvm: JvmCatalog, workers: Workers, table: Table, otherwise: Callable[[JvmCatalog, Table], int] = compact
) -> int:
    """Rewrite the table's small files. Returns how many files were rewritten. Rows, progress and row ids stay as they
    are.

    `otherwise` is called if the table has too many files of another kind. Where another writer commits
    first, nothing is rewritten.
    """
    if table.current_snapshot() is None:
        return 0
    java = jvm.load(table.name())
    files = small_files(java, table)
    groups = merge_groups(files) if files is not None else []
    gone = sum(len(group) - 1 + sum(file.java_vector is not None for file in group) for group in groups)
    if not groups or counts_of(table).all - gone > FILES_MAX // 2:
        return otherwise(jvm, table)
    schema, folder = file_schema(table), f"{table.location().rstrip('/')}/data"
    properties = {name: str(value) for name, value in table.io.properties.items()}
    tasks = [
        RewriteTask(tuple(f.old for f in group), schema, f"{folder}/{uuid.uuid4().hex}.parquet", properties)
        for group in groups
    ]
    written = workers.map(rewrite, tasks)
    if replace_files(java, table, groups, written):
        return sum(len(group) for group in groups)
    return 0  # the new files may be in the table; maintenance removes those that are not
