"""Columns of a server's text are read at once; value by value only what Arrow's parsers may take otherwise."""

from __future__ import annotations

from typing import Any, NoReturn

import pyarrow as pa
import pytest

from ticdc_assets.protocols.values import text_columns
from ticdc_assets.protocols.values.text import TextForms, value
from ticdc_assets.schema.ddl.mysql_types import parse_type

LABELS = TextForms("base64", "label")
NUMBERS = TextForms("base64", "number")
SHANGHAI = TextForms("base64", "label", "Asia/Shanghai")
OFFSET = TextForms("base64", "label", "+08:00")
MANY_DIGITS = "9" * 38

AT_ONCE: list[tuple[str, list[str], TextForms]] = [
    ("TINYINT", ["-128", "0", "127"], LABELS),
    ("TINYINT UNSIGNED", ["0", "255"], LABELS),
    ("SMALLINT", ["-32768", "32767"], LABELS),
    ("MEDIUMINT UNSIGNED", ["16777215"], LABELS),
    ("INT", ["-2147483648", "2147483647"], LABELS),
    ("INT UNSIGNED", ["0", "4294967295"], LABELS),
    ("BIGINT", [str(-(1 << 63)), str((1 << 63) - 1)], LABELS),
    ("BIGINT UNSIGNED", ["0", str((1 << 64) - 1)], LABELS),
    ("BIGINT UNSIGNED", ["0", str((1 << 64) - 1), "-1", str(-(1 << 63))], LABELS),
    ("BIT(3)", ["0", "7"], LABELS),
    ("BIT(63)", [str((1 << 63) - 1)], LABELS),
    ("BIT(64)", [str((1 << 64) - 1), "-1"], LABELS),
    ("YEAR", ["0", "1901", "2155"], LABELS),
    ("FLOAT", ["0.1", "-3.4028235e38", "1e-45", "1.6777216e+07"], LABELS),
    ("DOUBLE", ["0.1", "1.7976931348623157e+308", "5e-324"], LABELS),
    ("DECIMAL(38,0)", [MANY_DIGITS], LABELS),
    ("DECIMAL(5,2)", ["-999.99", "1", "1.5"], LABELS),
    ("DECIMAL(38,30)", ["99999999.5"], LABELS),
    ("DECIMAL(65,30)", ["1.5", "-" + "9" * 35 + "." + "9" * 30], LABELS),
    ("VARCHAR(9)", ["", "x"], LABELS),
    ("JSON", ["{}"], LABELS),
    ("DATE", ["0001-01-01", "9999-12-31", "0000-00-00", "2024-00-05"], LABELS),
    ("DATETIME(6)", ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "0000-00-00 00:00:00"], LABELS),
    ("TIMESTAMP", ["1970-01-01 00:00:01", "2038-01-19 03:14:07", "0000-00-00 00:00:00"], LABELS),
    ("TIMESTAMP", ["1970-01-02 00:00:00", "2024-06-01 00:00:00", "2037-01-01 00:00:00"], SHANGHAI),
    ("TIMESTAMP(6)", ["1970-01-02 00:00:00", "2037-01-01 00:00:00"], OFFSET),
    ("TIME(6)", ["-838:59:59.000000", "00:00:00", "838:59:59"], LABELS),
    ("ENUM('a','b')", ["a", "b"], LABELS),
    ("ENUM('a','b')", ["0", "2"], NUMBERS),
    ("SET('a','b')", ["0", "3"], NUMBERS),
    ("BLOB", ["", "QQ==", "QUI=", "QUJD", "QUJDRA=="], LABELS),
    ("BLOB", ["QUJD"], LABELS),
    ("BLOB", ["", "00ff", "0A"], TextForms("hex", "label")),
    ("BLOB", ["", "\x00ÿé"], TextForms("latin1", "label")),
    ("BLOB", ["", "é"], TextForms("raw", "label")),
]


def never(*_: Any) -> NoReturn:
    raise AssertionError("a value is read by itself")


@pytest.mark.parametrize(("written", "texts", "forms"), AT_ONCE, ids=lambda part: str(part)[:30])
@pytest.mark.parametrize("nulls", [False, True])
def test_what_a_server_writes_is_read_at_once(
    written: str, texts: list[str], forms: TextForms, nulls: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(text_columns, "_one_by_one", never)
    of = parse_type(written)
    sent = [*texts, *([None] if nulls else [])]

    for array in (pa.array(sent, pa.string()), pa.array([*texts[:1], *sent], pa.string()).slice(1)):
        found = text_columns.column(of, array, forms)
        assert found.to_pylist() == [value(of, text, forms) for text in sent]


def test_a_column_of_nothing_is_null_of_its_type():
    assert text_columns.column(parse_type("INT"), pa.nulls(2, pa.string()), LABELS) == pa.nulls(2, pa.int32())


BY_THEMSELVES: list[tuple[str, str, TextForms]] = [
    ("TIMESTAMP", "1970-01-01 12:00:00", SHANGHAI),
    ("TIMESTAMP", "2037-01-01 00:00:01", SHANGHAI),
    ("DECIMAL(38,2)", "1" + "0" * 35 + ".50", LABELS),
    ("INT", "007", LABELS),
]


@pytest.mark.parametrize(("written", "text", "forms"), BY_THEMSELVES)
def test_what_arrow_may_take_otherwise_comes_out_the_same(written: str, text: str, forms: TextForms):
    of = parse_type(written)

    assert text_columns.column(of, pa.array([text, None]), forms).to_pylist() == [value(of, text, forms), None]


def test_the_bytes_of_a_slice_are_those_of_its_texts():
    texts = pa.array(["a", "bc", "", "def", None])

    assert text_columns.joined_bytes(texts) == b"abcdef"
    assert text_columns.joined_bytes(texts.slice(1, 3)) == b"bcdef"
    assert text_columns.joined_bytes(texts.slice(2, 0)) == b""
    assert text_columns.joined_bytes(pa.nulls(0, pa.string())) == b""
