"""Values from text: what each type accepts and refuses; columns equal values read one by one."""

from __future__ import annotations

import base64
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.errors import ConfigError, DecodeError
from ticdc_assets.protocols.values import text_columns
from ticdc_assets.protocols.values.text import TextForms, is_zero_date, time_zone, value
from ticdc_assets.schema.arrow_types import arrow_type
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.model import Kind, MySqlType

LABELS = TextForms(binary="base64", enum="label")
NUMBERS = TextForms(binary="latin1", enum="number")


def zoned(zone: str) -> TextForms:
    return TextForms(binary="base64", enum="label", zone=zone)


GOOD: list[tuple[str, str, Any, TextForms]] = [
    ("tinyint", "-128", -128, LABELS),
    ("tinyint unsigned", "255", 255, LABELS),
    ("mediumint unsigned", "16777215", 16777215, LABELS),
    ("int", "007", 7, LABELS),
    ("int", "-0", 0, LABELS),
    ("bigint", "-9223372036854775808", -(1 << 63), LABELS),
    ("bigint unsigned", "18446744073709551615", Decimal((1 << 64) - 1), LABELS),
    ("bigint unsigned", "-1", Decimal((1 << 64) - 1), LABELS),
    ("bit", "1", 1, LABELS),
    ("bit(10)", "1023", 1023, LABELS),
    ("bit(64)", "18446744073709551615", Decimal((1 << 64) - 1), LABELS),
    ("year", "0", 0, LABELS),
    ("year", "2155", 2155, LABELS),
    ("float", "1.6777216e+07", 16777216.0, LABELS),
    ("float", "0.1", 0.10000000149011612, LABELS),
    ("float", "3.4028235e38", 3.4028234663852886e38, LABELS),
    ("double", "1e-07", 1e-07, LABELS),
    ("double", "1" + "0" * 299, 1e299, LABELS),
    ("double", "1e-400", 0.0, LABELS),
    ("decimal(12,4)", "-1.5", Decimal("-1.5000"), LABELS),
    ("decimal(2,2)", "0.99", Decimal("0.99"), LABELS),
    ("decimal", "5", Decimal(5), LABELS),
    ("decimal(38,0)", "9" * 38, Decimal("9" * 38), LABELS),
    ("decimal(38,10)", "-" + "9" * 28 + "." + "9" * 10, Decimal("-" + "9" * 28 + "." + "9" * 10), LABELS),
    ("decimal(65,30)", "1.50" + "0" * 28, "1.50" + "0" * 28, LABELS),
    ("varchar(9)", "a\0\\N ", "a\0\\N ", LABELS),
    ("text", "", "", LABELS),
    ("varbinary(9)", "QUI=", b"AB", LABELS),
    ("varbinary(9)", "", b"", LABELS),
    ("blob", "00fF", b"\0\xff", TextForms(binary="hex", enum="label")),
    ("blob", "\x00ÿ", b"\0\xff", NUMBERS),
    ("blob", "é", "é".encode(), TextForms(binary="raw", enum="label")),
    ("date", "0001-01-01", date(1, 1, 1), LABELS),
    ("date", "9999-12-31", date(9999, 12, 31), LABELS),
    ("date", "2020-00-10", None, LABELS),
    ("datetime", "0000-00-00 00:00:00", None, LABELS),
    ("datetime(3)", "1895-01-29 18:38:51.319", datetime(1895, 1, 29, 18, 38, 51, 319000), LABELS),
    ("datetime(6)", "9999-12-31 23:59:59.999999", datetime(9999, 12, 31, 23, 59, 59, 999999), LABELS),
    ("timestamp", "2020-01-01 08:00:00", datetime(2020, 1, 1, tzinfo=UTC), zoned("Asia/Shanghai")),
    ("timestamp", "2020-01-01 08:00:00", datetime(2020, 1, 1, tzinfo=UTC), zoned("+08:00")),
    ("timestamp", "2020-01-01 00:00:00.5", datetime(2020, 1, 1, 5, 30, 0, 500000, tzinfo=UTC), zoned("-05:30")),
    ("timestamp", "2024-11-03 01:30:00", datetime(2024, 11, 3, 5, 30, tzinfo=UTC), zoned("America/New_York")),
    ("timestamp", "2024-03-10 02:30:00", datetime(2024, 3, 10, 7, 30, tzinfo=UTC), zoned("America/New_York")),
    ("time(3)", "-838:59:59.000", "-838:59:59.000", LABELS),
    ("enum('a','b')", "2", "b", NUMBERS),
    ("enum('a','b')", "0", "", NUMBERS),
    ("enum('a','b')", "anything", "anything", LABELS),
    ("set('r','g','b')", "5", "r,b", NUMBERS),
    ("set('r','g','b')", "0", "", NUMBERS),
    ("json", '{"a": 1}', '{"a": 1}', LABELS),
    ("vector(3)", "[1,2.5,-3e-7]", [1.0, 2.5, -3.000000106112566e-07], LABELS),
    ("vector", "[]", [], LABELS),
]

