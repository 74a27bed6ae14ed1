"""A statement applied to a table gives the table that TiDB has, and says what its rows become."""

# ruff: noqa: E501 (a case a line)

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema import ddl
from ticdc_assets.schema.evolution import (
    Change,
    ConvertColumn,
    DeletePartitions,
    FillColumn,
    KeyChanged,
    RangeRows,
    Shape,
    TruncateRows,
    adopt,
    alter,
    alter_all,
    create,
    lake_type,
    preserves,
    promotes,
    shape_of,
)
from ticdc_assets.schema.model import Column, Default, Index, Kind, MySqlType, TableSchema
from ticdc_assets.schema.mysql_types import bare, parse_type
from ticdc_assets_tests.fixtures import FIXTURES, needs_fixtures, read_jsonl


def table(body: str, after: str = "") -> Shape:
    (statement,) = ddl.parse(f"CREATE TABLE t ({body}) {after}", "s")
    return create(statement)


def altered(shape: Shape, text: str) -> Change:
    (statement,) = ddl.parse(f"ALTER TABLE t {text}", "s")
    return alter_all(shape, statement)


def uids(shape: Shape) -> list[tuple[str, int]]:
    return [(c.name, c.uid) for c in shape.table.columns]


# -- the fixtures -----------------------------------------------------------------------------------------------------


def facts(of: TableSchema) -> list[tuple]:
    return [(c.name, bare(c.type), c.nullable, c.virtual) for c in of.columns]


@dataclass
class Live:
    """A table of the replayed workload."""

    shape: Shape


class Replay:
    """Applies a log's statements by their text alone."""

    def __init__(self) -> None:
        self.live: dict[tuple[str, str], Live] = {}
        self.compared = 0

    def group(self, events: list[dict]) -> None:
        before = dict(self.live)
        for event in events:
            for statement in ddl.parse(event["query"], event["schema"]):
                self.apply(statement, before)
            if "create_after" in event:
                self.compare(event)

    def apply(self, statement: ddl.Statement, before: dict[tuple[str, str], Live]) -> None:
        match statement:
            case ddl.CreateTable(schema=schema, name=name):
                self.live[(schema, name)] = Live(create(statement))
            case ddl.DropTables(names=names):
                for dropped in names:
                    del self.live[dropped]
            case ddl.DropDatabase(name=schema):
                self.live = {name: live for name, live in self.live.items() if name[0] != schema}
            case ddl.RenameTables(pairs=pairs):
                for old, new in pairs:
                    # A name that changed hands in the statement means the table that bore it before.
                    self.rename(before.get(old) or self.live[old], new)
            case ddl.AlterTable(schema=schema, name=name):
                live = self.live[(schema, name)]
                live.shape = alter_all(live.shape, statement).shape
                self.rename(live, (live.shape.table.schema, live.shape.table.name))
            case ddl.TruncateTable(schema=schema, name=name):
                assert (TruncateRows(),) == alter_all(self.live[(schema, name)].shape, statement).effects

    def rename(self, meant: Live, new: tuple[str, str]) -> None:
        self.live = {name: live for name, live in self.live.items() if live is not meant}
        meant.shape = replace(meant.shape, table=replace(meant.shape.table, schema=new[0], name=new[1]))
        self.live[new] = meant

    def compare(self, event: dict) -> None:
        (after,) = ddl.parse(event["create_after"], event["schema"])
        expected, got = create(after).table, self.live[(event["schema"], event["table"])].shape.table

        assert facts(expected) == facts(got), event["query"]
        assert expected.indexes == got.indexes, event["query"]
        assert expected.partitioning == got.partitioning, event["query"]
        assert [c.default for c in expected.columns] == [c.default for c in got.columns], event["query"]
        assert expected.key == got.key
        self.compared += 1

    def check(self, truth: dict) -> None:
        got = self.live[(truth["schema"], truth["table"])].shape.table
        expected = [(n, bare(parse_type(t)), nullable, virtual) for n, t, nullable, virtual in truth["columns"]]

        assert expected == facts(got)
        assert truth["key"] == list(got.key)
        self.compared += 1


def logs() -> list[Path]:
    return sorted((FIXTURES / "logs").glob("*")) if FIXTURES else []


