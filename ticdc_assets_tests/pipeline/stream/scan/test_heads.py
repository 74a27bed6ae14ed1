"""The headers of batches that threads decode: in the order of the batches, and not far ahead of the reader."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ticdc_assets.pipeline.stream.decode.message_batch import MessageBatch
from ticdc_assets.pipeline.stream.scan import heads
from ticdc_assets.pipeline.stream.scan.state import StreamForm
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.sources.capture import Message, MessagePosition
from ticdc_assets.sources.message_block import MessageBlock

FORM = StreamForm("canal-json", DecoderOptions())


def batch(number: int) -> MessageBatch:
    """1,100 rows of a table of this number."""
    row = (
        b'{"id":0,"database":"d","table":"t%d","pkNames":["a"],"isDdl":false,"type":"INSERT","es":1,"ts":1,"sql":"",'
        b'"sqlType":{"a":4},"mysqlType":{"a":"int"},"old":null,"data":[{"a":"1"}],"_tidb":{"commitTs":%d}}'
    )
    sent = [Message("t", 0, n, None, row % (number, n + 1), 0) for n in range(1100)]
    return MessageBatch(np.arange(1100), MessageBlock.of([(MessagePosition(record=m.offset), m) for m in sent]))


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_each_batch_comes_in_order_with_its_own_headers(count):
    batches = [batch(number) for number in range(count)]

    found = list(heads.with_heads(batches, FORM))

    assert [one for one, _ in found] == batches
    assert [rows.names for _, rows in found] == [(("d", f"t{number}"),) for number in range(count)]
    assert [len(rows) for _, rows in found] == [1100] * count


def test_only_as_many_batches_as_threads_are_read_ahead(monkeypatch):
    monkeypatch.setattr(heads, "THREADS_MAX", 2)
    one, read = batch(1), []
    found = heads.with_heads((read.append(number) or one for number in range(20)), FORM)

    next(found)

    assert len(read) <= 3
    assert sum(1 for _ in found) == 19


def test_an_error_of_a_thread_is_raised_at_its_batch(monkeypatch):
    known = REGISTRY["canal-json"]
    assert known.bulk is not None
    sound = known.bulk.heads

    def of_sound_batches(messages, options):
        found = sound(messages, options)
        if ("d", "t2") in found.names:
            raise LookupError("t2")
        return found

    bulk = replace(known.bulk, heads=of_sound_batches)
    monkeypatch.setitem(REGISTRY, "canal-json", replace(known, bulk=bulk))
    found = heads.with_heads((batch(number) for number in range(6)), FORM)

    assert [rows.names for _, rows in (next(found), next(found))] == [(("d", "t0"),), (("d", "t1"),)]
    with pytest.raises(LookupError, match="t2"):
        next(found)
