"""Reads the changes of a changelog that a comparison of two TSOs needs.

Memory is bounded: a range with too many keys is read in several passes, each with a part of the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from ticdc_assets.changes import layout
from ticdc_assets.changes.differences import (
    CONVERTED,
    SENT,
    Changes,
    ComparedColumn,
    TsoRange,
    now_name,
    old_name,
)
from ticdc_assets.changes.rows_by_key import in_bucket, rows_with
from ticdc_assets.names import column_name
from ticdc_assets.names.folding import fold
from ticdc_assets.pipeline.history.tables import empties, version_after
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.evolution.schema_state import ConvertColumn, FillColumn
from ticdc_assets.tables.iceberg.stored_rows import ALL_FILES, FileShare, batches
from ticdc_assets.tables.mirror.effects import fill_value
from ticdc_assets.tables.progress import field_ids_by_uid

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.schema.history.source_table import SourceTable, Version
    from ticdc_assets.schema.model import Column

Part = TypeVar("Part")

HELD_BYTES_MAX: Final = 256 << 20
"""Memory for the changes of one pass."""

_MORE_PASSES: Final = 4


class ChangelogRange:
    """The changes of one table in a range, read in as many passes as memory demands."""

    def __init__(self, changelog: Table, source_table: SourceTable, compared: TsoRange, zone: str) -> None:
        self._changelog = changelog
        self._source_table = source_table
        self._range = compared
        version = version_after(source_table, compared.until)
        self._columns = tuple(self._compared_column(c, version, zone) for c in version.table.stored_columns)
        key = {fold(name) for name in version.table.key}
        self._key = tuple(c.uid for c in version.table.stored_columns if fold(c.name) in key)

    def _compared_column(self, column: Column, newest: Version, zone: str) -> ComparedColumn:
        steps: list[tuple[int, Any]] = []
        for version in self._source_table.versions:
            for effect in version.effects if version.from_ts <= newest.from_ts else ():
                if isinstance(effect, FillColumn) and effect.uid == column.uid:
                    steps.append((version.from_ts, fill_value(effect, version, zone)))
                elif isinstance(effect, ConvertColumn) and effect.new_uid == column.uid:
                    steps.append((version.from_ts, CONVERTED))
        return ComparedColumn(column.uid, column_name(column.name), arrow_type(column.type), tuple(steps))

    def parts(self) -> Iterator[pa.Table]:
        """The differences, in one part for each pass."""
        return in_passes(self._pass)

    def _pass(self, bucket: int, buckets: int) -> pa.Table:
        changes = Changes(self._range, self._key, self._columns)
        in_range = f"{layout.COMMIT_TS} > {self._range.after} and {layout.COMMIT_TS} <= {self._range.until}"
        self._add(changes, in_range, bucket, buckets)
        if self._range.emptied:
            self._add(changes, self._before(), bucket, buckets)
        elif wanted := changes.keys_without_old_values():
            self._add(changes, self._before(), bucket, buckets, wanted)
        return changes.differences()

    def _before(self) -> str:
        """The changes that determine the rows at the earlier TSO."""
        after = self._range.after
        emptied = [v.from_ts for v in self._source_table.versions if v.from_ts <= after and empties(v)]
        since = f"{layout.COMMIT_TS} > {emptied[-1]} and " if emptied else ""
        return f"{since}{layout.COMMIT_TS} <= {after}"

    def _add(
        self,
        changes: Changes,
        where: str,
        bucket: int,
        buckets: int,
        wanted: Sequence[pa.ChunkedArray] | None = None,
    ) -> None:
        for batch in self.batches(where):
            keys = [batch.column(now_name(uid)) for uid in self._key]
            if buckets > 1:
                batch = batch.filter(pa.array(in_bucket(keys, bucket, buckets)))
                keys = [batch.column(now_name(uid)) for uid in self._key]
            if wanted is not None:
                batch = batch.take(pa.array(np.sort(rows_with(keys, wanted))))
            changes.add(batch)
            if changes.held_bytes > HELD_BYTES_MAX:
                changes.fold()
                if 2 * changes.held_bytes > HELD_BYTES_MAX:
                    raise TooManyChangesError

    @property
    def columns(self) -> tuple[ComparedColumn, ...]:
        """The columns that are compared."""
        return self._columns

    def batches(self, where: str, share: FileShare = ALL_FILES) -> Iterator[pa.Table]:
        """The changes of which `where` is true: the system columns, SENT, and each column's new and old values."""
        places, schema = field_ids_by_uid(self._changelog.properties), self._changelog.schema()
        names = {
            c.uid: (schema.find_field(places[c.uid][0]).name, schema.find_field(places[c.uid][1]).name)
            for c in self._columns
            if c.uid in places
        }
        system = (layout.OP, layout.COMMIT_TS, layout.SEQ, layout.TABLE_VERSION)
        fields = (*system, layout.BEFORE, *(top for top, _ in names.values()))
        for batch in batches(self._changelog, None, fields, share, where):
            before = batch.column(layout.BEFORE)
            flat = dict(zip((f.name for f in before.type), before.flatten(), strict=True))
            columns: dict[str, pa.Array] = {name: batch.column(name) for name in system}
            columns[SENT] = before.is_valid()
            for column in self._columns:
                top, inner = names.get(column.uid, ("", ""))
                nothing = pa.nulls(len(batch), column.type)
                columns[now_name(column.uid)] = batch.column(top) if top else nothing
                columns[old_name(column.uid)] = flat[inner] if inner else nothing
            yield pa.table(columns)


class TooManyChangesError(Exception):
    """The changes of a pass take too much memory."""


def in_passes(one_pass: Callable[[int, int], Part]) -> Iterator[Part]:
    """The results of `one_pass(bucket, buckets)`, which reads the keys of part `bucket` of `buckets` parts
    (`in_bucket`).

    A pass that raises TooManyChangesError is divided.
    """
    left = [(0, 1)]
    while left:
        bucket, buckets = left.pop()
        try:
            part = one_pass(bucket, buckets)
        except TooManyChangesError:
            left += [(bucket + n * buckets, buckets * _MORE_PASSES) for n in range(_MORE_PASSES)]
            continue
        yield part