REFUSED: list[tuple[str, str, TextForms]] = [
    *(("int", text, LABELS) for text in ("", "-", "+5", " 12", "12 ", "0x1F", "1_000", "5.0", "1e3", "٣", "--5")),
    *(("int", text, LABELS) for text in ("2147483648", "-2147483649", "9" * 5000)),
    ("tinyint", "128", LABELS),
    ("tinyint unsigned", "-1", LABELS),
    ("bigint", "9223372036854775808", LABELS),
    ("bigint unsigned", "18446744073709551616", LABELS),
    ("bigint unsigned", "-9223372036854775809", LABELS),
    ("bit(3)", "8", LABELS),
    ("bit(3)", "-1", LABELS),
    ("bit(63)", "-1", LABELS),
    ("bit(63)", "9223372036854775808", LABELS),
    ("bigint", "-9223372036854775809", LABELS),
    ("year", "1900", LABELS),
    ("year", "2156", LABELS),
    *(("double", text, LABELS) for text in ("", ".", "+5", "nan", "NaN", "inf", "1e", "1e400", "0x1p3", " 1", "1_0")),
    ("float", "3.5e38", LABELS),
    *(("decimal(5,2)", text, LABELS) for text in ("1.234", "1000", "+1", "1e2", "", "-", ".", " 1", "NaN", "1.2.3")),
    ("decimal(38,0)", "9" * 39, LABELS),
    ("decimal(38,30)", "18446744073709551616", LABELS),
    ("decimal(65,30)", "x", LABELS),
    *(("varbinary(9)", text, LABELS) for text in ("QQ", "QQ=", "Q===", "====", "QUJD=", "Q Q=", "QQ==QQ==", "é")),
    *(("blob", text, TextForms(binary="hex", enum="label")) for text in ("0", "0g", "00 11", "é0")),
    ("blob", "Ā", NUMBERS),
    *(("date", text, LABELS) for text in ("2020-1-1", "2020-02-30", "0000-01-01", "20200101", "", "2020-13-01")),
    *(("date", text, LABELS) for text in ("2020-01-01 00:00:00", " 2020-01-01", "2020-00-1x", "-00")),
    *(("datetime", f"2020-01-01 {text}", LABELS) for text in ("", "24:00:00", "10:00:60", "10:00", "10:00:00Z")),
    *(("datetime", f"2020-01-01 {text}", LABELS) for text in ("10:00:00.", "10:00:00.1234567", "10:00:00-03:00")),
    *(("datetime", text, LABELS) for text in ("2020-01-01", "2020-01-01T10:00:00", "2020-01-01 10:00:00-00")),
    ("timestamp", "0001-01-01 00:00:00", zoned("+08:00")),
    *(("time", text, LABELS) for text in ("", "1:00:00", "10:00", "10:00:00.", "x10:00:00", "10:00:00\n")),
    ("enum('a','b')", "3", NUMBERS),
    ("enum('a','b')", "-1", NUMBERS),
    ("enum('a','b')", "a", NUMBERS),
    ("set('r','g','b')", "8", NUMBERS),
    *(("vector", text, LABELS) for text in ("", "1", "[1", "[true]", '["1"]', "[null]", "[[1]]", "[NaN]", "[1e39]")),
]