@needs_fixtures
@pytest.mark.parametrize("log", logs(), ids=lambda path: path.name)
def test_the_statements_of_a_workload_lead_to_the_tables_that_tidb_had(log):
    statements = [e for e in read_jsonl(log / "events.jsonl") if e["kind"] in ("ddl", "exists") and not e.get("replay")]
    truths = sorted(read_jsonl(log / "truth.jsonl"), key=lambda truth: truth["ts"])
    replay = Replay()
    waiting = [(ts, list(group)) for ts, group in groupby(statements, key=lambda e: e["commit_ts"])]
    for truth in truths:
        while waiting and waiting[0][0] <= truth["ts"]:
            replay.group(waiting.pop(0)[1])
        replay.check(truth)

    assert replay.compared >= len(truths) > 0


# -- columns and uids -------------------------------------------------------------------------------------------------

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
        (statement,) = ddl.parse(text, "s")
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


# -- fills ------------------------------------------------------------------------------------------------------------

FILLS = [
    ("INT", Default()),
    ("INT DEFAULT NULL", Default()),
    ("INT DEFAULT 7", Default("7")),
    ("INT NOT NULL DEFAULT 7", Default("7")),
    ("INT NOT NULL", Default("0")),
    ("BIGINT UNSIGNED NOT NULL", Default("0")),
    ("DOUBLE NOT NULL", Default("0")),
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


# -- type changes -----------------------------------------------------------------------------------------------------

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


LAKE_TYPES = [
    ("TINYINT(1)", "int"), ("MEDIUMINT UNSIGNED", "int"), ("INT", "int"), ("INT UNSIGNED", "long"), ("BIGINT", "long"),
    ("BIGINT UNSIGNED", "decimal(20,0)"), ("BIT", "long"), ("BIT(63)", "long"), ("BIT(64)", "decimal(20,0)"),
    ("YEAR", "int"), ("FLOAT UNSIGNED", "float"), ("DOUBLE", "double"), ("DECIMAL", "decimal(10,0)"),
    ("DECIMAL(38,30)", "decimal(38,30)"), ("DECIMAL(39,0)", "string"), ("CHAR(3)", "string"), ("LONGTEXT", "string"),
    ("BINARY(3)", "binary"), ("TINYBLOB", "binary"), ("DATE", "date"), ("DATETIME(6)", "timestamp"),
    ("TIMESTAMP", "timestamptz"), ("TIME", "string"), ("ENUM('a')", "string"), ("SET('a')", "string"),
    ("JSON", "string"), ("VECTOR(2)", "list<float>"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), LAKE_TYPES)
def test_each_type_has_its_lake_type(text, expected):
    assert expected == lake_type(parse_type(text))


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


# -- keys -------------------------------------------------------------------------------------------------------------

KEYED = "a INT NOT NULL, b INT NOT NULL, c INT, UNIQUE u (a, b)"
KEYS = [
    ("RENAME COLUMN a TO z", ("z", "b"), ()),
    ("ADD PRIMARY KEY (b)", ("b",), (KeyChanged(("a", "b"), ("b",)),)),
    ("DROP INDEX U", (), (KeyChanged(("a", "b"), ()),)),
    ("ADD UNIQUE (c)", ("a", "b"), ()),
    ("ADD UNIQUE w (b)", ("b",), (KeyChanged(("a", "b"), ("b",)),)),
    ("MODIFY b INT NULL", (), (KeyChanged(("a", "b"), ()),)),
    ("MODIFY b INT NOT NULL FIRST", ("b", "a"), ()),
    ("DROP COLUMN b", ("a",), (KeyChanged(("a", "b"), ("a",)),)),
    ("DROP COLUMN a, DROP COLUMN b", (), (KeyChanged(("a", "b"), ()),)),
    ("RENAME INDEX u TO w, ADD UNIQUE u (c)", ("a", "b"), ()),
    ("DROP INDEX u, ADD UNIQUE u (a)", ("a",), (KeyChanged(("a", "b"), ("a",)),)),
    ("ADD UNIQUE u (a), DROP INDEX u", ("a",), (KeyChanged(("a", "b"), ("a",)),)),
    ("ADD UNIQUE INDEX IF NOT EXISTS U (a)", ("a", "b"), ()),
    ("DROP INDEX not_known_here", ("a", "b"), ()),
    ("DROP PRIMARY KEY", ("a", "b"), ()),
]


@pytest.mark.parametrize(("text", "key", "effects"), KEYS)
def test_the_key_follows_its_indexes_and_columns(text, key, effects):
    change = altered(table(KEYED), text)

    assert (key, effects) == (change.table.key, change.effects)


def test_columns_of_a_primary_key_stay_not_nullable_until_it_is_dropped():
    shape = altered(table("a INT, b INT, PRIMARY KEY (a)"), "MODIFY a BIGINT").shape
    assert not shape.table.column("a").nullable

    dropped = altered(shape, "DROP PRIMARY KEY")
    assert (KeyChanged(("a",), ()),) == dropped.effects
    assert not dropped.table.column("a").nullable
    assert altered(dropped.shape, "MODIFY a BIGINT").table.column("a").nullable


def test_a_key_column_of_another_lake_type_changes_the_key():
    change = altered(table("a INT PRIMARY KEY"), "MODIFY a VARCHAR(20)")

    assert KeyChanged(("a",), ("a",)) == change.effects[-1]
    assert ConvertColumn(1, 2, "a", parse_type("INT"), parse_type("VARCHAR(20)")) == change.effects[0]


def test_renames_and_drops_of_columns_reach_indexes_and_partitions():
    shape = table(
        "id INT, d DATE, x INT, KEY e ((x + `d`)), KEY i (x, d), KEY j (x)",
        "PARTITION BY HASH (YEAR(`d`)) PARTITIONS 2",
    )
    after = altered(shape, "RENAME COLUMN d TO `year`, DROP COLUMN x").table

    assert (Index("e", ("(x + `year`)",)), Index("i", ("year",))) == after.indexes
    assert after.partitioning.expression == "YEAR(`year`)"


# -- partitions -------------------------------------------------------------------------------------------------------


def parts(change: Change) -> list[tuple]:
    (effect,) = change.effects
    assert isinstance(effect, DeletePartitions)
    return [
        (r.partition, r.lower, r.upper) if isinstance(r, RangeRows) else (r.partition, r.values, r.others)
        for r in effect.partitions
    ]


RANGE = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100), PARTITION P1 VALUES LESS THAN (200), PARTITION m VALUES LESS THAN MAXVALUE)"


