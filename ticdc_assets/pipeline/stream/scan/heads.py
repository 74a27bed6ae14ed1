"""The headers of the rows of batches: as the log tells them, else decoded in threads.

Most of decoding is compiled code, which runs in parallel.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import reduce
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.pipeline.landing.message_heads import ROW, WATERMARK
from ticdc_assets.pipeline.stream.decode.message_batch import Ints, MessageBatch
from ticdc_assets.pipeline.stream.scan.state import StreamForm
from ticdc_assets.protocols.columnar.message_rows import Bulk, RowHeaders, heads_of
from ticdc_assets.protocols.registry import REGISTRY

if TYPE_CHECKING:
    from ticdc_assets.sources.message_block import MessageHeads

THREADS_MAX: Final = 4
"""Reading the file and adding to the scan, which one thread does, take about a quarter of the time."""


def with_heads(batches: Iterable[MessageBatch], stream: StreamForm) -> Iterator[tuple[MessageBatch, RowHeaders | None]]:
    """Each batch, in order, with the headers of its rows; None where the protocol has no bulk decoder.

    As many batches are read ahead as there are threads. A single batch needs no thread.
    """
    every = iter(batches)
    for batch in every:
        if batch.block.heads is None:
            yield from _decoded(chain([batch], every), stream)
            return
        yield batch, headers_of(batch.block.heads)


def _decoded(batches: Iterable[MessageBatch], stream: StreamForm) -> Iterator[tuple[MessageBatch, RowHeaders | None]]:
    bulk = REGISTRY[stream.protocol].bulk
    if bulk is None:
        yield from ((batch, None) for batch in batches)
        return
    every = iter(batches)
    first = list(islice(every, 2))
    if len(first) < 2:
        yield from ((batch, bulk.heads(batch.keys_and_values, stream.options)) for batch in first)
        return
    threads = min(THREADS_MAX, os.cpu_count() or 1)
    pending: deque[tuple[MessageBatch, Future[RowHeaders]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for batch in chain(first, every):
            pending.append((batch, pool.submit(_decoded_heads, bulk, batch, stream)))
            if len(pending) > threads:
                yield _done(*pending.popleft())
        yield from (_done(*one) for one in pending)


def _decoded_heads(bulk: Bulk, batch: MessageBatch, stream: StreamForm) -> RowHeaders:
    return bulk.heads(batch.keys_and_values, stream.options)


def headers_of(heads: MessageHeads) -> RowHeaders:
    """The headers of the rows that heads tell completely. Other messages are left, watermarks too."""
    told = [heads.kinds.is_valid(), pc.equal(heads.kinds, ROW)]
    told += [column.is_valid() for column in (heads.schemas, heads.tables, heads.commit_ts)]
    message = np.flatnonzero(reduce(pc.and_kleene, told).fill_null(False).to_numpy(zero_copy_only=False))
    at = pa.array(message)
    schemas, tables = (column.take(at).dictionary_encode() for column in (heads.schemas, heads.tables))
    pairs = np.asarray(schemas.indices, np.int64) * len(tables.dictionary) + np.asarray(tables.indices, np.int64)
    found, numbers = np.unique(pairs, return_inverse=True)
    names = [divmod(int(pair), len(tables.dictionary)) for pair in found]
    return heads_of(
        len(heads.kinds),
        tuple((schemas.dictionary[schema].as_py(), tables.dictionary[table].as_py()) for schema, table in names),
        message,
        pa.array(numbers, pa.int32()),
        pa.nulls(len(message), pa.string()),
        heads.commit_ts.take(at),
    )


def watermarks_of(heads: MessageHeads) -> tuple[Ints, Ints]:
    """The indices of the messages that are watermarks, and the watermarks."""
    told = pc.and_kleene(pc.equal(heads.kinds, WATERMARK), heads.commit_ts.is_valid()).fill_null(False)
    index = np.flatnonzero(told.to_numpy(zero_copy_only=False))
    return index, np.asarray(heads.commit_ts.take(pa.array(index)), np.int64)


def _done(batch: MessageBatch, heads: Future[RowHeaders]) -> tuple[MessageBatch, RowHeaders]:
    return batch, heads.result()
