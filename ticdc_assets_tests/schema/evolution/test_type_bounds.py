"""A type change leaves values as they are up to the last size that holds them all, and not beyond it."""

from __future__ import annotations

from itertools import product

import pytest

from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.evolution.promotion import preserves, promotes

BYTES_MAX = {"TINY": 0xFF, "": 0xFFFF, "MEDIUM": 0xFF_FFFF, "LONG": 0xFFFF_FFFF}


def kept(old: str, new: str) -> bool:
    return preserves(parse_type(old), parse_type(new))


@pytest.mark.parametrize(("old", "new"), product(BYTES_MAX, BYTES_MAX))
@pytest.mark.parametrize("kind", ["TEXT", "BLOB"])
def test_a_text_or_blob_is_kept_by_one_that_is_as_large(kind: str, old: str, new: str):
    assert kept(old + kind, new + kind) is (BYTES_MAX[old] <= BYTES_MAX[new])


# (the change up to which values stay, with {} for the size; the last size)
SIZES = [
    ("VARCHAR({})", "TINYTEXT", 63),
    ("VARCHAR({})", "TEXT", 16383),
    ("CHAR({})", "TINYTEXT", 63),
    ("VARCHAR({}) CHARSET utf8", "TINYTEXT CHARSET utf8", 85),
    ("VARCHAR({}) CHARSET utf8mb3", "TINYTEXT CHARSET utf8mb3", 85),
    ("VARCHAR({}) CHARSET gbk", "TINYTEXT CHARSET gbk", 127),
    ("VARCHAR({}) CHARSET ucs2", "TINYTEXT CHARSET ucs2", 127),
    ("VARCHAR({}) CHARSET latin1", "TINYTEXT CHARSET latin1", 255),
    ("VARCHAR({}) CHARSET ascii", "TINYTEXT CHARSET ascii", 255),
    ("VARCHAR({}) CHARSET latin1", "TINYTEXT", 63),
    ("VARCHAR({})", "VARCHAR(20)", 20),
    ("CHAR({})", "VARCHAR(20)", 20),
    ("CHAR({})", "CHAR(20)", 20),
    ("CHAR({})", "CHAR", 1),
    ("VARBINARY({})", "TINYBLOB", 255),
    ("VARBINARY({})", "VARBINARY(20)", 20),
    ("BINARY({})", "VARBINARY(20)", 20),
    ("DECIMAL({})", "VARCHAR(60)", 57),  # a sign, a zero before the point, the point
    ("DATETIME({})", "DATETIME(3)", 3),
    ("TIMESTAMP({})", "TIMESTAMP(3)", 3),
    ("BIT({})", "BIT(20)", 20),
    ("BIT({})", "BIT", 1),
]


@pytest.mark.parametrize(("old", "new", "last"), SIZES)
def test_a_value_is_kept_up_to_the_last_size_that_fits(old: str, new: str, last: int):
    assert kept(old.format(last - 1), new) or last == 1
    assert kept(old.format(last), new)
    assert not kept(old.format(last + 1), new)


# (what a value is changed from, to what with {} for the size; the first size that keeps it)
FIRST_SIZES = [
    ("TINYTEXT", "VARCHAR({})", 255),
    ("TEXT", "VARCHAR({})", 65535),
    ("CHAR", "VARCHAR({})", 1),
    ("TINYBLOB", "VARBINARY({})", 255),
    ("BLOB", "VARBINARY({})", 65535),
    ("BINARY", "VARBINARY({})", 1),
    ("ENUM('a','bcd')", "VARCHAR({})", 6),
    ("SET('a','bcd')", "VARCHAR({})", 6),
    ("TIME", "VARCHAR({})", 17),
    ("YEAR", "BIT({})", 12),
    ("TINYINT UNSIGNED", "BIT({})", 8),
    ("DECIMAL(50)", "DECIMAL({})", 50),
]


@pytest.mark.parametrize(("old", "new", "first"), FIRST_SIZES)
def test_a_value_is_kept_from_the_first_size_that_fits(old: str, new: str, first: int):
    assert not kept(old, new.format(first - 1)) or first == 1
    assert kept(old, new.format(first))