def ranged() -> Shape:
    return table("id INT PRIMARY KEY, v INT", RANGE)


def test_truncated_range_partitions_lose_the_rows_between_their_bounds_and_stay():
    change = altered(ranged(), "TRUNCATE PARTITION p1, M, p0")

    assert parts(change) == [("P1", ("100",), ("200",)), ("m", ("200",), None), ("p0", None, ("100",))]
    assert ranged().table.partitioning == change.table.partitioning


def test_after_a_drop_the_next_partition_reaches_down_to_the_bound_before():
    change = altered(ranged(), "DROP PARTITION p0")
    assert parts(change) == [("p0", None, ("100",))]
    assert parts(altered(change.shape, "TRUNCATE PARTITION p1")) == [("P1", None, ("200",))]

    change = altered(ranged(), "DROP PARTITION P1")
    assert parts(altered(change.shape, "DROP PARTITION m")) == [("m", ("100",), None)]


def test_dropping_partitions_together_uses_the_bounds_before_the_statement():
    assert parts(altered(ranged(), "DROP PARTITION p0, p1")) == [("p0", None, ("100",)), ("P1", ("100",), ("200",))]


def test_unknown_partitions_are_refused_unless_if_exists():
    with pytest.raises(SchemaError):
        altered(ranged(), "DROP PARTITION nope")

    assert altered(ranged(), "DROP PARTITION IF EXISTS nope").effects == ()
    assert parts(altered(ranged(), "DROP PARTITION IF EXISTS nope, p0")) == [("p0", None, ("100",))]