@pytest.mark.parametrize(("written", "text", "expected", "forms"), GOOD, ids=lambda part: str(part)[:30])
def test_a_value_and_a_column_of_it_are_what_mysql_means(
    written: str, text: str, expected: Any, forms: TextForms
) -> None:
    column_type = parse_type(written)
    array = pa.array(["x", None, text, None, text]).slice(1)
    columns = text_columns.column(column_type, array, forms)

    assert expected == value(column_type, text, forms)
    assert [None, expected, None, expected] == columns.to_pylist()
    assert arrow_type(column_type) == columns.type


@pytest.mark.parametrize(("written", "text", "forms"), REFUSED, ids=lambda part: str(part)[:30])
def test_text_that_a_type_cannot_hold_is_refused_without_quoting_it(written: str, text: str, forms: TextForms) -> None:
    column_type = parse_type(written)
    with pytest.raises(DecodeError) as one:
        value(column_type, text, forms)
    with pytest.raises(DecodeError) as many:
        text_columns.column(column_type, pa.array([None, text]), forms)

    assert "value 1 of a column" == many.value.where
    for raised in (one.value, many.value):
        assert len(text) < 4 or text not in str(raised)


def test_null_is_null_in_every_type() -> None:
    for kind in Kind:
        column_type = MySqlType(kind)
        assert value(column_type, None, LABELS) is None
        assert pa.nulls(2, arrow_type(column_type)) == text_columns.column(
            column_type, pa.nulls(2, pa.string()), LABELS
        )
        assert 0 == len(text_columns.column(column_type, pa.array([], pa.string()), LABELS))


def test_labels_that_are_not_known_stay_numbers() -> None:
    assert "7" == value(MySqlType(Kind.ENUM), "07", NUMBERS)
    assert "18446744073709551615" == value(MySqlType(Kind.SET), "-1", NUMBERS)


def test_a_set_of_64_labels_may_come_wrapped() -> None:
    labels = tuple(f"l{i}" for i in range(64))
    assert "l63" == value(MySqlType(Kind.SET, elements=labels), str(-(1 << 63)), NUMBERS)


def test_a_binary_charset_makes_text_kinds_binary() -> None:
    column_type = MySqlType(Kind.VARCHAR, 10, charset="binary")
    assert b"AB" == value(column_type, "QUI=", LABELS)
    assert pa.binary() == arrow_type(column_type)


def test_bytes_are_taken_as_they_are_where_the_protocol_sends_them_so() -> None:
    raw = TextForms(binary="raw", enum="label")
    assert b"\xff" == value(MySqlType(Kind.BLOB), b"\xff", raw)
    with pytest.raises(DecodeError):
        value(MySqlType(Kind.TEXT), b"x", raw)


def test_only_a_date_is_a_zero_date() -> None:
    assert is_zero_date(MySqlType(Kind.DATE), "0000-00-00")
    assert not is_zero_date(MySqlType(Kind.TIME), "0000-00-00")
    assert not is_zero_date(MySqlType(Kind.DATE), None)


def test_an_unknown_zone_says_what_to_give() -> None:
    with pytest.raises(ConfigError, match="IANA"):
        time_zone("Nowhere/City")


