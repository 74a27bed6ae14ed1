"""Regressions: hostile input that once failed, each with its present error."""

from __future__ import annotations

import json
import struct

import orjson
import pyarrow as pa
import pytest

from ticdc_assets.errors import ConfigError, DecodeError, SchemaError
from ticdc_assets.protocols.avro import decoder as confluent_avro
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.open_protocol import decoder as open_protocol
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.protocols.simple import decoder as simple
from ticdc_assets.protocols.simple.table_schema import table_schema
from ticdc_assets.protocols.storage.schema_file import parse_schema_file
from ticdc_assets.protocols.values import text_columns
from ticdc_assets.protocols.values.checksum import Checksum, with_checksum
from ticdc_assets.protocols.values.text import TextForms, time_zone
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.model import Column, Kind, MySqlType, TableSchema
from ticdc_assets_tests.protocols.formats.written import framed

# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["+99:99", "-24:00", "24:00", "+00:99x"])
def test_an_offset_of_a_day_or_more_is_no_time_zone(zone):
    with pytest.raises(ConfigError, match="known time zone"):
        time_zone(zone)


def test_a_timestamp_in_a_zone_that_no_clock_has_is_refused():
    column = Column("at", MySqlType(Kind.TIMESTAMP))

    with pytest.raises(DecodeError, match="column `at`"):
        simple.value(column, {"location": "+99:99", "value": "2024-01-01 00:00:00"}, "UTC")


@pytest.mark.parametrize(
    ("type_", "wire"),
    [
        (MySqlType(Kind.TIMESTAMP), "0001-01-01 00:00:00"),  # year 0 in UTC
        (MySqlType(Kind.ENUM, elements=("a",)), "--5"),
        (MySqlType(Kind.SET, elements=("a",)), "-"),
    ],
)
def test_a_checksum_over_a_value_without_meaning_is_refused(type_, wire):
    row = with_checksum(RowEvent("s", "t", Op.INSERT, 1, {"c": wire}), Checksum(1, 0))

    with pytest.raises(DecodeError, match="column `c`"):
        simple.verify(row, TableSchema("s", "t", (Column("c", type_),)), "Asia/Shanghai")


@pytest.mark.parametrize("text", ["18446744073709551616", "-18446744073709551616", "0000000018446744073709551616.5"])
def test_a_decimal_that_overflows_at_its_columns_scale_is_refused_in_bulk(text):
    texts = pa.array(["1.5", text], pa.string())

    with pytest.raises(DecodeError, match="value 1 of a column"):
        text_columns.column(MySqlType(Kind.DECIMAL, 38, 30), texts, TextForms("base64", "label"))


@pytest.mark.parametrize("name", ["ptn", "rid", "t"])
def test_a_number_beyond_64_signed_bits_is_refused_in_an_open_protocol_head(name):
    head = {"ts": 1, "scm": "s", "tbl": "t", "t": 1} | {name: (1 << 64) - 1}
    key = (1).to_bytes(8, "big") + framed(orjson.dumps(head))

    with pytest.raises(DecodeError, match=f"`{name}` as a whole number"):
        open_protocol.decode(key, framed(b'{"u":{"a":{"t":3,"v":1}}}'), "here", DecoderOptions())


def test_a_number_beyond_64_signed_bits_is_refused_in_a_simple_message():
    given = {"version": 1, "type": "INSERT", "database": "s", "table": "t", "commitTs": 1, "schemaVersion": 1}

    with pytest.raises(DecodeError, match="`tableID` as a whole number"):
        simple.decode(
            None, orjson.dumps(given | {"data": {"a": "1"}, "tableID": (1 << 64) - 1}), "here", DecoderOptions()
        )


# -- claim checks -----------------------------------------------------------------------------------------------------


def canal_claim(location: str) -> tuple[None, bytes]:
    given = {"database": "s", "table": "t", "type": "INSERT", "isDdl": False, "data": [{"a": "1"}]}
    return None, orjson.dumps(given | {"_tidb": {"commitTs": 1, "claimCheckLocation": location}})


def open_claim(location: str) -> tuple[bytes, bytes]:
    head = {"ts": 1, "scm": "s", "tbl": "t", "t": 1, "ccl": location}
    return (1).to_bytes(8, "big") + framed(orjson.dumps(head)), framed(b'{"u":{"a":{"t":3,"v":1}}}')


def simple_claim(location: str) -> tuple[None, bytes]:
    given = {"version": 1, "type": "INSERT", "database": "s", "table": "t", "commitTs": 1, "schemaVersion": 1}
    return None, orjson.dumps(given | {"data": {"a": "1"}, "claimCheckLocation": location})


CLAIMS = {"canal-json": canal_claim, "open-protocol": open_claim, "simple": simple_claim}
OPTIONS = {
    "canal-json": DecoderOptions(),
    "open-protocol": DecoderOptions(),
    "simple": DecoderOptions(),
}


