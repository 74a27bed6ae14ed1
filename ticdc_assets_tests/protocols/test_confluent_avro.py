"""Avro protocol: every change comes out as far as the stream tells it, and hostile bytes and schemas are refused."""

from __future__ import annotations

import json
import re
import struct
from base64 import b64encode
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.protocols.avro_reader import SCHEMA_BYTES_MAX, compiled, read_whole
from ticdc_assets.protocols.avro_schema import table_schema, writer
from ticdc_assets.protocols.checksum import ChecksummedRow
from ticdc_assets.protocols.confluent_avro import (
    Options,
    decode,
    registry_from_json,
    schema_event,
    schema_ids,
    value,
    verify,
)
from ticdc_assets.protocols.events import DdlEvent, Op, RowEvent, WatermarkEvent
from ticdc_assets.schema.model import Column, Default, Kind, MySqlType, TableSchema
from ticdc_assets.sources.capture import Message, messages
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.protocols import happened
from ticdc_assets_tests.protocols.happened import Change

TS = 459802238374641668
WIDE = "123456789012345678901234567890123456.78"
every_workload = pytest.mark.parametrize("workload", workloads("avro"), ids=lambda w: w.name)


# --- the logs -------------------------------------------------------------------------------------------------------


@cache
def told_by(workload: Workload) -> list[tuple[Message, Any, TableSchema | None]]:
    """Every event with its message and the schema that comes with a row's values."""
    registry = registry_from_json((workload.root / "registry.json").read_bytes())
    options = Options(registry.__getitem__)
    schemas: dict[Any, DdlEvent | None] = {}
    told = []
    for message in messages(workload.root / "messages.jsonl"):
        (event,) = decode(message.key, message.value, message.where, options)
        ids = schema_ids(message.key, message.value, message.where)
        if ids not in schemas:
            schemas[ids] = schema_event(message.key, message.value, message.where, options)
        shape = schemas[ids]
        told.append((message, event, shape.after if shape else None))
    return told


def rows_of(workload: Workload) -> list[tuple[RowEvent, TableSchema | None]]:
    return [(event, shape) for _, event, shape in told_by(workload) if isinstance(event, RowEvent)]


def has_extension(workload: Workload) -> bool:
    return "enable-tidb-extension=true" in workload.variant["sink_uri"]


def sanitised(name: str) -> str:
    return re.sub(r"^(?=[0-9])", "_", re.sub(r"[^A-Za-z0-9_]", "_", name))


def expected(change: Change, tables: happened.Tables, extension: bool) -> Change:
    """The change as this protocol can tell it."""
    key = tables.as_of(change.schema, change.table, change.commit_ts).key
    pairs = [pair for pair in change.new or () if change.op != "D" or pair[0] in key]
    new = tuple(sorted((sanitised(name), found) for name, found in pairs))
    op = change.op if extension or change.op == "D" else "I"
    commit_ts = change.commit_ts if extension and op != "D" else None
    return Change(sanitised(change.schema), sanitised(change.table), op, commit_ts, new, None)


def typed(column: Column, wire: Any, digits: bool) -> Any:
    found = value(column, wire, "UTC")
    if isinstance(found, list):
        return tuple(found)
    # Decimals of unknown precision stay text.
    return Decimal(found) if digits and column.type.kind is Kind.DECIMAL and found is not None else found


def change_of(event: RowEvent, columns: dict[str, Column], digits: bool = False) -> Change:
    new = tuple(sorted((name, typed(columns[name], wire, digits)) for name, wire in event.wire.items()))
    return Change(event.schema, event.table, event.op, event.commit_ts, new, None)


def true_columns(event: RowEvent, tables: happened.Tables) -> dict[str, Column]:
    """Types of the table at any time that has the event's columns; names never change their type in these logs."""
    found: dict[str, Column] = {}
    for (schema, table), versions in tables.versions.items():
        if (sanitised(schema), sanitised(table)) == (event.schema, event.table):
            for _, shape in versions:
                if set(event.wire) <= {sanitised(c.name) for c in shape.columns}:
                    found.update({sanitised(c.name): c for c in shape.columns})
    return found


