"""Types and defaults as MySQL writes them, which are read back to equal ones."""

from __future__ import annotations

import pytest

from ticdc_assets.schema.ddl.mysql_types import default_text, parse_type, type_text
from ticdc_assets.schema.model import Default, Kind, MySqlType

TYPES = [
    (MySqlType(Kind.INT), "INT"),
    (MySqlType(Kind.INT, 0), "INT(0)"),
    (MySqlType(Kind.DECIMAL, 10, 0), "DECIMAL(10,0)"),
    (MySqlType(Kind.DECIMAL, 10, 2, unsigned=True), "DECIMAL(10,2) UNSIGNED"),
    (MySqlType(Kind.ENUM, elements=("a", "it's", "b\\c")), "ENUM('a','it''s','b\\\\c')"),
    (MySqlType(Kind.SET), "SET"),
    (MySqlType(Kind.VARCHAR, 3, charset="gbk"), "VARCHAR(3) CHARACTER SET gbk"),
    (MySqlType(Kind.ENUM, elements=("a",), charset="latin1"), "ENUM('a') CHARACTER SET latin1"),
    (MySqlType(Kind.DATETIME, 6), "DATETIME(6)"),
    (MySqlType(Kind.DATETIME, 0), "DATETIME(0)"),
    (MySqlType(Kind.DECIMAL, 12, 4, unsigned=True), "DECIMAL(12,4) UNSIGNED"),
]


@pytest.mark.parametrize(("of", "text"), TYPES)
def test_a_type_is_written_so_that_it_is_read_back(of: MySqlType, text: str):
    assert type_text(of) == text
    assert parse_type(text) == of


@pytest.mark.parametrize(
    ("default", "text"),
    [
        (None, None),
        (Default(), "NULL"),
        (Default("5"), "'5'"),
        (Default(""), "''"),
        (Default("it's \\ so"), "'it''s \\\\ so'"),
        (Default(b"\x00\xff"), "X'00ff'"),
        (Default(b""), "X''"),
        (Default(expression="CURRENT_TIMESTAMP(3)"), "CURRENT_TIMESTAMP(3)"),
    ],
)
def test_a_default_is_written_as_sql(default: Default | None, text: str | None):
    assert default_text(default) == text
