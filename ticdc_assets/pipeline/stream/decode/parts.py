"""Writes the changes of one task as parts, ordered by source table, version and delivery."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from pyiceberg.io import load_file_io

from ticdc_assets.changes.identity import first_of_each, key_columns
from ticdc_assets.changes.typed import TypedChanges, concat, split_key_moves
from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.pipeline.changelog.parts import PartWriter
from ticdc_assets.pipeline.rows.place import Bools, Ints
from ticdc_assets.pipeline.stream.decode.batches import Piece
from ticdc_assets.pipeline.stream.decode.task import MessageTask
from ticdc_assets.pipeline.tasks import ChangelogPart
from ticdc_assets.schema.history.source_table import SchemaPeriod, SourceName

Group = tuple[str, int, int, bool]
"""Source table, version and delivery, and whether the rows may be late."""


def group_of(period: SchemaPeriod, delivery: int, late: bool = False) -> Group:
    """The group that rows of this schema period and delivery are written in."""
    return (period.source_table_id, period.version.from_ts, delivery, late)


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
    for (source_table_id, version_ts, delivery, late), pieces in groups:
        place = (source_table_id, delivery, late)
        if place not in writers:
            prefix = f"{task.run_id}-{task.number:05d}-{delivery}{'-late' if late else ''}{label}"
            writers[place] = PartWriter(io, task.targets[source_table_id], prefix, 0, delivery, late)
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
    every = [split_key_moves(changes, table.unique_columns) for changes in _in_order(pieces)]
    if not task.order.by_arrival:
        every = _sorted(every, table.key)
    arrival = task.order.arrivals.get(period.source_table_id)
    for changes in every:
        writer.write(changes, (), version_ts, arrival.number if arrival else 0, by_arrival=task.order.by_arrival)


def _in_order(pieces: Sequence[Piece]) -> list[TypedChanges]:
    """All rows of the pieces in the order of the stream. Pieces that are in this order are not copied."""
    line = np.concatenate([_ints(piece.changes.line) for piece in pieces])
    position = np.concatenate([piece.position for piece in pieces])
    return _taken([piece.changes for piece in pieces], np.lexsort((position, line)))


def _sorted(every: Sequence[TypedChanges], key: tuple[str, ...]) -> list[TypedChanges]:
    """The changes by commit_ts and position, those of a table with a key without repeats."""
    ts = np.concatenate([_ints(changes.commit_ts) for changes in every])
    place = np.concatenate([_ints(changes.line) * 2 + _ints(changes.half) for changes in every])
    order = np.lexsort((place, ts))
    if key:
        order = order[~_repeats(every, key, ts[order], order)]
    return _taken(every, order)


def _repeats(every: Sequence[TypedChanges], key: tuple[str, ...], ts: Ints, order: Ints) -> Bools:
    """Which changes, in this order, are repeats of an earlier one. Only changes of one commit_ts can be."""
    alike = ts[1:] == ts[:-1]
    shared = np.flatnonzero(np.append(alike, False) | np.insert(alike, 0, False))
    repeats = np.zeros(len(order), np.bool_)
    if len(shared):
        keys = key_columns(every[0].columns, key)
        columns = [[changes.op for changes in every], *([changes.now[number] for changes in every] for number in keys)]
        rows = pa.array(order[shared])
        of_rows = [pa.concat_arrays(arrays).take(rows) for arrays in columns]
        repeats[shared] = ~first_of_each([pa.array(ts[shared]), *of_rows])
    return repeats


def _taken(every: Sequence[TypedChanges], rows: Ints) -> list[TypedChanges]:
    """The rows at these indices of all rows, in this order."""
    count = sum(map(len, every))
    if len(rows) == count and (rows == np.arange(count)).all():
        return list(every)
    return [concat(every).take(pa.array(rows))]


def _ints(array: pa.Array) -> Ints:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.int64)