KEPT = [
    # Other character sets: only utf8mb4, which is TiDB's own, has every character.
    ("VARCHAR(9) CHARSET latin1", "VARCHAR(9) CHARSET utf8mb4", True),
    ("VARCHAR(9) CHARSET latin1", "VARCHAR(9)", True),
    ("VARCHAR(9)", "VARCHAR(9) CHARSET utf8mb4", True),
    ("VARCHAR(9) CHARSET utf8mb4", "VARCHAR(9)", True),
    ("VARCHAR(9) CHARSET latin1", "VARCHAR(9) CHARSET gbk", False),
    ("VARCHAR(9)", "VARCHAR(9) CHARSET gbk", False),
    ("TINYTEXT CHARSET latin1", "TEXT", False),
    ("TEXT CHARSET latin1", "TINYTEXT", False),
    ("TEXT CHARSET latin1", "TEXT CHARSET latin1", True),
    # Kinds that pad or cut.
    ("VARCHAR(9)", "CHAR(9)", False),
    ("TINYTEXT", "CHAR(255)", False),
    ("VARBINARY(1)", "BINARY(9)", False),
    ("TINYBLOB", "BINARY(255)", False),
    ("ENUM('a')", "CHAR(9)", False),
    ("TIME", "CHAR(20)", False),
    ("TIME", "TINYTEXT", True),
    ("TIME(3)", "TIME(4)", False),
    ("TIME(3)", "TIME(2)", False),
    ("TIME(0)", "TIME", True),
    ("DATETIME(0)", "DATETIME", True),
    ("DATETIME(1)", "DATETIME", False),
    ("TIMESTAMP(1)", "TIMESTAMP", False),
    ("TIMESTAMP", "TIMESTAMP(0)", True),
    ("TIME(1)", "TIME", False),
    ("TIME", "TIME(1)", False),
    ("BIT", "BIT(1)", True),
    ("BIT(2)", "BIT", False),
    ("CHAR", "CHAR(1)", True),
    ("CHAR(1)", "CHAR", True),
    ("CHAR(2)", "CHAR", False),
    ("CHAR(0)", "VARCHAR(0)", True),
    ("BINARY(2)", "VARBINARY", False),
    ("BINARY", "VARBINARY", True),
    ("DECIMAL(11)", "DECIMAL", False),
    ("DECIMAL", "DECIMAL(10,0)", True),
    # Labels.
    ("ENUM('a','b')", "ENUM('b','a','c')", True),
    ("ENUM('a','b')", "ENUM('b')", False),
    ("ENUM('a','b')", "ENUM", False),
    ("ENUM", "VARCHAR(200)", False),
    ("SET('a','b')", "SET('x','a','y','b','z')", True),
    ("SET('a','b')", "SET('a')", False),
    ("SET('a','b')", "ENUM('a','b')", False),
    # Numbers.
    ("FLOAT(7,2)", "FLOAT", True),
    ("FLOAT(7,2)", "FLOAT(8,2)", False),
    ("FLOAT(7,2)", "FLOAT(7,3)", False),
    ("FLOAT(7,2)", "DOUBLE(7,2)", True),
    ("FLOAT", "DOUBLE(7,2)", False),
    ("FLOAT UNSIGNED", "FLOAT", True),
    ("FLOAT", "FLOAT UNSIGNED", False),
    ("FLOAT UNSIGNED", "DOUBLE UNSIGNED", True),
    ("DECIMAL(9,2) UNSIGNED", "DECIMAL(9,2)", True),
    ("DECIMAL(9,2)", "DECIMAL(9,2) UNSIGNED", False),
    ("DECIMAL(9,2)", "DECIMAL(10,2) UNSIGNED", False),
    ("DECIMAL(20)", "BIGINT UNSIGNED", False),
    ("DECIMAL(20)", "BIT(64)", False),
    ("DECIMAL(40)", "JSON", False),
    ("BIT(64)", "DECIMAL(21)", False),
    ("YEAR", "TINYINT UNSIGNED", False),
    ("YEAR", "SMALLINT", True),
    ("YEAR", "BIGINT", True),
    ("TINYINT UNSIGNED", "YEAR", False),
    ("BIT(64)", "BIGINT UNSIGNED", True),
    # Text and what is kept as text.
    ("JSON", "LONGTEXT", True),
    ("JSON", "MEDIUMTEXT", False),
    ("JSON", "VARCHAR(9)", False),
    ("VARCHAR(9)", "JSON", False),
    ("VARCHAR(9)", "TIME", False),
    ("VARCHAR(9)", "SET('a')", False),
    ("DATE", "DATE", True),
    ("INT(3)", "INT(9)", True),
    ("YEAR(4)", "YEAR", True),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), KEPT)
def test_a_value_is_kept_where_no_server_rounds_cuts_pads_or_prints_it_again(old: str, new: str, expected: bool):
    assert kept(old, new) is expected


PROMOTED = [
    ("INT", "BIGINT", True),
    ("BIGINT", "INT", False),
    ("INT UNSIGNED", "INT", False),
    ("FLOAT", "DOUBLE", True),
    ("DOUBLE", "FLOAT", False),
    ("INT", "DOUBLE", False),
    ("BIGINT UNSIGNED", "DECIMAL(20)", True),
    ("BIGINT UNSIGNED", "DECIMAL(21)", True),
    ("BIGINT UNSIGNED", "DECIMAL(19)", False),
    ("BIGINT UNSIGNED", "DECIMAL(21,1)", False),
    ("DECIMAL(19)", "BIGINT UNSIGNED", True),
    ("DECIMAL(21)", "BIGINT UNSIGNED", False),
    ("DECIMAL(9,2)", "DECIMAL(38,2)", True),
    ("DECIMAL(9,2)", "DECIMAL(8,2)", False),
    ("DECIMAL(9,2)", "DECIMAL(9,1)", False),
    ("DECIMAL(9,2)", "DECIMAL(39,2)", False),
    ("DECIMAL(39,2)", "DECIMAL(9,2)", False),
    ("DECIMAL(39,2)", "VARCHAR(9)", True),
    ("DECIMAL", "BIGINT", False),
    ("BIT(63)", "BIT(64)", False),
    ("INT", "BIT(3)", True),
    ("DATE", "VARCHAR(9)", False),
    ("DATETIME", "TIMESTAMP", False),
    ("VARCHAR(9)", "BLOB", False),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), PROMOTED)
def test_a_column_stays_where_iceberg_widens_its_type(old: str, new: str, expected: bool):
    assert promotes(parse_type(old), parse_type(new)) is expected
