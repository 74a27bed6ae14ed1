"""Each form that a statement may have is read to its end, and one word more or less is refused."""

# ruff: noqa: E501 (a case a line)

from __future__ import annotations

import pytest

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.model import Collation, Column, Index, Kind, MySqlType, PartitionDefinition, Partitioning
from ticdc_assets_tests.schema.ddl.statements import INT, column, one

ALONE = ddl.CreateTable("shop", "t", like=("shop", "u"))

STATEMENTS = [
    ("CREATE TABLE t LIKE u", ALONE),
    ("CREATE GLOBAL TEMPORARY TABLE t LIKE u ON COMMIT DELETE ROWS", ALONE),
    ("CREATE TEMPORARY TABLE t LIKE u", ddl.NoEffect("TABLE")),
    ("CREATE TABLE t (LIKE o.u)", ddl.CreateTable("shop", "t", like=("o", "u"))),
    ("CREATE OR REPLACE VIEW v AS SELECT 1", ddl.NoEffect("VIEW")),
    ("CREATE DATABASE IF NOT EXISTS d COLLATE = utf8_bin", ddl.CreateDatabase("d", True, Collation(None, "utf8_bin"))),
    ("CREATE DATABASE d ENCRYPTION = 'N'", ddl.CreateDatabase("d")),
    ("ALTER DATABASE d DEFAULT CHARACTER SET gbk", ddl.AlterDatabase("d", Collation("gbk"))),
    ("ALTER DATABASE DEFAULT CHARSET gbk", ddl.AlterDatabase("shop", Collation("gbk"))),
    ("ALTER DATABASE d READ ONLY = 1 COLLATE gbk_bin", ddl.AlterDatabase("d", Collation(None, "gbk_bin"))),
    ("ALTER DATABASE d COLLATE gbk_bin READ ONLY = 1", ddl.AlterDatabase("d", Collation(None, "gbk_bin"))),
    ("ALTER DATABASE PLACEMENT POLICY = p", ddl.NoEffect("ALTER DATABASE")),
    ("DROP DATABASE d", ddl.DropDatabase("d")),
    ("DROP SCHEMA IF EXISTS d", ddl.DropDatabase("d", if_exists=True)),
    ("DROP TABLES a, b RESTRICT", ddl.DropTables((("shop", "a"), ("shop", "b")))),
    ("DROP TEMPORARY TABLE a", ddl.NoEffect("TABLE")),
    ("DROP GLOBAL TEMPORARY TABLE a", ddl.DropTables((("shop", "a"),))),
    ("DROP HYPO INDEX i ON t", ddl.AlterTable("shop", "t", (ddl.DropIndex("i"),))),
    ("DROP INDEX IF EXISTS i ON t ALGORITHM = DEFAULT LOCK DEFAULT", ddl.AlterTable("shop", "t", (ddl.DropIndex("i", if_exists=True),))),
    ("DROP GLOBAL BINDING FOR SELECT 1", ddl.NoEffect("GLOBAL")),
    ("RENAME USER a TO b", ddl.NoEffect("USER")),
    ("RENAME TABLES a TO b", ddl.RenameTables(((("shop", "a"), ("shop", "b")),))),
    ("RECOVER TABLE d.t 3", ddl.RecoverTable("d", "t")),
    ("FLASHBACK TABLE d.t", ddl.RecoverTable("d", "t")),
    ("CREATE UNIQUE INDEX u ON t (a) WHERE a > 1", ddl.AlterTable("shop", "t", (ddl.AddIndex(Index("u", ("a",))),))),
    ("CREATE FULLTEXT INDEX f ON t (a) WITH PARSER ngram", ddl.AlterTable("shop", "t", (ddl.AddIndex(Index("f", ("a",))),))),
    ("CREATE INDEX f TYPE BTREE ON t (a) WHATEVER = 3", ddl.AlterTable("shop", "t", (ddl.AddIndex(Index("f", ("a",))),))),
    ("CREATE COLUMNAR INDEX c ON t (a) USING INVERTED", ddl.AlterTable("shop", "t", (ddl.AddIndex(Index("c", ("a",))),))),
    ("CREATE HYBRID INDEX h ON t (a) PARAMETER '{}'", ddl.AlterTable("shop", "t", (ddl.AddIndex(Index("h", ("a",))),))),
    ("CREATE NOVEL INDEX h ON t (a)", ddl.AlterTable("shop", "t", (ddl.AddIndex(Index("h", ("a",))),))),
    ("ALTER IGNORE TABLE t FORCE", ddl.AlterTable("shop", "t", (ddl.NoEffect("how the statement runs, or caching"),))),
    ("CREATE TABLE t (a INT) START TRANSACTION", ddl.CreateTable("shop", "t", (ddl.ColumnDefinition(Column("a", INT)),))),
]  # fmt: skip


