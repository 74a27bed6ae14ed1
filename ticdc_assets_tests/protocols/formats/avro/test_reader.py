"""Avro schemas are admitted if they bound the cost of reading; bytes are read whole and exactly, or refused."""

from __future__ import annotations

import json
from contextlib import suppress
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.protocols.avro.table_schema import table_schema, writer
from ticdc_assets.protocols.formats.avro.reader import SCHEMA_BYTES_MAX, read_whole, reader_of
from ticdc_assets_tests.protocols.avro.registered_schemas import EXTENSION, ID, NAME, SCHEMAS, column, record
from ticdc_assets_tests.protocols.hostile.damage import mutated


def nested(levels: int) -> Any:
    value: Any = "int"
    for number in range(levels):
        value = record({"name": "a", "type": value}, name=f"r{number}")
    return value


def doubling(levels: int) -> Any:
    """A schema of a few lines that stands for 2^levels fields."""
    fields: list[Any] = [{"name": "f0", "type": record(ID, name="r0")}]
    for n in range(1, levels):
        inner = [{"name": side, "type": f"r{n - 1}"} for side in "ab"]
        fields.append({"name": f"f{n}", "type": record(*inner, name=f"r{n}")})
    return record(*fields)


HOSTILE = {
    "recursion": record({"name": "a", "type": ["null", "t"]}),
    "recursion by full name": record({"name": "a", "type": ["null", "default.shop.t"]}),
    "depth": nested(40),
    "great depth": "[" * 2000 + "]" * 2000,
    "width": record(*({"name": f"c{n}", "type": "int"} for n in range(10_001))),
    "width by names": doubling(30),
    "array of nulls": record({"name": "a", "type": {"type": "array", "items": "null"}}),
    "array of empty records": record({"name": "a", "type": {"type": "array", "items": record(name="e")}}),
    "field of null": record({"name": "a", "type": "null"}),
    "fixed of nothing": record({"name": "a", "type": {"type": "fixed", "name": "f", "size": 0}}),
    "fixed of everything": record({"name": "a", "type": {"type": "fixed", "name": "f", "size": 1 << 40}}),
    "fixed of true": record({"name": "a", "type": {"type": "fixed", "name": "f", "size": True}}),
    "union of unions": record({"name": "a", "type": ["null", ["int"]]}),
    "empty union": record({"name": "a", "type": []}),
    "unknown type": record({"name": "a", "type": "decimal"}),
    "type of null": record({"name": "a", "type": None}),
    "type twice": record({"name": "a", "type": record(ID)}),
    "field twice": record(ID, ID),
    "field without a name": record({"type": "int"}),
    "fields of nothing": {"type": "record", "name": "t"},
    "record without a name": {"type": "record", "fields": []},
    "enum without symbols": record({"name": "a", "type": {"type": "enum", "name": "e", "symbols": []}}),
    "decimal of endless scale": record(
        {"name": "a", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10**9, "scale": 10**9}}
    ),
    "no record": "int",
    "a number": 5,
    "size": record({"name": "a" * SCHEMA_BYTES_MAX, "type": "int"}),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_schema_that_could_harm_its_reader_is_not_admitted(what):
    schema = HOSTILE[what]
    text = schema if what == "great depth" else json.dumps(schema)
    with pytest.raises(DecodeError):
        writer(text)


def test_the_widest_table_of_tidb_is_admitted_with_its_old_values():
    columns = [{"name": f"c{n}", "type": ["null", column("INT", "int")]} for n in range(4096)]
    before = {"name": "_ticdc_before", "type": ["null", record(*columns, name="before")]}

    assert len(writer(json.dumps(record(*columns, *EXTENSION, before))).columns) == 4096


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": "int"},
        {"type": "map", "values": ["null", "string"]},
        {"type": "array", "items": record(ID, NAME)},
        {"type": "enum", "name": "e", "symbols": ["a", "b"]},
        {"type": "fixed", "name": "f", "size": 3},
        ["null", "boolean", "float", "double", "bytes"],
    ],
)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_bytes_come_reading_takes_them_whole_or_refuses(schema, data):
    body = data.draw(st.binary(max_size=24))
    reader = reader_of(schema, "here")
    with suppress(DecodeError):
        found = read_whole(reader, body, "here")
        expected = fastavro.schemaless_reader(BytesIO(body), fastavro.parse_schema(schema), None)
        assert repr(found) == repr(expected)


@pytest.mark.parametrize("kind", ["array", "map"])
def test_blocks_may_be_many_and_name_their_size(kind):
    reader = reader_of({"type": kind, "items": "int", "values": "int"}, "here")
    item = b"\x02a\x02" if kind == "map" else b"\x02"
    other = b"\x02b\x04" if kind == "map" else b"\x04"
    body = b"\x02" + item + b"\x01" + bytes([2 * len(other)]) + other + b"\0"

    assert read_whole(reader, body, "here") == ({"a": 1, "b": 2} if kind == "map" else [1, 2])


def test_a_map_with_a_key_twice_is_refused():
    reader = reader_of({"type": "map", "values": "int"}, "here")
    with pytest.raises(DecodeError):
        read_whole(reader, b"\x04\x02a\x02\x02a\x02\0", "here")


@pytest.mark.parametrize(
    ("raw", "expected"), [(b"\x00", "0.0000"), (b"\xff", "-0.0001"), (b"\x01\x86\xa0", "10.0000"), (b"\x80", "-0.0128")]
)
def test_decimals_are_exact_text(raw, expected):
    reader = reader_of({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}, "here")

    assert expected == read_whole(reader, bytes([2 * len(raw)]) + raw, "here")


def test_decimals_without_bytes_or_with_too_many_are_refused():
    reader = reader_of({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}, "here")
    for body in (b"\0", b"\x82\x01" + bytes(65)):
        with pytest.raises(DecodeError):
            read_whole(reader, body, "here")


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([SCHEMAS[3], json.dumps(doubling(3))]), st.data())
def test_damaged_schemas_raise_nothing_but_this_projects_errors(text, data):
    with suppress(DecodeError, SchemaError):
        table_schema(mutated(text.encode(), data).decode(errors="replace"), None)
