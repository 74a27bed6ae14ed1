"""Avro: each member of the extension, each key and each mark up to the last value that it may have."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.avro.decoder import schema_event, schema_ids
from ticdc_assets.protocols.events import Op
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.values.checksum import Checksum
from ticdc_assets.tso import INT64_MAX
from ticdc_assets_tests.protocols.avro.registered_schemas import EXTENDED, EXTENSION, ID, NAME, SCHEMAS, record
from ticdc_assets_tests.protocols.avro.written import TS, extended, framed, key, of

MS_MAX = INT64_MAX >> 18
CHECKED = record(
    ID,
    *EXTENSION,
    {"name": "_tidb_row_level_checksum", "type": "string"},
    {"name": "_tidb_corrupted", "type": "boolean"},
    {"name": "_tidb_checksum_version", "type": "int"},
)
KEYED_BY_NAME = record(NAME)
OPTIONS = DecoderOptions(schemas={**SCHEMAS, 6: json.dumps(CHECKED), 7: json.dumps(KEYED_BY_NAME)}.__getitem__)


def at(commit_ts: int, ms: int, op: str = "c") -> Any:
    given = {"id": 7, "name": "x", "_tidb_op": op, "_tidb_commit_ts": commit_ts, "_tidb_commit_physical_time": ms}
    return of(key(), framed(3, EXTENDED, given))


def test_times_are_numbers_of_63_bits():
    assert (at(INT64_MAX, MS_MAX).commit_ts, at(INT64_MAX, MS_MAX).time.commit_ms) == (INT64_MAX, MS_MAX)
    assert (at(1, 1).commit_ts, at(1, 1).time.commit_ms) == (1, 1)
    assert (at(0, 0).commit_ts, at(0, 0).time.commit_ms) == (None, None)
    for wrong in ((-1, 5), (5, -1), (5, MS_MAX + 1)):
        with pytest.raises(DecodeError, match="a number from 0"):
            at(*wrong)


def test_an_operation_that_is_none_is_refused():
    for wrong in ("r", "C", "cc"):
        with pytest.raises(DecodeError, match="c, u or d"):
            at(TS, 5, wrong)


def checked(written: str, corrupted: bool = False) -> Any:
    given = {"id": 7, "_tidb_op": "c", "_tidb_commit_ts": TS, "_tidb_commit_physical_time": 5}
    members = {"_tidb_row_level_checksum": written, "_tidb_corrupted": corrupted, "_tidb_checksum_version": 1}
    return of(key(), framed(6, CHECKED, given | members), OPTIONS)


def test_a_checksum_is_a_number_of_at_most_ten_digits():
    assert checked("4294967295").checksum == Checksum(4294967295, 0, version=1)
    assert checked("").checksum == Checksum(0, 0, version=1)
    assert not checked("5").checksum.corrupted
    assert checked("5", corrupted=True).checksum.corrupted
    for wrong in ("00000000005", "-5", "x", "²", " 5"):
        with pytest.raises(DecodeError, match="a checksum of 32 bits"):
            checked(wrong)


def test_a_key_has_columns_of_the_row():
    assert of(framed(7, KEYED_BY_NAME, {"name": "x"}), extended("c"), OPTIONS).hints.key == ("name",)
    with pytest.raises(DecodeError, match="a key made of the row's columns"):
        of(framed(7, KEYED_BY_NAME, {"name": "x"}), checked_value(), OPTIONS)


def checked_value() -> bytes:
    given = {"id": 7, "_tidb_op": "c", "_tidb_commit_ts": TS, "_tidb_commit_physical_time": 5}
    members = {"_tidb_row_level_checksum": "", "_tidb_corrupted": False, "_tidb_checksum_version": 0}
    return framed(6, CHECKED, given | members)


def test_the_table_of_the_topic_takes_the_place_of_the_schemas():
    named = DecoderOptions(schemas=SCHEMAS.__getitem__, table=("Shop", "T x"))

    for value in (extended("c"), b"\3" + struct.pack(">Q", TS), None):
        row = of(key(), value, named)
        assert (row.schema, row.table, row.hints.key) == ("Shop", "T x", ("id",))
    gone = of(None, b"\3" + struct.pack(">Q", TS), named)
    assert (gone.op, gone.commit_ts, gone.wire, gone.hints.key, gone.handle_only) == (Op.DELETE, TS, {}, (), True)
    assert of(None, None, named).commit_ts is None
    with pytest.raises(DecodeError, match="neither"):
        of(None, b"\3" + struct.pack(">Q", TS))


def test_a_watermark_is_a_mark_and_a_tso():
    assert of(None, b"\2" + struct.pack(">Q", INT64_MAX)).ts == INT64_MAX
    assert of(None, b"\2" + struct.pack(">Q", 1)).ts == 1
    for wrong in (bytes(8), struct.pack(">Q", INT64_MAX + 1), struct.pack(">Q", 5)[1:], struct.pack(">Q", 5) + b"\0"):
        with pytest.raises(DecodeError, match="a timestamp of 8"):
            of(None, b"\2" + wrong)


def test_a_message_names_its_schemas():
    assert schema_ids(key(), extended("c"), "here") == (1, 3)
    assert schema_ids(None, extended("c"), "here") == (None, 3)
    assert schema_ids(key(), b"\3" + bytes(8), "here") == (1, None)
    assert schema_ids(key(), None, "here") == (1, None)
    assert schema_event(key(), None, "here", OPTIONS) is None
    for damage in (b"\0\0\0\0", b"\1\0\0\0\1", b"\0"):
        with pytest.raises(DecodeError, match="4-byte schema id"):
            schema_ids(damage, None, "here")
    event = schema_event(key(), extended("c"), "here", OPTIONS)
    assert event is not None
    assert (event.commit_ts, event.hints.version, event.query, event.schema, event.table) == (0, 3, "", "shop", "t")