def test_added_and_reorganized_partitions_have_their_bounds():
    shape = altered(ranged(), "DROP PARTITION m").shape
    shape = altered(
        shape, "ADD PARTITION (PARTITION p2 VALUES LESS THAN (300), PARTITION p3 VALUES LESS THAN (400))"
    ).shape
    shape = altered(
        shape,
        "REORGANIZE PARTITION P1, p2 INTO (PARTITION a VALUES LESS THAN (150), PARTITION b VALUES LESS THAN (300))",
    ).shape
    shape = altered(shape, "ADD PARTITION IF NOT EXISTS (PARTITION A VALUES LESS THAN (500))").shape

    assert [p.name for p in shape.table.partitioning.partitions] == ["p0", "a", "b", "p3"]
    assert parts(altered(shape, "TRUNCATE PARTITION b, p3")) == [("b", ("150",), ("300",)), ("p3", ("300",), ("400",))]


def test_truncating_all_partitions_empties_a_table_however_it_is_cut():
    assert (TruncateRows(),) == altered(ranged(), "TRUNCATE PARTITION ALL").effects
    hashed = table("id INT", "PARTITION BY HASH (id) PARTITIONS 3")
    assert (TruncateRows(),) == altered(hashed, "TRUNCATE PARTITION ALL").effects


def test_hash_partitions_are_counted():
    shape = table("id INT", "PARTITION BY HASH (id) PARTITIONS 3")
    shape = altered(shape, "ADD PARTITION PARTITIONS 4").shape

    assert altered(shape, "COALESCE PARTITION 2").table.partitioning.count == 5
    assert altered(shape, "REMOVE PARTITIONING").table.partitioning is None
    assert altered(shape, "PARTITION BY KEY (id) PARTITIONS 2").table.partitioning.method == "KEY"


ROWS = [
    ("d DATE", "RANGE (YEAR(d)) (PARTITION a VALUES LESS THAN (2023), PARTITION p VALUES LESS THAN (YEAR('2024-05-06')))",
     ("p", ("2023",), ("2024",))),
    ("d DATETIME", "RANGE (to_days(`d`)) (PARTITION p VALUES LESS THAN (TO_DAYS('2024-01-01')))", ("p", None, ("739251",))),
    ("d DATETIME(3)", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ('2024-01-01'))", ("p", None, ("2024-01-01 00:00:00.000",))),
    ("d DATE", "RANGE (MONTH(d)) (PARTITION p VALUES LESS THAN (7))", ("p", None, ("7",))),
    ("d TIMESTAMP", "RANGE (UNIX_TIMESTAMP(d)) (PARTITION p VALUES LESS THAN (UNIX_TIMESTAMP('2024-01-01')))",
     ("p", None, ("2024-01-01 00:00:00",))),
    ("d TIMESTAMP(6)", "RANGE (FLOOR(UNIX_TIMESTAMP(`d`))) (PARTITION p VALUES LESS THAN (1700000000))", ("p", None, ("1700000000",))),
    ("d INT", "RANGE (d) (PARTITION a VALUES LESS THAN (-5), PARTITION p VALUES LESS THAN (0))", ("p", ("-5",), ("0",))),
    ("d BIGINT UNSIGNED", "RANGE (d) (PARTITION p VALUES LESS THAN (18446744073709551615))", ("p", None, ("18446744073709551615",))),
    ("d INT, e VARCHAR(9)", "RANGE COLUMNS (d, e) (PARTITION a VALUES LESS THAN (1, MAXVALUE), PARTITION p VALUES LESS THAN (2, 'o''k'))",
     ("p", ("1", None), ("2", "o'k"))),
    ("d INT, e DATE", "LIST COLUMNS (d, e) (PARTITION p VALUES IN ((1,'2024-1-1'),(NULL,'2024-01-02')))",
     ("p", (("1", "2024-01-01"), (None, "2024-01-02")), False)),
    ("d INT", "LIST (d) (PARTITION a VALUES IN (1, 2), PARTITION b VALUES IN (NULL), PARTITION p DEFAULT)",
     ("p", (("1",), ("2",), (None,)), True)),
    ("d VARCHAR(5) COLLATE utf8mb4_bin", "LIST COLUMNS (d) (PARTITION p VALUES IN ('eu', 'US'))", ("p", (("eu",), ("US",)), False)),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "partitioning", "expected"), ROWS)
def test_a_partition_is_told_by_the_values_of_its_columns(columns, partitioning, expected):
    assert [expected] == parts(altered(table(columns, f"PARTITION BY {partitioning}"), "TRUNCATE PARTITION p"))


