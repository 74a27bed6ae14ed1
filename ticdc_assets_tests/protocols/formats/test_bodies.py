"""Frames, compressed bodies and Go literals, honest and hostile."""

from __future__ import annotations

import contextlib
import json
import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.formats import bodies as frame
from ticdc_assets.protocols.formats.bodies import decompress, frames, json_object
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.open_protocol.decoder import unquote
from ticdc_assets_tests.protocols.formats.written import framed, go_quote, snappy_size


@given(st.lists(st.binary()))
def test_frames_come_back_as_they_were_framed(bodies):
    assert bodies == list(frames(framed(*bodies), "here"))


@pytest.mark.parametrize("length", [1 << 62, (1 << 63) - 1, -(1 << 63), -1, 4])
def test_a_length_beyond_the_message_is_refused(length):
    with pytest.raises(DecodeError, match="length"):
        list(frames(framed(b"ok") + struct.pack(">q", length) + b"abc", "here"))


@pytest.mark.parametrize("size", range(1, 8))
def test_bytes_after_the_last_frame_are_refused(size):
    with pytest.raises(DecodeError, match="8-byte length"):
        list(frames(framed(b"ok") + b"\0" * size, "here"))


def test_more_frames_than_any_batch_has_are_refused():
    assert sum(1 for _ in frames(bytes(8 * frame.MAX_FRAMES), "here")) == frame.MAX_FRAMES

    with pytest.raises(DecodeError, match="events in a message"):
        list(frames(bytes(8 * (frame.MAX_FRAMES + 1)), "here"))


@pytest.mark.parametrize("codec", ["lz4", "snappy"])
@given(body=st.binary() | st.integers(0, 300_000).map(bytes))
@settings(max_examples=60)
def test_compressed_bodies_come_back(codec, body):
    packed = pa.Codec(codec).compress(body, asbytes=True)

    assert body == decompress(packed, Compression(codec), "here")


def test_an_lz4_body_may_be_as_dense_as_the_format_allows():
    body = bytes(30 << 20)

    assert body == decompress(pa.Codec("lz4").compress(body, asbytes=True), Compression.LZ4, "here")


@pytest.mark.parametrize("compression", list(Compression))
def test_a_body_larger_than_the_limit_is_refused(compression):
    body = bytes(100_000)
    packed = body if compression is Compression.NONE else pa.Codec(compression.value).compress(body, asbytes=True)

    assert body == decompress(packed, compression, "here", limit=100_000)
    with pytest.raises(DecodeError, match="at most 99999 bytes"):
        decompress(packed, compression, "here", limit=99_999)


def test_an_lz4_bomb_is_refused_before_it_is_unpacked(monkeypatch):
    monkeypatch.setattr(frame, "MAX_BODY_BYTES", 4 << 20)
    bomb = pa.Codec("lz4").compress(bytes(64 << 20), asbytes=True)
    before = pa.default_memory_pool().max_memory()

    with pytest.raises(DecodeError, match="at most 4194304 bytes"):
        decompress(bomb, Compression.LZ4, "here")
    assert pa.default_memory_pool().max_memory() - before < 16 << 20


@pytest.mark.parametrize("claimed", [1 << 20, (1 << 32) - 1, (1 << 35) - 1])
def test_a_snappy_size_that_the_bytes_cannot_hold_is_refused(claimed):
    with pytest.raises(DecodeError, match="once decompressed"):
        decompress(snappy_size(claimed) + b"\x00a", Compression.SNAPPY, "here")


@pytest.mark.parametrize("codec", ["lz4", "snappy"])
@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b[:-5], lambda b: b + b"x", lambda b: b"\xff" * 20])
def test_damaged_compressed_bodies_are_refused(codec, damage):
    packed = pa.Codec(codec).compress(bytes(range(256)) * 40, asbytes=True)

    with pytest.raises(DecodeError):
        decompress(damage(packed), Compression(codec), "here")


@given(st.binary(max_size=60), st.sampled_from(list(Compression)))
@settings(max_examples=500)
def test_any_bytes_decompress_or_are_a_decode_error(body, compression):
    with contextlib.suppress(DecodeError):
        assert isinstance(decompress(body, compression, "here"), bytes)


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"{", b'{"a":\xff}', b"[" * 100_000, b'{"a":1e999}'])
def test_what_is_not_a_json_object_is_refused(body):
    with pytest.raises(DecodeError, match="a JSON object"):
        json_object(body, "here")


def test_errors_do_not_quote_the_body():
    with pytest.raises(DecodeError) as caught:
        json_object(b'{"name": "secret" oops}', "here")

    assert "secret" not in str(caught.value)


@given(st.binary() | st.text().map(str.encode))
@settings(max_examples=300)
def test_go_literals_come_back_as_the_bytes_they_quote(raw):
    assert raw == unquote(go_quote(raw), "here")


@pytest.mark.parametrize(
    ("literal", "raw"),
    [
        (r"\a\b\f\n\r\t\v\\\"", b'\a\b\f\n\r\t\v\\"'),
        (r"\xff\x00\x7f", b"\xff\x00\x7f"),
        (r"\u2028\U0001F600\ufeff", "\u2028\U0001f600\ufeff".encode()),
        (r"\\x41\\\x41", rb"\x41" + b"\\A"),
        (r"\377\000", b"\xff\x00"),
        ("\ufffd", b"\xef\xbf\xbd"),
        ("é中", "é中".encode()),
    ],
)
def test_every_go_escape_is_read(literal, raw):
    assert raw == unquote(literal, "here")


@pytest.mark.parametrize("literal", ["\\", r"\x4", r"\xzz", r"\q", r"\ud800", r"\U00110000", r"\u12", "\\\n", "\ud800"])
def test_what_go_does_not_write_is_refused(literal):
    with pytest.raises(DecodeError, match="Go string literal"):
        unquote(literal, "here")


def test_a_json_integer_up_to_64_bits_is_exact():
    most = (1 << 64) - 1

    assert {"a": most, "b": -(1 << 63)} == json_object(json.dumps({"a": most, "b": -(1 << 63)}).encode(), "here")
