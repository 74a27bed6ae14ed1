"""Tables that grow by a row or two with each run: their newest row, their small files, their old snapshots.

Without this the cost of a run would grow with the number of earlier runs: each adds a file and a snapshot, and reading
the newest row would open every file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files
from pyiceberg.table import FileScanTask, Table, Transaction
from pyiceberg.table.update import RemoveSnapshotsUpdate
from pyiceberg.types import PrimitiveType

MINUTES_KEPT: Final = 1
"""How long a replaced snapshot of such a table stays. Each commit writes all of them again, and runs commit twice.

No record names these snapshots, and a reader that has loaded one needs only its files, which stay for longer.
"""

_LEVELS: Final = 4
"""Levels of merged files: `files_max` to the power of this is more rows than a table of runs ever has."""


def last_row(
    table: Table, where: BooleanExpression, order: Sequence[str], identity: tuple[str, ...]
) -> dict[str, Any] | None:
    """The row with the largest values in the columns `order`, none of which is null; None without a row.

    Reads the files with the largest upper bounds first, and only as many as may have that row. `order` and `identity`
    are small columns; the row that they select is read alone, as the others may be large.
    """
    best: tuple[Any, ...] | None = None
    found: tuple[FileScanTask, dict[str, Any]] | None = None
    for bound, task in _by_upper_bound(table, where, order):
        if best is not None and bound is not None and bound < best:
            break
        heads = _read([task], table, where, (*order, *identity))
        keys = list(zip(*(_plain(heads.column(name)) for name in order), strict=True))
        for key, head in zip(keys, heads.to_pylist(), strict=True):
            if best is None or key > best:
                best, found = key, (task, head)
    if found is None:
        return None
    task, head = found
    same = [EqualTo(name, head[name]) for name in identity]
    rows: list[dict[str, Any]] = _read([task], table, And(where, AlwaysTrue(), *same), ("*",)).to_pylist()
    return next(row for row in rows if all(row[name] == head[name] for name in (*order, *identity)))


def _by_upper_bound(
    table: Table, where: BooleanExpression, order: Sequence[str]
) -> Iterator[tuple[tuple[Any, ...] | None, FileScanTask]]:
    """The files that may have matching rows, by their upper bounds of `order`, largest first; those without first."""
    columns = [table.schema().find_field(name) for name in order]
    known: list[tuple[tuple[Any, ...], FileScanTask]] = []
    for task in table.scan(row_filter=where).plan_files():
        bounds = task.file.upper_bounds or {}
        if all(column.field_id in bounds for column in columns):
            types = [column.field_type for column in columns]
            assert all(isinstance(type_, PrimitiveType) for type_ in types)
            bound = tuple(from_bytes(type_, bounds[c.field_id]) for type_, c in zip(types, columns, strict=True))  # type: ignore[arg-type]
            known.append((bound, task))
        else:
            yield None, task
    yield from sorted(known, key=lambda pair: pair[0], reverse=True)


def _plain(column: pa.ChunkedArray) -> list[int]:
    """Longs, and times as microseconds, as bounds have them."""
    values: list[int] = column.cast(pa.int64()).to_pylist()
    return values


def _read(tasks: list[FileScanTask], table: Table, where: BooleanExpression, names: tuple[str, ...]) -> pa.Table:
    columns = table.scan(selected_fields=names).projection()
    return ArrowScan(table.metadata, table.io, columns, where, case_sensitive=True).to_table(tasks)


def is_scattered(table: Table, files_max: int) -> bool:
    """Whether the table may have more than `files_max` small files. Reads no manifest."""
    snapshot = table.current_snapshot()
    summary = snapshot.summary if snapshot is not None else None
    return summary is not None and int(summary["total-data-files"] or 0) > files_max


def merge_files(table: Table, tx: Transaction, files_max: int) -> None:
    """Rewrite the small files of the table as one and remove old snapshots, in one commit.

    Files are merged in levels, so that a row is rewritten at most once for each level. The files of level n have at
    most `files_max` to the power of n rows; up to level n there are at most n times `files_max` files.
    """
    tasks = list(table.scan().plan_files())
    for level in range(1, _LEVELS + 1):
        small = [task for task in tasks if task.file.record_count <= files_max**level]
        if len(small) > files_max * level:
            _merge(table, tx, small)
            break
    else:
        return
    from ticdc_assets.tables.maintenance.snapshot_expiry import expiry_of  # imported only when needed

    older_than = datetime.now(UTC) - timedelta(minutes=MINUTES_KEPT)
    gone = expiry_of(table.metadata, (), older_than).snapshot_ids
    if gone:
        tx._apply((RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(gone)}),))  # noqa: SLF001  its public form is quadratic


def _merge(table: Table, tx: Transaction, tasks: list[FileScanTask]) -> None:
    rows = _read(tasks, table, AlwaysTrue(), ("*",))
    with tx.update_snapshot().overwrite() as update:
        for task in tasks:
            update.delete_data_file(task.file)
        for file in _dataframe_to_data_files(tx.table_metadata, rows, table.io, update.commit_uuid):
            update.append_data_file(file)