def test_the_columns_of_a_partitions_rows_are_those_before_the_statement():
    (effect,) = altered(ranged(), "TRUNCATE PARTITION p0").effects

    assert [(k.column.name, k.column.uid, k.function) for k in effect.partitions[0].keys] == [("id", 1, None)]


UNTOLD = [
    ("d INT", "HASH (d) (PARTITION p)"),
    ("d INT", "KEY (d) (PARTITION p)"),
    ("d INT, e INT", "RANGE (d + e) (PARTITION p VALUES LESS THAN (7))"),
    ("d DATE", "RANGE (QUARTER(d)) (PARTITION p VALUES LESS THAN (3))"),
    ("d INT", "RANGE (d) (PARTITION p VALUES LESS THAN (3 + 4))"),
    ("d INT", "RANGE (d) INTERVAL (10) FIRST PARTITION LESS THAN (10) LAST PARTITION LESS THAN (90)"),
    ("d INT AS (1) VIRTUAL", "RANGE (d) (PARTITION p VALUES LESS THAN (3))"),
    ("d TIME", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ('10:00:00'))"),
    ("d VARBINARY(4)", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN (x'41'))"),
    ("d VARCHAR(9) COLLATE utf8mb4_general_ci", "LIST COLUMNS (d) (PARTITION p VALUES IN ('a'))"),
    ("d INT, e INT", "RANGE COLUMNS (d, e) (PARTITION p VALUES LESS THAN (3))"),
    ("d DATE", "RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ('not a date'))"),
]


@pytest.mark.parametrize(("columns", "partitioning"), UNTOLD)
def test_rows_of_a_partition_that_cannot_be_told_are_never_guessed(columns, partitioning):
    shape = table(columns, f"PARTITION BY {partitioning}")
    for text in ("TRUNCATE PARTITION p", "DROP PARTITION p"):
        with pytest.raises(SchemaError):
            altered(shape, text)


def test_partitions_added_to_ones_that_are_not_known_stay_unknown():
    shape = table(
        "d INT", "PARTITION BY RANGE (d) INTERVAL (9) FIRST PARTITION LESS THAN (9) LAST PARTITION LESS THAN (90)"
    )
    shape = altered(shape, "ADD PARTITION (PARTITION p VALUES LESS THAN (99))").shape

    with pytest.raises(SchemaError):
        altered(shape, "DROP PARTITION p")


def test_a_collation_taken_later_is_minded():
    body, cut = "d VARCHAR(9), e INT", "PARTITION BY LIST COLUMNS (d) (PARTITION p VALUES IN ('a'))"
    for text in (
        "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        "MODIFY d VARCHAR(9) COLLATE utf8mb4_unicode_ci",
    ):
        with pytest.raises(SchemaError):
            altered(altered(table(body, cut), text).shape, "TRUNCATE PARTITION p")

    kept = altered(table(body, cut), "DEFAULT COLLATE utf8mb4_general_ci, RENAME COLUMN e TO f").shape
    assert parts(altered(kept, "TRUNCATE PARTITION p")) == [("p", (("a",),), False)]


# -- schemas that a stream tells --------------------------------------------------------------------------------------


def test_a_told_schema_gets_uids_and_keeps_those_it_has():
    told = TableSchema("s", "t", (Column("a", MySqlType(Kind.INT)), Column("b", MySqlType(Kind.TEXT))))
    shape = shape_of(told)

    assert uids(shape) == [("a", 1), ("b", 2)]
    assert shape == shape_of(shape.table)
    later = altered(altered(shape, "DROP COLUMN a").shape, "ADD COLUMN c INT").shape
    assert uids(shape_of(later.table)) == [("b", 2), ("c", 3)]


def test_adopting_a_told_schema_matches_columns_by_name_and_type():
    shape = table("a INT, b INT, c INT")
    told = tuple(Column(n, parse_type(t)) for n, t in [("C", "BIGINT"), ("a", "TEXT"), ("d", "INT")])
    adopted = adopt(shape, TableSchema("s", "t", told))

    assert uids(adopted) == [("C", 3), ("a", 4), ("d", 5)]
    assert adopted.next_uid == 6


def test_one_action_alone_changes_as_in_a_statement():
    assert altered(table(THREE), "DROP COLUMN b") == alter(table(THREE), ddl.DropColumn("b"))
