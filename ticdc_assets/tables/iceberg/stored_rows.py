"""The rows of a table as workers read them: without a catalog, some of its data files each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.table import StaticTable

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table at a snapshot. It can be pickled."""

    metadata_uri: str
    io_properties: Mapping[str, str]
    snapshot_id: int | None

    @property
    def opened(self) -> StaticTable:
        """The table, of which only this metadata is known."""
        return StaticTable.from_metadata(self.metadata_uri, dict(self.io_properties))


@dataclass(frozen=True, slots=True)
class FileShare:
    """The data files of one worker: number `share` and every `shares`-th after it, in the order of their URIs."""

    share: int = 0
    shares: int = 1

    def of(self, found: list[FileScanTask]) -> list[FileScanTask]:
        """Those of the files."""
        return sorted(found, key=lambda task: task.file.file_path)[self.share :: self.shares]


ALL_FILES = FileShare()


def batches(
    table: Table,
    snapshot_id: int | None,
    names: tuple[str, ...],
    share: FileShare = ALL_FILES,
    where: str | BooleanExpression = AlwaysTrue(),  # noqa: B008
) -> Iterator[pa.RecordBatch]:
    """The columns `names` of the rows in these files, at the snapshot."""
    scan = table.scan(row_filter=where, snapshot_id=snapshot_id, selected_fields=names)
    if tasks := share.of(list(scan.plan_files())):
        wanted = scan.projection()
        columns = schema_to_pyarrow(wanted)
        reading = ArrowScan(scan.table_metadata, scan.io, wanted, scan.row_filter, scan.case_sensitive)
        yield from pa.RecordBatchReader.from_batches(columns, reading.to_record_batches(tasks)).cast(columns)
