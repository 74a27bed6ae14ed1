"""Canal-JSON messages: what a stream whose rows have a commit_ts refuses, and rows in claim-check files."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.canal_json.messages import decode, open_claim
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.schema.ddl_event import FROM_TICDC, DdlEvent, DdlOrigin
from ticdc_assets.tso import INT64_MAX, LOGICAL_BITS

DATED, UNDATED = DecoderOptions(has_commit_ts=True), DecoderOptions()
MS_MAX = INT64_MAX >> LOGICAL_BITS


def message(commit_ts: int | None = None, **members: Any) -> bytes:
    """A row, of Alibaba's Canal where it has a `gtid`."""
    made = {
        "id": 0, "database": "shop", "table": "t", "pkNames": ["id"], "isDdl": False, "type": "INSERT", "es": 5,
        "ts": 6, "sql": "", "sqlType": {"id": 4}, "mysqlType": {"id": "int"}, "old": None, "data": [{"id": "1"}],
    }  # fmt: skip
    return json.dumps({**made, **({} if commit_ts is None else {"_tidb": {"commitTs": commit_ts}}), **members}).encode()


def statement(commit_ts: int | None = None, **members: Any) -> DdlEvent:
    options = members.pop("options", UNDATED)
    sent = message(commit_ts, **{"isDdl": True, "type": "ERASE", "sql": "DROP TABLE t", "data": None, **members})
    [found] = decode(None, sent, "w", options)
    assert isinstance(found, DdlEvent)
    return found


def test_a_row_without_a_commit_ts_is_refused_where_all_rows_have_one():
    for options, ts in ((DATED, 20), (UNDATED, 20), (UNDATED, None)):
        [row] = decode(None, message(ts), "w", options)
        assert isinstance(row, RowEvent)
        assert row.commit_ts == ts
    with pytest.raises(DecodeError, match=r"a commit_ts in _tidb\.commitTs"):
        list(decode(None, message(), "w", DATED))


@pytest.mark.parametrize("value", [None, b""])
def test_a_message_without_a_value_is_none_of_this_protocol(value: bytes | None):
    with pytest.raises(DecodeError, match="a message with a value"):
        list(decode(b"key", value, "w", UNDATED))


@pytest.mark.parametrize("value", [None, b""])
def test_an_empty_message_without_a_key_says_nothing(value: bytes | None):
    assert list(decode(None, value, "w", DATED)) == []


def test_a_statement_without_a_commit_ts_has_a_fault_where_all_rows_have_one():
    """It stops its tables before all rows of its millisecond; else it is after them."""
    before, behind, dated = statement(options=DATED), statement(), statement(20, options=DATED)

    assert (before.commit_ts, bool(before.fault)) == ((5 << LOGICAL_BITS) - 1, True)
    assert (behind.commit_ts, behind.fault) == ((6 << LOGICAL_BITS) - 1, "")
    assert (dated.commit_ts, dated.fault) == (20, "")
    assert {each.origin for each in (before, behind, dated)} == {FROM_TICDC}


def test_a_statement_without_any_time_is_refused():
    with pytest.raises(DecodeError, match=r"es or _tidb\.commitTs in a DDL"):
        statement(es=None)


@pytest.mark.parametrize(
    ("sent", "read"), [(6, 6), (0, 0), (MS_MAX, MS_MAX), (MS_MAX + 1, None), (-1, None), ("6", None), (None, None)]
)
def test_a_statement_of_alibabas_canal_has_the_times_that_can_be_read(sent: Any, read: int | None):
    found = statement(gtid="", ts=sent)

    assert (found.commit_ts, found.origin) == (0, DdlOrigin(as_written=True, commit_ms=5, sent_ms=read))


@pytest.mark.parametrize("es", [-1, MS_MAX + 1, "5", 5.0, True])
def test_the_time_of_a_row_is_milliseconds_that_a_tso_can_have(es: Any):
    for sound in (0, MS_MAX):
        [row] = decode(None, message(es=sound), "w", UNDATED)
        assert isinstance(row, RowEvent)
        assert row.time.commit_ms == sound
    with pytest.raises(DecodeError, match="milliseconds since 1970 in es"):
        list(decode(None, message(es=es), "w", UNDATED))


# -- claim-check files ------------------------------------------------------------------------------------------------

RAW = DecoderOptions(claim_check_raw_value=True)


def claim(value: bytes) -> bytes:
    return json.dumps({"key": None, "value": b64encode(value).decode()}).encode()


def test_a_claim_check_file_has_a_whole_message_or_its_value():
    [row] = decode(None, message(20), "w", UNDATED)

    assert list(open_claim(claim(message(20)), "w", UNDATED)) == [row]
    assert list(open_claim(message(20), "w", RAW)) == [row]


@pytest.mark.parametrize(
    "sent",
    [
        message(20, isDdl=True, type="ERASE", sql="DROP TABLE t", data=None),
        message(_tidb={"commitTs": 20, "onlyHandleKey": True}),
        message(_tidb={"commitTs": 20, "claimCheckLocation": "a/b.json"}),
    ],
    ids=["a statement", "only a key", "another claim"],
)
def test_a_claim_check_file_with_anything_but_a_whole_row_is_refused(sent: bytes):
    with pytest.raises(DecodeError, match="a whole row in the claim-check file"):
        open_claim(sent, "w", RAW)


@pytest.mark.parametrize("data", [b"{}", b'{"value": 1}', b'{"value": "?"}', b'{"value": "YQ"}', b'{"value": "YQ==*"}'])
def test_a_claim_check_file_without_base64_is_refused(data: bytes):
    with pytest.raises(DecodeError, match="`value` as base64"):
        open_claim(data, "w", UNDATED)
