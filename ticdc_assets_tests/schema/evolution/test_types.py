"""A type change keeps the lake's column and its values, or converts them; each type has its lake type."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.evolution.promotion import preserves, promotes
from ticdc_assets.schema.evolution.schema_state import ConvertColumn
from ticdc_assets.schema.model import Kind
from ticdc_assets_tests.schema.evolution.schema_states import altered, table

# (old, new, whether the lake's column stays, whether every value stays)
CHANGES = [
    ("INT", "INT(11)", True, True),
    ("TINYINT", "INT", True, True),
    ("INT", "TINYINT", True, False),
    ("INT", "BIGINT", True, True),
    ("INT", "INT UNSIGNED", True, False),
    ("SMALLINT UNSIGNED", "INT", True, True),
    ("INT UNSIGNED", "BIGINT", True, True),
    ("BIGINT", "INT UNSIGNED", True, False),
    ("BIGINT", "BIGINT UNSIGNED", False, False),
    ("BIGINT", "INT", False, False),
    ("BIGINT UNSIGNED", "BIT(64)", True, True),
    ("BIGINT UNSIGNED", "DECIMAL(30,0)", True, False),
    ("BIT(8)", "BIT(9)", True, True),
    ("BIT(9)", "BIT", True, False),
    ("YEAR", "SMALLINT", True, True),
    ("SMALLINT", "YEAR", True, False),
    ("INT", "VARCHAR(20)", False, False),
    ("VARCHAR(20)", "INT", False, False),
    ("FLOAT", "DOUBLE", True, True),
    ("FLOAT", "FLOAT(7,2)", True, False),
    ("DOUBLE", "FLOAT", False, False),
    ("DOUBLE", "DOUBLE UNSIGNED", True, False),
    ("DECIMAL(10,2)", "DECIMAL(14,2)", True, True),
    ("DECIMAL", "DECIMAL(10,0)", True, True),
    ("DECIMAL(10,2)", "DECIMAL(14,4)", False, False),
    ("DECIMAL(10,2)", "DECIMAL(9,2)", False, False),
    ("DECIMAL(38,2)", "DECIMAL(39,2)", False, False),
    ("DECIMAL(40,2)", "DECIMAL(65,2)", True, True),
    ("DECIMAL(65,30)", "DECIMAL(50,10)", True, False),
    ("DECIMAL(65,30)", "VARCHAR(80)", True, True),
    ("DECIMAL(65,30)", "VARCHAR(60)", True, False),
    ("VARCHAR(20)", "VARCHAR(60)", True, True),
    ("VARCHAR(60)", "VARCHAR(20)", True, False),
    ("VARCHAR(20)", "LONGTEXT", True, True),
    ("VARCHAR(200)", "TINYTEXT", True, False),
    ("TEXT", "LONGTEXT", True, True),
    ("TEXT", "VARCHAR(100)", True, False),
    ("CHAR(5)", "VARCHAR(5)", True, True),
    ("CHAR(5)", "CHAR(6)", True, True),
    ("VARCHAR(5)", "CHAR(5)", True, False),
    ("VARCHAR(30) CHARACTER SET gbk", "VARCHAR(30)", True, True),
    ("VARCHAR(30) CHARACTER SET gbk", "VARCHAR(20) CHARACTER SET utf8mb4", True, False),
    ("VARCHAR(30)", "VARCHAR(30) CHARACTER SET latin1", True, False),
    ("VARCHAR(9)", "VARBINARY(9)", False, False),
    ("VARBINARY(9)", "VARBINARY(20)", True, True),
    ("BINARY(4)", "VARBINARY(4)", True, True),
    ("VARBINARY(4)", "BINARY(4)", True, False),
    ("BINARY(4)", "BINARY(8)", True, False),
    ("BLOB", "LONGBLOB", True, True),
    ("LONGBLOB", "BLOB", True, False),
    ("ENUM('a','b')", "ENUM('a','b','c')", True, True),
    ("ENUM('a','b')", "ENUM('c','b','a')", True, True),
    ("ENUM('a','b')", "ENUM('a','c')", True, False),
    ("ENUM('a','b')", "VARCHAR(5)", True, True),
    ("ENUM('a','b')", "SET('a','b')", True, False),
    ("SET('a','b')", "SET('a','x','b')", True, True),
    ("SET('a','b')", "SET('b','a')", True, False),
    ("ENUM", "ENUM('a')", True, False),
    ("ENUM", "ENUM", True, True),
    ("VARCHAR(5)", "ENUM('a')", True, False),
    ("DATETIME", "DATETIME(3)", True, True),
    ("DATETIME(3)", "DATETIME", True, False),
    ("TIMESTAMP(6)", "TIMESTAMP(2)", True, False),
    ("DATETIME", "TIMESTAMP", False, False),
    ("DATE", "DATETIME", False, False),
    ("TIME", "TIME(3)", True, False),
    ("TIME", "VARCHAR(20)", True, True),
    ("JSON", "LONGTEXT", True, True),
    ("VARCHAR(20)", "JSON", True, False),
    ("VECTOR(3)", "VECTOR", True, True),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "same_column", "same_values"), CHANGES)
def test_a_type_change_keeps_the_column_or_converts_it(old, new, same_column, same_values):
    before = table(f"a INT PRIMARY KEY, c {old}")
    change = altered(before, f"MODIFY c {new}")
    old_type, new_type = before.table.column("c").type, change.table.column("c").type

    assert (same_column, same_values) == (promotes(old_type, new_type), preserves(old_type, new_type))
    uid = 2 if same_column else 3
    assert uid == change.table.column("c").uid
    assert (() if same_values else (ConvertColumn(2, uid, "c", old_type, new_type),)) == change.effects


@given(st.sampled_from([c[0] for c in CHANGES]), st.sampled_from([c[1] for c in CHANGES]))
def test_values_stay_only_where_the_column_does(old, new):
    old_type, new_type = parse_type(old), parse_type(new)

    assert promotes(old_type, new_type) or not preserves(old_type, new_type)
    assert promotes(old_type, old_type)
    assert preserves(old_type, old_type)


def test_text_columns_of_a_table_in_binary_are_added_as_binary_until_its_default_changes():
    shape = table("a INT PRIMARY KEY", "CHARSET=binary")
    shape = altered(shape, "ADD COLUMN b VARCHAR(5), ADD COLUMN c CHAR(2) CHARSET utf8mb4").shape
    shape = altered(altered(shape, "DEFAULT CHARSET=utf8mb4").shape, "ADD COLUMN d VARCHAR(5)").shape

    assert [c.type.kind for c in shape.table.columns] == [Kind.INT, Kind.VARBINARY, Kind.CHAR, Kind.VARCHAR]


RANGES = {
    "TINYINT": (-128, 127),
    "TINYINT UNSIGNED": (0, 255),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "SMALLINT UNSIGNED": (0, 2**16 - 1),
    "MEDIUMINT": (-(2**23), 2**23 - 1),
    "MEDIUMINT UNSIGNED": (0, 2**24 - 1),
    "INT": (-(2**31), 2**31 - 1),
    "INT UNSIGNED": (0, 2**32 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "BIT(1)": (0, 1),
    "BIT(62)": (0, 2**62 - 1),
    "BIT(63)": (0, 2**63 - 1),
}


@pytest.mark.parametrize(("old", "new"), product(RANGES, RANGES))
def test_a_whole_number_is_kept_as_it_is_exactly_where_the_new_range_has_all_of_the_old(old: str, new: str):
    types = [table(f"a {written}").table.columns[0].type for written in (old, new)]
    has_all = RANGES[new][0] <= RANGES[old][0] and RANGES[old][1] <= RANGES[new][1]

    assert preserves(*types) == (has_all and promotes(*types))


# What a TiDB 8.5 does: columns in table order, the modified one, and whether TiDB copies the other's values
ALIKE = [("ſ", "s", "s", True), ("s", "ſ", "s", False), ("ς", "σ", "σ", True), ("K", "k2", "k2", False)]


@pytest.mark.parametrize(("first", "second", "modified", "is_copied"), [*ALIKE, ("ı", "i", "i", False)])
def test_a_type_change_stops_where_tidb_converts_the_values_of_a_column_that_is_alike(
    first, second, modified, is_copied
):
    shape = table(f"id INT PRIMARY KEY, `{first}` INT, `{second}` INT")

    for new in ("VARCHAR(20)", "TINYINT", "INT UNSIGNED"):
        if is_copied:
            with pytest.raises(SchemaError, match=f"those of {first}, which TiDB may copy"):
                altered(shape, f"MODIFY `{modified}` {new}")
        else:
            assert altered(shape, f"MODIFY `{modified}` {new}").effects
    assert not altered(shape, f"MODIFY `{modified}` INT NOT NULL").effects
