"""What a batch of messages adds to a look: the heads of its rows for whole arrays, all others message by message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ticdc_assets.pipeline.message_batches import Batch, Ints
from ticdc_assets.pipeline.message_task import Dating
from ticdc_assets.pipeline.offset_ranges import Partition
from ticdc_assets.pipeline.stream_look import (
    Step,
    StreamForm,
    StreamLook,
    avro_schema,
    first_row,
    infer_from_schema,
    last_of,
)
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.message_rows import Heads, Messages
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.lineage import fold_name
from ticdc_assets.tso import LOGICAL_BITS

if TYPE_CHECKING:
    from ticdc_assets.pipeline.avro_look import AvroLook
    from ticdc_assets.sources.capture import Message

INFERENCES_MAX: Final = 4
"""How many rows of a table, the earliest ones, are asked in each batch what they tell of its columns."""

OneByOne = Callable[["Message", int], Sequence[int | None]]
"""Takes one message into the look; the dates of what it tells, in order."""


def look_at(look: StreamLook, stream: StreamForm, batch: Batch, one_by_one: OneByOne) -> None:
    """Take a batch into the look."""
    bulk = REGISTRY[stream.protocol].bulk
    told = Messages.from_pairs((m.key, m.value) for m in batch.messages)
    heads = bulk.heads(told, stream.options) if bulk is not None else None
    left = np.arange(len(batch.messages)) if heads is None else np.flatnonzero(heads.left)
    dates: list[tuple[int, int | None]] = []
    if heads is not None and look.avro is not None:
        dates = list(_in_their_order(look, stream, look.avro, heads, batch, one_by_one))
    else:
        for index in left:
            dates += [(int(index), ts) for ts in one_by_one(batch.messages[index], int(batch.ordinals[index]))]
        if heads is not None and len(heads):
            _tables(look, stream, heads, batch)
            dates += _dates(heads, stream.dating)
    _note(look, batch, dates)


# -- tables -----------------------------------------------------------------------------------------------------------


def _tables(look: StreamLook, stream: StreamForm, heads: Heads, batch: Batch) -> None:
    names, message = heads.name.to_numpy(), np.asarray(heads.message.to_numpy(), np.int64)
    times = _times(heads, stream.dating, batch.ordinals)
    telling = _telling(heads, stream)
    partitions, codes = batch.partitions
    for number, (schema, table) in enumerate(heads.names):
        rows = np.flatnonzero(names == number)
        if not len(rows):
            continue
        for code in np.unique(codes[message[rows]]):
            look.first(partitions[code][0], schema, table, int(times[rows].min()))
        asked = rows[telling[rows]]
        if len(asked) and not look.is_told(fold_name(schema, table), int(times[asked].min())):
            earliest = asked[np.argsort(times[asked], kind="stable")[:INFERENCES_MAX]]
            _infer(look, stream, batch, fold_name(schema, table), message[earliest])


def _telling(heads: Heads, stream: StreamForm) -> npt.NDArray[np.bool_]:
    """The rows that may tell the columns of their tables."""
    if REGISTRY[stream.protocol].infer is None:
        return np.zeros(len(heads), np.bool_)
    deletes = np.asarray(heads.op.to_numpy(zero_copy_only=False) == Op.DELETE)
    return ~deletes if stream.deletes_are_keys else np.ones(len(heads), np.bool_)


def _times(heads: Heads, dating: Dating, ordinals: Ints) -> Ints:
    """When a table's first row was, as far as rows tell."""
    if dating is Dating.PLACE:
        return np.asarray(ordinals[heads.message.to_numpy()] + 1)
    ts, ms = _filled(heads.commit_ts), _filled(heads.commit_ms)
    return np.asarray(np.where(heads.commit_ts.is_null().to_numpy(zero_copy_only=False), ms << LOGICAL_BITS, ts))


def _filled(array: object) -> Ints:
    return np.asarray(array.fill_null(0).to_numpy(zero_copy_only=False), np.int64)  # type: ignore[attr-defined]


