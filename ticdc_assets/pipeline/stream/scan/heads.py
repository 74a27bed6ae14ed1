"""Decodes the headers of the rows of batches, in threads: most of this is compiled code, which runs in parallel."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Final

from ticdc_assets.pipeline.stream.decode.message_batch import MessageBatch
from ticdc_assets.pipeline.stream.scan.state import StreamForm
from ticdc_assets.protocols.columnar.message_rows import RowHeaders
from ticdc_assets.protocols.registry import REGISTRY

THREADS_MAX: Final = 4
"""Reading the file and adding to the scan, which one thread does, take about a quarter of the time."""


def with_heads(batches: Iterable[MessageBatch], stream: StreamForm) -> Iterator[tuple[MessageBatch, RowHeaders | None]]:
    """Each batch, in order, with the headers of its rows; None where the protocol has no bulk decoder.

    As many batches are read ahead as there are threads. A single batch needs no thread.
    """
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
            pending.append((batch, pool.submit(bulk.heads, batch.keys_and_values, stream.options)))
            if len(pending) > threads:
                yield _done(*pending.popleft())
        yield from (_done(*one) for one in pending)


def _done(batch: MessageBatch, heads: Future[RowHeaders]) -> tuple[MessageBatch, RowHeaders]:
    return batch, heads.result()
