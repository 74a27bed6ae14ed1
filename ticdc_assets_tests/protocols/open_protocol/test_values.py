"""Open Protocol: every type has its value, and a table without a statement is inferred from its rows."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from ticdc_assets.errors import DecodeError, SchemaError
from ticdc_assets.protocols.open_protocol.decoder import ColumnHint, infer_column, infer_table, value
from ticdc_assets.schema.model import Kind
from ticdc_assets_tests.protocols.open_protocol.open_messages import HEAD, U64, column, decoded, of

# --- values ---------------------------------------------------------------------------------------------------------
LABELS = ("small", "x,large", "o'k")


@pytest.mark.parametrize(
    ("kind", "more", "wire", "wanted"),
    [
        ("TINYINT", {}, -128, -128),
        ("BIGINT", {"unsigned": True}, U64, U64),
        ("BIGINT", {}, -(1 << 63), -(1 << 63)),
        ("BIT", {"length": 64}, U64, U64),
        ("BIT", {}, 1, 1),
        ("YEAR", {}, 0, 0),
        ("FLOAT", {}, 3.14, 3.140000104904175),
        ("FLOAT", {}, 123456790, 123456792.0),
        ("FLOAT", {}, 3.4028235e38, 3.4028234663852886e38),
        ("FLOAT", {}, 0, 0.0),
        ("DOUBLE", {}, 1e-300, 1e-300),
        ("DOUBLE", {}, 100000000000000000000.0, 1e20),
        ("DECIMAL", {"length": 12, "scale": 4}, "-8.7000", Decimal("-8.7000")),
        ("DECIMAL", {"length": 65, "scale": 30}, "-0." + "1" * 30, "-0." + "1" * 30),
        ("CHAR", {"length": 3}, " \\x41", " \\x41"),
        ("VARCHAR", {"length": 3}, "é\u2028", "é\u2028"),
        ("TEXT", {}, "5rWL6K+VdGV4dA==", "测试text"),
        ("LONGTEXT", {}, "", ""),
        ("BLOB", {}, "//4A", b"\xff\xfe\0"),
        ("BINARY", {"length": 4}, "\\xff\\n\\\\é", b"\xff\n\\\xc3\xa9"),
        ("VARBINARY", {"length": 4}, "", b""),
        ("DATE", {}, "2000-01-02", date(2000, 1, 2)),
        ("DATE", {}, "0000-00-00", None),
        ("DATETIME", {"length": 3}, "1895-01-29 18:38:51.319", datetime(1895, 1, 29, 18, 38, 51, 319000)),
        ("DATETIME", {}, "0000-00-00 00:00:00", None),
        ("TIMESTAMP", {}, "2000-02-29 04:00:00", datetime(2000, 2, 29, 4, tzinfo=UTC)),
        ("TIME", {"length": 3}, "-838:59:59.000", "-838:59:59.000"),
        ("ENUM", {"elements": LABELS}, 2, "x,large"),
        ("ENUM", {"elements": LABELS}, 0, ""),
        ("ENUM", {}, 2, "2"),
        ("SET", {"elements": LABELS}, 5, "small,o'k"),
        ("SET", {"elements": LABELS}, 0, ""),
        ("SET", {}, 5, "5"),
        ("JSON", {}, '{"b": -0.25}', '{"b": -0.25}'),
        ("VECTOR", {}, "[0.5,-1.25,100]", [0.5, -1.25, 100.0]),
        ("VECTOR", {}, "[]", []),
    ],
)
def test_every_type_has_its_value(kind, more, wire, wanted):
    found = of(kind, wire, **more)

    assert (wanted, type(wanted)) == (found, type(found))
    assert of(kind, None, **more) is None


def test_a_timestamp_is_read_in_the_changefeeds_zone():
    assert datetime(2000, 2, 28, 20, tzinfo=UTC) == of("TIMESTAMP", "2000-02-29 04:00:00", zone="Asia/Shanghai")


@pytest.mark.parametrize(
    ("kind", "more", "wire"),
    [
        ("TINYINT", {}, 128),
        ("TINYINT", {"unsigned": True}, -1),
        ("MEDIUMINT", {"unsigned": True}, 1 << 24),
        ("INT", {}, "5"),
        ("INT", {}, True),
        ("BIGINT", {"unsigned": True}, 18446744073709551616.0),
        ("BIGINT", {}, -9223372036854775809.0),
        ("BIGINT", {}, 1 << 63),
        ("INT", {}, 1.0),
        ("YEAR", {}, 2156),
        ("BIT", {"length": 10}, 1024),
        ("BIT", {}, -1),
        ("FLOAT", {}, 1e39),
        ("FLOAT", {}, "1"),
        ("DOUBLE", {}, False),
        ("DECIMAL", {"length": 12, "scale": 4}, 5),
        ("DECIMAL", {"length": 12, "scale": 4}, "five"),
        ("CHAR", {}, 5),
        ("TEXT", {}, "no base64"),
        ("TEXT", {}, "é"),
        ("TEXT", {}, "//4A"),
        ("BLOB", {}, "A"),
        ("BINARY", {}, "\\q"),
        ("BINARY", {}, 5),
        ("DATE", {}, "2000-13-01"),
        ("DATETIME", {}, "yesterday"),
        ("TIMESTAMP", {}, 5),
        ("ENUM", {"elements": LABELS}, -1),
        ("ENUM", {"elements": LABELS}, "small"),
        ("SET", {"elements": LABELS}, 1.0),
        ("SET", {"elements": LABELS}, True),
        ("JSON", {}, 5),
        ("VECTOR", {}, "[a]"),
        ("VECTOR", {}, "0.5"),
    ],
)
def test_a_value_that_its_type_cannot_have_is_refused(kind, more, wire):
    with pytest.raises(DecodeError):
        of(kind, wire, **more)


def test_an_integer_beyond_64_bits_is_refused_and_not_rounded():
    raw = json.dumps({"u": {"c": column(0, 8, 128)}}).replace('"v": 0', '"v": 18446744073709551616')
    (row,) = decoded((HEAD, raw.encode()))

    with pytest.raises(DecodeError, match="BIGINT"):
        of("BIGINT", row.wire["c"], unsigned=True)


def test_errors_never_hold_values():
    for kind in Kind:
        for wire in ("s3cret", 77777777.5):
            try:
                of(kind.value, wire, length=5)
            except DecodeError as error:
                assert "s3cret" not in str(error)
                assert "77777777" not in str(error)


# --- inference ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "flags", "kind", "unsigned"),
    [
        (1, 65, "TINYINT", False),
        (8, 193, "BIGINT", True),
        (13, 193, "YEAR", False),
        (16, 193, "BIT", False),
        (15, 64, "VARCHAR", False),
        (15, 65, "VARBINARY", False),
        (253, 65, "VARBINARY", False),
        (254, 64, "CHAR", False),
        (254, 65, "BINARY", False),
        (249, 64, "TINYTEXT", False),
        (250, 65, "MEDIUMBLOB", False),
        (252, 64, "TEXT", False),
        (252, 65, "BLOB", False),
        (245, 65, "JSON", False),
        (10, 65, "DATE", False),
        (14, 65, "DATE", False),
        (246, 193, "DECIMAL", True),
        (225, 64, "VECTOR", False),
    ],
)
def test_a_type_code_and_its_flags_name_the_type(code, flags, kind, unsigned):
    found = infer_column("c", ColumnHint(code, flags, False))

    assert (Kind(kind), unsigned, True) == (found.type.kind, found.type.unsigned, found.nullable)


def test_a_decimal_of_unknown_precision_keeps_all_its_digits():
    found = infer_column("c", ColumnHint(246, 65, False))

    assert value(found, "1" * 35 + ".5000", "UTC") == "1" * 35 + ".5000"


@pytest.mark.parametrize("code", [0, 6, 255, 17, 1000, -1])
def test_a_type_that_the_protocol_does_not_carry_stops_the_table(code):
    with pytest.raises(SchemaError, match="schema_files"):
        infer_column("c", ColumnHint(code, 0, False))


def test_key_columns_are_not_nullable_whatever_their_flag():
    assert not infer_column("c", ColumnHint(3, 64, True)).nullable
    assert not infer_column("c", ColumnHint(3, 64 | 8, False)).nullable
    assert not infer_column("c", ColumnHint(3, 0, False)).nullable


def test_a_column_without_flags_may_be_null():
    (row,) = decoded((HEAD, {"u": {"id": {"t": 3, "h": True, "v": 1}, "a": {"t": 15, "v": "x"}}}))
    found = infer_table("s", "t", row.hints.columns)

    assert [c.nullable for c in found.columns] == [False, True]
    assert found.key == ("id",)


def test_the_inferred_key_is_the_handle_key():
    hints = {"b": ColumnHint(3, 18, True), "a": ColumnHint(3, 8, False), "c": ColumnHint(3, 18, True)}

    assert infer_table("s", "t", hints).key == ("b", "c")
    assert infer_table("s", "t", {"a": ColumnHint(3, 64, False)}).key == ()
