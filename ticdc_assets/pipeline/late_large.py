"""Large rows that may be late, and of which a message holds the handle key alone.

What TiCDC sends again is known by its key, so that no claim-check file is opened for it and no TiDB asked: the file may
be gone by then.
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
from ticdc_assets.pipeline.late_rows import are_known
from ticdc_assets.pipeline.message_completion import needs_completing
from ticdc_assets.pipeline.message_values import RowValues, spelt
from ticdc_assets.protocols.events import Op, RowEvent

if TYPE_CHECKING:
    from ticdc_assets.pipeline.message_task import MessageTask
    from ticdc_assets.schema.lineage import Slot, SourceName
    from ticdc_assets.schema.model import Column
    from ticdc_assets.sources.capture import Message


@dataclass(frozen=True, slots=True)
class LateLarge:
    """A change that may be late, with where it stands."""

    name: SourceName
    slot: Slot
    event: RowEvent
    message: Message
    at: tuple[int, int]

    @property
    def version(self) -> tuple[str, int]:
        assert self.slot.lineage_id is not None
        assert self.slot.version is not None
        return (self.slot.lineage_id, self.slot.version.from_ts)

    def key(self, task: MessageTask) -> tuple[Column, ...] | None:
        """The key columns of its table; None where there are none, or the message does not tell them all."""
        assert self.slot.version is not None
        table = self.slot.version.table
        key = tuple(column for column in table.stored_columns if column.name in table.key)
        sent = {name.lower() for name, value in self.event.wire.items() if value is not None}
        return key if key and all(spelt(task, column) in sent for column in key) else None


def is_large(event: RowEvent) -> bool:
    """Whether the message does not hold the whole row."""
    return event.claim is not None or needs_completing(event)


def told_apart(task: MessageTask, values: RowValues, rows: Sequence[LateLarge]) -> Iterator[tuple[LateLarge, bool]]:
    """Each of the rows, and whether its changelog has it."""
    for _, some in groupby(sorted(rows, key=lambda row: (row.version, row.at)), key=lambda row: row.version):
        yield from _of_version(task, values, list(some))


def _of_version(task: MessageTask, values: RowValues, rows: Sequence[LateLarge]) -> Iterator[tuple[LateLarge, bool]]:
    keyed = [row for row in rows if row.key(task) is not None]
    yield from ((row, False) for row in rows if row.key(task) is None)
    if keyed:
        target = task.targets[keyed[0].version[0]]
        try:
            known = are_known(target.metadata_uri, task.io_properties, _identities(task, values, keyed))
        except TicdcAssetsError:  # of a key that cannot be read; the row's own fault is told when it is taken
            known = np.zeros(len(keyed), np.bool_)
        yield from ((row, bool(is_known)) for row, is_known in zip(keyed, known, strict=True))


def _identities(task: MessageTask, values: RowValues, rows: Sequence[LateLarge]) -> pa.Table:
    """What the changelog knows the rows by, under its names."""
    version, key = rows[0].slot.version, rows[0].key(task)
    assert version is not None
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
