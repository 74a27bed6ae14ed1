"""The number of rows that a mirror must have, counted from its changelog alone: the keys whose last change is no
delete.

The count is exact or refused with a reason, never estimated. It reads only the key columns, once, as a stream in
bounded memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.changes import layout
from ticdc_assets.changes.rows_by_key import newest_of_each
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.evolution.schema_state import ConvertColumn, DeletePartitions, KeyChanged, TruncateRows
from ticdc_assets.tables.progress import field_ids_by_uid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table

    from ticdc_assets.schema.history.source_table import SourceTable, Version
    from ticdc_assets.schema.model import Column

ROWS_MAX: Final = 1_000_000
"""About one second of work. A larger changelog is not counted in each run."""

HELD_BYTES_MAX: Final = 512 << 20
"""Memory for changes. Where the keys alone take half of it, the count is refused."""

_FOLD_ROWS: Final = 1 << 17
"""New rows to collect before they are folded with the earlier ones."""


@dataclass(frozen=True, slots=True)
class FoldCount:
    """`rows` is None where the rows cannot be counted exactly; `reason` then says why."""

    rows: int | None
    reason: str = ""


def count_fold(source_table: SourceTable, changelog: Table, watermark: int, by_arrival: bool) -> FoldCount:
    """Count the rows after folding the changelog, from the last statement that emptied the table up to `watermark`."""
    begin = _begin(source_table, watermark)
    refusal = _refusal(source_table, begin, watermark)
    if refusal:
        return FoldCount(None, refusal)
    where = f"{layout.TABLE_VERSION} >= {begin.from_ts}"
    if not by_arrival:
        where += f" and {layout.COMMIT_TS} <= {watermark}"
    names = _key_names(source_table, changelog)
    scan = changelog.scan(row_filter=where, selected_fields=(layout.OP, layout.COMMIT_TS, layout.SEQ, *names))
    most = sum(task.file.record_count for task in scan.plan_files())
    if most > ROWS_MAX:
        return FoldCount(None, f"the changelog has {most:,} changes to count, more than the {ROWS_MAX:,} of each run")
    return _counted(scan.to_arrow_batch_reader(), by_arrival) if most else FoldCount(0)


def _begin(source_table: SourceTable, watermark: int) -> Version:
    """The version from which the changelog determines all rows: the table's first, or its last TRUNCATE."""
    reached = [v for v in source_table.versions if v.from_ts <= watermark] or list(source_table.versions[:1])
    emptied = [v for v in reached if any(isinstance(effect, TruncateRows) for effect in v.effects)]
    return emptied[-1] if emptied else reached[0]


def _refusal(source_table: SourceTable, begin: Version, watermark: int) -> str:
    later = [v for v in source_table.versions if begin.from_ts <= v.from_ts <= watermark]
    effects = [effect for version in later for effect in version.effects]
    key_uids = {column.uid for column in _key_columns(source_table)}
    if not key_uids:
        return "the table has no key"
    if any(isinstance(effect, DeletePartitions) for effect in effects):
        return "partitions were removed, with rows that the changelog alone does not show"
    if any(isinstance(effect, KeyChanged) for effect in effects) or not all(v.table.key for v in later):
        return "the key was changed"
    if any(isinstance(effect, ConvertColumn) and effect.new_uid in key_uids for effect in effects):
        return "a key column's type was changed"
    return ""


def _key_columns(source_table: SourceTable) -> list[Column]:
    wanted = {fold(name) for name in source_table.newest.key}
    return [column for column in source_table.newest.stored_columns if fold(column.name) in wanted]


def _key_names(source_table: SourceTable, changelog: Table) -> list[str]:
    places = field_ids_by_uid(changelog.properties)
    return [changelog.schema().find_field(places[column.uid][0]).name for column in _key_columns(source_table)]


def _counted(batches: Iterable[pa.RecordBatch], by_arrival: bool) -> FoldCount:
    held: list[pa.RecordBatch] = []
    folded_rows = new_rows = held_bytes = 0
    for batch in batches:
        held.append(batch)
        new_rows += len(batch)
        held_bytes += batch.nbytes
        if new_rows >= max(folded_rows, _FOLD_ROWS) or held_bytes >= HELD_BYTES_MAX:
            folded = _newest(held, by_arrival)
            held, folded_rows, new_rows, held_bytes = folded.to_batches(), len(folded), 0, folded.nbytes
            if 2 * held_bytes > HELD_BYTES_MAX:
                return FoldCount(None, f"its keys take more than {HELD_BYTES_MAX >> 21} MiB")
    if not held:
        return FoldCount(0)
    remain = pc.not_equal(_newest(held, by_arrival).column(layout.OP), "D")
    return FoldCount(int(pc.sum(remain, min_count=0).as_py()))


def _newest(changes: list[pa.RecordBatch], by_arrival: bool) -> pa.Table:
    table = pa.Table.from_batches(changes)
    keys = table.drop_columns([layout.OP, layout.COMMIT_TS, layout.SEQ]).columns
    order = [layout.SEQ] if by_arrival else [layout.COMMIT_TS, layout.SEQ]
    return table.take(pa.array(newest_of_each(keys, [table.column(name) for name in order])))
