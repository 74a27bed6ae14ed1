"""The order, uids and older values of columns after ALTER TABLE."""

from __future__ import annotations

import pytest

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.evolution.evolve import adopt, alter, create, shape_of
from ticdc_assets.schema.evolution.schema_state import FillColumn, Shape
from ticdc_assets.schema.model import Column, Default, Kind, MySqlType, TableSchema
from ticdc_assets_tests.schema.evolution.schema_states import altered, table


def uids(shape: Shape) -> list[tuple[str, int]]:
    return [(c.name, c.uid) for c in shape.table.columns]


THREE = "a INT NOT NULL PRIMARY KEY, b VARCHAR(20), c INT"
ORDERS = [
    ("ADD COLUMN d INT", [("a", 1), ("b", 2), ("c", 3), ("d", 4)]),
    ("ADD COLUMN d INT FIRST", [("d", 4), ("a", 1), ("b", 2), ("c", 3)]),
    ("ADD COLUMN d INT AFTER A", [("a", 1), ("d", 4), ("b", 2), ("c", 3)]),
    ("ADD COLUMN d INT AFTER a, ADD COLUMN e INT AFTER d", [("a", 1), ("d", 4), ("e", 5), ("b", 2), ("c", 3)]),
    ("ADD COLUMN d INT AFTER a, ADD COLUMN e INT AFTER a", [("a", 1), ("e", 5), ("d", 4), ("b", 2), ("c", 3)]),
    ("ADD COLUMN (d INT, e INT), DROP COLUMN b", [("a", 1), ("c", 3), ("d", 4), ("e", 5)]),
    ("ADD COLUMN IF NOT EXISTS B INT, ADD COLUMN d INT", [("a", 1), ("b", 2), ("c", 3), ("d", 4)]),
    ("DROP COLUMN IF EXISTS z, DROP COLUMN C", [("a", 1), ("b", 2)]),
    ("DROP COLUMN c, ADD COLUMN c INT AFTER a", [("a", 1), ("c", 4), ("b", 2)]),
    ("ADD COLUMN c INT AFTER a, DROP COLUMN c", [("a", 1), ("c", 4), ("b", 2)]),
    ("RENAME COLUMN b TO c, RENAME COLUMN c TO b", [("a", 1), ("c", 2), ("b", 3)]),
    ("RENAME COLUMN b TO x, ADD COLUMN b INT AFTER x", [("a", 1), ("x", 2), ("b", 4), ("c", 3)]),
    ("RENAME COLUMN b TO B", [("a", 1), ("B", 2), ("c", 3)]),
    ("CHANGE b x VARCHAR(30) AFTER c", [("a", 1), ("c", 3), ("x", 2)]),
    ("CHANGE b c VARCHAR(30), CHANGE c b INT", [("a", 1), ("c", 2), ("b", 3)]),
    ("MODIFY c INT FIRST", [("c", 3), ("a", 1), ("b", 2)]),
    ("MODIFY c BIGINT AFTER a", [("a", 1), ("c", 3), ("b", 2)]),
    ("MODIFY c VARCHAR(20)", [("a", 1), ("b", 2), ("c", 4)]),
    ("MODIFY IF EXISTS z INT", [("a", 1), ("b", 2), ("c", 3)]),
    ("COMMENT='x'", [("a", 1), ("b", 2), ("c", 3)]),
]


@pytest.mark.parametrize(("text", "expected"), ORDERS)
def test_columns_take_their_places_and_keep_or_change_their_uids(text, expected):
    assert expected == uids(altered(table(THREE), text).shape)


def test_a_dropped_uid_is_never_given_again():
    shape = table(THREE)
    for _ in range(3):
        shape = altered(altered(shape, "DROP COLUMN c").shape, "ADD COLUMN c INT").shape

    assert uids(shape) == [("a", 1), ("b", 2), ("c", 6)]
    assert shape.next_uid == 7