def _infer(look: StreamLook, stream: StreamForm, batch: Batch, name: tuple[str, str], messages: Ints) -> None:
    for index in dict.fromkeys(int(index) for index in messages):
        message = batch.messages[index]
        for event in REGISTRY[stream.protocol].decode(message.key, message.value, message.where, stream.options):
            if isinstance(event, RowEvent) and fold_name(event.schema, event.table) == name:
                first_row(look, stream, event, message, int(batch.ordinals[index]))


# -- Avro -------------------------------------------------------------------------------------------------------------


def _in_their_order(
    look: StreamLook, stream: StreamForm, avro: AvroLook, heads: Heads, batch: Batch, one_by_one: OneByOne
) -> Iterator[tuple[int, int | None]]:
    """Row by row: where a delete stands and what was sent again depends on all that came before it."""
    rows = {index: row for row, index in enumerate(heads.message.to_pylist())}
    names, ops, commit_ts = heads.name.to_pylist(), heads.op.to_pylist(), heads.commit_ts.to_pylist()
    for index, message in enumerate(batch.messages):
        ordinal = int(batch.ordinals[index])
        row = rows.get(index)
        if row is None:
            yield from ((index, ts) for ts in one_by_one(message, ordinal))
        else:
            told = avro_schema(look, stream, message, ordinal)
            written = heads.names[names[row]]
            schema, table, ts = avro.row(written, commit_ts[row], ops[row] == "D", message, ordinal)
            look.first(message.topic, schema, table, ordinal + 1 if stream.dating is Dating.PLACE else ts or 0)
            infer_from_schema(look, stream, told, schema, table, ts)
            yield index, ts


# -- dates ------------------------------------------------------------------------------------------------------------


def _dates(heads: Heads, dating: Dating) -> Iterator[tuple[int, int | None]]:
    ts: list[int | None] = heads.commit_ts.to_pylist()
    if dating is Dating.COMMIT_MS:
        ms = heads.commit_ms.to_pylist()
        ts = [last_of(m) if t is None and m is not None else t for t, m in zip(ts, ms, strict=True)]
    yield from zip(heads.message.to_pylist(), ts, strict=True)


def _note(look: StreamLook, batch: Batch, dates: list[tuple[int, int | None]]) -> None:
    dated = sorted((index, ts) for index, ts in dates if ts is not None)
    partitions, codes = batch.partitions
    for partition in partitions:
        look.above.setdefault(partition, [])
    if not dated:
        return
    indices, ts = (np.array(column, np.int64) for column in zip(*dated, strict=True))
    for code, partition in enumerate(partitions):
        mine = codes[indices] == code
        if mine.any():
            _note_partition(look, partition, batch, indices[mine], ts[mine])
    look.newest = max(look.newest, int(ts.max()))


def _note_partition(look: StreamLook, partition: Partition, batch: Batch, indices: Ints, ts: Ints) -> None:
    """Note the steps of one partition; where an offset is smaller than that before it, they begin anew."""
    steps, offsets = look.above[partition], batch.offsets[indices]
    before = np.concatenate(([look.dated.get(partition, -1)], offsets[:-1]))
    cuts = np.flatnonzero(offsets < before)
    newest = steps[-1].ts if steps else -1
    for first, end in pairwise([0, *(int(cut) for cut in cuts), len(ts)]):
        grows = first + np.flatnonzero(_grows(ts[first:end], -1 if first in cuts else newest))
        steps += [Step(int(offsets[i]), int(ts[i]), int(batch.ordinals[indices[i]])) for i in grows]
    look.dated[partition] = int(offsets[-1])


def _grows(ts: Ints, newest: int) -> npt.NDArray[np.bool_]:
    """Where a number is larger than all before it and than `newest`."""
    before = np.maximum.accumulate(np.concatenate(([newest], ts)))[:-1]
    return np.asarray(ts > before)
