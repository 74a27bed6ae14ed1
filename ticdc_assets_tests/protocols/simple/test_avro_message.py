"""Simple protocol: messages in Avro have the same events as those in JSON, and damaged ones are refused."""

from __future__ import annotations

import json
from contextlib import suppress
from importlib.resources import files
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols import simple as simple_package
from ticdc_assets.protocols.events import Op, WatermarkEvent
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.simple import avro_message as simple_avro
from ticdc_assets.protocols.simple.decoder import decode, value
from ticdc_assets.schema.model import Column, Kind, MySqlType
from ticdc_assets_tests.protocols.simple.simple_messages import PLAIN, ROW, TABLE, TS, of

AVSC = json.loads(files(simple_package).joinpath(simple_avro.SCHEMA_FILE).read_bytes())


def avro(kind: str, record: str, payload: dict[str, Any]) -> bytes:
    out = BytesIO()
    found = (
        "com.pingcap.simple.avro.Message",
        {"type": kind, "payload": (f"com.pingcap.simple.avro.{record}", payload)},
    )
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVSC), found)
    return out.getvalue()


AVRO_ROW = {**{k: v for k, v in ROW.items() if k != "data"}, "data": {"id": 1}}


def test_an_avro_row_has_the_fields_of_its_json_form():
    unsigned = ("com.pingcap.simple.avro.UnsignedBigint", {"value": -1})
    event = of(avro("DML", "DML", {**AVRO_ROW, "data": {"id": 1, "u": unsigned, "b": b"\xff", "n": None}}))

    assert (event.op, event.hints.schema_version, event.hints.table_id) == (Op.INSERT, TS - 4, 7)
    assert event.wire == {"id": 1, "u": {"value": -1}, "b": b"\xff", "n": None}


def test_a_payload_of_another_type_than_the_message_names_is_refused():
    with pytest.raises(DecodeError):
        of(avro("DDL", "Watermark", {"version": 1, "commitTs": TS, "buildTs": 1}))


@pytest.mark.parametrize(
    ("at", "new", "why"),
    [
        (2, b"\x01", "a payload branch of -1"),
        (1, b"\x01", "an enum index of -1"),
        (2, b"\x08", "a payload branch beyond the last"),
    ],
)
def test_indices_outside_their_union_or_enum_are_refused(at, new, why):
    body = avro("WATERMARK", "Watermark", {"version": 1, "commitTs": TS, "buildTs": 1})

    assert WatermarkEvent(TS) == of(body)
    with pytest.raises(DecodeError):
        of(body[:at] + new + body[at + 1 :])


def test_bytes_after_an_avro_message_are_refused():
    with pytest.raises(DecodeError, match="1 bytes after it"):
        of(avro("WATERMARK", "Watermark", {"version": 1, "commitTs": TS, "buildTs": 1}) + b"\0")


def test_every_cut_of_an_avro_message_is_refused():
    body = avro("DML", "DML", {**AVRO_ROW, "data": {"id": 1, "x": "text", "f": 1.5}})
    for end in range(1, len(body)):
        with pytest.raises(DecodeError):
            of(body[:end])


def test_a_statement_on_a_view_has_no_columns_in_avro_either():
    untyped = {"mysqlType": "unspecified", "charset": "", "collate": "", "length": 0}
    columns = [{"name": "id", "dataType": untyped, "nullable": True, "default": None}]
    view = {"database": "shop", "table": "v", "tableID": 7, "version": TS - 4, "columns": columns, "indexes": []}
    sql = "CREATE VIEW `v` AS SELECT 1"
    ddl = {"version": 1, "type": "QUERY", "sql": sql, "commitTs": TS, "buildTs": 1, "tableSchema": view}

    event = of(avro("DDL", "DDL", ddl))

    assert (event.schema, event.table, event.query, event.after) == ("shop", "v", sql, None)


SAMPLES = [
    json.dumps(ROW).encode(),
    json.dumps({"version": 1, "type": "BOOTSTRAP", "tableSchema": TABLE}).encode(),
    avro("DML", "DML", {**AVRO_ROW, "data": {"id": 1, "x": "text", "f": 1.5}}),
    avro("WATERMARK", "Watermark", {"version": 1, "commitTs": TS, "buildTs": 1}),
]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SAMPLES), st.data(), st.sampled_from(list(Compression)))
def test_damaged_messages_raise_nothing_but_decode_errors(sample, data, compression):
    at = data.draw(st.integers(0, len(sample) - 1))
    cut = data.draw(st.integers(at, len(sample)))
    body = sample[:at] + data.draw(st.binary(max_size=6)) + sample[cut:]
    with suppress(DecodeError):
        event = (
            of(body, DecoderOptions(compression)) if data.draw(st.booleans()) else next(decode(None, body, "x", PLAIN))
        )
        for wire in getattr(event, "wire", {}).values():
            for kind in Kind:
                with suppress(DecodeError):
                    value(Column("c", MySqlType(kind)), wire, "UTC")
