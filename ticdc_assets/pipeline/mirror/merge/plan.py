"""Plans how a segment is merged into a mirror: by workers that read only the needed columns, or by Spark's MERGE.

Both give the same rows. Workers are much faster for the usual case: an unpartitioned mirror, and fewer changes than
CHANGES_MAX. Spark merges the rest: mirrors of format version 2 or with partitions, floating-point keys, and tasks that
a worker rejects.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ticdc_assets.changes import layout
from ticdc_assets.changes.layout import mirror_columns
from ticdc_assets.names import column_name
from ticdc_assets.pipeline.mirror.merge.task import (
    LiveFile,
    MergeReport,
    MergeTask,
    MirrorColumn,
    SegmentChanges,
    VectorPosition,
)
from ticdc_assets.tables.iceberg.deletion_vectors import DeletionVector
from ticdc_assets.tables.iceberg.row_delta import LiveDataFile, RowDelta
from ticdc_assets.tables.iceberg.types import arrow_field, can_identify
from ticdc_assets.tables.mirror.writer import Segment
from ticdc_assets.tables.progress import field_ids_by_uid

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake

SHARE_ROWS: Final = 100_000
"""One more worker for this many changes, up to the number of cores."""
BUCKET_CHANGES: Final = 2_000_000
"""About how many changes a worker compares at once. Keys are read once for each bucket, so fewer take longer."""
CHANGES_MAX: Final = 20_000_000
"""Each worker reads all keys once for each bucket, so this takes time with the square of the number of changes."""
LIVE_ROWS_MAX: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The tasks of one segment, and the mirror's data files, which the commit of their results needs."""

    tasks: tuple[MergeTask, ...]
    live: tuple[LiveDataFile, ...]

    def delta(self, reports: Sequence[MergeReport]) -> RowDelta | None:
        """The workers' files and deletion vectors as one commit; None where a worker could not merge."""
        if any(report.unfit for report in reports):
            return None
        gone = [gone for report in reports for gone in report.gone]
        vectors = {file.uri: file.vector for file in self.live if file.vector is not None}
        return RowDelta(
            tuple(file for report in reports for file in report.written),
            tuple(DeletionVector(g.data_uri, g.blob, g.rows) for g in gone),
            tuple(vectors[g.data_uri] for g in gone if g.data_uri in vectors),
            f"{self.tasks[0].prefix_uri}-deletes.puffin",
        )


def can_plan(table: Table, segment: Segment) -> bool:
    """Whether workers can merge the segment into the mirror, judged by the table alone."""
    key = {column_name(name) for name in segment.version.table.key}
    columns = mirror_columns(segment.version.table.stored_columns, segment.version.table.key)
    return (
        table.metadata.format_version >= 3
        and table.spec().is_unpartitioned()
        and sum(file.rows for file in segment.files) <= CHANGES_MAX
        and all(can_identify(column.type) for column in columns if column.name in key)
    )


def plan(
    lake: Lake,
    source_table_id: str,
    table: Table,
    changelog: Table,
    segment: Segment,
    live: Sequence[LiveDataFile],
    cores: int,
) -> MergePlan | None:
    """The tasks of the workers that merge a segment into a mirror; None if Spark must merge it.

    Args:
        live: the data files of the mirror's current snapshot.
        cores: the largest number of tasks.
    """
    if not all(file.is_plain for file in live) or sum(file.rows for file in live) > LIVE_ROWS_MAX:
        return None
    rows = sum(file.rows for file in segment.files)
    shares = max(1, min(cores, rows // SHARE_ROWS, len(segment.files)))
    whole = MergeTask(
        source_table_id=source_table_id,
        columns=_mirror_columns(table, changelog, segment),
        key=tuple(column_name(name) for name in segment.version.table.key),
        changes=SegmentChanges(
            files=tuple(file.uri for file in segment.files),
            low=segment.low,
            high=segment.high,
            by_arrival=segment.by_arrival,
            version_ts=segment.version.from_ts,
        ),
        live=(),
        prefix_uri=f"{table.location().rstrip('/')}/data/{uuid.uuid4().hex}",
        shares=shares,
        buckets=-(-rows // BUCKET_CHANGES),
        io_properties=lake.io_properties,
    )
    files = [LiveFile(file.uri, file.rows, _vector_position(file)) for file in live]
    tasks = tuple(replace(whole, share=n, live=tuple(files[n::shares])) for n in range(shares))
    return MergePlan(tasks, tuple(live))


def _vector_position(file: LiveDataFile) -> VectorPosition | None:
    vector = file.vector
    return VectorPosition(vector.uri, vector.offset_bytes, vector.size_bytes) if vector is not None else None


def _mirror_columns(table: Table, changelog: Table, segment: Segment) -> tuple[MirrorColumn, ...]:
    """The mirror's columns, in its order, with the position of their values in the changelog."""
    version = segment.version.table
    uids = {column.name: column.uid for column in mirror_columns(version.stored_columns, version.key)}
    places = field_ids_by_uid(changelog.properties)
    commit_ts = changelog.schema().find_field(layout.COMMIT_TS).field_id
    return tuple(
        MirrorColumn(arrow_field(field), commit_ts if field.name == layout.COMMIT_TS else places[uids[field.name]][0])
        for field in table.schema().fields
    )
