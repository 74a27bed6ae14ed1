"""Avro's types up to the last value, size and level that each may have."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import fastavro
import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.formats.avro import reader as avro_reader
from ticdc_assets.protocols.formats.avro.reader import Reader, read_whole, reader_of, schema_of
from ticdc_assets.protocols.formats.avro.values import decimal_text


def reader_here(schema: Any) -> Reader:
    return reader_of(schema, "here")


def record(*types: Any, name: str = "r", **more: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": of} for number, of in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields, **more}


ENUM = {"type": "enum", "name": "e", "symbols": ["a", "b"]}
FIXED = {"type": "fixed", "name": "x", "size": 3}
VALUES: list[tuple[Any, Any]] = [
    *(("long", n) for n in (0, -1, 63, -64, 64, -65, (1 << 31), (1 << 63) - 1, -(1 << 63))),
    *(("int", n) for n in ((1 << 31) - 1, -(1 << 31))),
    ("boolean", True), ("boolean", False), ("null", None), ("float", 1.5), ("double", -1.5e300),
    ("bytes", b""), ("bytes", b"\xff"), ("string", ""), ("string", "é"), (ENUM, "a"), (ENUM, "b"), (FIXED, b"abc"),
    (["null", "int"], None), (["null", "int"], 5), ({"type": "array", "items": "int"}, []),
    ({"type": "array", "items": "int"}, [1, 2]), ({"type": "map", "values": "null"}, {"a": None, "b": None}),
    (record("int", ["null", "string"]), {"f0": 5, "f1": "x"}), (record(), {}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), VALUES, ids=lambda part: str(part)[:30])
def test_a_value_is_read_whole_and_nothing_before_or_behind_it(schema: Any, value: Any):
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    reader, data = reader_here(schema), out.getvalue()

    assert read_whole(reader, data, "here") == value
    assert read_whole(reader, b"xx" + data, "here", start=2) == value
    assert len(data) >= reader.bytes_min
    with pytest.raises(DecodeError, match="1 bytes after it"):
        read_whole(reader, data + b"\0", "here")
    for cut in range(len(data)):
        with pytest.raises(DecodeError):
            read_whole(reader, data[:cut], "here")


WRONG: list[tuple[Any, bytes, str]] = [
    ("long", b"\x80" * 10 + b"\x01", "at most 10 bytes"),
    ("long", b"\xff" * 9 + b"\x03", "at most 64 bits"),
    ("int", b"\x80\x80\x80\x80\x10", "at most 32 bits"),
    ("int", b"\x81\x80\x80\x80\x10", "at most 32 bits"),
    ("boolean", b"\2", "0 or 1"),
    ("bytes", b"\1", "zero or more"),
    ("bytes", b"\4a", "whole"),
    ("string", b"\2\xff", "UTF-8"),
    (ENUM, b"\4", "below 2"),
    (ENUM, b"\1", "below 2"),
    (["null", "int"], b"\4", "below 2"),
    (["null", "int"], b"\1", "below 2"),
    ({"type": "array", "items": "int"}, b"\4\0", "whole"),
    ({"type": "array", "items": "int"}, b"\1\4\0", "ends inside"),
    ({"type": "array", "items": "int"}, b"\1\1\0", "ends inside"),
    ({"type": "map", "values": "int"}, b"\4\2a\0", "whole"),
]


@pytest.mark.parametrize(("schema", "data", "expected"), WRONG)
def test_bytes_that_are_no_value_are_refused(schema: Any, data: bytes, expected: str):
    with pytest.raises(DecodeError, match=expected):
        read_whole(reader_here(schema), data, "here")


def test_the_longest_integers_are_read():
    assert read_whole(reader_here("long"), b"\xfe" + b"\xff" * 8 + b"\x01", "here") == (1 << 63) - 1
    assert read_whole(reader_here("long"), b"\xff" * 9 + b"\x01", "here") == -(1 << 63)
    assert read_whole(reader_here("int"), b"\xfe\xff\xff\xff\x0f", "here") == (1 << 31) - 1
    assert read_whole(reader_here("long"), b"\x80" * 9 + b"\0", "here") == 0
    assert read_whole(reader_here({"type": {"type": "int"}}), b"\x0a", "here") == 5


BYTES_MIN = [
    ("null", 0), ("boolean", 1), ("int", 1), ("float", 4), ("double", 8), ("string", 1), (FIXED, 3), (ENUM, 1),
    (["double", "int"], 2), (["null", "int"], 1), (record("double", "float"), 12), (record(), 0),
    ({"type": "array", "items": "double"}, 1), ({"type": "map", "values": "double"}, 1),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "least"), BYTES_MIN)
def test_a_value_takes_at_least_so_many_bytes(schema: Any, least: int):
    assert reader_here(schema).bytes_min == least


def test_what_reading_costs_is_counted():
    nested = record(record("int", "int", name="inner"), ["null", "int"])

    assert (reader_here("int").fields, reader_here("int").depth) == (1, 1)
    assert (reader_here(nested).fields, reader_here(nested).depth) == (5, 3)
    assert (reader_here(record()).fields, reader_here(record()).depth) == (1, 1)
    array = {"type": "array", "items": record("int", "int")}
    assert (reader_here(array).fields, reader_here(array).depth) == (3, 3)


def test_a_schema_may_have_so_many_levels_and_fields_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(avro_reader, "SCHEMA_DEPTH_MAX", 4)
    monkeypatch.setattr(avro_reader, "SCHEMA_FIELDS_MAX", 4)

    assert reader_here(record("int", "int", "int")).fields == 4
    assert reader_here(record(record(record("int", name="c"), name="b"))).depth == 4
    for wrong in (record(*["int"] * 4), record(record(record(record("int", name="d"), name="c"), name="b"))):
        with pytest.raises(DecodeError, match="at most 4"):
            reader_here(wrong)
    with pytest.raises(DecodeError, match="at most 4 levels"):
        reader_here({"type": {"type": {"type": {"type": "int"}}}})


def test_the_text_of_a_schema_may_be_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(avro_reader, "SCHEMA_BYTES_MAX", 5)

    assert schema_of('"int"', "here") == "int"
    with pytest.raises(DecodeError, match="at most 5 bytes"):
        schema_of('"int" ', "here")
    with pytest.raises(DecodeError, match="in JSON"):
        schema_of("int", "here")


def decimal(**more: Any) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", **more}


def test_a_decimal_has_a_precision_and_at_most_its_scale():
    for right in (decimal(precision=65, scale=65), decimal(precision=0), decimal(precision=65)):
        assert reader_here(right).bytes_min == 1
    for wrong in (
        decimal(precision=66), decimal(precision=5, scale=6), decimal(precision=5, scale=-1), decimal(),
        decimal(precision=True), decimal(precision=5, scale="1"),
    ):  # fmt: skip
        with pytest.raises(DecodeError, match="a decimal"):
            reader_here(wrong)
    reader = reader_here(decimal(precision=65))
    assert read_whole(reader, b"\x80\x01" + bytes(63) + b"\5", "here") == "5"
    for data in (b"\x82\x01" + bytes(65), b"\0"):
        with pytest.raises(DecodeError, match="1 to 64 bytes"):
            read_whole(reader, data, "here")
    assert read_whole(reader_here({"type": "bytes", "logicalType": "other"}), b"\2a", "here") == b"a"


@pytest.mark.parametrize(
    ("number", "scale", "text"),
    [(0, 0, "0"), (5, 0, "5"), (-5, 0, "-5"), (5, 1, "0.5"), (-5, 2, "-0.05"), (123, 2, "1.23"), (0, 2, "0.00")],
)
def test_a_decimal_is_its_digits_with_a_point(number: int, scale: int, text: str):
    assert decimal_text(number, scale) == text


def test_names_are_found_in_their_namespace():
    inner = {"type": "enum", "name": "e", "namespace": "n", "symbols": ["a"]}
    for name in ("e", "n.e"):
        assert reader_here(record(inner, name, namespace="n")).fields == 3
    assert reader_here(record({**inner, "namespace": ""}, "e", namespace="n")).fields == 3
    for wrong in (record(inner, "x.e", namespace="n"), record(inner, inner), record("r")):
        with pytest.raises(DecodeError):
            reader_here(wrong)


@pytest.mark.parametrize(
    "schema",
    [5, None, {}, [], [["int"]], {"type": "fixed", "name": "f", "size": 0},
     {"type": "enum", "name": "e", "symbols": []},
     {"type": "enum", "name": "e", "symbols": [5]}, {"type": "enum", "name": "", "symbols": ["a"]},
     {"type": "enum", "name": "e", "namespace": 5, "symbols": ["a"]}, {"type": "array", "items": "null"},
     {"type": "array", "items": record()}, record("null"), record(record(name="s"))],
)  # fmt: skip
def test_a_schema_of_another_form_is_not_admitted(schema: Any):
    with pytest.raises(DecodeError):
        reader_here(schema)


def test_a_fixed_type_may_be_so_large_and_no_larger(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(avro_reader, "FIXED_BYTES_MAX", 3)

    assert reader_here(FIXED).bytes_min == 3
    with pytest.raises(DecodeError, match="1 to 3 bytes"):
        reader_here({**FIXED, "size": 4})