@every_workload
def test_every_change_comes_out_once_for_each_time_it_was_sent(workload):
    tables = happened.tables(workload.events)
    told = [expected(change, tables, has_extension(workload)) for change in happened.changes(workload)]
    got = [change_of(event, true_columns(event, tables)) for event, _ in rows_of(workload)]

    assert told
    assert Counter(told) == Counter(got)


@every_workload
def test_the_types_of_the_registry_give_the_same_values(workload):
    tables = happened.tables(workload.events)
    seen = 0
    for event, shape in rows_of(workload):
        if shape is not None:
            by_name = {column.name: column for column in shape.columns}
            real = change_of(event, true_columns(event, tables), digits=True)
            assert real == change_of(event, by_name, digits=True)
            seen += 1
    assert seen


@every_workload
def test_the_schema_of_a_row_has_its_columns_nullability_labels_and_key(workload):
    tables = happened.tables(workload.events)
    commit_ts = {}
    for change in happened.changes(workload):
        commit_ts[sanitised(change.schema), sanitised(change.table)] = (change.schema, change.table)
    for event, shape in rows_of(workload):
        if shape is None or event.commit_ts is None:
            continue
        real = tables.as_of(*commit_ts[event.schema, event.table], event.commit_ts)
        assert (event.schema, event.table) == (shape.schema, shape.name)
        by_name = {sanitised(c.name): c for c in real.stored_columns}
        assert by_name.keys() == {c.name for c in shape.columns} == event.wire.keys()
        assert {sanitised(name) for name in real.key} == set(shape.key) == set(event.key)
        for column in shape.columns:
            same = by_name[column.name]
            assert same.nullable == column.nullable
            assert same.type.elements == column.type.elements
            assert same.type.kind is not Kind.BIT or same.type.length == column.type.length


@every_workload
def test_deletes_hold_the_key_and_nothing_else(workload):
    deletes = [event for event, _ in rows_of(workload) if event.op is Op.DELETE]

    assert deletes
    for event in deletes:
        assert (set(event.key), event.handle_only, event.commit_ts) == (set(event.wire), True, None)


@every_workload
def test_rows_without_the_extension_are_upserts(workload):
    rows = [event for event, _ in rows_of(workload) if event.op is not Op.DELETE]

    assert {event.upsert for event in rows} == {not has_extension(workload)}
    for event in rows:
        assert not [name for name in event.wire if name.startswith("_tidb")]
        assert event.commit_ms == (event.commit_ts >> 18 if event.commit_ts else None)


@pytest.mark.parametrize("workload", workloads("avro-watermark-internal"), ids=lambda w: w.name)
def test_the_test_only_mode_tells_statements_and_watermarks(workload):
    by_partition: dict[Any, list[Any]] = {}
    for message, event, _ in told_by(workload):
        by_partition.setdefault((message.topic, message.partition), []).append(event)
    statements, watermarks = happened.statements(workload), happened.watermarks(workload)
    told = {(e.commit_ts, e.schema, e.table, e.query) for es in by_partition.values() for e in es if is_ddl(e)}

    assert set(statements) == told
    for (topic, _), events in by_partition.items():
        marks = [e.ts for e in events if isinstance(e, WatermarkEvent)]
        # Other topics join with their first row and leave when their table takes another name.
        first = watermarks.index(marks[0])
        assert marks == watermarks[first : first + len(marks)]
        assert topic != "oracle" or marks == watermarks


def is_ddl(event: Any) -> bool:
    return isinstance(event, DdlEvent)


