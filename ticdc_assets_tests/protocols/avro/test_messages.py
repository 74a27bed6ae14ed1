"""Avro protocol: the events of messages with and without the extension, and which messages are refused."""

from __future__ import annotations

import json
import struct
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.avro.bulk import BULK
from ticdc_assets.protocols.avro.decoder import registry_from_json, schema_event
from ticdc_assets.protocols.avro.table_schema import table_schema
from ticdc_assets.protocols.columnar.message_rows import Messages
from ticdc_assets.protocols.events import Op, WatermarkEvent
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets_tests.protocols.avro.registered_schemas import (
    EXTENSION,
    ID,
    NAME,
    ROW,
    SCHEMAS,
    record,
)
from ticdc_assets_tests.protocols.avro.written import OPTIONS, TS, extended, framed, key, of
from ticdc_assets_tests.protocols.hostile.damage import mutated


def test_a_row_without_the_extension_has_no_time():
    event = of(key(), framed(2, ROW, {"id": 7, "name": None}))

    assert (event.schema, event.table, event.hints.key, event.hints.schema_version) == ("shop", "t", ("id",), 2)
    assert (event.op, event.upsert, event.commit_ts, event.wire) == (Op.INSERT, True, None, {"id": 7, "name": None})


@pytest.mark.parametrize(("written", "op"), [("c", Op.INSERT), ("u", Op.UPDATE), ("d", Op.DELETE), ("", Op.DELETE)])
def test_the_extension_tells_operation_and_time(written, op):
    event = of(key(), extended(written))

    assert (event.op, event.commit_ts, event.time.commit_ms, event.upsert) == (op, TS, 5, False)
    assert (event.wire, event.handle_only) == ({"id": 7, "name": "x"}, False)


def test_a_commit_ts_that_was_left_at_its_default_is_none():
    assert of(key(), extended("c", commit_ts=0)).commit_ts is None


@pytest.mark.parametrize("nothing", [None, b""])
def test_a_message_with_a_key_alone_is_a_delete(nothing):
    event = of(key(), nothing)

    assert (event.op, event.wire, event.hints.key, event.commit_ts) == (Op.DELETE, {"id": 7}, ("id",), None)
    assert (event.handle_only, event.hints.schema_version) == (True, None)


def test_a_delete_marker_has_the_time():
    assert of(key(), b"\3" + struct.pack(">Q", TS)).commit_ts == TS
    for damaged in (b"\3", b"\3" + bytes(8), b"\3" + struct.pack(">Q", TS) + b"\0", b"\3" + b"\xff" * 8):
        with pytest.raises(DecodeError):
            of(key(), damaged)


def test_a_delete_that_carries_only_the_key_is_known_as_one():
    value = {"id": 7, "_tidb_op": "", "_tidb_commit_ts": TS, "_tidb_commit_physical_time": 5}
    schema = record(ID, *EXTENSION)
    event = of(key(), framed(4, schema, value), DecoderOptions(schemas={**SCHEMAS, 4: json.dumps(schema)}.__getitem__))

    assert (event.op, event.handle_only, event.commit_ts) == (Op.DELETE, True, TS)


def test_old_values_next_to_the_new_ones_are_the_before_image():
    inner = record(ID, NAME, name="before")
    schema = record(ID, NAME, *EXTENSION, {"name": "_ticdc_before", "type": ["null", inner], "default": None})
    options = DecoderOptions(schemas={**SCHEMAS, 5: json.dumps(schema)}.__getitem__)
    ticdc = {"_tidb_commit_ts": TS, "_tidb_commit_physical_time": 5, "_ticdc_before": {"id": 7, "name": "old"}}
    update = of(key(), framed(5, schema, {"id": 7, "name": "new", "_tidb_op": "u", **ticdc}), options)
    delete = of(key(), framed(5, schema, {"id": 7, "name": None, "_tidb_op": "d", **ticdc}), options)

    assert (update.before, update.wire) == ({"id": 7, "name": "old"}, {"id": 7, "name": "new"})
    assert (delete.before, delete.wire, delete.handle_only) == (None, {"id": 7, "name": "old"}, False)
    assert table_schema(json.dumps(schema), SCHEMAS[1]).column("_ticdc_before") is None


