"""One commit of added and deleted rows, from files that workers wrote, through Iceberg's Java API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from ticdc_assets.errors import StaleRunError
from ticdc_assets.tables.iceberg.content_files import content_files, planned_files
from ticdc_assets.tables.iceberg.deletion_vectors import DeletionVector, puffin_of
from ticdc_assets.tables.iceberg.planned_commit import PlannedCommit
from ticdc_assets.tables.iceberg.written_file import WrittenFile, data_file_json

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.tables.iceberg.jvm import JvmTable


@dataclass(frozen=True, slots=True)
class OldVector:
    """The current deletion vector of a data file, and Iceberg's Java object of the task that reads both."""

    uri: str
    offset_bytes: int
    size_bytes: int
    task: Any

    @property
    def java(self) -> Any:
        """Iceberg's Java object of the vector."""
        return self.task.deletes().get(0)


@dataclass(frozen=True, slots=True)
class RowDelta:
    """Added and deleted rows: data files, deletion vectors to write at `vectors_uri`, and the vectors that these
    replace."""

    files: tuple[WrittenFile, ...]
    vectors: tuple[DeletionVector, ...]
    replaced: tuple[OldVector, ...]
    vectors_uri: str


@dataclass(frozen=True, slots=True)
class LiveDataFile:
    """A data file of a snapshot; `is_plain` for Parquet with no deletes but at most one deletion vector."""

    uri: str
    rows: int
    vector: OldVector | None
    is_plain: bool


def data_files(table: JvmTable, snapshot_id: int) -> list[LiveDataFile]:
    """The data files of a snapshot."""
    return [_data_file(task, shown) for task, shown in planned_files(table, snapshot_id)]


def _data_file(task: Any, shown: Mapping[str, Any]) -> LiveDataFile:
    file, deletes = shown["data-file"], shown.get("delete-files", [])
    is_plain = file["file-format"].upper() == "PARQUET" and len(deletes) <= 1
    vector = None
    for old in deletes:
        is_plain = is_plain and old["file-format"].upper() == "PUFFIN"
        if is_plain:
            vector = OldVector(old["file-path"], old["content-offset"], old["content-size-in-bytes"], task)
    return LiveDataFile(file["file-path"], file["record-count"], vector, is_plain)


def publish_delta(table: JvmTable, planned: Table, rows: RowDelta, summary: Mapping[str, str]) -> None:
    """Add and delete rows in one snapshot on top of that of the table as `planned`.

    Raises StaleRunError where main has another snapshot. The files are then removed, unless a commit was tried:
    maintenance removes the files of failed commits.
    """
    written = [file.uri for file in rows.files]
    try:
        commit = PlannedCommit.begun(table, planned)
        if rows.vectors:
            written.append(rows.vectors_uri)
        snapshot = commit.snapshot_of(_delta(commit, planned, rows, summary))
    except StaleRunError:
        for uri in written:
            table.java.io().deleteFile(uri)
        raise
    commit.publish(snapshot)


def _delta(commit: PlannedCommit, planned: Table, rows: RowDelta, summary: Mapping[str, str]) -> Any:
    delta, java_file = commit.table.java.newRowDelta(), content_files(commit.table)
    delta = delta.validateFromSnapshot(commit.planned_on)
    for file in rows.files:
        delta.addRows(java_file(data_file_json(planned, file)))
    if rows.vectors:
        for shown in _written_vectors(planned, rows.vectors, rows.vectors_uri):
            delta.addDeletes(java_file(shown))
    for old in rows.replaced:
        delta.removeDeletes(old.java)
    for key, value in summary.items():
        delta.set(key, value)
    return delta


def _written_vectors(planned: Table, vectors: Sequence[DeletionVector], uri: str) -> list[str]:
    """Write the vectors to `uri`, and return the JSON form of each."""
    puffin, offsets = puffin_of(vectors)
    with planned.io.new_output(uri).create() as out:
        out.write(puffin)
    return [
        _vector_json(vector, offset, uri, len(puffin), planned) for vector, offset in zip(vectors, offsets, strict=True)
    ]


def _vector_json(vector: DeletionVector, offset: int, uri: str, size_bytes: int, planned: Table) -> str:
    """The vector in the JSON form of Iceberg's Java `ContentFileParser`."""
    return orjson.dumps(
        {
            "spec-id": planned.spec().spec_id,
            "content": "position-deletes",
            "file-path": uri,
            "file-format": "puffin",
            "partition": [],
            "file-size-in-bytes": size_bytes,
            "record-count": vector.rows,
            "referenced-data-file": vector.data_uri,
            "content-offset": offset,
            "content-size-in-bytes": len(vector.blob),
        }
    ).decode()