@pytest.mark.parametrize("workload", workloads("avro-checksum"), ids=lambda w: w.name)
def test_every_checksum_holds_and_none_holds_without_a_value(workload):
    checked = 0
    for event, shape in rows_of(workload):
        if event.op is Op.DELETE:
            continue
        assert isinstance(event, ChecksummedRow)
        assert verify(event, shape) is None
        for name, wire in event.wire.items():
            if event.checksum.current and wire is not None:
                fields = {part: getattr(event, part) for part in RowEvent.__slots__}
                damaged = ChecksummedRow(**{**fields, "wire": {**event.wire, name: None}}, checksum=event.checksum)
                assert verify(damaged, shape) is not None
                checked += 1
    assert checked > 1000


@every_workload
def test_rows_are_read_as_another_reader_reads_them(workload):
    registry = registry_from_json((workload.root / "registry.json").read_bytes())
    parsed = {number: fastavro.parse_schema(json.loads(text)) for number, text in registry.items()}
    for message, event, _ in told_by(workload):
        if isinstance(event, RowEvent) and message.value:
            theirs = fastavro.schemaless_reader(BytesIO(message.value[5:]), parsed[event.schema_version], None)
            for name, wire in event.wire.items():
                other = theirs[name]
                # Their decimals are rounded to the precision of the context.
                assert wire == other or float(wire) == pytest.approx(float(other))


# --- messages of our own --------------------------------------------------------------------------------------------


def column(tidb_type: str, avro_type: str, **parameters: str) -> dict[str, Any]:
    return {"type": avro_type, "connect.parameters": {"tidb_type": tidb_type, **parameters}}


ID = {"name": "id", "type": column("BIGINT", "long")}
NAME = {"name": "name", "type": ["null", column("TEXT", "string")], "default": None}
EXTENSION = [
    {"name": "_tidb_op", "type": "string", "default": ""},
    {"name": "_tidb_commit_ts", "type": "long", "default": 0},
    {"name": "_tidb_commit_physical_time", "type": "long", "default": 0},
]


def record(*fields: Any, name: str = "t", namespace: str = "default.shop") -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": namespace, "fields": list(fields)}


KEY = record(ID)
ROW = record(ID, NAME)
EXTENDED = record(ID, NAME, *EXTENSION)
SCHEMAS = {1: json.dumps(KEY), 2: json.dumps(ROW), 3: json.dumps(EXTENDED)}
OPTIONS = Options(SCHEMAS.__getitem__)


def framed(number: int, schema: Any, told: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), told)
    return b"\0" + struct.pack(">I", number) + out.getvalue()


def key(of: int = 7) -> bytes:
    return framed(1, KEY, {"id": of})


def extended(op: str, commit_ts: int = TS) -> bytes:
    told = {"id": 7, "name": "x", "_tidb_op": op, "_tidb_commit_ts": commit_ts, "_tidb_commit_physical_time": 5}
    return framed(3, EXTENDED, told)


def of(key_bytes: bytes | None, value_bytes: bytes | None, options: Options = OPTIONS) -> Any:
    (event,) = decode(key_bytes, value_bytes, "t[0]@1", options)
    return event


def test_a_row_without_the_extension_has_no_time():
    event = of(key(), framed(2, ROW, {"id": 7, "name": None}))

    assert (event.schema, event.table, event.key, event.schema_version) == ("shop", "t", ("id",), 2)
    assert (event.op, event.upsert, event.commit_ts, event.wire) == (Op.INSERT, True, None, {"id": 7, "name": None})


@pytest.mark.parametrize(("written", "op"), [("c", Op.INSERT), ("u", Op.UPDATE), ("d", Op.DELETE), ("", Op.DELETE)])
def test_the_extension_tells_operation_and_time(written, op):
    event = of(key(), extended(written))

    assert (event.op, event.commit_ts, event.commit_ms, event.upsert) == (op, TS, 5, False)
    assert (event.wire, event.handle_only) == ({"id": 7, "name": "x"}, False)


def test_a_commit_ts_that_was_left_at_its_default_is_none():
    assert of(key(), extended("c", commit_ts=0)).commit_ts is None


