"""Rewrites many small files of a table as few: with Iceberg's own procedure in Spark, or, for tables that small runs
write all the time, from the copies that this project's workers make (`rewrite_worker`).

The procedure plans and runs several queries for each table, which takes many times longer than to copy such files. Its
snapshot has no progress; that is read from an ancestor. A run that merges meanwhile and comes second is refused by its
fence and continues from there when it is tried again. Copies are published through Iceberg's Java API; where the table
has moved since the files were listed, nothing is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ticdc_assets.errors import StaleRunError
from ticdc_assets.names import quote_path
from ticdc_assets.tables.iceberg.jvm import JvmCatalog, JvmTable, content_files, planned_files
from ticdc_assets.tables.iceberg.row_delta import PlannedCommit
from ticdc_assets.tables.iceberg.types import arrow_field
from ticdc_assets.tables.iceberg.written_file import WrittenFile, data_file_shown
from ticdc_assets.tables.maintenance.rewrite_worker import OldFile

if TYPE_CHECKING:
    from pyiceberg.table import Table


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


SMALL_BYTES: Final = 8 << 20
"""A larger file is left as it is."""
TOGETHER_BYTES: Final = 64 << 20
"""The largest total size of the files that become one."""


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A small data file: what a worker reads, its size, its partition, and Iceberg's Java objects for it and for its
    deletion vector."""

    old: OldFile
    size_bytes: int
    partition: Any
    java: Any
    java_vector: Any = None


def small_files(table: JvmTable, planned: Table) -> list[SmallFile] | None:
    """The small data files of the current snapshot of the table as `planned`. None where only Iceberg's own procedure
    can rewrite one: it has deletes of another form or is of an earlier partitioning, or older files lack a column that
    has a value for them."""
    schema, spec_id, snapshot = planned.schema(), planned.spec().spec_id, planned.current_snapshot()
    if snapshot is None:
        return []
    if any(schema.find_field(number).initial_default is not None for number in schema.field_ids):
        return None
    found = []
    for task, shown in planned_files(table, snapshot.snapshot_id):
        if shown["data-file"]["file-size-in-bytes"] <= SMALL_BYTES:
            file = _small_file(task, shown, spec_id)
            if file is None:
                return None
            found.append(file)
    return found


def _small_file(task: Any, shown: Mapping[str, Any], spec_id: int) -> SmallFile | None:
    file, deletes = shown["data-file"], shown.get("delete-files", [])
    if file["file-format"].upper() != "PARQUET" or file["spec-id"] != spec_id:
        return None
    if len(deletes) > 1 or any(vector["file-format"].upper() != "PUFFIN" for vector in deletes):
        return None
    vector, java = deletes[0] if deletes else {}, task.file()
    old = OldFile(
        file["file-path"],
        int(java.dataSequenceNumber()),
        java.firstRowId(),
        vector.get("file-path", ""),
        vector.get("content-offset", 0),
        vector.get("content-size-in-bytes", 0),
    )
    java_vector = task.deletes().get(0) if vector else None
    return SmallFile(old, file["file-size-in-bytes"], file["partition"], java, java_vector)


def merge_groups(files: Sequence[SmallFile]) -> list[list[SmallFile]]:
    """The files in groups of at least two that become one file each: of one partition, and of TOGETHER_BYTES at
    most."""
    groups: dict[str, list[list[SmallFile]]] = {}
    for file in sorted(files, key=lambda file: (file.old.sequence_number, file.old.uri)):
        of_partition = groups.setdefault(str(file.partition), [[]])
        if sum(other.size_bytes for other in of_partition[-1]) + file.size_bytes > TOGETHER_BYTES:
            of_partition.append([])
        of_partition[-1].append(file)
    return [group for of_partition in groups.values() for group in of_partition if len(group) > 1]


def file_schema(table: Table) -> pa.Schema:
    """The Arrow schema, with field ids, of a data file that has all columns of the table."""
    return pa.schema([arrow_field(field) for field in table.schema().fields])


def replace_files(
    table: JvmTable, planned: Table, groups: Sequence[Sequence[SmallFile]], written: Sequence[WrittenFile | None]
) -> bool:
    """Replace small files by the files that workers wrote, in one commit.

    Args:
        planned: the table as it was when the files were listed.
        groups: the replaced files of each group.
        written: the new file of each group; None if the group has no row left.

    Returns:
        False if the table has changed since; then nothing is replaced.
    """
    try:
        commit = PlannedCommit.begun(table, planned)
        commit.publish(commit.snapshot_of(_rewrite(commit, planned, groups, written)))
    except StaleRunError:
        return False
    return True


def _rewrite(
    commit: PlannedCommit,
    planned: Table,
    groups: Sequence[Sequence[SmallFile]],
    written: Sequence[WrittenFile | None],
) -> Any:
    rewrite, java_file = commit.table.java.newRewrite(), content_files(commit.table)
    # As of the snapshot that was read: a delete that comes later still applies to the new file.
    rewrite = rewrite.validateFromSnapshot(commit.planned_on)
    rewrite = rewrite.dataSequenceNumber(commit.base.currentSnapshot().sequenceNumber())
    for group, new in zip(groups, written, strict=True):
        for file in group:
            rewrite.deleteFile(file.java)
            if file.java_vector is not None:
                rewrite.deleteFile(file.java_vector)
        if new is not None:
            rewrite.addFile(java_file(data_file_shown(planned, new, group[0].partition)))
    return rewrite
