"""One commit of added and deleted rows, from files that workers wrote, through Iceberg's Java API.

The commit is a compare-and-swap from the table metadata it was made on, and that has the snapshot that the run was
planned from: where main has moved, nothing is published. A commit whose answer was lost is resolved by looking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson
from py4j.protocol import Py4JJavaError

from ticdc_assets.tables.iceberg.jvm import kind
from ticdc_assets.tables.iceberg.written_file import WrittenFile, data_file_json

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.errors import StaleRunError
    from ticdc_assets.tables.iceberg.jvm import JvmTable

_POSITION_FIELD_ID: Final = 2147483645  # of a row's position, as Iceberg's format reserves it
_NOT_VALID: Final = "ValidationException"  # of a delta whose data files another run has removed
_CREATED_BY: Final = "ticdc_assets"


@dataclass(frozen=True, slots=True)
class Vector:
    """The new deletion vector of a data file: its blob and the number of rows it deletes."""

    data_uri: str
    blob: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class OldVector:
    """The current deletion vector of a data file, and Iceberg's Java object for it."""

    uri: str
    offset_bytes: int
    size_bytes: int
    java: Any


@dataclass(frozen=True, slots=True)
class RowDelta:
    """Added and deleted rows: data files, deletion vectors to write at `vectors_uri`, and the vectors that these
    replace."""

    files: tuple[WrittenFile, ...]
    vectors: tuple[Vector, ...]
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
    files = []
    planned = table.java.newScan().useSnapshot(snapshot_id).planFiles()
    try:
        tasks = planned.iterator()
        while tasks.hasNext():
            files.append(_data_file(table, tasks.next()))
    finally:
        planned.close()
    return files


def _data_file(table: JvmTable, task: Any) -> LiveDataFile:
    parse, spec = table.named("org.apache.iceberg.ContentFileParser.toJson"), task.spec()
    file_json = orjson.loads(parse(task.file(), spec))
    listed = task.deletes()
    # By index: a Java iterator ends with an exception, which is the most expensive call here through py4j.
    deletes = [(orjson.loads(parse(java, spec)), java) for java in (listed.get(n) for n in range(listed.size()))]
    is_plain = file_json["file-format"].upper() == "PARQUET" and len(deletes) <= 1
    vector = None
    for old, java in deletes:
        is_plain = is_plain and old["file-format"].upper() == "PUFFIN"
        if is_plain:
            vector = OldVector(old["file-path"], old["content-offset"], old["content-size-in-bytes"], java)
    return LiveDataFile(file_json["file-path"], file_json["record-count"], vector, is_plain)


def publish(table: JvmTable, planned: Table, rows: RowDelta, summary: Mapping[str, str]) -> None:
    """Add and delete rows in one snapshot on top of that of the table as `planned`.

    Raises StaleRunError where main has another snapshot. The files are then removed, unless a commit was tried:
    maintenance removes the files of failed commits.
    """
    planned_on = planned.metadata.current_snapshot_id
    base = table.java.operations().refresh()
    written = [file.uri for file in rows.files]
    if base.currentSnapshot().snapshotId() != planned_on:
        raise _overtaken(table, written)
    delta = table.java.newRowDelta().validateFromSnapshot(planned_on)
    for file in rows.files:
        delta.addRows(_java_file(table, planned, file))
    if rows.vectors:
        written.append(rows.vectors_uri)
        for java in _write_vectors(table, rows.vectors, rows.vectors_uri):
            delta.addDeletes(java)
    for old in rows.replaced:
        delta.removeDeletes(old.java)
    for key, value in summary.items():
        delta.set(key, value)
    try:
        snapshot = delta.apply()
    except Py4JJavaError as error:
        if kind(error) == _NOT_VALID:
            raise _overtaken(table, written) from error
        raise
    if snapshot.parentId() != planned_on:
        raise _overtaken(table, written)
    fresh = table.named("org.apache.iceberg.TableMetadata.buildFrom")(base).setBranchSnapshot(snapshot, "main").build()
    table.commit(base, fresh, snapshot.snapshotId())


def _java_file(table: JvmTable, planned_on: Table, file: WrittenFile) -> Any:
    """The file with the statistics of its footer. To read a footer takes Java longer than all the rest of a small
    commit: it reads all of Hadoop's settings first."""
    node = table.named("org.apache.iceberg.util.JsonUtil.mapper")().readTree(data_file_json(planned_on, file))
    return table.named("org.apache.iceberg.ContentFileParser.fromJson")(node, table.java.spec())


def _write_vectors(table: JvmTable, vectors: Sequence[Vector], uri: str) -> list[Any]:
    java = table.java
    write = table.named("org.apache.iceberg.puffin.Puffin.write")
    writer = write(java.io().newOutputFile(uri)).createdBy(_CREATED_BY).build()
    try:
        blobs = [writer.write(_blob(table, vector)) for vector in vectors]
        writer.finish()
        size_bytes = writer.fileSize()
    finally:
        writer.close()
    build = table.named("org.apache.iceberg.FileMetadata.deleteFileBuilder")
    deletes = []
    for vector, blob in zip(vectors, blobs, strict=True):
        made = build(java.spec()).ofPositionDeletes().withFormat("PUFFIN")
        made = made.withPath(uri).withFileSizeInBytes(size_bytes).withReferencedDataFile(vector.data_uri)
        made = made.withContentOffset(blob.offset()).withContentSizeInBytes(blob.length())
        deletes.append(made.withRecordCount(vector.rows).build())
    return deletes


def _blob(table: JvmTable, vector: Vector) -> Any:
    fields = table.named("java.util.ArrayList")()
    fields.add(_POSITION_FIELD_ID)
    summary = table.named("java.util.HashMap")()
    summary.put("referenced-data-file", vector.data_uri)
    summary.put("cardinality", str(vector.rows))
    inherited = -1  # snapshot and sequence number, as of every deletion vector
    data = table.named("java.nio.ByteBuffer.wrap")(bytearray(vector.blob))
    make = table.named("org.apache.iceberg.puffin.Blob")
    return make("deletion-vector-v1", fields, inherited, inherited, data, None, summary)


def _overtaken(table: JvmTable, written: Sequence[str]) -> StaleRunError:
    """The error of a run when another run published first; removes the files that it wrote."""
    for uri in written:
        table.java.io().deleteFile(uri)
    return table.overtaken()