@pytest.mark.parametrize("nothing", [None, b""])
def test_a_key_alone_deletes(nothing):
    event = of(key(), nothing)

    assert (event.op, event.wire, event.key, event.commit_ts) == (Op.DELETE, {"id": 7}, ("id",), None)
    assert (event.handle_only, event.schema_version) == (True, None)


def test_a_delete_marker_has_the_time():
    assert of(key(), b"\3" + struct.pack(">Q", TS)).commit_ts == TS
    for damaged in (b"\3", b"\3" + bytes(8), b"\3" + struct.pack(">Q", TS) + b"\0", b"\3" + b"\xff" * 8):
        with pytest.raises(DecodeError):
            of(key(), damaged)


def test_a_delete_that_carries_only_the_key_is_known_as_one():
    told = {"id": 7, "_tidb_op": "", "_tidb_commit_ts": TS, "_tidb_commit_physical_time": 5}
    schema = record(ID, *EXTENSION)
    event = of(key(), framed(4, schema, told), Options({**SCHEMAS, 4: json.dumps(schema)}.__getitem__))

    assert (event.op, event.handle_only, event.commit_ts) == (Op.DELETE, True, TS)


def test_old_values_beside_the_new_ones_are_the_before_image():
    inner = record(ID, NAME, name="before")
    schema = record(ID, NAME, *EXTENSION, {"name": "_ticdc_before", "type": ["null", inner], "default": None})
    options = Options({**SCHEMAS, 5: json.dumps(schema)}.__getitem__)
    ticdc = {"_tidb_commit_ts": TS, "_tidb_commit_physical_time": 5, "_ticdc_before": {"id": 7, "name": "old"}}
    update = of(key(), framed(5, schema, {"id": 7, "name": "new", "_tidb_op": "u", **ticdc}), options)
    delete = of(key(), framed(5, schema, {"id": 7, "name": None, "_tidb_op": "d", **ticdc}), options)

    assert (update.before, update.wire) == ({"id": 7, "name": "old"}, {"id": 7, "name": "new"})
    assert (delete.before, delete.wire, delete.handle_only) == (None, {"id": 7, "name": "old"}, False)
    assert table_schema(json.dumps(schema), SCHEMAS[1]).column("_ticdc_before") is None


def test_the_topics_table_takes_the_place_of_sanitised_names():
    options = Options(SCHEMAS.__getitem__, ("my shop", "t-1"))
    row = framed(2, ROW, {"id": 7, "name": None})
    names = {(e.schema, e.table) for e in (of(key(), None, options), of(key(), row, options))}

    assert names == {("my shop", "t-1")}
    assert schema_event(key(), row, "here", options).after.schema == "my shop"


def test_a_delete_without_a_key_needs_to_know_its_table_and_names_no_row():
    with pytest.raises(DecodeError, match="without a key"):
        of(None, None)
    event = of(None, None, Options(SCHEMAS.__getitem__, ("shop", "t")))

    assert (event.op, event.wire, event.key, event.handle_only) == (Op.DELETE, {}, (), True)


def test_a_row_without_a_key_is_read():
    row = framed(2, ROW, {"id": 7, "name": None})

    assert (of(None, row).wire, of(None, row).key) == ({"id": 7, "name": None}, None)
    assert schema_event(None, row, "here", OPTIONS).after.key == ()


def test_statements_and_watermarks_of_the_test_only_mode():
    told = {"query": "DROP TABLE `shop`.`t`", "type": 4, "schema": "shop", "table": "t", "commitTs": TS}

    assert DdlEvent(TS, "shop", "t", told["query"], where="t[0]@1") == of(None, b"\1" + json.dumps(told).encode())
    assert WatermarkEvent(TS) == of(None, b"\2" + struct.pack(">Q", TS))
    for damaged in (b"\1{}", b"\1", b"\1[]", b"\2", b"\2" + bytes(8), b"\4", b"\xff" * 20):
        with pytest.raises(DecodeError):
            of(None, damaged)


