"""Decompression and allocation bombs: each is refused at once, with little more memory than its own bytes."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.protocols.avro import table_schema as avro_schema
from ticdc_assets.protocols.canal_json import decoder as canal_json
from ticdc_assets.protocols.formats import bodies as frame
from ticdc_assets.protocols.formats.avro import reader as avro_reader
from ticdc_assets.protocols.formats.bodies import decompress, frames, json_object
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.formats.limits import ROWS_PER_MESSAGE_MAX
from ticdc_assets.protocols.open_protocol import decoder as open_protocol
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets_tests.protocols.formats.written import framed, snappy_size
from ticdc_assets_tests.protocols.hostile.seeds import HERE, seeds, streams

STREAMS = streams()
MIB = 1 << 20
NESTING_MAX = 1024
REFUSAL_BYTES_MAX = MIB
"""The memory that a refusal may take, without the message."""
PARSER_BYTES_PER_BYTE = 16
"""The JSON parser takes room by the length of the text before it looks at it."""


def refused(step: Callable[[], Any], bytes_max: int = REFUSAL_BYTES_MAX) -> None:
    """A step ends in a DecodeError (or a SchemaError), within a second, and allocates little on the way."""
    pool = pa.default_memory_pool()
    arrow_before, began = pool.bytes_allocated(), time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises((DecodeError, SchemaError)):
            step()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < bytes_max
    assert pool.bytes_allocated() - arrow_before < bytes_max
    assert time.process_time() - began < 1


# -- lengths ----------------------------------------------------------------------------------------------------------

LENGTHS = [0x7FFF_FFFF_FFFF_FFFF, 1 << 62, 1 << 40, 1 << 31, (1 << 28) + 1]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_frame_that_says_it_is_long_allocates_nothing(length):
    refused(lambda: list(frames(struct.pack(">q", length) + b"x", HERE)))


@pytest.mark.parametrize("size", [1 << 20, 1 << 28, (1 << 32) - 1, (1 << 35) - 1])
def test_a_snappy_block_that_says_it_is_long_allocates_nothing(size):
    refused(lambda: decompress(snappy_size(size) + b"\0" * 10, Compression.SNAPPY, HERE))


@pytest.mark.parametrize("size", [b"", b"\xff" * 5, b"\xff" * 20, b"\x80"])
def test_a_snappy_block_without_a_size_is_refused(size):
    refused(lambda: decompress(size, Compression.SNAPPY, HERE))


@pytest.mark.parametrize(
    "kind", ["bytes", "string", {"type": "array", "items": "long"}, {"type": "map", "values": "int"}]
)
@pytest.mark.parametrize("length", [b"\xff" * 9 + b"\x01", b"\xfe" * 1 + b"\xff" * 8 + b"\x01", b"\x80" * 4 + b"\x20"])
def test_an_avro_length_beyond_the_message_allocates_nothing(kind, length):
    reader = avro_reader.reader_of(kind, HERE)

    refused(lambda: avro_reader.read_whole(reader, length + b"\0" * 100, HERE))


# -- decompression ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("codec", "compression"), [("lz4", Compression.LZ4), ("snappy", Compression.SNAPPY)])
def test_a_body_that_grows_beyond_the_bound_is_given_up_at_the_bound(codec, compression, monkeypatch):
    monkeypatch.setattr(frame, "MAX_BODY_BYTES", 4 * MIB)
    bomb = pa.Codec(codec).compress(bytes(64 * MIB), asbytes=True)

    refused(lambda: decompress(bomb, compression, HERE), 4 * MIB + 2 * MIB)


def test_the_bodies_of_one_message_share_the_bound(monkeypatch):
    """Each of a hundred bodies is within it; all together are not."""
    monkeypatch.setattr(open_protocol, "MAX_BODY_BYTES", 4 * MIB)
    body = pa.Codec("snappy").compress(b'{"u":{"a":{"t":3,"v":1}}}'.ljust(MIB), asbytes=True)
    head = b'{"ts":1,"scm":"s","tbl":"t","t":1}'
    key = (1).to_bytes(8, "big") + framed(*[head] * 100)
    options = DecoderOptions(Compression.SNAPPY)

    refused(
        lambda: list(open_protocol.decode(key, framed(*[body] * 100), HERE, options)),
        4 * MIB + PARSER_BYTES_PER_BYTE * MIB + 4 * MIB,
    )


# -- JSON -------------------------------------------------------------------------------------------------------------

SHAPES = {
    "lists": lambda depth: b"[" * depth + b"]" * depth,
    "objects": lambda depth: b'{"a":' * depth + b"1" + b"}" * depth,
    "lists without an end": lambda depth: b"[" * depth,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("depth", [NESTING_MAX, 100_000, 1_000_000])
def test_json_nested_too_deep_is_refused_without_recursion(shape, depth):
    body = b'{"a":' + SHAPES[shape](depth) + b"}"

    bytes_max = PARSER_BYTES_PER_BYTE * len(body) + MIB
    refused(lambda: json_object(body, HERE), bytes_max)
    refused(lambda: list(canal_json.decode(body, HERE)), bytes_max)


def test_json_may_be_nested_as_deep_as_the_bound():
    assert json_object(b'{"a":' + SHAPES["lists"](NESTING_MAX - 1) + b"}", HERE)


@pytest.mark.parametrize("number", [b"18446744073709551616", b"1e400", b"-1e400", b"9" * 5000, b"0." + b"1" * 5000])
def test_a_number_that_no_commit_has_is_refused_as_its_time(number):
    """Beyond 64 bits the parser makes a float of an integer; a float is no timestamp."""
    body = b'{"ts":' + number + b',"scm":"s","tbl":"t","t":3}'

    refused(lambda: list(open_protocol.decode((1).to_bytes(8, "big") + framed(body), framed(b""), HERE, OPEN)))


OPEN = DecoderOptions()


def test_a_member_that_is_there_twice_counts_once_as_its_last():
    assert {"a": 2} == json_object(b'{"a":1,"a":2}', HERE)


def test_more_rows_than_a_message_has_are_refused():
    rows = b",".join([b"{}"] * (ROWS_PER_MESSAGE_MAX + 1))
    body = b'{"database":"s","table":"t","type":"INSERT","isDdl":false,"data":[' + rows + b"]}"

    refused(lambda: list(canal_json.decode(body, HERE)), 64 * MIB)


# -- Avro schemas -----------------------------------------------------------------------------------------------------


def doubling(levels: int) -> dict[str, Any]:
    """A schema of a few bytes a level that reads twice as many fields at each."""
    inner: Any = "int"
    for level in range(levels):
        inner = {
            "type": "record",
            "name": f"r{level}",
            "fields": [{"name": "a", "type": inner}, {"name": "b", "type": f"r{level - 1}" if level else "int"}],
        }
    return inner


def nested(levels: int) -> Any:
    found: Any = "int"
    for _ in range(levels):
        found = {"type": "array", "items": found}
    return found


MANY_FIELDS = [{"name": f"f{number}", "type": "int"} for number in range(10_001)]
HOSTILE_SCHEMAS = {
    "doubling": doubling(30),
    "nested": nested(900),
    "recursive": {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "r"]}]},
    "items that take no bytes": {"type": "array", "items": "null"},
    "empty records": {"type": "array", "items": {"type": "record", "name": "r", "fields": []}},
    "a huge fixed": {"type": "fixed", "name": "f", "size": 1 << 40},
    "a wide union": {
        "type": "record",
        "name": "r",
        "fields": [{"name": f"f{n}", "type": "int"} for n in range(10_001)],
    },
    "a decimal of many digits": {"type": "bytes", "logicalType": "decimal", "precision": 1 << 40, "scale": 1},
}


@pytest.mark.parametrize("what", HOSTILE_SCHEMAS)
def test_a_schema_that_asks_for_much_is_not_admitted(what):
    refused(lambda: avro_reader.reader_of(HOSTILE_SCHEMAS[what], HERE), 32 * MIB)


@pytest.mark.parametrize("text", [b"[" * 1_000_000, b'"' * 3, b"{}" * (3 << 20), b"\xff"])
def test_a_schemas_text_is_bounded(text):
    refused(lambda: avro_schema.writer(text.decode("latin-1"), HERE), 32 * MIB)


# -- cut short --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STREAMS)
def test_a_message_cut_at_any_byte_is_refused(name):
    """But for nothing at all, which is a delete to the Avro protocol where there is a key."""
    stream, cuts = STREAMS[name], 0
    for seed in seeds(stream)[::3]:
        key, value = seed.pack(seed.bodies)
        for end in range(1, min(len(value or b""), 1500)):
            with pytest.raises(DecodeError):
                list(stream.known.decode(key, (value or b"")[:end], HERE, stream.options))
            cuts += 1
    assert cuts > 300
