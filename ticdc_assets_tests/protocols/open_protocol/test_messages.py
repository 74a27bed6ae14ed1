"""Open Protocol: the events of messages of every form, and which are refused; large and compressed ones, claim
checks."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from typing import Any

import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.events import Op, WatermarkEvent
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.open_protocol import decoder as open_protocol
from ticdc_assets.protocols.open_protocol.decoder import decode, open_claim
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets_tests.protocols.open_protocol.open_messages import HEAD, ID, PLAIN, TS, column, decoded, message


def test_one_message_may_hold_rows_statements_and_watermarks():
    row, ddl, mark = decoded(
        ({**HEAD, "rid": 5, "ptn": 116}, {"u": {"id": ID, "a": column("x", 15)}}),
        ({"ts": TS + 1, "scm": "shop", "tbl": "t", "t": 2}, {"q": "DROP TABLE `shop`.`t`", "t": 4}),
        ({"ts": TS + 2, "t": 3}, None),
    )

    assert (
        row.op,
        row.wire,
        row.hints.key,
        row.hints.row_id,
        row.hints.partition_id,
    ) == (Op.INSERT, {"id": 1, "a": "x"}, ("id",), 5, 116)
    assert (row.commit_ts, row.before, row.upsert, row.handle_only, row.claim) == (TS, None, False, False, None)
    assert DdlEvent(TS + 1, "shop", "t", "DROP TABLE `shop`.`t`", where="t[0]@1") == ddl
    assert WatermarkEvent(TS + 2) == mark


@pytest.mark.parametrize("empty", [None, b"", bytes(8)])
def test_a_resolved_event_may_have_an_empty_value_of_any_form(empty):
    key, _ = message(({"ts": TS, "t": 3}, None))

    assert [WatermarkEvent(TS)] == list(decode(key, empty, "here", PLAIN))


def test_a_database_statement_may_name_no_table_or_an_empty_one():
    for head in ({"ts": TS, "scm": "d", "t": 2}, {"ts": TS, "scm": "d", "tbl": "", "t": 2}):
        (ddl,) = decoded((head, {"q": "CREATE DATABASE `d`", "t": 1}))
        assert (ddl.schema, ddl.table) == ("d", "")


def test_an_update_with_some_old_columns_is_partial_and_can_be_filled():
    (row,) = decoded((HEAD, {"u": {"id": ID, "a": column(2), "b": column(3)}, "p": {"a": column(None)}}))

    assert (row.op, row.before_is_partial, row.before) == (Op.UPDATE, True, {"a": None})
    assert row.full_before == {"id": 1, "a": None, "b": 3}


def test_an_update_with_all_old_columns_is_whole():
    (row,) = decoded((HEAD, {"u": {"id": ID, "a": column(2)}, "p": {"a": column(1), "id": ID}}))

    assert (row.before_is_partial, row.full_before) == (False, {"id": 1, "a": 1})


def test_without_old_values_an_insert_and_an_update_look_alike():
    options = DecoderOptions(output_old_value=False)
    new, gone = decoded((HEAD, {"u": {"id": ID}}), (HEAD, {"d": {"id": ID}}), options=options)

    assert (new.op, new.upsert) == (Op.INSERT, True)
    assert (gone.op, gone.upsert) == (Op.DELETE, False)


def test_a_keys_only_update_without_changes_to_send_looks_like_an_insert():
    options = DecoderOptions(only_output_updated_columns=True)
    large, small = decoded(({**HEAD, "ohk": True}, {"u": {"id": ID}}), (HEAD, {"u": {"id": ID}}), options=options)

    assert (large.upsert, small.upsert) == (True, False)


@pytest.mark.parametrize(
    ("head", "handle_only", "claim"),
    [
        ('"ohk":true', True, None),
        ('"ohk":false', False, None),
        ('"ohk":true,"ohk":false', False, None),
        ('"ohk":false,"ohk":true', True, None),
        ('"ohk":true,"ohk":false,"ccl":"s3://b/p/0a.json"', True, "0a.json"),
        ('"ccl":"file:///ticdc/claim-check/0a.json"', True, "0a.json"),
        ('"ccl":"0a.json"', True, "0a.json"),
        ('"ccl":"..\\\\0a.json"', True, "0a.json"),
        ('"ccl":""', False, None),
    ],
)
def test_large_messages_are_marked_and_a_repeated_mark_counts_as_its_last(head, handle_only, claim):
    raw = json.dumps(HEAD)[:-1] + "," + head + "}"
    (row,) = decoded((raw.encode(), {"u": {"id": ID}}))

    assert (handle_only, claim) == (row.handle_only, row.claim)


@pytest.mark.parametrize("place", [5, "s3://b/", "s3://b/..", "."])
def test_a_claim_must_name_a_file(place):
    with pytest.raises(DecodeError, match="ccl"):
        decoded(({**HEAD, "ccl": place}, {"u": {"id": ID}}))


def claim_file(*pairs: tuple[Any, Any], compression: Compression = Compression.NONE) -> bytes:
    key, body = message(*pairs, compression=compression)
    return json.dumps({"key": b64encode(key).decode(), "value": b64encode(body).decode()}).encode()


@pytest.mark.parametrize("compression", list(Compression))
def test_a_claim_file_holds_the_whole_message(compression):
    data = claim_file((HEAD, {"u": {"id": ID, "a": column(7)}}), compression=compression)
    (row,) = open_claim(data, "0a.json", DecoderOptions(compression))

    assert (row.wire, row.handle_only, row.claim) == ({"id": 1, "a": 7}, False, None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"key":null,"value":"AA=="}',
        b'{"key":"?","value":"?"}',
        b'{"key":"AA==","value":5}',
        claim_file(({**HEAD, "ccl": "x.json"}, {"u": {"id": ID}})),
    ],
)
def test_a_claim_file_that_is_not_one_is_refused(data):
    with pytest.raises(DecodeError):
        open_claim(data, "0a.json", PLAIN)


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.SNAPPY])
def test_each_value_is_compressed_by_itself_and_resolved_events_are_not(compression):
    pairs = [(HEAD, {"u": {"id": column(n)}}) for n in range(3)]
    options = DecoderOptions(compression)
    *rows, mark = decoded(*pairs, ({"ts": TS, "t": 3}, None), options=options)

    assert [row.wire["id"] for row in rows] == [0, 1, 2]
    assert WatermarkEvent(TS) == mark
    with pytest.raises(DecodeError, match="compression"):
        list(decode(*message(*pairs, compression=compression), "here", PLAIN))


def test_the_values_of_one_message_share_one_bound(monkeypatch):
    body = {"u": {"a": column("x" * 1000, 15)}}
    monkeypatch.setattr(open_protocol, "MAX_BODY_BYTES", 2500)

    assert len(decoded((HEAD, body), (HEAD, body))) == 2
    with pytest.raises(DecodeError, match="once decompressed"):
        decoded((HEAD, body), (HEAD, body), (HEAD, body))


KEY, BODY = message((HEAD, {"u": {"id": ID}}))


@pytest.mark.parametrize(
    ("key", "body", "says"),
    [
        (None, BODY, "version 1"),
        (b"", BODY, "version 1"),
        (KEY[:7], BODY, "version 1"),
        (struct.pack(">q", 2) + KEY[8:], BODY, "version 1"),
        (KEY[:8], b"", "one value for each"),
        (KEY, BODY + BODY, "1 keys and 2 values"),
        (KEY + KEY[8:], BODY, "2 keys and 1 values"),
        (KEY + b"\0", BODY, "8-byte length"),
        (KEY, BODY + bytes(7), "8-byte length"),
        (KEY, BODY[:-1], "a length from 0"),
        (KEY[:8] + struct.pack(">q", 1 << 62) + KEY[16:], BODY, "a length from 0"),
        (KEY, struct.pack(">q", -1) + BODY[8:], "a length from 0"),
        (KEY, None, "a JSON object"),
        (KEY, bytes(8), "a JSON object"),
    ],
)
def test_a_message_whose_frames_do_not_add_up_is_refused(key, body, says):
    with pytest.raises(DecodeError, match=says) as caught:
        decode(key, body, "t[0]@1", PLAIN)
    assert caught.value.where == "t[0]@1"


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ({**HEAD, "t": 0}, {"u": {"id": ID}}),
        ({**HEAD, "t": 4}, {"u": {"id": ID}}),
        ({**HEAD, "t": True}, {"u": {"id": ID}}),
        ({**HEAD, "t": None}, {"u": {"id": ID}}),
        ({**HEAD, "t": [1]}, {"u": {"id": ID}}),
        ({**HEAD, "ts": None}, {"u": {"id": ID}}),
        ({**HEAD, "ts": 0}, {"u": {"id": ID}}),
        ({**HEAD, "ts": -5}, {"u": {"id": ID}}),
        ({**HEAD, "ts": 1.5}, {"u": {"id": ID}}),
        ({**HEAD, "ts": 1 << 63}, {"u": {"id": ID}}),
        ({**HEAD, "tbl": ""}, {"u": {"id": ID}}),
        ({**HEAD, "scm": 5}, {"u": {"id": ID}}),
        ({**HEAD, "ptn": "116"}, {"u": {"id": ID}}),
        ({**HEAD, "rid": 1.0}, {"u": {"id": ID}}),
        ({**HEAD, "ohk": 1}, {"u": {"id": ID}}),
        ({**HEAD, "t": 3}, {"u": {"id": ID}}),
        (HEAD, {}),
        (HEAD, {"u": {}}),
        (HEAD, {"u": []}),
        (HEAD, {"p": {"id": ID}}),
        (HEAD, {"u": {"id": ID}, "d": {"id": ID}}),
        (HEAD, {"d": {"id": ID}, "p": {"id": ID}}),
        (HEAD, {"u": {"id": 1}}),
        (HEAD, {"u": {"id": {"t": 3, "f": 1}}}),
        (HEAD, {"u": {"id": {"f": 1, "v": 1}}}),
        (HEAD, {"u": {"id": {"t": "3", "v": 1}}}),
        (HEAD, {"u": {"id": {"t": 3, "f": None, "v": 1}}}),
        (HEAD, {"u": {"id": {"t": 3, "h": "yes", "v": 1}}}),
        (HEAD, {"u": {"id": {"t": 3, "f": 1, "v": {}}}}),
        (HEAD, {"u": {"id": {"t": 3, "f": 1, "v": [1]}}}),
        ({**HEAD, "t": 2}, {}),
        ({**HEAD, "t": 2}, {"q": None}),
        ({**HEAD, "t": 2}, {"q": ""}),
        (b"[]", {"u": {"id": ID}}),
        (HEAD, b"[]"),
        (HEAD, b"{"),
    ],
)
def test_an_event_that_makes_no_sense_is_refused(head, body):
    with pytest.raises(DecodeError):
        decoded((head, body))


def test_a_message_is_decoded_whole_or_not_at_all():
    with pytest.raises(DecodeError):
        decode(*message((HEAD, {"u": {"id": ID}}), (HEAD, {})), "here", PLAIN)


def test_unknown_fields_are_ignored():
    (row,) = decoded(({**HEAD, "new": {"x": 1}}, {"u": {"id": {**ID, "new": []}}, "x": 5}))

    assert row.wire == {"id": 1}