def test_a_schema_comes_as_a_bootstrap_of_its_id():
    event = schema_event(key(), extended("c"), "here", OPTIONS)

    assert (event.query, event.version, event.after.key) == ("", 3, ("id",))
    assert [c.name for c in event.after.columns] == ["id", "name"]
    assert schema_event(key(), None, "here", OPTIONS) is None


@pytest.mark.parametrize(
    ("key_bytes", "value_bytes"),
    [
        (b"\0\0\0", None),
        (b"\1\0\0\0\1\x0e", None),
        (key() + b"\0", None),
        (key()[:-1], None),
        (b"\0\0\0\0\x09\x0e", None),
        (key(), b"\0\0\0"),
        (key(), extended("x")),
        (key(), extended("c", commit_ts=-1)),
        (key(), extended("c") + b"\0"),
        (key(), extended("c")[:-1]),
        (key(), b"\0\0\0\0\2" + b"\x0e\x01"),
        (key(), b"\0\0\0\0\2" + b"\x0e\x04"),
        (key(), b"\0\0\0\0\2" + b"\x0e\x02\x02\xff"),
        (key(), b"\0\0\0\0\2" + b"\x0e\x02\x01"),
        (key(), b"\0\0\0\0\2" + b"\x0e\x02\x7f"),
        (key(), b"\0\0\0\0\2" + b"\xff" * 10 + b"\x01\0"),
        (key(), b"\0\0\0\0\2" + b"\xff" * 9 + b"\x7f\0"),
    ],
)
def test_bytes_that_are_no_message_are_refused(key_bytes, value_bytes):
    with pytest.raises(DecodeError):
        of(key_bytes, value_bytes)


def test_an_unknown_schema_id_is_an_error_that_names_it():
    with pytest.raises(DecodeError, match="schema id 9"):
        of(b"\0\0\0\0\x09\x0e", None)


def test_the_registry_file_is_a_list_of_ids_and_schemas():
    assert registry_from_json(b'[{"id": 1, "schema": "{}", "subject": "s"}]') == {1: "{}"}
    for damaged in (b"", b"{}x", b"5", b'[{"id": "1", "schema": ""}]', b'[{"id": 1}]', b'[{"id": 1, "schema": {}}]'):
        with pytest.raises(DecodeError):
            registry_from_json(damaged)


# --- schemas of our own ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("avro", "expected"),
    [
        (column("INT", "int"), MySqlType(Kind.INT)),
        (column("INT UNSIGNED", "int"), MySqlType(Kind.MEDIUMINT, unsigned=True)),
        (column("INT UNSIGNED", "long"), MySqlType(Kind.INT, unsigned=True)),
        (column("BIGINT", "long"), MySqlType(Kind.BIGINT)),
        (column("BIGINT UNSIGNED", "long"), MySqlType(Kind.BIGINT, unsigned=True)),
        (column("BIGINT UNSIGNED", "string"), MySqlType(Kind.BIGINT, unsigned=True)),
        (column("FLOAT", "float"), MySqlType(Kind.FLOAT)),
        (column("FLOAT", "double"), MySqlType(Kind.FLOAT)),
        (column("BIT", "bytes", length="10"), MySqlType(Kind.BIT, 10)),
        (column("ENUM", "string", allowed="a\\,b,c,o'k"), MySqlType(Kind.ENUM, elements=("a,b", "c", "o'k"))),
        (column("SET", "string", allowed="r,g"), MySqlType(Kind.SET, elements=("r", "g"))),
        (column("SET", "string"), MySqlType(Kind.SET)),
        (column("DECIMAL", "string"), MySqlType(Kind.DECIMAL, 65, 30)),
        ({**column("DECIMAL", "bytes"), "logicalType": "decimal", "precision": 12, "scale": 4}, (12, 4)),
        ({**column("DECIMAL", "bytes"), "logicalType": "decimal", "precision": 12}, (12, 0)),
        (column("TEXT", "string"), MySqlType(Kind.LONGTEXT)),
        (column("BLOB", "bytes"), MySqlType(Kind.LONGBLOB)),
        (column("TIMESTAMP", "string"), MySqlType(Kind.TIMESTAMP, 6)),
        (column("YEAR", "int"), MySqlType(Kind.YEAR)),
        (column("TiDBVECTORFloat32", "string"), MySqlType(Kind.VECTOR)),
    ],
)
def test_a_column_type_is_what_the_parameters_say(avro, expected):
    expected = MySqlType(Kind.DECIMAL, *expected) if isinstance(expected, tuple) else expected
    for type_, nullable in ((avro, False), (["null", avro], True), ([avro, "null"], True)):
        found = table_schema(json.dumps(record({"name": "c", "type": type_})), None).columns[0]
        assert (found.type, found.nullable) == (expected, nullable)


