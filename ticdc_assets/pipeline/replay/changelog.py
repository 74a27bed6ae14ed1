"""Appends changes from quarantine to their changelogs, each once, at the watermarks that are recorded.

Changes are compared with the changelog by identity: key, commit_ts and operation; for a table without a key or a stream
without commit_ts also by position. So a replay may be repeated, and a change that TiCDC sent again is added once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import In

from ticdc_assets.changes import layout
from ticdc_assets.changes.identity import first_of_each, ordinals
from ticdc_assets.pipeline.changelog.publish import key_names
from ticdc_assets.pipeline.replay.context import ReplayContext, Rows
from ticdc_assets.tables import changelog
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.iceberg.written_file import WrittenFile
from ticdc_assets.tables.progress import Progress, progress_of
from ticdc_assets.tables.replayed import Replayed, replay_mark

if TYPE_CHECKING:
    from pyiceberg.table import Table

_PLACE: Final = (layout.COMMIT_TS, layout.OP)


def append_replayed(replay_context: ReplayContext, source_table_id: str, rows: Sequence[Rows]) -> int:
    """Append the changes that the source table's changelog lacks, in one fenced commit. Returns their number."""
    table = replay_context.tables[source_table_id].refresh()
    replay_context.tables[source_table_id] = table
    lacking = [fresh for version in _by_version(rows) if len((fresh := _lacking(replay_context, table, version)).table)]
    if not lacking:
        return 0
    files = [
        _written(table, f"{replay_context.run_id}-replay-{number:05d}", day)
        for number, day in enumerate(day for one in lacking for day in _by_day(one.table))
    ]
    parent = progress_of(table)
    newest = max(pc.max(one.table.column(layout.SEQ)).as_py() for one in lacking)
    position = max(parent.position, newest) if replay_context.lake.by_arrival else parent.position
    # A changelog without a snapshot has no watermark of its own yet; readers of its commits need one.
    watermark = max(parent.watermark, replay_context.commit_ranges[source_table_id].high)
    progress = Progress(watermark, position, replay_context.run_id, parent.files)
    name = replay_context.lake.changefeed.name
    mark = _mark(replay_context, source_table_id, table, lacking)
    replay_context.tables[source_table_id] = changelog.publish(table, name, files, parent, progress, mark)
    return sum(len(one.table) for one in lacking)


def lacks(replay_context: ReplayContext, source_table_id: str, rows: Sequence[Rows]) -> bool:
    """Whether the changelog lacks any of the changes. A change with other values than the one there is lacking too."""
    table = replay_context.tables[source_table_id].refresh()
    return any(len(_lacking(replay_context, table, version, with_values=True).table) for version in _by_version(rows))


def _by_version(rows: Sequence[Rows]) -> list[Rows]:
    versions = sorted({one.version_ts for one in rows})
    together = [[one for one in rows if one.version_ts == version] for version in versions]
    return [replace(some[0], table=_ordered(pa.concat_tables([one.table for one in some]))) for some in together]


def _ordered(table: pa.Table) -> pa.Table:
    return table.sort_by([(layout.COMMIT_TS, "ascending"), (layout.SEQ, "ascending")])


# -- what is there already --------------------------------------------------------------------------------------------


def _lacking(replay_context: ReplayContext, table: Table, rows: Rows, *, with_values: bool = False) -> Rows:
    """The changes that are not in the changelog, each once; those with a key by their key, or `with_values`."""
    key = key_names(replay_context.commit_ranges[rows.source_table_id], table).get(rows.version_ts, ())
    columns = [n for n in rows.table.column_names if n not in (layout.BEFORE, layout.COMMIT_TIME, layout.TABLE_VERSION)]
    identity = [*_PLACE, layout.SEQ, *key] if replay_context.lake.by_arrival else [*_PLACE, *key]
    if with_values and not replay_context.lake.by_arrival:
        columns.remove(layout.SEQ)  # the changelog may have the change from where TiCDC sent it again
    identity = identity if key and not with_values else columns
    by = layout.SEQ if replay_context.lake.by_arrival else layout.COMMIT_TS
    where = In(by, set(rows.table.column(by).to_pylist()))
    there = table.scan(row_filter=where, selected_fields=tuple(identity)).to_arrow().select(identity)
    kept = _not_among(rows.table.select(identity), there, counts=not key)
    return replace(rows, table=rows.table.take(kept))


def _not_among(rows: pa.Table, there: pa.Table, counts: bool) -> pa.Array:
    """The indices of the rows that have no equal row in `there`. With `counts`, equal rows are counted."""
    columns = pa.concat_tables([there.cast(rows.schema), rows]).columns
    if counts:
        side = pa.array(np.arange(len(there) + len(rows)) >= len(there))
        columns = [*columns, pa.array(ordinals([*columns, side]))]
    return pa.array(np.flatnonzero(first_of_each(columns)[len(there) :]))


# -- files and the mark -----------------------------------------------------------------------------------------------


def _by_day(table: pa.Table) -> list[pa.Table]:
    """The rows by UTC day of commit: a data file holds one day."""
    days = table.column(layout.COMMIT_TIME).cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    return [
        table.filter(pc.is_null(days) if day is None else pc.fill_null(pc.equal(days, day), False))
        for day in pc.unique(days).to_pylist()
    ]


def _written(table: Table, name: str, rows: pa.Table) -> WrittenFile:
    uri = f"{table.location().rstrip('/')}/data/{name}.parquet"
    stream = table.io.new_output(uri).create(overwrite=True)
    with pq.ParquetWriter(stream, rows.schema, compression="zstd", compression_level=1, store_schema=False) as writer:
        writer.write_table(rows)
    size_bytes = stream.tell()
    stream.close()
    return WrittenFile(uri, size_bytes, writer.writer.metadata)


def _mark(replay_context: ReplayContext, source_table_id: str, table: Table, rows: Sequence[Rows]) -> dict[str, str]:
    """The properties that make the mirror merge these changes again."""
    by = layout.SEQ if replay_context.lake.by_arrival else layout.COMMIT_TS
    first = min(pc.min(one.table.column(by)).as_py() for one in rows)
    mark = Replayed(replay_context.run_id, first, min(one.version_ts for one in rows))
    mirror = load_or_none(
        replay_context.lake.catalog, replay_context.lake.table_locations(replay_context.history)[source_table_id].mirror
    )
    return replay_mark(replay_context.commit_ranges[source_table_id].source_table, table, mirror, mark)
