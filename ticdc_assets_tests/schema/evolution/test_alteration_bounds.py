"""An ALTER TABLE up to the most that a table may have, and what is looked up, kept or refused on the way."""

from __future__ import annotations

import pytest

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.evolution import alteration, schema_state
from ticdc_assets.schema.evolution.evolve import adopt, alter_all, shape_of
from ticdc_assets.schema.evolution.schema_state import ConvertColumn, FillColumn, Shape
from ticdc_assets.schema.model import Column, Default, Index, Kind, MySqlType, PartitionDefinition, TableSchema
from ticdc_assets.schema.partitions.rows import ListRows, RangeRows, partition_rows
from ticdc_assets_tests.schema.evolution.schema_states import altered, table

INT = MySqlType(Kind.INT)


def test_a_table_may_have_so_many_columns_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schema_state, "COLUMNS_MAX", 3)
    monkeypatch.setattr(alteration, "COLUMNS_MAX", 3)
    shape = table("a INT, b INT, c INT")

    assert len(altered(shape, "DROP a, ADD d INT").table.columns) == 3
    for text in ("ADD d INT", "ADD d INT, ADD e INT, ADD f INT, ADD g INT, ADD h INT"):
        with pytest.raises(SchemaError, match="at most 3 columns"):
            altered(shape, text)