@pytest.mark.parametrize(
    ("avro", "told", "expected"),
    [
        (column("INT", "int"), -5, Default("-5")),
        (column("BIGINT UNSIGNED", "long"), -1, Default(str((1 << 64) - 1))),
        (column("BIGINT UNSIGNED", "string"), "21", Default("21")),
        (column("FLOAT", "float"), 3.25, Default("3.25")),
        (column("BLOB", "bytes"), b64encode(b"\xffx").decode(), Default(b"\xffx")),
        (column("BIT", "bytes", length="10"), b64encode(b"\x02\x01").decode(), Default("513")),
        (column("TEXT", "string"), "CURRENT_TIMESTAMP", Default("CURRENT_TIMESTAMP")),
        (column("DATETIME", "string"), "CURRENT_TIMESTAMP(3)", Default(expression="CURRENT_TIMESTAMP(3)")),
        (column("TEXT", "string"), None, None),
    ],
)
def test_a_default_is_a_literal_or_an_expression(avro, told, expected):
    text = json.dumps(record({"name": "c", "type": [avro, "null"], "default": told}))

    assert expected == table_schema(text, None).columns[0].default


@pytest.mark.parametrize(
    "field",
    [
        {"name": "c", "type": "int"},
        {"name": "c", "type": column("GEOMETRY", "bytes")},
        {"name": "c", "type": column("BIT", "bytes")},
        {"name": "c", "type": column("BIT", "bytes", length="65")},
        {"name": "c", "type": {"type": "int", "connect.parameters": 5}},
        {"name": "c", "type": ["null", column("INT", "int"), column("TEXT", "string")]},
        {"name": "c", "type": column("BLOB", "bytes"), "default": "?"},
        {"name": "c", "type": column("INT", "int"), "default": True},
    ],
)
def test_a_field_that_is_no_column_of_ticdc_has_no_schema(field):
    with pytest.raises(SchemaError):
        table_schema(json.dumps(record(field)), None)


def test_a_key_of_other_columns_than_the_rows_has_no_schema():
    with pytest.raises(SchemaError):
        table_schema(json.dumps(record(NAME)), json.dumps(KEY))


def test_columns_with_the_names_of_extension_fields_are_columns():
    text = json.dumps(record(ID, {"name": "_tidb_op", "type": column("TEXT", "string")}))

    assert [c.name for c in table_schema(text, None).columns] == ["id", "_tidb_op"]


def nested(levels: int) -> Any:
    told: Any = "int"
    for number in range(levels):
        told = record({"name": "a", "type": told}, name=f"r{number}")
    return told


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
    reader = compiled(schema, "here")
    with suppress(DecodeError):
        ours = read_whole(reader, body, "here")
        theirs = fastavro.schemaless_reader(BytesIO(body), fastavro.parse_schema(schema), None)
        assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("kind", ["array", "map"])