@pytest.mark.parametrize("protocol", CLAIMS)
@pytest.mark.parametrize("location", ["..", "/", "file:///x/", "s3://b/..", "a\\..", "x/.", "\\"])
def test_a_claim_that_names_no_file_is_refused(protocol, location):
    with pytest.raises(DecodeError, match="the place of a file"):
        list(REGISTRY[protocol].decode(*CLAIMS[protocol](location), "here", OPTIONS[protocol]))


@pytest.mark.parametrize("protocol", CLAIMS)
@pytest.mark.parametrize("location", ["../../etc/x.json", "..\\..\\x.json", "file:///ticdc/../x.json", "x.json"])
def test_only_the_file_name_of_a_claim_counts(protocol, location):
    [row] = REGISTRY[protocol].decode(*CLAIMS[protocol](location), "here", OPTIONS[protocol])

    assert row.claim == "x.json"


# -- schemas ----------------------------------------------------------------------------------------------------------

IMPOSSIBLE = [("BIT", 65, None), ("BINARY", 1 << 40, None), ("CHAR", 1 << 40, None), ("DECIMAL", 38, 39)]
IMPOSSIBLE += [("DECIMAL", 66, 0), ("DECIMAL", 40, 31), ("DECIMAL", 1 << 62, 0), ("VARCHAR", 1 << 40, None)]


@pytest.mark.parametrize(("kind", "length", "scale"), IMPOSSIBLE)
def test_a_size_that_no_column_has_is_refused_wherever_a_schema_comes_from(kind, length, scale):
    """A BIT of so many bits is a number of so many digits, a default of BINARY is filled up to its length."""
    size = f"({length})" if scale is None else f"({length},{scale})"
    kind_and_rest = {"mysqlType": kind, "length": length, "decimal": scale or 0}
    column = {"name": "c", "nullable": True, "dataType": kind_and_rest}
    given = {"ColumnName": "c", "ColumnType": kind, "ColumnPrecision": str(length), "ColumnScale": str(scale or 0)}
    document = {"Schema": "s", "Table": "t", "TableVersion": 1, "TableColumns": [given], "TableColumnsTotal": 1}

    with pytest.raises(SchemaError, match="can have"):
        parse_type(kind + size)
    with pytest.raises(DecodeError, match="can have"):
        table_schema({"schema": "s", "table": "t", "columns": [column]}, "here")
    with pytest.raises(SchemaError, match="can have"):
        parse_schema_file(orjson.dumps(document), "s/t/1/schema.json")


@pytest.mark.parametrize(("text", "label"), [("x'1'", "\x01"), ("0x061", "\x00a"), ("x''", "")])
def test_a_label_in_hex_may_have_an_odd_number_of_digits(text, label):
    assert (label,) == parse_type(f"ENUM({text})").elements


# -- the Avro protocol ------------------------------------------------------------------------------------------------


def field(name: str, type_: str = "INT", avro: str = "int") -> dict:
    return {"name": name, "type": {"type": avro, "connect.parameters": {"tidb_type": type_}}}


def record(*fields: dict) -> str:
    return json.dumps({"type": "record", "name": "t", "namespace": "default.shop", "fields": list(fields)})


SCHEMAS = {
    1: record(field("id")),
    2: record(field("id"), {"name": "_tidb_commit_physical_time", "type": "long"}),
    3: record(field("other")),
    4: record(field("id", "NO SUCH TYPE")),
}
AVRO = DecoderOptions(schemas=SCHEMAS.__getitem__)


def message(schema_id: int, body: bytes) -> bytes:
    return b"\0" + struct.pack(">I", schema_id) + body


@pytest.mark.parametrize("step", [confluent_avro.decode, confluent_avro.schema_event])
def test_a_key_that_is_no_part_of_its_row_is_refused_by_every_reader(step):
    """One reader that refuses and one that does not would keep a message in quarantine and write its row as well."""
    with pytest.raises(DecodeError, match="a key made of the row's columns"):
        step(message(3, b"\x02"), message(1, b"\x02"), "here", AVRO)


def test_a_registered_schema_of_no_known_type_is_the_messages_fault():
    with pytest.raises(DecodeError, match="here: expected a tidb_type"):
        confluent_avro.schema_event(None, message(4, b"\x02"), "here", AVRO)


def test_a_commit_time_beyond_every_tso_is_refused():
    longest = b"\xfe" + b"\xff" * 8 + b"\x01"  # 2**63 - 1

    with pytest.raises(DecodeError, match="_tidb_commit_physical_time"):
        confluent_avro.decode(None, message(2, b"\x02" + longest), "here", AVRO)


@pytest.mark.parametrize("commit_ts", [-1, 0, 1 << 63, (1 << 64) - 1, 1e19, True, None])
def test_a_statement_at_no_time_is_refused(commit_ts):
    given = {"query": "DROP TABLE t", "schema": "s", "table": "t", "commitTs": commit_ts}

    with pytest.raises(DecodeError, match="commitTs"):
        confluent_avro.decode(None, b"\x01" + orjson.dumps(given), "here", AVRO)