def test_a_statement_that_adds_columns_without_end_is_refused_at_twice_as_many_as_a_table_may_have(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(schema_state, "COLUMNS_MAX", 3)
    monkeypatch.setattr(alteration, "COLUMNS_MAX", 3)

    for added, found in ((4, "7"), (5, "more")):
        with pytest.raises(SchemaError) as refused:
            altered(table("a INT, b INT, c INT"), ", ".join(f"ADD d{n} INT" for n in range(added)))
        assert refused.value.found == found


def test_a_statement_may_have_so_many_actions_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(alteration, "_ACTIONS_MAX", 2)
    shape = table("a INT, b INT")

    assert altered(shape, "FORCE, FORCE").shape == shape
    with pytest.raises(SchemaError, match="at most 2 actions"):
        altered(shape, "FORCE, FORCE, FORCE")


def test_columns_get_uids_where_they_have_none_or_share_one():
    def uids(*given: int) -> tuple[list[int], int]:
        shape = shape_of(TableSchema("s", "t", tuple(Column(f"c{n}", INT, uid=uid) for n, uid in enumerate(given))))
        return [column.uid for column in shape.table.columns], shape.next_uid

    assert uids(0, 0) == ([1, 2], 3)
    assert uids(5, 0) == ([1, 2], 3)
    assert uids(5, 5) == ([1, 2], 3)
    assert uids(5, 3) == ([5, 3], 6)
    assert uids() == ([], 1)


def test_an_adopted_column_that_is_new_gets_the_next_uid():
    schema = TableSchema("s", "t", (Column("a", INT), Column("b", INT), Column("c", INT)))

    adopted = adopt(Shape(TableSchema("s", "t", (Column("a", INT, uid=4),)), 9), schema)

    assert [column.uid for column in adopted.table.columns] == [4, 9, 10]
    assert adopted.next_uid == 11


CONVERSIONS = [
    ("d DATE NOT NULL", "MODIFY d VARCHAR(20) NOT NULL", True),
    ("d DATETIME NOT NULL", "MODIFY d BIGINT NOT NULL", True),
    ("d TIMESTAMP NOT NULL", "MODIFY d VARCHAR(20) NOT NULL", True),
    ("d DATE", "MODIFY d VARCHAR(20)", False),
    ("d DATE NOT NULL", "MODIFY d DATETIME NOT NULL", False),
    ("d INT NOT NULL", "MODIFY d VARCHAR(20) NOT NULL", False),
]


@pytest.mark.parametrize(("column", "text", "zero_dates"), CONVERSIONS)
def test_null_stands_for_a_zero_date_where_a_date_that_may_not_be_null_becomes_another_type(
    column: str, text: str, zero_dates: bool
):
    [effect] = altered(table(f"a INT, {column}"), text).effects

    assert isinstance(effect, ConvertColumn)
    assert effect.zero_dates is zero_dates


def test_a_column_keeps_its_id_when_it_is_changed():
    shape = shape_of(TableSchema("s", "t", (Column("a", INT, column_id=7),)))

    assert altered(shape, "CHANGE a b BIGINT").table.columns[0].column_id == 7


def test_names_of_one_statement_mean_the_table_before_it_and_what_it_adds():
    shape = table("a INT, b INT")

    assert [c.name for c in altered(shape, "DROP a, ADD a INT, RENAME COLUMN A TO c").table.columns] == ["b", "c"]
    assert [c.name for c in altered(shape, "ADD COLUMN IF NOT EXISTS A INT, DROP b").table.columns] == ["a"]
    assert [c.name for c in altered(shape, "DROP a, ADD COLUMN IF NOT EXISTS a INT").table.columns] == ["b", "a"]
    for text in ("DROP a, MODIFY a INT", "DROP a, ADD c INT AFTER a"):
        with pytest.raises(SchemaError):
            altered(shape, text)


PLACES = [
    ("RENAME COLUMN a TO x, MODIFY c INT AFTER x", "x c b"),
    ("RENAME COLUMN a TO x, MODIFY c INT AFTER a", "x c b"),
    ("RENAME COLUMN a TO b, RENAME COLUMN b TO a, MODIFY c INT AFTER a", "b a c"),
    ("MODIFY a INT AFTER c", "b c a"),
    ("MODIFY a INT AFTER C, MODIFY b INT FIRST", "b c a"),
]


@pytest.mark.parametrize(("text", "expected"), PLACES)
def test_a_column_follows_the_one_of_the_new_name_before_that_of_the_old(text: str, expected: str):
    assert [c.name for c in altered(table("a INT, b INT, c INT"), text).table.columns] == expected.split()


INDEXES = [
    ("ADD INDEX I (B, a)", {"u": "a", "i2": "b", "I": "b a"}),
    ("ADD INDEX IF NOT EXISTS U (b)", {"u": "a", "i2": "b"}),
    ("DROP INDEX u, ADD INDEX IF NOT EXISTS u (b)", {"i2": "b", "u": "b"}),
    ("RENAME INDEX U TO w", {"w": "a", "i2": "b"}),
    ("DROP INDEX I2", {"u": "a"}),
    ("DROP b", {"u": "a"}),
    ("RENAME COLUMN a TO z, ADD INDEX n (z)", {"u": "z", "i2": "b", "n": "z"}),
    ("RENAME COLUMN a TO z, ADD INDEX n (a)", {"u": "z", "i2": "b", "n": "z"}),
    ("ADD INDEX e ((A + 1))", {"u": "a", "i2": "b", "e": "(A + 1)"}),
]


@pytest.mark.parametrize(("text", "expected"), INDEXES)
def test_indexes_are_dropped_then_renamed_then_added(text: str, expected: dict[str, str]):
    indexes = altered(table("a INT, b INT, UNIQUE u (a), KEY i2 (b)"), text).table.indexes

    assert {index.name: " ".join(index.columns) for index in indexes} == expected


def test_a_table_has_one_primary_key():
    keyed = table("a INT PRIMARY KEY, b INT NOT NULL")

    assert altered(keyed, "DROP PRIMARY KEY, ADD PRIMARY KEY (b)").table.key == ("b",)
    assert altered(table("b INT NOT NULL"), "ADD PRIMARY KEY (b)").table.key == ("b",)
    with pytest.raises(SchemaError, match="one primary key"):
        altered(keyed, "ADD PRIMARY KEY (b)")


def test_names_in_expressions_are_renamed_and_functions_and_texts_are_not():
    shape = table("a INT, b INT, year DATE, KEY e ((YEAR(year) + `a` + 'a'))", "PARTITION BY HASH (YEAR(year))")
    after = altered(shape, "RENAME COLUMN year TO `y``z`, RENAME COLUMN A TO q").table

    assert after.indexes[0].columns == ("(YEAR(`y``z`) + `q` + 'a')",)
    assert after.partitioning is not None
    assert after.partitioning.expression == "YEAR(`y``z`)"


def test_a_table_inferred_from_rows_may_lack_a_column_but_not_gain_one_silently():
    shape = shape_of(TableSchema("s", "t", (Column("a", INT),), inferred=True))

    assert altered(shape, "ALTER z SET DEFAULT 5, RENAME COLUMN z TO y").shape == shape
    assert altered(shape, "MODIFY IF EXISTS z INT").shape == shape
    assert [c.name for c in altered(shape, "ADD b INT AFTER z").table.columns] == ["a", "b"]


def test_a_generated_column_stays_generated():
    shape = table("a INT, v INT AS (a + 1), s INT AS (a + 1) STORED")

    assert altered(shape, "MODIFY v BIGINT AS (a + 2)").effects == ()
    assert altered(shape, "MODIFY v VARCHAR(1) AS (a + 2)").effects == ()
    assert altered(shape, "MODIFY s BIGINT AS (a + 1) STORED").effects == ()
    for text in ("MODIFY v INT", "MODIFY a INT AS (1)"):
        with pytest.raises(SchemaError, match="generated"):
            altered(shape, text)


def test_a_truncated_table_has_no_rows_and_its_shape():
    shape = table("a INT")
    (statement,) = parse("TRUNCATE TABLE t", "s")

    assert alter_all(shape, statement).shape == shape


def test_a_fill_is_cut_to_what_the_column_holds():
    fills = {
        "VARCHAR(3) NOT NULL DEFAULT 'abc   '": Default("abc"),
        "CHAR(3) NOT NULL DEFAULT 'ab '": Default("ab"),
        "TEXT DEFAULT ('abc ')": Default("abc "),
        "VARBINARY(3) DEFAULT x'ff'": Default("\ufffd".encode()),
        "VARBINARY(2) DEFAULT x'ff'": Default("\ufffd".encode()[:2]),
        "BINARY(4) DEFAULT x'61ff'": Default(b"a" + "\ufffd".encode()),
        "VARBINARY(9) DEFAULT x'61c3a9ff62'": Default("aé\ufffdb".encode()),
        "ENUM NOT NULL": Default("1"),
        "TIME(3) NOT NULL": Default("00:00:00.000"),
        "DATE DEFAULT (CURRENT_DATE)": Default(expression="CURRENT_DATE"),
    }
    for definition, expected in fills.items():
        [effect] = altered(table("a INT"), f"ADD d {definition}").effects
        assert isinstance(effect, FillColumn)
        assert effect.value == expected, definition


# -- partitions --------------------------------------------------------------------------------------------------------


def rows(columns: str, partitioning: str, *names: str) -> tuple[object, ...]:
    return partition_rows(table(columns, f"PARTITION BY {partitioning}").table, names or ("p",))


BOUNDS = [
    ("d INT", "RANGE (d) (PARTITION p VALUES LESS THAN (+007))", ("7",)),
    ("d INT", "RANGE (d) (PARTITION p VALUES LESS THAN ((-7)))", ("-7",)),
    ("d INT", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ('7'))", ("7",)),
    ("d INT", "RANGE (d) (PARTITION p VALUES LESS THAN (YEAR('2024-01-01')))", ("2024",)),
    ("d INT", "RANGE (d) (PARTITION p VALUES LESS THAN (MONTH('2024-05-01')))", ("5",)),
    ("d INT", "RANGE (d) (PARTITION p VALUES LESS THAN (TO_DAYS('0001-01-01')))", ("366",)),
    ("d VARCHAR(3)", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ('abc'))", ("abc",)),
    ("d CHAR", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ('a'))", ("a",)),
    ("d VARCHAR(3)", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ('a '))", ("a",)),
    ("d VARCHAR(3) COLLATE utf8mb4_0900_bin", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ('a '))", ("a ",)),
    ("d DATETIME(2)", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ('2024-1-1'))", ("2024-01-01 00:00:00.00",)),
    ("d TIMESTAMP", "RANGE (UNIX_TIMESTAMP(d)) (PARTITION p VALUES LESS THAN (0))", ("0",)),
    ("d INT, e INT", "RANGE (d + e) (PARTITION p VALUES LESS THAN (9))", ("9",)),
    ("d INT, e INT", "RANGE COLUMNS (d, e) (PARTITION p VALUES LESS THAN (9, MAXVALUE))", ("9", None)),
    ("d INT, e INT", "RANGE COLUMNS (d, e) (PARTITION p VALUES LESS THAN (MAXVALUE, 9))", None),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "partitioning", "upper"), BOUNDS)