REFUSED = [
    "DROP COLUMN z",
    "RENAME COLUMN z TO y",
    "RENAME COLUMN b TO c",
    "MODIFY z INT",
    "ALTER z SET DEFAULT 3",
    "ADD COLUMN B INT",
    "ADD COLUMN d INT AFTER z",
    "ADD INDEX (z)",
    "ADD PRIMARY KEY (b)",
    "DROP COLUMN a, DROP COLUMN b, DROP COLUMN c",
    "ADD COLUMN d INT AS (c + 1) STORED",
    "ADD COLUMN d BIGINT AUTO_INCREMENT UNIQUE",
    "ADD COLUMN d VARCHAR(36) DEFAULT (UUID())",
    "MODIFY c INT AS (a + 1) VIRTUAL",
    "TRUNCATE PARTITION p",
    "DROP PARTITION p",
    "EXCHANGE PARTITION p WITH TABLE u",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_does_not_fit_the_table_is_refused(text):
    with pytest.raises(SchemaError):
        altered(table(THREE), text)


def test_a_table_with_a_column_twice_or_columns_of_another_is_not_created():
    for text in ("CREATE TABLE t (a INT, A INT)", "CREATE TABLE t LIKE u"):
        (statement,) = parse(text, "s")
        with pytest.raises(SchemaError):
            create(statement)


def test_a_table_inferred_from_rows_may_lack_the_virtual_columns_that_statements_name():
    shape = shape_of(TableSchema("s", "t", (Column("a", MySqlType(Kind.INT)),), inferred=True))
    text = "DROP COLUMN v, ADD COLUMN b INT AFTER w, RENAME COLUMN x TO y, MODIFY z INT AS (a) VIRTUAL, DROP INDEX i"

    assert uids(altered(shape, text).shape) == [("a", 1), ("b", 2)]
    with pytest.raises(SchemaError):
        altered(shape, "MODIFY z INT")


def test_rename_in_an_alter_renames_the_table():
    renamed = altered(table(THREE), "ADD COLUMN d INT, RENAME TO `o`.`T2`").table

    assert (renamed.schema, renamed.name, len(renamed.columns)) == ("o", "T2", 4)


def test_one_action_alone_changes_as_in_a_statement():
    assert altered(table(THREE), "DROP COLUMN b") == alter(table(THREE), ddl.DropColumn("b"))


# -- fills ------------------------------------------------------------------------------------------------------------

FILLS = [
    ("INT", Default()),
    ("INT DEFAULT NULL", Default()),
    ("INT DEFAULT 7", Default("7")),
    ("INT NOT NULL DEFAULT 7", Default("7")),
    ("INT NOT NULL", Default("0")),
    ("BIGINT UNSIGNED NOT NULL", Default("0")),
    ("DOUBLE NOT NULL", Default("0")),
    ("DOUBLE DEFAULT '-0'", Default("0")),
    ("DOUBLE(5,2) DEFAULT -0.001", Default("0")),
    ("DOUBLE DEFAULT -1e-50", Default("-1e-50")),
    ("FLOAT DEFAULT -1e-50", Default("0")),
    ("FLOAT DEFAULT -1e-45", Default("-1e-45")),
    ("DECIMAL(12,4) NOT NULL", Default("0.0000")),
    ("DECIMAL NOT NULL", Default("0")),
    ("BIT(3) NOT NULL", Default("0")),
    ("YEAR NOT NULL", Default("0000")),
    ("VARCHAR(9) NOT NULL", Default("")),
    ("TEXT NOT NULL", Default("")),
    ("CHAR(5) NOT NULL DEFAULT 'a  '", Default("a")),
    ("VARCHAR(5) NOT NULL DEFAULT 'a  '", Default("a  ")),
    ("VARBINARY(9) NOT NULL", Default(b"")),
    ("BLOB NOT NULL", Default(b"")),
    ("BINARY(3) NOT NULL", Default(b"\0\0\0")),
    ("BINARY(3) DEFAULT 'a'", Default(b"a\0\0")),
    ("BINARY NOT NULL", Default(b"\0")),
    ("DATE NOT NULL", Default("0000-00-00")),
    ("DATETIME(3) NOT NULL", Default("0000-00-00 00:00:00.000")),
    ("TIMESTAMP NOT NULL", Default("0000-00-00 00:00:00")),
    ("TIME(2) NOT NULL", Default("00:00:00.00")),
    ("ENUM('x','y') NOT NULL", Default("x")),
    ("SET('x','y') NOT NULL", Default("")),
    ("JSON NOT NULL", Default("null")),
    ("VECTOR(3) NOT NULL", Default("[]")),
    ("TIMESTAMP(3) DEFAULT NOW(3)", Default(expression="CURRENT_TIMESTAMP(3)")),
    ("DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP", Default(expression="CURRENT_TIMESTAMP")),
]


@pytest.mark.parametrize(("definition", "expected"), FILLS)
def test_rows_that_are_there_hold_the_default_or_the_implicit_value_of_an_added_column(definition, expected):
    change = altered(table(THREE), f"ADD COLUMN d {definition}")

    assert (FillColumn(4, "d", change.table.column("d").type, expected),) == change.effects


def test_an_added_virtual_column_is_in_no_row():
    assert altered(table(THREE), "ADD COLUMN d INT AS (a + c)").effects == ()


def test_a_new_default_touches_no_row():
    change = altered(table(THREE), "ALTER c SET DEFAULT '9', ALTER b SET DEFAULT 5, RENAME COLUMN b TO b2")

    assert change.effects == ()
    assert [None, Default("5"), Default("9")] == [c.default for c in change.table.columns]
    assert altered(change.shape, "ALTER c DROP DEFAULT").table.column("c").default is None


# -- schemas that a stream tells --------------------------------------------------------------------------------------


def test_a_sent_schema_gets_uids_and_keeps_those_it_has():
    schema = TableSchema("s", "t", (Column("a", MySqlType(Kind.INT)), Column("b", MySqlType(Kind.TEXT))))
    shape = shape_of(schema)

    assert uids(shape) == [("a", 1), ("b", 2)]
    assert shape == shape_of(shape.table)
    later = altered(altered(shape, "DROP COLUMN a").shape, "ADD COLUMN c INT").shape
    assert uids(shape_of(later.table)) == [("b", 2), ("c", 3)]


def test_adopting_a_sent_schema_matches_columns_by_name_and_type():
    shape = table("a INT, b INT, c INT")
    found = tuple(Column(n, parse_type(t)) for n, t in [("C", "BIGINT"), ("a", "TEXT"), ("d", "INT")])
    adopted = adopt(shape, TableSchema("s", "t", found))

    assert uids(adopted) == [("C", 3), ("a", 4), ("d", 5)]
    assert adopted.next_uid == 6


def test_comments_of_a_table_and_its_columns_follow_its_statements():
    shape = table("a INT COMMENT 'first', b INT", "COMMENT 'all'")
    for query in ("MODIFY a BIGINT, CHANGE b c INT COMMENT 'it''s'", "COMMENT = ''", "ADD d INT COMMENT 'new'"):
        shape = altered(shape, query).shape

    assert [(c.name, c.comment) for c in shape.table.columns] == [("a", ""), ("c", "it's"), ("d", "new")]
    assert shape.table.comment == ""


def test_a_rename_of_a_column_keeps_its_comment():
    renamed = altered(table("a INT COMMENT 'first'", "COMMENT 'all'"), "RENAME COLUMN a TO b").table

    assert ([(c.name, c.comment) for c in renamed.columns], renamed.comment) == ([("b", "first")], "all")
