"""The headers of the rows of batches: as the log tells them, else decoded in threads.

Most of decoding is compiled code, which runs in parallel.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from itertools import chain, islice
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.pipeline.landing.message_heads import ROW, WATERMARK
from ticdc_assets.pipeline.rows.place import Ints
from ticdc_assets.pipeline.stream.decode.message_batch import MessageBatch
from ticdc_assets.pipeline.stream.scan.state import StreamForm
from ticdc_assets.protocols.columnar.message_rows import Bulk, RowHeaders, heads_of
from ticdc_assets.protocols.events import Op
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.sources.message_block import MessageHeads

THREADS_MAX: Final = 4
"""Reading the file and adding to the scan, which one thread does, take about a quarter of the time."""
TOLD_MIN: Final = 0.9
"""The share of the messages that heads must tell. All others are decoded one by one, which is slower than in bulk."""

_Found = Callable[[], RowHeaders | None]


def with_heads(batches: Iterable[MessageBatch], stream: StreamForm) -> Iterator[tuple[MessageBatch, RowHeaders | None]]:
    """Each batch, in order, with the headers of its rows; None where the protocol has no bulk decoder.

    As many batches are read ahead as there are threads. A single batch needs no thread.
    """
    every = iter(batches)
    first = list(islice(every, 2))
    threads = min(THREADS_MAX, os.cpu_count() or 1)
    pending: deque[tuple[MessageBatch, _Found]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for batch in chain(first, every):
            pending.append((batch, _found(batch, stream, pool if len(first) > 1 else None)))
            if len(pending) > threads:
                yield _done(*pending.popleft())
        yield from (_done(*one) for one in pending)


def suffice(stream: StreamForm, heads: MessageHeads) -> bool:
    """Whether a scan takes less time with these heads than with bodies."""
    told = len(_rows_told(stream, heads)) + len(watermarks_of(stream, heads)[0])
    return told >= TOLD_MIN * len(heads.kinds)


def _found(batch: MessageBatch, stream: StreamForm, pool: ThreadPoolExecutor | None) -> _Found:
    bulk = REGISTRY[stream.protocol].bulk
    if batch.block.heads is not None:
        return partial(headers_of, stream, batch.block.heads)
    if bulk is None:
        return _no_headers
    decode = partial(_decoded, bulk, batch, stream)
    return decode if pool is None else pool.submit(decode).result


def _no_headers() -> None:
    return None


def _decoded(bulk: Bulk, batch: MessageBatch, stream: StreamForm) -> RowHeaders:
    return bulk.heads(batch.keys_and_values, stream.options)


def headers_of(stream: StreamForm, heads: MessageHeads) -> RowHeaders:
    """The headers of the rows that heads tell completely. Other messages are left, watermarks too.

    Of several rows in one message, the earliest and the newest stand for all.
    """
    message = _rows_told(stream, heads)
    newest = heads.commit_ts.take(pa.array(message))
    if heads.min_commit_ts is None:
        return _headers(heads, message, newest)
    oldest = pc.coalesce(heads.min_commit_ts.take(pa.array(message)), newest)
    is_wide = np.flatnonzero(pc.less(oldest, newest).fill_null(False).to_numpy(zero_copy_only=False))
    order = np.argsort(np.concatenate((message, message[is_wide])), kind="stable")
    both = pa.concat_arrays([oldest, newest.take(pa.array(is_wide))])
    return _headers(heads, np.concatenate((message, message[is_wide]))[order], both.take(pa.array(order)))


def watermarks_of(stream: StreamForm, heads: MessageHeads) -> tuple[Ints, Ints]:
    """The indices of the messages that are watermarks, and the watermarks."""
    index = _where(pc.equal(heads.kinds, WATERMARK), heads.commit_ts.is_valid(), _is_of_one(stream, heads))
    return index, np.asarray(heads.commit_ts.take(pa.array(index)), np.int64)


def _rows_told(stream: StreamForm, heads: MessageHeads) -> Ints:
    """The messages that have only rows, all of one table, and whose heads tell all of them."""
    is_row = (pc.equal(heads.kinds, ROW), heads.schemas.is_valid(), heads.tables.is_valid())
    if stream.protocol != "avro":
        return _where(*is_row, heads.commit_ts.is_valid(), _is_of_one(stream, heads))
    if heads.schema_versions is None:
        return np.zeros(0, np.int64)
    # A delete by its key has neither a schema version nor a commit_ts.
    has_version, has_commit_ts = heads.schema_versions.is_valid(), heads.commit_ts.is_valid()
    is_complete = (
        pc.equal(has_version, has_commit_ts) if stream.has_commit_ts else pc.or_(has_version, pc.invert(has_commit_ts))
    )
    return _where(*is_row, is_complete)


def _is_of_one(stream: StreamForm, heads: MessageHeads) -> pa.Array:
    """Whether messages have one event, or rows of one table."""
    if REGISTRY[stream.protocol].has_one_commit:
        return heads.kinds.is_valid()
    if heads.min_commit_ts is None:
        return pa.repeat(pa.scalar(False), len(heads.kinds))
    return heads.min_commit_ts.is_valid()


def _where(*masks: pa.Array) -> Ints:
    """The indices at which all masks are true."""
    both = reduce(pc.and_kleene, masks)
    return np.flatnonzero(both.fill_null(False).to_numpy(zero_copy_only=False))


def _headers(heads: MessageHeads, message: Ints, commit_ts: pa.Array) -> RowHeaders:
    at = pa.array(message)
    versions = None if heads.schema_versions is None else heads.schema_versions.take(at)
    schemas, tables = (column.take(at).dictionary_encode() for column in (heads.schemas, heads.tables))
    pairs = np.asarray(schemas.indices, np.int64) * len(tables.dictionary) + np.asarray(tables.indices, np.int64)
    found, numbers = np.unique(pairs, return_inverse=True)
    names = [divmod(int(pair), len(tables.dictionary)) for pair in found]
    return heads_of(
        len(heads.kinds),
        tuple((schemas.dictionary[schema].as_py(), tables.dictionary[table].as_py()) for schema, table in names),
        message,
        pa.array(numbers, pa.int32()),
        _ops(commit_ts, versions),
        commit_ts,
        schema_version=versions,
    )


def _ops(commit_ts: pa.Array, versions: pa.Array | None) -> pa.Array:
    """D for a delete of Avro by its key; other operations are not told."""
    nothing = pa.nulls(len(commit_ts), pa.string())
    if versions is None:
        return nothing
    return pc.if_else(pc.and_(commit_ts.is_null(), versions.is_null()), str(Op.DELETE), nothing)


def _done(batch: MessageBatch, found: _Found) -> tuple[MessageBatch, RowHeaders | None]:
    return batch, found()