@pytest.mark.parametrize(("query", "expected"), STATEMENTS)
def test_a_statement_is_read(query: str, expected: ddl.Statement):
    assert one(query) == expected


A = ddl.ColumnDefinition(Column("a", INT))
UNIQUE_A = ddl.ColumnDefinition(Column("a", INT), unique=True)
KEY_A = ddl.ColumnDefinition(Column("a", INT, nullable=False), primary=True)
ACTIONS = [
    ("ADD a INT UNIQUE", (ddl.AddColumns(((UNIQUE_A, None),)), ddl.AddIndex(Index("", ("a",), unique=True)))),
    ("ADD COLUMN IF NOT EXISTS a INT UNIQUE", (ddl.AddColumns(((UNIQUE_A, None),), if_not_exists=True), ddl.AddIndex(Index("", ("a",), unique=True), if_not_exists=True))),
    ("ADD a INT PRIMARY KEY", (ddl.AddColumns(((KEY_A, None),)), ddl.AddPrimaryKey(("a",)))),
    ("MODIFY a INT UNIQUE", (ddl.ModifyColumn("a", UNIQUE_A), ddl.AddIndex(Index("", ("a",), unique=True)))),
    ("CHANGE IF EXISTS b a INT UNIQUE", (ddl.ModifyColumn("b", UNIQUE_A, None, True), ddl.AddIndex(Index("", ("a",), unique=True)))),
    ("ADD COLUMN (a INT UNIQUE)", (ddl.AddColumns(((UNIQUE_A, None),)), ddl.AddIndex(Index("", ("a",), unique=True)))),
    ("ADD INDEX IF NOT EXISTS i (a)", (ddl.AddIndex(Index("i", ("a",)), if_not_exists=True),)),
    ("ADD MASKING POLICY p ON (a) AS mask_full(a), ADD a INT", (ddl.NoEffect("a masking policy"), ddl.AddColumns(((A, None),)))),
    ("DISABLE MASKING POLICY p", (ddl.NoEffect("a masking policy"),)),
    ("DROP MASKING POLICY p", (ddl.NoEffect("a masking policy"),)),
    ("ADD INDEX (a)", (ddl.AddIndex(Index("", ("a",))),)),
    ("ADD VECTOR INDEX v (a)", (ddl.AddIndex(Index("v", ("a",))),)),
    ("ADD COLUMNAR INDEX v (a) USING INVERTED", (ddl.AddIndex(Index("v", ("a",))),)),
    ("ADD HYBRID INDEX v (a)", (ddl.AddIndex(Index("v", ("a",))),)),
    ("ADD VECTOR INDEX v (VEC_COSINE_DISTANCE(`a`)) USING HNSW", (ddl.AddIndex(Index("v", ("(VEC_COSINE_DISTANCE(`a`))",))),)),
    ("ADD INDEX USING BTREE (a)", (ddl.AddIndex(Index("", ("a",))),)),
    ("ADD UNIQUE TYPE HASH (a, b(3))", (ddl.AddIndex(Index("", ("a", "b"), unique=True)),)),
    ("ADD FULLTEXT f (a)", (ddl.AddIndex(Index("f", ("a",))),)),
    ("ADD SPATIAL (a)", (ddl.AddIndex(Index("", ("a",))),)),
    ("ADD UNIQUE (a) WHERE a > 3, ADD INDEX i (b)", (ddl.AddIndex(Index("", ("a",))), ddl.AddIndex(Index("i", ("b",))))),
    ("ADD INDEX i USING HASH ((a + 1), b(3) DESC) VISIBLE LOCAL COMMENT 'x'", (ddl.AddIndex(Index("i", ("(a + 1)", "b"))),)),
    ("ADD CONSTRAINT FOREIGN KEY IF NOT EXISTS f (a) REFERENCES p MATCH FULL ON DELETE NO ACTION ON UPDATE SET DEFAULT", (ddl.NoEffect("a constraint"),)),
    ("ADD CHECK (a > 1) ENFORCED", (ddl.NoEffect("a constraint"),)),
    ("ADD STATS_EXTENDED IF NOT EXISTS s CARDINALITY(a, b), ADD a INT", (ddl.NoEffect("statistics"), ddl.AddColumns(((A, None),)))),
    ("DROP COLUMNAR INDEX i", (ddl.DropIndex("i"),)),
    ("DROP INDEX `Primary`", (ddl.DropPrimaryKey(),)),
    ("DROP CHECK IF EXISTS c", (ddl.NoEffect("a constraint or statistics"),)),
    ("DROP COLUMN a RESTRICT, DROP b", (ddl.DropColumn("a"), ddl.DropColumn("b"))),
    ("MODIFY COLUMN IF EXISTS a INT FIRST", (ddl.ModifyColumn("a", A, ddl.ColumnPosition(), True),)),
    ("RENAME KEY a TO b", (ddl.RenameIndex("a", "b"),)),
    ("RENAME = n", (ddl.RenameTable("shop", "n"),)),
    ("RENAME TO n", (ddl.RenameTable("shop", "n"),)),
    ("ALTER CONSTRAINT c NOT ENFORCED", (ddl.NoEffect("visibility of an index or constraint"),)),
    ("ALTER COLUMN a SET INVISIBLE", (ddl.NoEffect("visibility of a column"),)),
    ("CONVERT TO CHARSET DEFAULT", (ddl.ConvertCharset(Collation(None), converts=True),)),
    ("CONVERT TO CHARACTER SET = 'gbk' COLLATE = gbk_bin", (ddl.ConvertCharset(Collation("gbk", "gbk_bin"), converts=True),)),
    ("ADD PARTITION IF NOT EXISTS LOCAL (PARTITION p)", (ddl.AddPartitions((PartitionDefinition("p"),), if_not_exists=True),)),
    ("ADD PARTITION NO_WRITE_TO_BINLOG PARTITIONS 2", (ddl.AddPartitions(count=2),)),
    ("COALESCE PARTITION LOCAL 2", (ddl.CoalescePartitions(2),)),
    ("REORGANIZE PARTITION", (ddl.ReorganizePartitions((), ()),)),
    ("EXCHANGE PARTITION p WITH TABLE x WITH VALIDATION", (ddl.ExchangePartition("p", ("shop", "x")),)),
    ("PARTITION p PLACEMENT POLICY = x, ADD a INT", (ddl.NoEffect("a partition's placement"), ddl.AddColumns(((A, None),)))),
    ("PARTITION p ATTRIBUTES = 'x'", (ddl.NoEffect("a partition's placement"),)),
    ("PARTITION p COMPACT TIFLASH REPLICA", (ddl.NoEffect("compaction"),)),
    ("ADD a INT PARTITION BY HASH (a) PARTITIONS 2", (ddl.AddColumns(((A, None),)), ddl.Repartition(Partitioning("HASH", ("a",), count=2)))),
    ("ORDER BY a DESC, b ASC", (ddl.NoEffect("the order of rows"),)),
    ("DISABLE KEYS, ENABLE KEYS", (ddl.NoEffect("upkeep of indexes"), ddl.NoEffect("upkeep of indexes"))),
    ("WITHOUT VALIDATION", (ddl.NoEffect("validation"),)),
    ("LOCK = NONE, ADD a INT", (ddl.NoEffect("how the statement runs"), ddl.AddColumns(((A, None),)))),
    ("SET HYPO TIFLASH REPLICA 1", (ddl.NoEffect("TiFlash replicas"),)),
    ("AUTO_INCREMENT -1, CHARSET gbk", (ddl.ConvertCharset(Collation("gbk")),)),
    ("INSERT_METHOD = LAST UNION = (a, b) DATA DIRECTORY = '/x' COMMENT 'y'", (ddl.SetComment("y"),)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ACTIONS)
def test_an_alter_is_read_as_its_actions(text: str, expected: tuple[ddl.Action, ...]):
    statement = one(f"ALTER TABLE t {text}")

    assert isinstance(statement, ddl.AlterTable)
    assert statement.actions == expected


REFUSED = [
    "CREATE TABLE t LIKE u x",
    "CREATE TABLE t (LIKE u",
    "CREATE TABLE t (LIKE u) x",
    "CREATE TABLE t (a INT) START",
    "CREATE TABLE t (CONSTRAINT c (a))",
    "CREATE TABLE t (a INT, INDEX)",
    "CREATE TABLE t (a INT NOT)",
    "CREATE TABLE t (a INT REFERENCES p ON DELETE SET)",
    "CREATE TABLE t (a INT GENERATED AS (1))",
    "CREATE TABLE t (a INT CHARACTER SET gbk)",
    "CREATE UNIQUE INDEX u ON t (a) WHATEVER = 3",
    "CREATE INDEX i (a)",
    "CREATE UNIQUE WHATEVER u ON t (a)",
    "DROP INDEX i t",
    "DROP TABLE a CASCADE RESTRICT",
    "DROP GLOBAL WIDGET",
    "RENAME TABLE a b",
    "RENAME a TO b",
    "RECOVER t",
    "RECOVER TABLE t x",
    "RECOVER TABLE BY JOB x",
    "FLASHBACK TABLE t TO TSO 5",
    "FLASHBACK TABLE t TO TSO",
    "USE a b",
    "ALTER TABLE t ALTER INDEX i",
    "ALTER TABLE t ALTER a SET 5",
    "ALTER TABLE t ALTER a DEFAULT 5",
    "ALTER TABLE t CONVERT CHARACTER SET gbk",
    "ALTER TABLE t CONVERT TO COLLATE gbk_bin",
    "ALTER TABLE t RENAME COLUMN a b",
    "ALTER TABLE t RENAME INDEX a b",
    "ALTER TABLE t TRUNCATE p",
    "ALTER TABLE t EXCHANGE PARTITION p TABLE x",
    "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE x WITHOUT",
    "ALTER TABLE t REORGANIZE PARTITION p (PARTITION q)",
    "ALTER TABLE t REMOVE",
    "ALTER TABLE t PARTITION p WHATEVER",
    "ALTER TABLE t ENABLE",
    "ALTER TABLE t ANALYZE p",
    "ALTER TABLE t SET REPLICA 1",
    "ALTER TABLE t COMMENT =",
    "ALTER TABLE t ENGINE = x,",
    "CREATE TABLE t (a INT) ENGINE = x,",
    "CREATE TABLE t (a INT) ENGINE = x, WHATEVER = 3",
    "ALTER TABLE t COMMENT , ADD a INT",
    "ALTER TABLE t DROP COLUMN a, , DROP COLUMN b",
    "ALTER TABLE t PARTITION BY WHATEVER (a)",
    "ALTER TABLE t PARTITION BY KEY ALGORITHM 2 (a)",
    "ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS (5))",
    "ALTER TABLE t ADD PARTITION (PARTITION p VALUES IN ())",
]  # fmt: skip


@pytest.mark.parametrize("query", REFUSED)
def test_a_word_more_or_less_is_refused(query: str):
    with pytest.raises(SchemaError):
        parse(query, "shop")


ATTRIBUTES = [
    ("INT NOT NULL NULL", Column("c", INT)),
    ("INT NULL NOT NULL", Column("c", INT, nullable=False)),
    ("INT NULL PRIMARY KEY", Column("c", INT, nullable=False)),
    ("INT UNIQUE KEY GLOBAL NOT NULL", Column("c", INT, nullable=False)),
    ("INT PRIMARY KEY NONCLUSTERED COMMENT 'x'", Column("c", INT, nullable=False)),
    ("INT STORAGE = DISK VISIBLE", Column("c", INT)),
    ("VARCHAR(3) NOT NULL CHARSET gbk", Column("c", MySqlType(Kind.VARCHAR, 3, charset="gbk"), nullable=False)),
    ("VARCHAR(3) NOT NULL CHARACTER SET binary", Column("c", MySqlType(Kind.VARBINARY, 3), nullable=False)),
    ("TEXT NULL CHARACTER SET = latin1", Column("c", MySqlType(Kind.TEXT, charset="latin1"))),
    ("INT GENERATED ALWAYS AS (a) STORED", Column("c", INT)),
    ("INT AS (a) PERSISTENT", Column("c", INT)),
    ("INT AS (a) VIRTUAL NOT NULL", Column("c", INT, nullable=False, virtual=True)),
    ("INT ON UPDATE CURRENT_TIMESTAMP", Column("c", INT)),
    ("INT SRID 5", Column("c", INT)),
    ("INT SERIAL DEFAULT VALUE", Column("c", INT, nullable=False)),
    ("INT REFERENCES p MATCH FULL ON DELETE RESTRICT", Column("c", INT)),
    ("INT CONSTRAINT CHECK (c > 1)", Column("c", INT)),
]  # fmt: skip


@pytest.mark.parametrize(("definition", "expected"), ATTRIBUTES)
def test_the_attributes_of_a_column_decide_in_their_order(definition: str, expected: Column):
    assert column(definition) == expected


COMPUTED = [
    ("INT", None), ("INT AUTO_INCREMENT", "AUTO_INCREMENT"), ("BIGINT AUTO_RANDOM (5, 3)", "AUTO_RANDOM"),
    ("BIGINT AUTO_RANDOM", "AUTO_RANDOM"), ("INT AS (1) STORED", "STORED"), ("INT AS (1)", None),
    ("SERIAL", "AUTO_INCREMENT"), ("INT SERIAL DEFAULT VALUE", "AUTO_INCREMENT"),
]  # fmt: skip


@pytest.mark.parametrize(("definition", "computed"), COMPUTED)
def test_a_column_whose_values_the_server_makes_says_so(definition: str, computed: str | None):
    table = one(f"CREATE TABLE t (c {definition})")

    assert isinstance(table, ddl.CreateTable)
    [definition_] = table.columns
    assert definition_.computed == computed
    assert definition_.unique == ("SERIAL" in definition)


def test_the_collation_of_a_table_is_the_one_before_its_partitions():
    table = one("CREATE TABLE t (a INT) CHARSET = gbk, COLLATE = gbk_bin ENGINE = x PARTITION BY HASH (a) COMMENT 'x'")

    assert isinstance(table, ddl.CreateTable)
    assert table.collation == Collation("gbk", "gbk_bin")
    assert table.partitioning == Partitioning("HASH", ("a",), count=1)


PARTITIONINGS = [
    ("HASH (((a)))", Partitioning("HASH", ("a",), count=1)),
    ("HASH ((a) + 1) PARTITIONS 2", Partitioning("HASH", (), "(a) + 1", count=2)),
    ("LINEAR KEY (a, b)", Partitioning("KEY", ("a", "b"), count=1)),
    ("RANGE FIELDS (a) (PARTITION p VALUES LESS THAN (MAXVALUE))", Partitioning("RANGE", ("a",), partitions=(PartitionDefinition("p", (None,)),))),
    ("HASH (a) PARTITIONS 3 (PARTITION p STORAGE ENGINE = x DATA DIRECTORY = '/x' INDEX DIRECTORY '/y' MAX_ROWS 5, PARTITION q PLACEMENT POLICY x)", Partitioning("HASH", ("a",), partitions=(PartitionDefinition("p"), PartitionDefinition("q")), count=3)),
    ("LIST (a) (PARTITION p VALUES IN (1, DEFAULT))", Partitioning("LIST", ("a",), partitions=(PartitionDefinition("p", values_in=("1", "DEFAULT")),))),
    ("LIST (a) (PARTITION p VALUES IN ( 1 + 2 ))", Partitioning("LIST", ("a",), partitions=(PartitionDefinition("p", values_in=("1 + 2",)),))),
    ("RANGE (a) (PARTITION p VALUES LESS THAN (5)) UPDATE INDEXES (i GLOBAL)", Partitioning("RANGE", ("a",), partitions=(PartitionDefinition("p", ("5",)),))),
    ("RANGE (a) INTERVAL (5) FIRST PARTITION LESS THAN (0) LAST PARTITION LESS THAN (9) NULL PARTITION", Partitioning("RANGE", ("a",))),
    ("RANGE (a) PARTITIONS 1 SUBPARTITION BY KEY (b) (PARTITION p VALUES LESS THAN (5))", Partitioning("RANGE", ("a",), partitions=(PartitionDefinition("p", ("5",)),))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), PARTITIONINGS)
def test_a_partitioning_is_read(text: str, expected: Partitioning):
    table = one(f"CREATE TABLE t (a INT, b INT) PARTITION BY {text}")

    assert isinstance(table, ddl.CreateTable)
    assert table.partitioning == expected


def test_an_index_without_a_name_gets_the_first_that_is_free():
    table = one("CREATE TABLE t (A INT UNIQUE, b INT, KEY a_3 (b), KEY (A), KEY (A), KEY ((b + 1)), KEY ((b + 2)))")

    assert isinstance(table, ddl.CreateTable)
    assert [index.name for index in table.indexes] == [
        "a_3", "a", "a_2", "expression_index", "expression_index_2", "a_4",
    ]  # fmt: skip
