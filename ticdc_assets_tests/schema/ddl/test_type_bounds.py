"""A type has the sizes that TiDB lets it have, and TEXT(n) and BLOB(n) become the smallest type that holds n."""

from __future__ import annotations

import pytest

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl.mysql_types import bare, binary_form, parse_type, same_kind, sized_text
from ticdc_assets.schema.model import Kind, MySqlType

# (a type with {} for its size, the largest size)
LARGEST = [
    *((f"{kind}({{}})", 0xFFFF) for kind in ("CHAR", "VARCHAR", "BINARY", "VARBINARY")),
    *((f"{kind}({{}})", 6) for kind in ("DATETIME", "TIMESTAMP", "TIME")),
    *((f"{kind}({{}})", 0xFFFF_FFFF) for kind in ("TEXT", "BLOB", "INT", "VECTOR")),
    ("BIT({})", 64),
    ("DECIMAL({})", 65),
    ("DECIMAL(65,{})", 30),
    ("DECIMAL(12,{})", 12),
    ("FLOAT(50,{})", 30),
    ("DOUBLE(50,{})", 30),
]


@pytest.mark.parametrize(("text", "most"), LARGEST)
def test_a_size_beyond_the_largest_is_refused(text: str, most: int):
    parse_type(text.format(0))
    parse_type(text.format(most))
    with pytest.raises(SchemaError, match="a size that"):
        parse_type(text.format(most + 1))


def test_a_whole_number_of_twenty_digits_is_the_longest():
    assert parse_type(f"CHAR({'9'.zfill(20)})").length == 9
    with pytest.raises(SchemaError, match="a whole number"):
        parse_type(f"CHAR({'9'.zfill(21)})")


SIZED = {
    Kind.TEXT: (Kind.TINYTEXT, Kind.TEXT, Kind.MEDIUMTEXT, Kind.LONGTEXT),
    Kind.BLOB: (Kind.TINYBLOB, Kind.BLOB, Kind.MEDIUMBLOB, Kind.LONGBLOB),
}
BYTES = {None: 4, "utf8mb4": 4, "utf8": 3, "utf8mb3": 3, "gbk": 2, "ucs2": 2, "latin1": 1, "ascii": 1, "binary": 1}


@pytest.mark.parametrize("charset", BYTES)
@pytest.mark.parametrize(("number", "limit"), enumerate([0xFF, 0xFFFF, 0xFF_FFFF]))
def test_a_text_of_n_characters_is_the_smallest_that_holds_them(charset: str | None, number: int, limit: int):
    for kind, each in ((Kind.TEXT, BYTES[charset]), (Kind.BLOB, 1)):
        last = limit // each
        assert sized_text(MySqlType(kind, last), charset) == MySqlType(SIZED[kind][number])
        assert sized_text(MySqlType(kind, last + 1), charset) == MySqlType(SIZED[kind][number + 1])


def test_only_text_and_blob_with_a_length_are_fitted():
    for of in (MySqlType(Kind.TEXT), MySqlType(Kind.BLOB), MySqlType(Kind.VARCHAR, 300), MySqlType(Kind.INT, 300)):
        assert sized_text(of, "latin1") == of


def test_the_display_width_of_whole_numbers_is_no_part_of_the_bare_type():
    for text in ("TINYINT(3)", "SMALLINT(3)", "MEDIUMINT(3)", "INT(3)", "BIGINT(3)", "YEAR(4)"):
        assert bare(parse_type(text)).length is None
    for text in ("BIT(3)", "CHAR(3)", "DECIMAL(3)", "TIME(3)"):
        assert bare(parse_type(text)) == parse_type(text)


def test_types_of_one_kind_differ_in_length_alone():
    assert same_kind(parse_type("TINYTEXT"), parse_type("LONGTEXT"))
    assert same_kind(parse_type("BLOB"), parse_type("MEDIUMBLOB"))
    assert same_kind(parse_type("VARCHAR(3)"), parse_type("VARCHAR(9)"))
    assert not same_kind(parse_type("TEXT"), parse_type("BLOB"))
    assert not same_kind(parse_type("CHAR(3)"), parse_type("VARCHAR(3)"))
    assert not same_kind(parse_type("INT"), parse_type("INT UNSIGNED"))


def test_a_character_type_in_binary_has_no_character_set():
    assert binary_form(parse_type("VARCHAR(3) CHARSET gbk")) == MySqlType(Kind.VARBINARY, 3)
    assert binary_form(parse_type("INT(3)")) == MySqlType(Kind.INT, 3)


def test_a_label_may_be_hexadecimal_of_an_odd_number_of_digits():
    assert parse_type("ENUM(0x6, x'4142')").elements == ("\x06", "AB")


SPELLINGS = [
    ("VARCHAR(3) COLLATE binary CHARSET utf8", MySqlType(Kind.VARCHAR, 3, charset="utf8")),
    ("CHAR(3) UNICODE", MySqlType(Kind.CHAR, 3, charset="ucs2")),
    ("FLOAT(24)", MySqlType(Kind.FLOAT)),
    ("FLOAT(25)", MySqlType(Kind.DOUBLE)),
    ("FLOAT(25,2)", MySqlType(Kind.FLOAT, 25, 2)),
    ("DOUBLE(25)", MySqlType(Kind.DOUBLE, 25)),
    ("ENUM('a') CHARSET = latin1", MySqlType(Kind.ENUM, elements=("a",), charset="latin1")),
    ("POINT", MySqlType(Kind.LONGTEXT)),
    ("GEOMETRYCOLLECTION", MySqlType(Kind.LONGTEXT)),
]


@pytest.mark.parametrize(("text", "expected"), SPELLINGS)
def test_the_attributes_of_a_type_decide_what_it_is(text: str, expected: MySqlType):
    assert parse_type(text) == expected