def test_the_topics_table_takes_the_place_of_sanitised_names():
    options = DecoderOptions(schemas=SCHEMAS.__getitem__, table=("my shop", "t-1"))
    row = framed(2, ROW, {"id": 7, "name": None})
    names = {(e.schema, e.table) for e in (of(key(), None, options), of(key(), row, options))}

    assert names == {("my shop", "t-1")}
    assert schema_event(key(), row, "here", options).after.schema == "my shop"


def test_a_delete_without_a_key_needs_to_know_its_table_and_names_no_row():
    with pytest.raises(DecodeError, match="without a key"):
        of(None, None)
    event = of(None, None, DecoderOptions(schemas=SCHEMAS.__getitem__, table=("shop", "t")))

    assert (event.op, event.wire, event.hints.key, event.handle_only) == (Op.DELETE, {}, (), True)


def test_a_row_without_a_key_is_read():
    row = framed(2, ROW, {"id": 7, "name": None})

    assert (of(None, row).wire, of(None, row).hints.key) == ({"id": 7, "name": None}, None)
    assert schema_event(None, row, "here", OPTIONS).after.key == ()


def test_statements_and_watermarks_of_the_test_only_mode():
    value = {"query": "DROP TABLE `shop`.`t`", "type": 4, "schema": "shop", "table": "t", "commitTs": TS}

    assert DdlEvent(TS, "shop", "t", value["query"], where="t[0]@1") == of(None, b"\1" + json.dumps(value).encode())
    assert WatermarkEvent(TS) == of(None, b"\2" + struct.pack(">Q", TS))
    for damaged in (b"\1{}", b"\1", b"\1[]", b"\2", b"\2" + bytes(8), b"\4", b"\xff" * 20):
        with pytest.raises(DecodeError):
            of(None, damaged)


def test_a_schema_comes_as_a_bootstrap_of_its_id():
    event = schema_event(key(), extended("c"), "here", OPTIONS)

    assert (event.query, event.hints.version, event.after.key) == ("", 3, ("id",))
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
    assert registry_from_json(b'[{"id": 1, "schema": "{}", "subject": "s"}]', "registry.json") == {1: "{}"}
    for damaged in (b"", b"{}x", b"5", b'[{"id": "1", "schema": ""}]', b'[{"id": 1}]', b'[{"id": 1, "schema": {}}]'):
        with pytest.raises(DecodeError):
            registry_from_json(damaged, "registry.json")


DAMAGED = [(key(), extended("c")), (key(), framed(2, ROW, {"id": 7, "name": "text"})), (None, b"\1{}"), (key(), None)]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(DAMAGED), st.data())
def test_damaged_messages_raise_nothing_but_decode_errors(sample, data):
    damaged = [mutated(part, data) if part and data.draw(st.booleans()) else part for part in sample]
    with suppress(DecodeError):
        of(*damaged)


def test_old_values_without_an_operation_may_be_of_a_delete_and_are_refused():
    inner = record(ID, NAME, name="before")
    schema = record(ID, NAME, {"name": "_ticdc_before", "type": ["null", inner], "default": None})
    options = DecoderOptions(schemas={**SCHEMAS, 5: json.dumps(schema)}.__getitem__)
    insert = framed(5, schema, {"id": 7, "name": "new", "_ticdc_before": None})
    changed = framed(5, schema, {"id": 7, "name": "new", "_ticdc_before": {"id": 7, "name": "old"}})
    batch = Messages.from_pairs([(key(), insert), (key(), changed)])

    assert of(key(), insert, options).op is Op.INSERT
    with pytest.raises(DecodeError, match="enable-tidb-extension"):
        of(key(), changed, options)
    assert BULK.rows(batch, options).left.all()
