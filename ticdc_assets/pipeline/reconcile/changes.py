"""Rows of TiDB at a TSO as changes of a changelog: R for a row that TiDB has, D for a key that it lacks."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual

from ticdc_assets.changes import layout
from ticdc_assets.changes.typed import TypedChanges, changelog_table
from ticdc_assets.errors import NotYetError, StaleRunError
from ticdc_assets.pipeline.history.tables import version_after
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.tables import changelog
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.iceberg.commits import refreshed
from ticdc_assets.tables.iceberg.parquet import DataFileWriter
from ticdc_assets.tables.progress import Progress, progress_of
from ticdc_assets.tables.replayed import Replayed, replay_mark

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.history.source_table import SourceTable, Version
    from ticdc_assets.sources.upstream.key_ranges import Key
    from ticdc_assets.tables.iceberg.written_file import WrittenFile

Image = Mapping[str, Any]
"""The values of a row in the lake, by column name."""

_COMMIT_TRIES_MAX: Final = 5
"""Runs that publish at the same time do not change what TiDB has at the TSO: the same file is committed after them."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What TiDB has at `tso` where a table of the lake has otherwise: rows, in chunks, and the keys of rows that TiDB
    lacks."""

    source_table: SourceTable
    tso: int
    rows: Iterable[Sequence[Image]]
    gone: Sequence[Key] = ()


def add(lake: Lake, found: Reconciled, run_id: str) -> tuple[Table, int]:
    """Add the changes to the changelog in one commit, so that the mirror merges them. Changes of the stream above the
    TSO stay newer.

    Returns:
        The changelog and the number of its new changes.

    Raises:
        NotYetError: a statement has this TSO, so that no change at the TSO can have the columns after it.
        StaleRunError: other runs publish all the time, or have replaced the changelog.
    """
    recorded = lake.recorded(lake.control.newest())[found.source_table.id]
    version = version_after(found.source_table, found.tso)
    if version.from_ts >= found.tso:
        where, advice = ".".join(found.source_table.name), "Run `ticdc-assets run`, then try again."
        raise NotYetError(where, "a TSO after the newest statement", f"{found.tso}, that of the statement", advice)
    table = lake.catalog.load_table(tuple(recorded.changelog or ()))
    schema = changelog.write_schema(table, [column.uid for column in version.table.stored_columns])
    file, count = _written(table, found, version, schema)
    mirror = load_or_none(lake.catalog, tuple(recorded.mirror)) if recorded.mirror else None
    for tries_left in reversed(range(_COMMIT_TRIES_MAX)):
        table = refreshed(table)
        parent, mark = progress_of(table), Replayed(run_id, found.tso, version.from_ts)
        # Runs without rows of the table have recorded later watermarks. Readers skip commits by their watermark.
        progress = Progress(max(parent.watermark, found.tso), parent.position, run_id, parent.files)
        properties = replay_mark(found.source_table, table, mirror, mark)
        is_same = changelog.write_schema(table, [c.uid for c in version.table.stored_columns]) == schema
        try:
            return changelog.publish(table, lake.changefeed.name, [file], parent, progress, properties), count
        except StaleRunError:
            if not tries_left or not is_same:
                raise
    raise AssertionError


def _written(table: Table, found: Reconciled, version: Version, schema: pa.Schema) -> tuple[WrittenFile, int]:
    uri = f"{table.location().rstrip('/')}/data/{uuid.uuid4().hex}-from-tidb.parquet"
    first = number = next_seq(table, found.tso)
    try:
        with DataFileWriter(table.io, uri, schema) as file:
            for rows in found.rows:
                file.write(changes_of(version, found.tso, rows, (), schema, number))
                number += len(rows)
            if found.gone:
                file.write(changes_of(version, found.tso, (), found.gone, schema, number))
                number += len(found.gone)
            return file.close(), number - first
    except BaseException:
        table.io.delete(uri)
        raise


def next_seq(table: Table, tso: int) -> int:
    """The first `_ticdc_seq` for changes at `tso`: above those of the stream, and of earlier changes from TiDB."""
    where = And(EqualTo(layout.COMMIT_TS, tso), GreaterThanOrEqual(layout.SEQ, layout.FROM_TIDB_SEQ))
    known: list[int] = table.scan(row_filter=where, selected_fields=(layout.SEQ,)).to_arrow()[layout.SEQ].to_pylist()
    return max([layout.FROM_TIDB_SEQ - 1, *known]) + 1


def changes_of(
    version: Version, tso: int, rows: Sequence[Image], gone: Sequence[Key], schema: pa.Schema, first: int
) -> pa.Table:
    """The changes in the layout of a changelog's data file.

    Args:
        gone: the keys of rows that TiDB lacks, in the order of the key's columns.
        schema: the columns of the data file.
        first: the `_ticdc_seq` of the first change.
    """
    columns, count = version.table.stored_columns, len(rows) + len(gone)
    names = [column.name for column in version.table.ordered_key]
    images = [*rows, *(dict(zip(names, key, strict=True)) for key in gone)]
    now = tuple(pa.array([image.get(c.name) for image in images], arrow_type(c.type)) for c in columns)
    zeros = pa.array(np.zeros(count, np.int64))
    changes = TypedChanges(
        columns=columns,
        op=pa.array(["R"] * len(rows) + ["D"] * len(gone), pa.string()),
        commit_ts=pa.array(np.full(count, tso, np.int64)),
        commit_ms=pa.nulls(count, pa.int64()),
        line=zeros,
        half=zeros,
        now=now,
        before=tuple(pa.nulls(count, values.type) for values in now),
        has_before=pa.array(np.zeros(count, np.bool_)),
        zero_dates=0,
    )
    return changelog_table(changes, pa.array(first + np.arange(count, dtype=np.int64)), version.from_ts, schema)