def test_a_bound_is_the_text_of_its_value(columns: str, partitioning: str, upper: tuple[str | None, ...] | None):
    [found] = rows(columns, partitioning)

    assert isinstance(found, RangeRows)
    assert (found.lower, found.upper) == (None, upper)


REFUSED = [
    ("d CHAR", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ('ab'))"),
    ("d VARCHAR(9)", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN (5))"),
    ("d INT", "RANGE (d) (PARTITION p VALUES LESS THAN ('x'))"),
    ("d INT", f"RANGE (d) (PARTITION p VALUES LESS THAN ('{'9' * 66}'))"),
    ("d INT", "RANGE (d) (PARTITION p VALUES LESS THAN (YEAR('2024-02-30')))"),
    ("d INT", "RANGE (d) (PARTITION p VALUES LESS THAN (YEAR(20240101)))"),
    ("d INT", "RANGE (d) (PARTITION p VALUES LESS THAN (YEAR('2024-01-01') + 1))"),
    ("d INT", "RANGE (d) (PARTITION p VALUES LESS THAN (DAY('2024-01-01')))"),
    ("d DATE", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN (TO_DAYS('2024-01-01')))"),
    ("d INT", "RANGE (YEAR(d)) (PARTITION p VALUES LESS THAN (5))"),
    ("d TIMESTAMP", "RANGE (YEAR(d)) (PARTITION p VALUES LESS THAN (5))"),
    ("d INT", "LIST (z) (PARTITION p VALUES IN (5))"),
    ("d INT, e INT", "LIST COLUMNS (d, e) (PARTITION p VALUES IN (5))"),
    ("d INT", "RANGE (d) (PARTITION o VALUES LESS THAN (MAXVALUE), PARTITION p VALUES LESS THAN (5))"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "partitioning"), REFUSED)
