"""The message bodies that a bulk decoder reads: objects in UTF-8, of bounded size, each and together."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ticdc_assets.protocols.columnar import json_messages
from ticdc_assets.protocols.columnar.json_messages import bodies
from ticdc_assets.protocols.formats.compression import Compression

CODECS = {Compression.NONE: None, Compression.LZ4: "lz4", Compression.SNAPPY: "snappy"}


def compressed(body: bytes, compression: Compression) -> bytes:
    if compression is Compression.SNAPPY:
        return pa.Codec("snappy").compress(body, asbytes=True)
    if compression is Compression.LZ4:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "lz4") as stream:
            stream.write(body)
        return sink.getvalue().to_pybytes()
    return body


def taken(sent: list[bytes | None], compression: Compression) -> list[tuple[int, bytes]]:
    values = pa.array([body and compressed(body, compression) for body in sent], pa.binary())
    # Behind a value that is no part of the batch, as slices of batches are.
    found, ordinals = bodies(pa.concat_arrays([pa.array([b"{x"]), values]).slice(1), compression)
    return list(zip(ordinals.tolist(), found.to_pylist(), strict=True))


@pytest.mark.parametrize("compression", CODECS)
def test_objects_in_utf8_are_taken_and_nothing_else(compression: Compression):
    sent = [b"{}", None, b"[]", b'{"\xff"}', b" {}", '{"é"}'.encode(), b""]

    assert taken(sent, compression) == [(0, b"{}"), (5, '{"é"}'.encode())]
    assert taken(sent[:1], compression) == [(0, b"{}")]
    assert taken([None, b""], compression) == []
    assert taken([], compression) == []


@pytest.mark.parametrize("compression", CODECS)
def test_a_body_may_be_so_large_and_no_larger(compression: Compression, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_messages, "BODY_BYTES_MAX", 200)
    largest = b"{" + b"x" * 199

    assert taken([largest, largest + b"x", b"{}"], compression) == [(0, largest), (2, b"{}")]


@pytest.mark.parametrize("compression", CODECS)
def test_a_batch_may_hold_so_much_and_no_more(compression: Compression, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_messages, "BATCH_BYTES_MAX", 400)
    half = b"{" + b"x" * 199

    assert [number for number, _ in taken([half, half], compression)] == [0, 1]
    assert [number for number, _ in taken([half, half, b"{x"], compression)] == [0, 1]


def test_what_cannot_be_decompressed_is_left():
    values = pa.array([compressed(b"{}", Compression.LZ4), b"{}", compressed(b"{}", Compression.SNAPPY)])

    found, ordinals = bodies(values, Compression.LZ4)

    assert (found.to_pylist(), ordinals.tolist()) == ([b"{}"], [0])
