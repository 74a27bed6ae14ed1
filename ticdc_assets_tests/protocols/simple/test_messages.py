"""Simple protocol: the events of messages of every form, and which are refused; statements, large rows, claim
checks."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.events import Op, WatermarkEvent
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.simple.decoder import decode, open_claim
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets_tests.protocols.simple.simple_messages import PLAIN, ROW, TABLE, TS, of


@pytest.mark.parametrize("compression", list(Compression))
def test_the_whole_value_may_be_compressed(compression):
    assert WatermarkEvent(TS) == of({"version": 1, "type": "WATERMARK", "commitTs": TS}, DecoderOptions(compression))


def test_a_bootstrap_is_a_schema_without_a_statement():
    event = of({"version": 1, "type": "BOOTSTRAP", "commitTs": 0, "tableSchema": TABLE})

    assert (event.query, event.commit_ts, event.hints.version, event.hints.table_id) == ("", 0, TS - 4, 7)
    assert (event.schema, event.table, event.after.key) == ("shop", "t", ("id",))


def test_database_statements_have_no_names_but_in_their_text():
    event = of({"version": 1, "type": "QUERY", "sql": "DROP DATABASE `d`", "commitTs": TS})

    assert DdlEvent(TS, "", "", "DROP DATABASE `d`", where="t[0]@1") == event


def test_a_rename_without_the_old_schema_names_no_old_table():
    event = of({"version": 1, "type": "RENAME", "sql": "RENAME TABLE a TO t", "commitTs": TS, "tableSchema": TABLE})

    assert (event.hints.old_name, event.before, event.table) == (None, None, "t")


def test_a_rename_that_keeps_its_version_has_both_names():
    before = {**TABLE, "table": "a"}
    given = {"tableSchema": TABLE, "preTableSchema": before}
    event = of({"version": 1, "type": "RENAME", "sql": "RENAME TABLE a TO t", "commitTs": TS, **given})

    assert (event.hints.old_name, event.table, event.hints.version) == (("shop", "a"), "t", event.hints.before_version)


def test_an_update_with_some_old_columns_is_partial():
    event = of({**ROW, "type": "UPDATE", "data": {"id": "1", "a": "2"}, "old": {"a": "1"}})
    whole = of({**ROW, "type": "UPDATE", "data": {"id": "1"}, "old": {"id": "1"}})
    none = of({**ROW, "type": "UPDATE", "data": {"id": "1"}})

    assert (event.before, event.before_is_partial, whole.before_is_partial) == ({"a": "1"}, True, False)
    assert (none.op, none.before) == (Op.UPDATE, None)


def test_a_claim_keeps_the_files_name_only():
    for location in ("file:///a/../b/c.json", "s3://bucket/c.json", "c.json", "a\\c.json"):
        event = of({**ROW, "claimCheckLocation": location, "handleKeyOnly": True})
        assert (event.claim, event.handle_only) == ("c.json", True)
    for location in ("file:///a/", "..", "a/..", 5):
        with pytest.raises(DecodeError):
            of({**ROW, "claimCheckLocation": location})


def test_a_large_row_of_a_table_without_key_has_no_values():
    event = of({**{k: v for k, v in ROW.items() if k != "data"}, "handleKeyOnly": True, "claimCheckLocation": "x"})

    assert (event.wire, event.claim) == ({}, "x")


@pytest.mark.parametrize("raw", [False, True])
def test_a_claim_file_is_a_whole_message_wrapped_or_bare(raw):
    body = json.dumps(ROW).encode()
    file = body if raw else json.dumps({"key": None, "value": b64encode(body).decode()}).encode()
    (event,) = open_claim(file, "x.json", DecoderOptions(claim_check_raw_value=raw))

    assert event.wire == {"id": "1"}
    for inside in ({**ROW, "handleKeyOnly": True}, {"version": 1, "type": "WATERMARK", "commitTs": TS}):
        body = json.dumps(inside).encode()
        file = body if raw else json.dumps({"key": None, "value": b64encode(body).decode()}).encode()
        with pytest.raises(DecodeError):
            open_claim(file, "x.json", DecoderOptions(claim_check_raw_value=raw))


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 2},
        {"type": "UPSERT"},
        {"type": 5},
        {"commitTs": str(TS)},
        {"commitTs": 1.5},
        {"commitTs": -1},
        {"commitTs": 1 << 63},
        {"commitTs": True},
        {"schemaVersion": None},
        {"database": ""},
        {"table": None},
        {"tableID": "7"},
        {"data": None},
        {"data": []},
        {"data": {"id": ["1"]}},
        {"handleKeyOnly": "true"},
        {"checksum": {"current": -1, "previous": 0}},
        {"checksum": 5},
    ],
)
def test_a_row_that_is_not_as_the_protocol_has_it_is_refused(damage):
    with pytest.raises(DecodeError) as caught:
        of({**ROW, **damage})
    assert caught.value.where == "t[0]@1"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\x16", b"\x14\x00", b"null", b'{"version":1}', b"[" * 100_000])
def test_bytes_that_are_no_message_are_refused(body):
    with pytest.raises(DecodeError):
        list(decode(None, body, "here", PLAIN))


def test_a_message_without_a_value_is_refused():
    with pytest.raises(DecodeError):
        decode(None, None, "here", PLAIN)
