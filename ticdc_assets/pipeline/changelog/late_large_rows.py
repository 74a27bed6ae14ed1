"""Large rows that may be late, where the message holds only the handle key.

A repeat is recognised by its key. So a repeat opens no claim-check file, which may be deleted by then, and needs no
query of TiDB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ticdc_assets.changes import layout
from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.pipeline.changelog.late_rows import are_known
from ticdc_assets.pipeline.stream.decode.large_rows import needs_completing
from ticdc_assets.pipeline.stream.decode.row_values import RowValues, spelt
from ticdc_assets.protocols.events import Op, RowEvent

if TYPE_CHECKING:
    from ticdc_assets.pipeline.stream.decode.task import MessageTask
    from ticdc_assets.schema.history.source_table import SchemaPeriod, SourceName
    from ticdc_assets.schema.model import Column
    from ticdc_assets.sources.capture import Message


@dataclass(frozen=True, slots=True)
class LateLarge:
    """A change that may be late, with its position."""

    name: SourceName
    period: SchemaPeriod
    event: RowEvent
    message: Message
    at: tuple[int, int]

    @property
    def version(self) -> tuple[str, int]:
        return (self.period.source_table_id, self.period.version.from_ts)

    def key(self, task: MessageTask) -> tuple[Column, ...] | None:
        """The key columns of its table; None for a table without a key, or where the message lacks one of them."""
        table = self.period.version.table
        key = tuple(column for column in table.stored_columns if column.name in table.key)
        sent = {name.lower() for name, value in self.event.wire.items() if value is not None}
        return key if key and all(spelt(task, column) in sent for column in key) else None


def is_large(event: RowEvent) -> bool:
    """Whether the message lacks columns of the row."""
    return event.claim is not None or needs_completing(event)


def with_known(task: MessageTask, values: RowValues, rows: Sequence[LateLarge]) -> Iterator[tuple[LateLarge, bool]]:
    """Each row, and whether its changelog has it."""
    for _, some in groupby(sorted(rows, key=lambda row: (row.version, row.at)), key=lambda row: row.version):
        yield from _of_version(task, values, list(some))


def _of_version(task: MessageTask, values: RowValues, rows: Sequence[LateLarge]) -> Iterator[tuple[LateLarge, bool]]:
    keyed = [row for row in rows if row.key(task) is not None]
    yield from ((row, False) for row in rows if row.key(task) is None)
    if keyed:
        target = task.targets[keyed[0].version[0]]
        try:
            known = are_known(target.metadata_uri, task.io_properties, _identities(task, values, keyed))
        except TicdcAssetsError:  # the key cannot be read; the row's own fault is reported when the row is decoded
            known = np.zeros(len(keyed), np.bool_)
        yield from ((row, bool(is_known)) for row, is_known in zip(keyed, known, strict=True))


def _identities(task: MessageTask, values: RowValues, rows: Sequence[LateLarge]) -> pa.Table:
    """The identity columns of the rows, under their names in the changelog."""
    version, key = rows[0].period.version, rows[0].key(task)
    assert key is not None
    schema = task.targets[rows[0].version[0]].schemas[version.from_ts]
    stored = version.table.stored_columns
    first = schema.get_field_index(layout.BEFORE) + 1
    fields = [schema.field(first + stored.index(column)) for column in key]
    cells = zip(*(values.of(key, row.event.wire) for row in rows), strict=True)
    keys = {field.name: pa.array(list(column), field.type) for field, column in zip(fields, cells, strict=True)}
    ops = ["D" if row.event.op is Op.DELETE else "I" for row in rows]
    place = {
        layout.COMMIT_TS: pa.array([row.event.commit_ts for row in rows], pa.int64()),
        layout.OP: pa.array(ops, pa.string()),
    }
    return pa.table({**place, **keys})
