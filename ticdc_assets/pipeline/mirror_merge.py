"""How a segment gets into a mirror: by workers, who read only what they need, or by Spark's MERGE.

Both leave the same rows. Workers are much faster for what is usual: few or some hundred thousand changes, a mirror
that is not partitioned. The rest is Spark's: mirrors of format 2 or with partitions, keys that are floating point
numbers, and whatever a worker finds itself unfit for.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ticdc_assets.changes import layout
from ticdc_assets.changes.layout import mirror_columns
from ticdc_assets.names import column_name
from ticdc_assets.pipeline.merge_task import LiveFile, MergeReport, MergeTask, Taken, VectorPlace
from ticdc_assets.tables.iceberg_types import arrow_field, can_identify
from ticdc_assets.tables.mirror import Segment
from ticdc_assets.tables.progress import columns_of
from ticdc_assets.tables.row_delta import DataFile, NewFile, OldVector, RowDelta, Vector

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake

SHARE_ROWS: Final = 100_000
"""A worker more for every so many changes, as long as there are cores."""
CHANGES_MAX: Final = 4_000_000
LIVE_ROWS_MAX: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The tasks of one segment, and what committing their work needs."""

    tasks: tuple[MergeTask, ...]
    vectors: dict[str, OldVector]

    def delta(self, reports: Sequence[MergeReport]) -> RowDelta | None:
        """What the workers made, to be committed; None where one was unfit."""
        if any(report.unfit for report in reports):
            return None
        gone = [gone for report in reports for gone in report.gone]
        return RowDelta(
            tuple(NewFile(file.uri, file.size_bytes, file.rows) for r in reports for file in r.written),
            tuple(Vector(g.data_uri, g.blob, g.rows) for g in gone),
            tuple(self.vectors[g.data_uri] for g in gone if g.data_uri in self.vectors),
            f"{self.tasks[0].prefix_uri}-deletes.puffin",
        )


def can_plan(table: Table, segment: Segment) -> bool:
    """Whether workers may take the segment into the mirror, as far as the table alone tells."""
    key = {column_name(name) for name in segment.version.table.key}
    columns = mirror_columns(segment.version.table.stored_columns, segment.version.table.key)
    return (
        table.metadata.format_version >= 3
        and table.spec().is_unpartitioned()
        and sum(file.rows for file in segment.files) <= CHANGES_MAX
        and all(can_identify(column.type) for column in columns if column.name in key)
    )


def plan(lake: Lake, lineage_id: str, table: Table, changelog: Table, segment: Segment, live: Sequence[DataFile],
         cores: int) -> MergePlan | None:  # fmt: skip
    """The tasks for a segment of a mirror that shows the files `live`; None where it is for Spark."""
    if not all(file.is_plain for file in live) or sum(file.rows for file in live) > LIVE_ROWS_MAX:
        return None
    rows = sum(file.rows for file in segment.files)
    shares = max(1, min(cores, rows // SHARE_ROWS, len(segment.files)))
    whole = MergeTask(
        lineage_id=lineage_id,
        columns=_taken(table, changelog, segment),
        key=tuple(column_name(name) for name in segment.version.table.key),
        changelog=tuple(file.uri for file in segment.files),
        low=segment.low,
        high=segment.high,
        by_arrival=segment.by_arrival,
        version_ts=segment.version.from_ts,
        live=(),
        prefix_uri=f"{table.location()}/data/{uuid.uuid4().hex}",
        shares=shares,
        io_properties=lake.io_properties,
    )
    files = [LiveFile(file.uri, file.rows, _place(file)) for file in live]
    tasks = tuple(replace(whole, share=n, live=tuple(files[n::shares])) for n in range(shares))
    return MergePlan(tasks, {file.uri: file.vector for file in live if file.vector is not None})


def _place(file: DataFile) -> VectorPlace | None:
    vector = file.vector
    return VectorPlace(vector.uri, vector.offset_bytes, vector.size_bytes) if vector is not None else None


def _taken(table: Table, changelog: Table, segment: Segment) -> tuple[Taken, ...]:
    """The mirror's columns, in its order, with where their values are in the changelog."""
    version = segment.version.table
    uids = {column.name: column.uid for column in mirror_columns(version.stored_columns, version.key)}
    places = columns_of(changelog.properties)
    commit_ts = changelog.schema().find_field(layout.COMMIT_TS).field_id
    return tuple(
        Taken(arrow_field(field), commit_ts if field.name == layout.COMMIT_TS else places[uids[field.name]][0])
        for field in table.schema().fields
    )
