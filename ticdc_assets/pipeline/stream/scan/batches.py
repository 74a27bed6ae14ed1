"""Adds a batch of messages to a scan: the heads of its rows as whole arrays, all other messages one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.errors import DecodeError
from ticdc_assets.pipeline.rows.place import Ints
from ticdc_assets.pipeline.stream.decode.message_batch import MessageBatch
from ticdc_assets.pipeline.stream.decode.task import VersionClock
from ticdc_assets.pipeline.stream.offsets.ranges import TopicPartition
from ticdc_assets.pipeline.stream.scan.avro import AvroScan, AvroTable
from ticdc_assets.pipeline.stream.scan.heads import watermarks_of
from ticdc_assets.pipeline.stream.scan.result import RunningMaxima, StreamScan
from ticdc_assets.pipeline.stream.scan.state import StreamForm, avro_schema, first_row, infer_from_schema
from ticdc_assets.protocols.avro.decoder import HEAD_BYTES
from ticdc_assets.protocols.columnar.message_rows import RowHeaders
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.source_table import fold_name
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.message_block import MessageHeads
from ticdc_assets.tso import LOGICAL_BITS

INFERENCES_MAX: Final = 4
"""The number of rows of a table, the earliest ones of a batch, from which columns are inferred."""

_NO_ROW: Final = -1
_DATED: Final = np.dtype((np.int64, 2))
"""The index of a message and a commit_ts."""

OneByOne = Callable[["Message", int], Sequence[int | None]]
"""Adds one message to the scan. Returns the commit_ts of its events, in order."""


def add_batch(
    scan: StreamScan, stream: StreamForm, batch: MessageBatch, heads: RowHeaders | None, one_by_one: OneByOne
) -> None:
    """Add a batch to the scan; `heads` are the headers of its rows, None where the protocol has no bulk decoder."""
    left = np.arange(len(batch)) if heads is None else np.flatnonzero(heads.left)
    if batch.block.heads is not None and scan.avro is None:
        left = np.setdiff1d(left, _add_watermarks(scan, stream, batch, batch.block.heads))
    if heads is not None and scan.avro is not None:
        dates = _known(_in_their_order(scan, stream, scan.avro, heads, batch, one_by_one))
    else:
        singly = ((index, batch.block.message(index), int(batch.ordinals[index])) for index in left.tolist())
        dates = _known((index, ts) for index, message, ordinal in singly for ts in one_by_one(message, ordinal))
        if heads is not None and len(heads):
            _tables(scan, stream, heads, batch)
            dates = np.concatenate((dates, _dates(heads, stream.dating)))
    _add_dates(scan, batch, dates)


def _add_watermarks(scan: StreamScan, stream: StreamForm, batch: MessageBatch, heads: MessageHeads) -> Ints:
    """Add the watermarks that heads tell. Returns the indices of their messages."""
    block = batch.block
    indices, found = watermarks_of(stream, heads)
    for index, ts in zip(indices.tolist(), found.tolist(), strict=True):
        scan.watermarks.add(block.partitions[block.owners[index]], int(block.offsets[index]), ts)
    return indices


# -- tables -----------------------------------------------------------------------------------------------------------


def _tables(scan: StreamScan, stream: StreamForm, heads: RowHeaders, batch: MessageBatch) -> None:
    names, message = heads.name.to_numpy(), np.asarray(heads.message.to_numpy(), np.int64)
    times = _times(heads)
    can_infer = _can_infer(heads, stream)
    every, codes = batch.block.partitions, batch.block.owners
    for number, (schema, table) in enumerate(heads.names):
        rows = np.flatnonzero(names == number)
        if not len(rows):
            continue
        for code in np.unique(codes[message[rows]]):
            scan.tables.add_row(every[code][0], schema, table, int(times[rows].min()))
        inferable = rows[can_infer[rows]]
        if len(inferable) and not scan.tables.is_inferred(fold_name(schema, table), int(times[inferable].min())):
            in_time = inferable[np.argsort(times[inferable], kind="stable")]
            _infer(scan, stream, batch, fold_name(schema, table), message[in_time])


def _can_infer(heads: RowHeaders, stream: StreamForm) -> npt.NDArray[np.bool_]:
    """The rows from which the columns of their tables may be inferred."""
    if REGISTRY[stream.protocol].infer is None:
        return np.zeros(len(heads), np.bool_)
    if not stream.deletes_are_keys:
        return np.ones(len(heads), np.bool_)
    return ~np.asarray(pc.equal(heads.op, str(Op.DELETE)).to_numpy(zero_copy_only=False))


def _times(heads: RowHeaders) -> Ints:
    """The time of each row. Only rows of Avro may have none, and these are added one by one."""
    ts, ms = _filled(heads.commit_ts), _filled(heads.commit_ms)
    return np.asarray(np.where(heads.commit_ts.is_null().to_numpy(zero_copy_only=False), ms << LOGICAL_BITS, ts))


def _filled(array: pa.Array) -> Ints:
    return np.asarray(array.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _infer(scan: StreamScan, stream: StreamForm, batch: MessageBatch, name: tuple[str, str], messages: Ints) -> None:
    """Infer the columns of a table from the first rows of these messages that have all of its columns."""
    tried = 0
    for index in dict.fromkeys(messages.tolist()):
        message = batch.block.message(index)
        for event in REGISTRY[stream.protocol].decode(message.key, message.value, message.where, stream.options):
            if isinstance(event, RowEvent) and fold_name(event.schema, event.table) == name:
                first_row(scan, stream, event, message, int(batch.ordinals[index]))
                tried += stream.is_whole(event)
        if tried >= INFERENCES_MAX:
            return


# -- Avro -------------------------------------------------------------------------------------------------------------


def _in_their_order(
    scan: StreamScan, stream: StreamForm, avro: AvroScan, heads: RowHeaders, batch: MessageBatch, one_by_one: OneByOne
) -> Iterator[tuple[int, int | None]]:
    """Row by row: the commit_ts of a delete, and whether a change is a repeat, depend on all earlier rows."""
    block, keys = batch.block, batch.block.keys.to_pylist()
    owners, ordinals = block.owners.tolist(), batch.ordinals.tolist()
    names, ops, sent, versions = (
        array.to_pylist() for array in (heads.name, heads.op, heads.commit_ts, heads.schema_version)
    )
    tables: dict[tuple[int, int], AvroTable] = {}
    earliest: dict[tuple[int, int], int] = {}
    written_with: set[tuple[int, bytes, int | None]] = set()
    for index, row in enumerate(_rows_of(heads, len(batch)).tolist()):
        owner, key, ordinal = owners[index], keys[index], ordinals[index]
        if row == _NO_ROW:
            yield from ((index, ts) for ts in one_by_one(block.message(index), ordinal))
            continue
        place, writer = (owner, names[row]), (owner, (key or b"")[:HEAD_BYTES], versions[row])
        event = None
        if writer not in written_with:  # others have the schemas of an earlier message
            try:
                event = _schema(scan, stream, avro, batch, index, versions[row])
            except DecodeError:  # the registry had the schema when the message was landed
                yield from ((index, ts) for ts in one_by_one(block.message(index), ordinal))
                continue
            written_with.add(writer)
        table = tables.get(place)
        if table is None:
            table = tables[place] = avro.table(block.partitions[owner], heads.names[place[1]])
        only_key = ops[row] == "D"
        if only_key and key and table.name not in avro.keys and sent[row] is None:
            avro.keep_key(table, block.message(index))
        ts = avro.row(table, sent[row], only_key, key, ordinal)
        time = ordinal + 1 if stream.dating is VersionClock.POSITION else ts or 0
        if place not in earliest or time < earliest[place]:
            earliest[place] = time
            scan.tables.add_row(block.partitions[owner][0], table.schema, table.table, time)
        if event is not None:
            infer_from_schema(scan, stream, event, table.schema, table.table, ts)
        yield index, ts


def _schema(
    scan: StreamScan, stream: StreamForm, avro: AvroScan, batch: MessageBatch, index: int, version: int | None
) -> DdlEvent | None:
    """The schema of a row, where no earlier message of its topic had it; its body is read only then.

    Raises DecodeError where a schema of the message is not known.
    """
    block = batch.block
    topic, _ = block.partitions[block.owners[index]]
    if avro.has_met(topic, block.keys[index].as_py(), version):
        return None
    return avro_schema(scan, avro, stream, block.message(index), int(batch.ordinals[index]))


def _rows_of(heads: RowHeaders, messages: int) -> Ints:
    """The row of each message."""
    rows = np.full(messages, _NO_ROW)
    rows[heads.message.to_numpy()] = np.arange(len(heads))
    return rows


# -- dates ------------------------------------------------------------------------------------------------------------


def _known(dates: Iterable[tuple[int, int | None]]) -> Ints:
    """The known dates, each after the index of its message."""
    return np.fromiter(((index, ts) for index, ts in dates if ts is not None), _DATED)


def _dates(heads: RowHeaders, dating: VersionClock) -> Ints:
    ts, is_known = _filled(heads.commit_ts), _is_there(heads.commit_ts)
    if dating is VersionClock.COMMIT_MS:
        ts = np.where(is_known, ts, (_filled(heads.commit_ms) + 1 << LOGICAL_BITS) - 1)
        is_known |= _is_there(heads.commit_ms)
    return np.column_stack((heads.message.to_numpy(), ts))[is_known]


def _is_there(array: pa.Array) -> npt.NDArray[np.bool_]:
    return np.array(array.is_valid().to_numpy(zero_copy_only=False))


def _add_dates(scan: StreamScan, batch: MessageBatch, dates: Ints) -> None:
    every, codes = batch.block.partitions, batch.block.owners
    for partition, _ in batch.block.of_partitions():
        scan.commits.maxima.setdefault(partition, RunningMaxima())
    if not len(dates):
        return
    indices, ts = dates[np.lexsort((dates[:, 1], dates[:, 0]))].T
    for code, partition in enumerate(every):
        in_partition = codes[indices] == code
        if in_partition.any():
            _add_maxima(scan, partition, batch, indices[in_partition], ts[in_partition])
    scan.commits.newest = max(scan.commits.newest, int(ts.max()))


def _add_maxima(scan: StreamScan, partition: TopicPartition, batch: MessageBatch, indices: Ints, ts: Ints) -> None:
    """Add the running maxima of one partition; where an offset is smaller than the previous one, they begin again."""
    maxima, offsets = scan.commits.maxima[partition], batch.block.offsets[indices]
    before = np.concatenate(([scan.commits.last_offsets.get(partition, -1)], offsets[:-1]))
    cuts = np.flatnonzero(offsets < before)
    newest = maxima.newest
    for first, end in pairwise([0, *(int(cut) for cut in cuts), len(ts)]):
        grows = first + np.flatnonzero(_grows(ts[first:end], -1 if first in cuts else newest))
        maxima.add(offsets[grows], ts[grows], batch.ordinals[indices[grows]])
    scan.commits.last_offsets[partition] = int(offsets[-1])


def _grows(ts: Ints, newest: int) -> npt.NDArray[np.bool_]:
    """A mask of the numbers that are larger than all before them and than `newest`."""
    before = np.maximum.accumulate(np.concatenate(([newest], ts)))[:-1]
    return np.asarray(ts > before)
