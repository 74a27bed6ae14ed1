"""Avro protocol: the columns, defaults and key of a registered schema, and its values in the lake."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from ticdc_assets.errors import SchemaError
from ticdc_assets.protocols.avro.decoder import value
from ticdc_assets.protocols.avro.table_schema import table_schema
from ticdc_assets.schema.model import Column, Default, Kind, MySqlType
from ticdc_assets_tests.protocols.avro.registered_schemas import ID, KEY, NAME, column, record


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
    ("avro", "given", "expected"),
    [
        (column("INT", "int"), -5, Default("-5")),
        (column("BIGINT UNSIGNED", "long"), -1, Default(str((1 << 64) - 1))),
        (column("BIGINT UNSIGNED", "long"), 0, Default("0")),
        (column("BIGINT UNSIGNED", "string"), "21", Default("21")),
        (column("FLOAT", "float"), 3.25, Default("3.25")),
        (column("BLOB", "bytes"), b64encode(b"\xffx").decode(), Default(b"\xffx")),
        (column("BIT", "bytes", length="10"), b64encode(b"\x02\x01").decode(), Default("513")),
        (column("TEXT", "string"), "CURRENT_TIMESTAMP", Default("CURRENT_TIMESTAMP")),
        (column("DATETIME", "string"), "CURRENT_TIMESTAMP(3)", Default(expression="CURRENT_TIMESTAMP(3)")),
        (column("TEXT", "string"), None, None),
    ],
)
def test_a_default_is_a_literal_or_an_expression(avro, given, expected):
    text = json.dumps(record({"name": "c", "type": [avro, "null"], "default": given}))

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


WIDE = "123456789012345678901234567890123456.78"


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