def test_blocks_may_be_many_and_name_their_size(kind):
    reader = compiled({"type": kind, "items": "int", "values": "int"}, "here")
    item = b"\x02a\x02" if kind == "map" else b"\x02"
    other = b"\x02b\x04" if kind == "map" else b"\x04"
    body = b"\x02" + item + b"\x01" + bytes([2 * len(other)]) + other + b"\0"

    assert read_whole(reader, body, "here") == ({"a": 1, "b": 2} if kind == "map" else [1, 2])


def test_a_map_with_a_key_twice_is_refused():
    reader = compiled({"type": "map", "values": "int"}, "here")
    with pytest.raises(DecodeError):
        read_whole(reader, b"\x04\x02a\x02\x02a\x02\0", "here")


@pytest.mark.parametrize(
    ("raw", "expected"), [(b"\x00", "0.0000"), (b"\xff", "-0.0001"), (b"\x01\x86\xa0", "10.0000"), (b"\x80", "-0.0128")]
)
def test_decimals_are_exact_text(raw, expected):
    reader = compiled({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}, "here")

    assert expected == read_whole(reader, bytes([2 * len(raw)]) + raw, "here")


def test_decimals_without_bytes_or_with_too_many_are_refused():
    reader = compiled({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}, "here")
    for body in (b"\0", b"\x82\x01" + bytes(65)):
        with pytest.raises(DecodeError):
            read_whole(reader, body, "here")


@pytest.mark.parametrize(
    ("of_column", "wire", "found"),
    [
        (MySqlType(Kind.BIGINT, unsigned=True), -1, (1 << 64) - 1),
        (MySqlType(Kind.BIGINT, unsigned=True), str((1 << 64) - 1), (1 << 64) - 1),
        (MySqlType(Kind.BIT, 64), b"\xff" * 8, (1 << 64) - 1),
        (MySqlType(Kind.BIT, 10), b"\x02\x01", 513),
        (MySqlType(Kind.BIT, 10), b"\0", 0),
        (MySqlType(Kind.ENUM, elements=("a",)), "a", "a"),
        (MySqlType(Kind.SET, elements=("a", "b")), "", ""),
        (
            MySqlType(Kind.DECIMAL, 38, 2),
            WIDE,
            Decimal(WIDE),
        ),
        (MySqlType(Kind.DECIMAL, 39, 2), "-0.10", "-0.10"),
        (MySqlType(Kind.LONGBLOB), b"\xff", b"\xff"),
        (MySqlType(Kind.TIMESTAMP, 6), "2024-01-01 12:00:00", datetime(2024, 1, 1, 4, tzinfo=UTC)),
        (MySqlType(Kind.DATETIME, 6), "0000-00-00 00:00:00", None),
    ],
)
def test_a_wire_value_is_its_canonical_value(of_column, wire, found):
    got = value(Column("c", of_column), wire, "Asia/Shanghai")

    assert (type(found), found) == (type(got), got)


DAMAGED = [(key(), extended("c")), (key(), framed(2, ROW, {"id": 7, "name": "text"})), (None, b"\1{}"), (key(), None)]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(DAMAGED), st.data())
def test_damaged_messages_raise_nothing_but_decode_errors(sample, data):
    damaged = [mutated(part, data) if part and data.draw(st.booleans()) else part for part in sample]
    with suppress(DecodeError):
        of(*damaged)


def mutated(body: bytes, data: st.DataObject) -> bytes:
    at = data.draw(st.integers(0, len(body)))
    cut = data.draw(st.integers(at, len(body)))
    return body[:at] + data.draw(st.binary(max_size=6)) + body[cut:]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([SCHEMAS[3], json.dumps(doubling(3))]), st.data())
def test_damaged_schemas_raise_nothing_but_this_projects_errors(text, data):
    with suppress(DecodeError, SchemaError):
        table_schema(mutated(text.encode(), data).decode(errors="replace"), None)
