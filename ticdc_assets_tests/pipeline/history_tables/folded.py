"""The versions of each row, folded from its changes without SQL: what a history table must have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.changes import layout
from ticdc_assets.changes.layout import IS_CURRENT, VALID_FROM, VALID_FROM_TIME, VALID_TO, VALIDITY_COLUMNS
from ticdc_assets.pipeline.history.refusals import versions_between
from ticdc_assets.pipeline.history.tables import empties, version_after
from ticdc_assets.pipeline.recorded.lake import RecordedLake
from ticdc_assets.schema.evolution.schema_state import FillColumn
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets.tables.mirror.effects import fill_value
from ticdc_assets.tables.progress import field_ids_by_uid
from ticdc_assets.tso import LOGICAL_BITS


def folded(recorded: RecordedLake, name: str) -> pa.Table:
    """The versions of the rows of the source table `schema.table` up to the TSO of a record, from its changelog."""
    changelog, tso = recorded.changelog(name), recorded.tso
    ids = {f"{table.schema}.{table.table}": table.source_table for table in recorded.record.tables}
    source_table = recorded.lake.history().by_id()[ids[name]]
    reached = versions_between(source_table, -1, tso)
    uids = {c.uid for version in reached for c in version.table.stored_columns}
    names = {field.field_id: field.name for field in changelog.scan().projection().fields}
    places = field_ids_by_uid(changelog.to_pyiceberg().properties)
    column_of = {uid: names[ids[0]] for uid, ids in places.items() if uid in uids and ids[0] in names}
    key = [column_of[column.uid] for column in version_after(source_table, tso).table.ordered_key]
    begun = (absence for absence in source_table.absences if absence.dropped_ts <= tso)
    absences = [(a.dropped_ts, a.back_ts if a.back_ts is not None and a.back_ts <= tso else None) for a in begun]
    emptied = [version.from_ts for version in reached if empties(version)]
    changes = changelog.scan(where=f"{layout.COMMIT_TS} <= {tso}").to_arrow()
    rows = row_versions(changes, key, emptied, absences)
    rows = _filled(rows, source_table, tso, column_of, recorded.lake.changefeed.time_zone)
    own = {name: _own(rows, name) for name, _ in VALIDITY_COLUMNS}
    return pa.table(own | {name: rows.column(name) for name in column_of.values()})


def _filled(rows: pa.Table, source_table: SourceTable, tso: int, column_of: dict[int, str], zone: str) -> pa.Table:
    """The rows with the defaults of columns that were added while they existed."""
    for version in versions_between(source_table, -1, tso):
        for effect in version.effects:
            if isinstance(effect, FillColumn) and effect.uid in column_of:
                value = fill_value(effect, version, zone)
                if value is not None:
                    name = column_of[effect.uid]
                    rows = filled(rows, name, version.from_ts, pa.scalar(value, rows.schema.field(name).type))
    return rows


def _own(rows: pa.Table, name: str) -> pa.ChunkedArray:
    if name == IS_CURRENT:
        return pc.is_null(rows.column(VALID_TO))
    if name in (VALID_FROM, VALID_TO):
        return rows.column(name)
    ms = pc.shift_right(rows.column(VALID_FROM if name == VALID_FROM_TIME else VALID_TO), LOGICAL_BITS)
    return pc.multiply(ms, pa.scalar(1000, pa.int64())).cast(pa.timestamp("us", tz="UTC"))


def row_versions(
    changes: pa.Table, key: Sequence[str], emptied: Sequence[int] = (), absences: Sequence[tuple[int, int | None]] = ()
) -> pa.Table:
    """The rows that the changes made, ordered by key and VALID_FROM, with VALID_FROM and VALID_TO as TSOs.

    A reader at the TSO t sees the rows with VALID_FROM <= t < VALID_TO; VALID_TO is NULL where no change and none
    of the TSOs `emptied` ended the row. Of several changes of a key in one commit, the last one makes the row.

    Args:
        changes: all changes of the keys in it, in any order, with the system columns of a changelog.
        emptied: the TSOs, ascending, at which a statement removed all rows.
        absences: the TSOs, ascending, at which the table was dropped and came back with its rows; None if it did not.
    """
    order = [*((name, "ascending") for name in key), (layout.COMMIT_TS, "ascending"), (layout.SEQ, "ascending")]
    rows = changes.sort_by(order).combine_chunks()
    commit_ts = rows.column(layout.COMMIT_TS).to_numpy()
    is_followed = np.zeros(len(rows), np.bool_)
    if len(rows):
        is_followed[:-1] = _equals_next(rows, key)
    next_ts = np.append(commit_ts[1:], np.zeros(min(1, len(rows)), np.int64))
    ends_at, has_end = _ends(commit_ts, np.asarray(emptied, np.int64))
    is_changed_first = is_followed & (~has_end | (next_ts <= ends_at))
    valid_to = np.where(is_changed_first, next_ts, ends_at)
    has_end |= is_followed
    exists = (rows.column(layout.OP).to_numpy(zero_copy_only=False) != "D") & (~has_end | (valid_to > commit_ts))
    rows = rows.append_column(VALID_FROM, pa.array(commit_ts))
    rows = rows.append_column(VALID_TO, pa.array(valid_to, mask=~has_end))
    rows = rows.filter(pa.array(exists))
    for dropped_ts, back_ts in absences:
        rows = _interrupted(rows, dropped_ts, back_ts)
    return rows.sort_by([*((name, "ascending") for name in key), (VALID_FROM, "ascending")]) if absences else rows


def _interrupted(rows: pa.Table, dropped_ts: int, back_ts: int | None) -> pa.Table:
    """The rows, where those that are valid at `dropped_ts` end there and begin again at `back_ts`."""
    is_open = pc.or_(pc.is_null(rows[VALID_TO]), pc.fill_null(pc.greater(rows[VALID_TO], dropped_ts), False))
    is_valid = pc.and_(pc.less_equal(rows[VALID_FROM], dropped_ts), is_open)
    valid = rows.filter(is_valid)
    ended = _with(valid, VALID_TO, dropped_ts)
    parts = [rows.filter(pc.invert(is_valid)), ended.filter(pc.less(ended[VALID_FROM], dropped_ts))]
    return pa.concat_tables(parts if back_ts is None else [*parts, _with(valid, VALID_FROM, back_ts)])


def _with(rows: pa.Table, name: str, ts: int) -> pa.Table:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(place), pa.array(np.full(len(rows), ts)))


def _equals_next(rows: pa.Table, key: Sequence[str]) -> npt.NDArray[np.bool_]:
    """For each row except the last, whether the next one has the same key."""
    same = [_equal(rows.column(name)[:-1], rows.column(name)[1:]) for name in key]
    found: npt.NDArray[np.bool_] = reduce(pc.and_, same).to_numpy(zero_copy_only=False)
    return found


def _equal(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.or_(both_null, pc.fill_null(pc.equal(one, other), False))


def _ends(
    commit_ts: npt.NDArray[np.int64], emptied: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The first TSO of `emptied` that follows each commit, and where there is one. A statement takes effect after the
    changes of its own TSO."""
    places = np.searchsorted(emptied, commit_ts, side="left")
    has_end = places < len(emptied)
    return np.append(emptied, 0)[places], has_end


def filled(rows: pa.Table, column: str, version_ts: int, value: pa.Scalar) -> pa.Table:
    """The rows with a value in a column that was added later: rows that existed when the statement at `version_ts`
    added it get `value`.

    Args:
        rows: versions of rows, with VALID_FROM and VALID_TO.
    """
    is_older = pc.less(rows.column(layout.TABLE_VERSION), version_ts)
    ends = rows.column(VALID_TO)
    outlives = pc.or_(pc.is_null(ends), pc.fill_null(pc.greater(ends, version_ts), False))
    place = rows.schema.get_field_index(column)
    new = pc.if_else(pc.and_(is_older, outlives), value, rows.column(column))
    return rows.set_column(place, rows.schema.field(place), new)
