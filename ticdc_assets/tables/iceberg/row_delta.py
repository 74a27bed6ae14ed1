"""One commit of added and deleted rows, from files that workers wrote, through Iceberg's Java API.

It is a compare-and-swap from the table metadata that has the snapshot that the run was planned from: where main has
another one, nothing is published. After a lost answer, the table shows whether the commit succeeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import orjson
from py4j.protocol import Py4JJavaError

from ticdc_assets.errors import StaleRunError
from ticdc_assets.tables.iceberg.deletion_vectors import DeletionVector, puffin_of
from ticdc_assets.tables.iceberg.jvm import JvmTable, kind
from ticdc_assets.tables.iceberg.written_file import WrittenFile, data_file_shown

if TYPE_CHECKING:
    from pyiceberg.table import Table


_NOT_VALID: Final = "ValidationException"  # raised for an update of data files that another run has removed


@dataclass(frozen=True, slots=True)
class PlannedCommit:
    """One commit of `table`. `base` is Iceberg's Java object of its metadata, with the snapshot `planned_on`."""

    table: JvmTable
    base: Any
    planned_on: int

    @classmethod
    def begun(cls, table: JvmTable, planned: Table) -> PlannedCommit:
        """A commit on top of the snapshot of `planned`. Raises StaleRunError where main has another one."""
        planned_on = planned.metadata.current_snapshot_id
        base = table.java.operations().refresh()
        if planned_on is None or base.currentSnapshot().snapshotId() != planned_on:
            raise table.overtaken()
        return cls(table, base, planned_on)

    def snapshot_of(self, update: Any) -> Any:
        """The snapshot that an update of the table makes. Raises StaleRunError where main has moved since."""
        try:
            snapshot = update.apply()
        except Py4JJavaError as error:
            if kind(error) == _NOT_VALID:
                raise self.table.overtaken() from error
            raise
        if snapshot.parentId() != self.planned_on:
            raise self.table.overtaken()
        return snapshot

    def publish(self, snapshot: Any) -> None:
        """Make the snapshot the current one of main, in one try. Raises StaleRunError where main has moved since."""
        builder = self.table.named("org.apache.iceberg.TableMetadata.buildFrom")(self.base)
        fresh = builder.setBranchSnapshot(snapshot, "main").build()
        self.table.commit(self.base, fresh, snapshot.snapshotId())


@dataclass(frozen=True, slots=True)
class OldVector:
    """The current deletion vector of a data file: a part of a Puffin file, and the number of rows it deletes."""

    data_uri: str
    uri: str
    offset_bytes: int
    size_bytes: int
    file_bytes: int
    rows: int

    def shown(self, spec_id: int) -> dict[str, Any]:
        """The vector in the JSON form of Iceberg's Java `ContentFileParser`."""
        return {
            "spec-id": spec_id,
            "content": "position-deletes",
            "file-path": self.uri,
            "file-format": "puffin",
            "partition": [],
            "file-size-in-bytes": self.file_bytes,
            "record-count": self.rows,
            "referenced-data-file": self.data_uri,
            "content-offset": self.offset_bytes,
            "content-size-in-bytes": self.size_bytes,
        }


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
    """A data file of a snapshot. `is_plain` is true for Parquet of the table's present partition spec that has no
    deletes except at most one deletion vector: a vector of another spec than its data file makes the table
    unreadable."""

    uri: str
    rows: int
    vector: OldVector | None
    is_plain: bool


def data_files(table: JvmTable, snapshot_id: int) -> tuple[LiveDataFile, ...]:
    """The data files of a snapshot."""
    spec_id, found = table.java.spec().specId(), orjson.loads(table.row_changes.files(table.java, snapshot_id))
    return tuple(_data_file(uri, form, of == spec_id, rows, deletes) for uri, form, of, rows, deletes in found)


def _data_file(uri: str, form: str, is_of_spec: bool, rows: int, deletes: Sequence[Sequence[Any]]) -> LiveDataFile:
    is_plain = form == "PARQUET" and is_of_spec and len(deletes) <= 1
    vector = None
    for old_uri, old_form, *position in deletes:
        is_plain = is_plain and old_form == "PUFFIN"
        if is_plain:
            vector = OldVector(uri, old_uri, *position)
    return LiveDataFile(uri, rows, vector, is_plain)


@dataclass(frozen=True, slots=True)
class PublishedDelta:
    """The snapshot of a commit, and the new vectors by data file."""

    snapshot_id: int
    vectors: Mapping[str, OldVector]

    def after(self, live: Iterable[LiveDataFile], rows: RowDelta) -> tuple[LiveDataFile, ...]:
        """The data files of the snapshot, where `live` are those of the one before."""
        kept = (replace(file, vector=self.vectors.get(file.uri, file.vector)) for file in live)
        return (*kept, *(LiveDataFile(file.uri, file.footer.num_rows, None, True) for file in rows.files))


def publish_delta(table: JvmTable, planned: Table, rows: RowDelta, summary: Mapping[str, str]) -> PublishedDelta:
    """Add and delete rows in one snapshot on top of that of the table as `planned`.

    Raises StaleRunError where main has another snapshot. The files are then removed, unless a commit was tried:
    maintenance removes the files of failed commits.
    """
    written = [file.uri for file in rows.files]
    try:
        commit = PlannedCommit.begun(table, planned)
        if rows.vectors:
            written.append(rows.vectors_uri)
        vectors = _written_vectors(planned, rows.vectors, rows.vectors_uri)
        snapshot = commit.snapshot_of(_delta(commit, planned, rows, vectors, summary))
    except StaleRunError:
        for uri in written:
            table.java.io().deleteFile(uri)
        raise
    commit.publish(snapshot)
    return PublishedDelta(int(snapshot.snapshotId()), {vector.data_uri: vector for vector in vectors})


def _delta(
    commit: PlannedCommit, planned: Table, rows: RowDelta, vectors: Sequence[OldVector], summary: Mapping[str, str]
) -> Any:
    spec_id = planned.spec().spec_id
    changes = {
        "rows": [data_file_shown(planned, file) for file in rows.files],
        "deletes": [vector.shown(spec_id) for vector in vectors],
        "replaced": [vector.shown(spec_id) for vector in rows.replaced],
        "summary": dict(summary),
    }
    table = commit.table
    delta = table.java.newRowDelta().validateFromSnapshot(commit.planned_on)
    table.row_changes.stage(delta, table.java.spec(), orjson.dumps(changes).decode())
    return delta


def _written_vectors(planned: Table, vectors: Sequence[DeletionVector], uri: str) -> list[OldVector]:
    """Write the vectors to `uri`."""
    if not vectors:
        return []
    puffin, offsets = puffin_of(vectors)
    with planned.io.new_output(uri).create() as out:
        out.write(puffin)
    return [
        OldVector(vector.data_uri, uri, offset, len(vector.blob), len(puffin), vector.rows)
        for vector, offset in zip(vectors, offsets, strict=True)
    ]