def test_a_bound_that_is_no_literal_of_its_column_is_refused(columns: str, partitioning: str):
    with pytest.raises(SchemaError):
        rows(columns, partitioning)


def test_a_default_partition_has_the_rows_that_no_other_names():
    cut = "LIST (d) (PARTITION a VALUES IN (1), PARTITION p VALUES IN (NULL, DEFAULT), PARTITION b VALUES IN (2, NULL))"

    of_default, of_b = rows("d INT", cut, "p", "B")

    assert isinstance(of_default, ListRows)
    assert isinstance(of_b, ListRows)
    assert (of_default.values, of_default.others) == ((("1",), ("2",), (None,)), True)
    assert (of_b.partition, of_b.values, of_b.others) == ("b", (("2",), (None,)), False)


def partition_names(shape: Shape) -> list[str]:
    partitioning = shape.table.partitioning
    assert partitioning is not None
    return [partition.name for partition in partitioning.partitions]


def test_reorganized_partitions_stand_where_the_first_of_the_old_ones_stood():
    parts = ", ".join(f"PARTITION p{n} VALUES IN ({n})" for n in range(5))
    shape = table("d INT", f"PARTITION BY LIST (d) ({parts})")

    for names, expected in (
        ("p1", ["p0", "x", "p2", "p3", "p4"]),
        ("P4, p2", ["p0", "p1", "x", "p3"]),
        ("p0", ["x", "p1", "p2", "p3", "p4"]),
    ):
        after = altered(shape, f"REORGANIZE PARTITION {names} INTO (PARTITION x VALUES IN (9))").shape
        assert partition_names(after) == expected
    assert altered(shape, "REORGANIZE PARTITION").shape == shape
    with pytest.raises(SchemaError):
        altered(shape, "REORGANIZE PARTITION z INTO (PARTITION x VALUES IN (9))")


def test_counted_partitions_are_listed_once_one_has_a_name_of_its_own():
    shape = table("d INT", "PARTITION BY HASH (d)")

    assert partition_names(altered(shape, "ADD PARTITION (PARTITION x)").shape) == ["p0", "x"]
    two = altered(shape, "ADD PARTITION PARTITIONS 1").shape
    assert two.table.partitioning is not None
    assert (two.table.partitioning.count, two.table.partitioning.partitions) == (2, ())
    named = altered(altered(two, "ADD PARTITION (PARTITION x)").shape, "ADD PARTITION PARTITIONS 2").shape
    assert partition_names(named) == ["p0", "p1", "x", "p3", "p4"]
    less = altered(named, "COALESCE PARTITION 3").shape
    assert partition_names(less) == ["p0", "p1"]
    last = altered(less, "COALESCE PARTITION 9").shape.table.partitioning
    assert last is not None
    assert (last.count, last.partitions) == (1, (PartitionDefinition("p0"),))


def test_partitions_are_added_once():
    shape = table("d INT", "PARTITION BY RANGE (d) (PARTITION p VALUES LESS THAN (5))")
    more = "(PARTITION P VALUES LESS THAN (7), PARTITION q VALUES LESS THAN (9))"

    assert partition_names(altered(shape, f"ADD PARTITION IF NOT EXISTS {more}").shape) == ["p", "q"]
    assert partition_names(altered(shape, f"ADD PARTITION {more}").shape) == ["p", "P", "q"]


def test_the_columns_that_a_table_is_partitioned_by_follow_their_names():
    shape = table("d INT, e INT", "PARTITION BY RANGE COLUMNS (D, e) (PARTITION p VALUES LESS THAN (5, 6))")

    for text, columns in (("RENAME COLUMN d TO x", ("x", "e")), ("CHANGE e y INT", ("d", "y")), ("FORCE", ("d", "e"))):
        partitioning = altered(shape, text).table.partitioning
        assert partitioning is not None
        assert partitioning.columns == columns


def test_partitions_are_dropped_if_they_exist_where_the_table_lists_them():
    for cut in ("", "PARTITION BY HASH (d) PARTITIONS 2"):
        with pytest.raises(SchemaError):
            altered(table("d INT", cut), "DROP PARTITION IF EXISTS z")


def test_a_named_key_follows_the_names_of_its_columns():
    schema = TableSchema("s", "t", (Column("a", INT), Column("b", INT)), (Index("i", ("a",)),), named_key=("A",))

    assert altered(shape_of(schema), "RENAME COLUMN a TO c").table.named_key == ("c",)
    assert altered(shape_of(schema), "DROP a").table.named_key == ()
