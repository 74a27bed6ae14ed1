"""Writes the changes of one task as parts, ordered by source table, version and delivery."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from pyiceberg.io import load_file_io

from ticdc_assets.changes.identity import first_of_each
from ticdc_assets.changes.typed import TypedChanges, concat, split_key_moves
from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.pipeline.changelog.parts import PartWriter
from ticdc_assets.pipeline.stream.decode.batches import Piece
from ticdc_assets.pipeline.stream.decode.task import MessageTask
from ticdc_assets.pipeline.tasks import ChangelogPart
from ticdc_assets.schema.history.source_table import SchemaPeriod, SourceName

Group = tuple[str, int, int, bool]
"""Source table, version and delivery, and whether the rows may be late."""


def group_of(period: SchemaPeriod, epoch: int, late: bool = False) -> Group:
    """The group that rows of this schema period and delivery are written in."""
    return (period.source_table_id, period.version.from_ts, epoch, late)


def write_parts(
    task: MessageTask,
    groups: Iterable[tuple[Group, list[Piece]]],
    hold: Callable[[SourceName, TicdcAssetsError], None],
    label: str = "",
) -> list[ChangelogPart]:
    """The parts of these groups. `label` distinguishes their files from others of the task. An error of one group is
    passed to `hold`, with the name of its rows."""
    if not task.targets:
        return []
    first = next(iter(task.targets.values()))
    io = load_file_io(dict(task.io_properties), location=first.data_uri)
    writers: dict[tuple[str, int, bool], PartWriter] = {}
    names: dict[tuple[str, int, bool], SourceName] = {}
    for (source_table_id, version_ts, epoch, late), pieces in groups:
        place = (source_table_id, epoch, late)
        if place not in writers:
            prefix = f"{task.run_id}-{task.number:05d}-{epoch}{'-late' if late else ''}{label}"
            writers[place] = PartWriter(io, task.targets[source_table_id], prefix, 0, epoch, late)
        names[place] = pieces[0].name
        with _held_alone(names[place], hold):
            _write(task, writers[place], version_ts, pieces)
    for place, writer in writers.items():
        with _held_alone(names[place], hold):
            writer.close()
    return [part for writer in writers.values() for part in writer.parts]


@contextmanager
def _held_alone(name: SourceName, hold: Callable[[SourceName, TicdcAssetsError], None]) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001  raised again where it is not of one table
        hold(name, of_one_table(error))


def _write(
    task: MessageTask,
    writer: PartWriter,
    version_ts: int,
    pieces: Sequence[Piece],
) -> None:
    period = pieces[0].period
    table = period.version.table
    changes = split_key_moves(_in_order(pieces), table.unique_columns)
    if not len(changes):
        return
    if not task.order.by_arrival:
        changes = changes.take(_sorted(changes))
        if table.key:
            changes = changes.take(_once(changes, table.key))
    arrival = task.order.arrivals.get(period.source_table_id)
    writer.write(changes, (), version_ts, arrival.number if arrival else 0, by_arrival=task.order.by_arrival)


def _in_order(pieces: Sequence[Piece]) -> TypedChanges:
    """All rows of the pieces in the order of the stream."""
    changes = concat([piece.changes for piece in pieces])
    line = changes.line.to_numpy(zero_copy_only=False)
    position = np.concatenate([piece.position for piece in pieces])
    order = np.lexsort((position, line))
    return changes if (order[1:] > order[:-1]).all() else changes.take(pa.array(order))


def _sorted(changes: TypedChanges) -> pa.Array:
    ts = changes.commit_ts.to_numpy(zero_copy_only=False)
    place = changes.line.to_numpy(zero_copy_only=False) * 2 + changes.half.to_numpy(zero_copy_only=False)
    return pa.array(np.lexsort((place, ts)))


def _once(changes: TypedChanges, key: tuple[str, ...]) -> pa.Array:
    wanted = {name.lower() for name in key}
    keys = [a for c, a in zip(changes.columns, changes.now, strict=True) if c.name.lower() in wanted]
    return pa.array(np.flatnonzero(first_of_each([changes.commit_ts, changes.op, *keys])))