NUMERIC = st.text("0123456789-+.eExX _naif\u0663", max_size=12)
DATES = st.builds(
    "{}-{}-{}{}{}".format,
    st.sampled_from(["2020", "0000", "0001", "9999", "1969", "1970", "2037", "2038", "20", "1901"]),
    st.sampled_from(["01", "00", "12", "13", "3", "11"]),
    st.sampled_from(["01", "00", "31", "30", "10", "03", "1"]),
    st.sampled_from(["", " ", "T", " 00:00:00", " 02:30:00", " 01:30:00", " 23:59:59", " 24:00:00", " 10:00", " 10"]),
    st.sampled_from(["", ".", ".1", ".123456", ".1234567", "Z", "-03:00", "+08", "\0", ".000"]),
)
NUMBER_TEXTS = st.one_of(
    st.integers(-(1 << 65), 1 << 65).map(str),
    st.integers(-300, 300).map(str),
    st.floats().map(repr),
    st.floats(width=32).map(repr),
    st.decimals(allow_nan=False, places=2).map(str),
    st.decimals(-10000, 10000, places=3).map(str),
    NUMERIC,
)
BINARY_TEXTS = st.one_of(
    st.binary(max_size=9).map(lambda raw: base64.b64encode(raw).decode()),
    st.binary(max_size=9).map(bytes.hex),
    st.text("AQz09+/= \n-_é", max_size=8),
    st.text(max_size=5),
)
OTHER_TEXTS = st.one_of(
    st.from_regex(r"\A-?[0-9]{1,3}:[0-9]{2}:[0-9]{1,2}(\.[0-9]{0,7})?\Z"),
    st.text("[],1.5-e ", max_size=9),
    st.text(max_size=6),
)
TYPES = [
    *("tinyint", "smallint unsigned", "mediumint", "int", "int unsigned", "bigint", "bigint unsigned", "year"),
    *(
        "bit",
        "bit(17)",
        "bit(63)",
        "bit(64)",
        "float",
        "double",
        "decimal(5,2)",
        "decimal(38,20)",
        "decimal(38,0)",
        "decimal(65,30)",
    ),
    *("date", "datetime(3)", "timestamp", "time", "char(3)", "json", "blob", "binary(3)", "vector(2)"),
    *("enum('a','b')", "set('a','b')"),
]


def texts_for(column_type: MySqlType) -> st.SearchStrategy[str]:
    if column_type.kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP):
        return st.one_of(DATES, OTHER_TEXTS)
    if column_type.kind in (Kind.BLOB, Kind.BINARY):
        return BINARY_TEXTS
    return st.one_of(NUMBER_TEXTS, OTHER_TEXTS)


@pytest.mark.parametrize("written", TYPES)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_columns_are_converted_like_single_values(written: str, data: st.DataObject) -> None:
    column_type = parse_type(written)
    forms = TextForms(
        binary=data.draw(st.sampled_from(["base64", "hex", "latin1", "raw"])),
        enum=data.draw(st.sampled_from(["label", "number"])),
        zone=data.draw(st.sampled_from(["UTC", "Asia/Shanghai", "America/New_York", "-03:30"])),
    )
    texts = data.draw(st.lists(st.one_of(st.none(), texts_for(column_type)), max_size=3))
    expected: list[Any] | None
    try:
        expected = [value(column_type, text, forms) for text in texts]
    except DecodeError:
        expected = None
    array = pa.array(["1", *texts, "1"], pa.string()).slice(1, len(texts))
    if expected is None:
        with pytest.raises(DecodeError):
            text_columns.column(column_type, array, forms)
    else:
        made = text_columns.column(column_type, array, forms)
        assert repr(pa.array(expected, made.type).to_pylist()) == repr(made.to_pylist())
        assert arrow_type(column_type) == made.type
        if column_type.kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP):
            zeros = sum(e is None and t is not None for e, t in zip(expected, texts, strict=True))
            assert zeros == made.null_count - array.null_count


def test_a_vector_keeps_the_sign_of_its_zeros() -> None:
    of = MySqlType(Kind.VECTOR)
    text = "[-0,0,-0.0,-10]"
    found = [value(of, text, LABELS), text_columns.column(of, pa.array([text]), LABELS)[0].as_py()]

    assert [[(math.copysign(1, number), number) for number in numbers] for numbers in found] == [
        [(-1, 0), (1, 0), (-1, 0), (-1, -10)]
    ] * 2


@pytest.mark.parametrize("text", ["0000-01-01", "0000-02-29", "0000-02-30"])
def test_a_day_of_year_0_is_refused_as_one_that_no_column_holds(text: str):
    with pytest.raises(DecodeError, match="year 0, which no column of the lake holds"):
        value(parse_type("date"), text, LABELS)
