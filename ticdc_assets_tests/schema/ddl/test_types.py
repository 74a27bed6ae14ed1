"""Type text in any spelling means one type, or is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl.mysql_types import parse_type, type_text
from ticdc_assets.schema.model import Kind, MySqlType
from ticdc_assets_tests.schema.ddl.statements import INT

TYPES = [
    ("DECIMAL(12,4) UNSIGNED", MySqlType(Kind.DECIMAL, 12, 4, unsigned=True)),
    ("decimal(10)", MySqlType(Kind.DECIMAL, 10)),
    ("NUMERIC", MySqlType(Kind.DECIMAL)),
    ("DEC(5,1)", MySqlType(Kind.DECIMAL, 5, 1)),
    ("FIXED(5)", MySqlType(Kind.DECIMAL, 5)),
    ("VARCHAR(30) CHARACTER SET GBK", MySqlType(Kind.VARCHAR, 30, charset="gbk")),
    ("varchar(30) charset latin1 collate latin1_bin", MySqlType(Kind.VARCHAR, 30, charset="latin1")),
    ("ENUM('a','o''k')", MySqlType(Kind.ENUM, elements=("a", "o'k"))),
    ("ENUM('a ', \"b\\'c\", x'64')", MySqlType(Kind.ENUM, elements=("a", "b'c", "d"))),
    ("SET('r','g,h')", MySqlType(Kind.SET, elements=("r", "g,h"))),
    ("ENUM", MySqlType(Kind.ENUM)),
    ("INT(6) UNSIGNED ZEROFILL", MySqlType(Kind.INT, 6, unsigned=True)),
    ("INT ZEROFILL", MySqlType(Kind.INT, unsigned=True)),
    ("INT SIGNED", INT),
    ("INTEGER", INT),
    ("INT1", MySqlType(Kind.TINYINT)),
    ("INT8 UNSIGNED", MySqlType(Kind.BIGINT, unsigned=True)),
    ("MIDDLEINT", MySqlType(Kind.MEDIUMINT)),
    ("TINYINT(1)", MySqlType(Kind.TINYINT, 1)),
    ("BOOL", MySqlType(Kind.TINYINT, 1)),
    ("Boolean", MySqlType(Kind.TINYINT, 1)),
    ("DOUBLE PRECISION", MySqlType(Kind.DOUBLE)),
    ("REAL UNSIGNED", MySqlType(Kind.DOUBLE, unsigned=True)),
    ("FLOAT8", MySqlType(Kind.DOUBLE)),
    ("FLOAT(24)", MySqlType(Kind.FLOAT)),
    ("FLOAT(25)", MySqlType(Kind.DOUBLE)),
    ("FLOAT(53)", MySqlType(Kind.DOUBLE)),
    ("FLOAT(7,2)", MySqlType(Kind.FLOAT, 7, 2)),
    ("SERIAL", MySqlType(Kind.BIGINT, unsigned=True)),
    ("NVARCHAR(5)", MySqlType(Kind.VARCHAR, 5)),
    ("NATIONAL CHARACTER VARYING(5)", MySqlType(Kind.VARCHAR, 5)),
    ("NCHAR VARCHAR(5)", MySqlType(Kind.VARCHAR, 5)),
    ("CHAR VARYING(5)", MySqlType(Kind.VARCHAR, 5)),
    ("NCHAR(5)", MySqlType(Kind.CHAR, 5)),
    ("CHARACTER(5)", MySqlType(Kind.CHAR, 5)),
    ("CHAR", MySqlType(Kind.CHAR)),
    ("CHAR(5) BINARY", MySqlType(Kind.CHAR, 5)),
    ("CHAR(5) BYTE", MySqlType(Kind.BINARY, 5)),
    ("CHAR BYTE", MySqlType(Kind.BINARY)),
    ("CHAR(5) CHARACTER SET BINARY", MySqlType(Kind.BINARY, 5)),
    ("VARCHAR(9) CHARSET 'binary'", MySqlType(Kind.VARBINARY, 9)),
    ("VARCHAR(9) COLLATE binary", MySqlType(Kind.VARBINARY, 9)),
    ("TEXT CHARACTER SET BINARY", MySqlType(Kind.BLOB)),
    ("LONGTEXT CHARACTER SET BINARY", MySqlType(Kind.LONGBLOB)),
    ("TEXT ASCII", MySqlType(Kind.TEXT, charset="latin1")),
    ("LONG", MySqlType(Kind.MEDIUMTEXT)),
    ("LONG VARCHAR", MySqlType(Kind.MEDIUMTEXT)),
    ("LONG VARCHARACTER", MySqlType(Kind.MEDIUMTEXT)),
    ("LONG CHAR VARYING", MySqlType(Kind.MEDIUMTEXT)),
    ("LONG CHARACTER VARYING CHARSET gbk", MySqlType(Kind.MEDIUMTEXT, charset="gbk")),
    ("LONG VARBINARY", MySqlType(Kind.MEDIUMBLOB)),
    ("TEXT(63)", MySqlType(Kind.TINYTEXT)),
    ("TEXT(64)", MySqlType(Kind.TEXT)),
    ("BLOB(255)", MySqlType(Kind.TINYBLOB)),
    ("BLOB(70000)", MySqlType(Kind.MEDIUMBLOB)),
    ("VECTOR(3)", MySqlType(Kind.VECTOR, 3)),
    ("VECTOR<FLOAT>(3)", MySqlType(Kind.VECTOR, 3)),
    ("VECTOR", MySqlType(Kind.VECTOR)),
    ("BIT(64)", MySqlType(Kind.BIT, 64)),
    ("YEAR(4)", MySqlType(Kind.YEAR, 4)),
    ("YEAR UNSIGNED", MySqlType(Kind.YEAR, unsigned=True)),
    ("BIT UNSIGNED", MySqlType(Kind.BIT, unsigned=True)),
    ("TIMESTAMP(6)", MySqlType(Kind.TIMESTAMP, 6)),
    ("JSON", MySqlType(Kind.JSON)),
]


@pytest.mark.parametrize(("text", "expected"), TYPES)
def test_type_text_in_any_spelling_means_one_type_that_formats_and_parses_to_itself(text, expected):
    assert expected == parse_type(text)
    assert expected == parse_type(type_text(expected))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "HYPERCUBE",
        "POINT(3",
        "INTT",
        "INT(",
        "INT(a)",
        "INT(1,2)",
        "ENUM(1)",
        "ENUM()",
        "JSON(3)",
        "INT NOT NULL",
        "INT;",
        "DATE UNSIGNED",
        "VARCHAR(99999999999999999999999)",
        "`INT`",
        "'INT'",
    ],
)
def test_text_that_is_not_exactly_a_known_type_is_refused(text):
    with pytest.raises(SchemaError):
        parse_type(text)


@given(st.lists(st.text(st.characters(codec="utf-8")).map(lambda s: s.rstrip(" ")), min_size=1, max_size=5))
def test_enum_labels_of_any_text_round_trip(labels):
    of = MySqlType(Kind.ENUM, elements=tuple(labels))

    assert of == parse_type(type_text(of))
