"""Statements are read in full: CREATE TABLE with its indexes and partitions, ALTER TABLE as its actions, all others."""

# ruff: noqa: E501 (a case a line)

from __future__ import annotations

from dataclasses import replace

import pytest

from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.create import table_columns
from ticdc_assets.schema.ddl.defaults import ComputedDefault
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.model import (
    Collation,
    Column,
    Default,
    Index,
    Kind,
    MySqlType,
    PartitionDefinition,
    Partitioning,
)
from ticdc_assets_tests.schema.ddl.statements import INT, one


def actions(text: str) -> tuple[ddl.Action, ...]:
    statement = one(f"ALTER TABLE `t` {text}")
    assert isinstance(statement, ddl.AlterTable)
    return statement.actions


# -- CREATE TABLE -----------------------------------------------------------------------------------------------------

SHOWN = """
/*!40014 SET FOREIGN_KEY_CHECKS=0*/;
/*!40101 SET NAMES binary*/;
CREATE TABLE `orders` (
  `id` bigint(20) NOT NULL /*T![auto_rand] AUTO_RANDOM(5) */ COMMENT 'the ''id''',
  `Email` varchar(200) COLLATE utf8mb4_general_ci DEFAULT NULL,
  `at` timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  `v` int(11) GENERATED ALWAYS AS (`id` + 1) VIRTUAL,
  `doc` json DEFAULT NULL,
  PRIMARY KEY (`id`) /*T![clustered_index] CLUSTERED */,
  UNIQUE KEY `uk` (`Email`(20) DESC),
  KEY `plain` (`at`,(lower(`Email`))) USING BTREE COMMENT 'x' /*!80000 INVISIBLE */,
  FULLTEXT KEY `ft` (`Email`) /*!50100 WITH PARSER ngram */,
  CONSTRAINT `fk` FOREIGN KEY (`id`) REFERENCES `other`.`p` (`id`) ON DELETE CASCADE,
  CONSTRAINT `ck` CHECK ((`id` > 0)) /*!80016 NOT ENFORCED */
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin AUTO_INCREMENT=30001 COMMENT='all, ) of it'
  /*T! SHARD_ROW_ID_BITS=4 PRE_SPLIT_REGIONS=2 */ /*T![ttl] TTL=`at` + INTERVAL 3 MONTH */ /*T![ttl] TTL_ENABLE='OFF' */
  /*T![placement] PLACEMENT POLICY=`p1` */
PARTITION BY RANGE (`id`)
(PARTITION `p0` VALUES LESS THAN (100) ENGINE = InnoDB COMMENT 'low',
 PARTITION `pM` VALUES LESS THAN (MAXVALUE));
"""


def test_a_schema_dump_is_read_in_full():
    *settings, table = parse(SHOWN, "shop")

    assert [ddl.NoEffect("SET"), ddl.NoEffect("SET")] == settings
    columns = table_columns(table, table.collation)
    assert columns == (
        Column("id", MySqlType(Kind.BIGINT, 20), nullable=False),
        Column("Email", MySqlType(Kind.VARCHAR, 200), default=Default()),
        Column("at", MySqlType(Kind.TIMESTAMP, 3), nullable=False, default=Default(expression="CURRENT_TIMESTAMP(3)")),
        Column("v", MySqlType(Kind.INT, 11), virtual=True),
        Column("doc", MySqlType(Kind.JSON), default=Default()),
    )
    assert {c.name for c in columns if c.text_order is None} == {"Email"}
    assert replace(table, columns=()) == ddl.CreateTable(
        "shop",
        "orders",
        indexes=(
            Index("PRIMARY", ("id",), unique=True, primary=True),
            Index("uk", ("Email",), unique=True),
            Index("plain", ("at", "(lower(`Email`))")),
            Index("ft", ("Email",)),
        ),
        partitioning=Partitioning(
            "RANGE",
            ("id",),
            partitions=(PartitionDefinition("p0", less_than=("100",)), PartitionDefinition("pM", less_than=(None,))),
        ),
        collation=Collation("utf8mb4", "utf8mb4_bin"),
        comment="all, ) of it",
    )
    assert columns[0].comment == "the 'id'"


INDEXES = [
    ("a INT, INDEX (a), KEY (a), UNIQUE (a)", [("a", False), ("a_2", False), ("a_3", True)]),
    ("a INT UNIQUE, KEY a (a)", [("a", False), ("a_2", True)]),
    ("a INT, CONSTRAINT u UNIQUE KEY (a)", [("u", True)]),
    ("a INT, CONSTRAINT u UNIQUE KEY w (a)", [("w", True)]),
    ("`primary` INT, KEY (`primary`)", [("primary_2", False)]),
    ("a INT, UNIQUE KEY u ((a + 1))", [("u", True)]),
    ("a INT, UNIQUE KEY u (a) WHERE a > 3", [("u", False)]),
    ("v VECTOR(3), VECTOR INDEX ix ((VEC_COSINE_DISTANCE(`v`))) USING HNSW", [("ix", False)]),
    ("vector INT, columnar INT, KEY (vector)", [("vector", False)]),
]


@pytest.mark.parametrize(("body", "expected"), INDEXES)
def test_indexes_get_the_names_that_tidb_gives_them(body, expected):
    assert expected == [(i.name, i.unique) for i in one(f"CREATE TABLE t ({body})").indexes]


def test_columns_of_the_primary_key_are_not_nullable():
    table = one("CREATE TABLE t (a INT, B INT, c INT, PRIMARY KEY (b, A))")

    assert {c.name: c.nullable for c in table_columns(table, table.collation)} == {"a": False, "B": False, "c": True}


def test_text_columns_of_a_table_in_binary_are_binary_unless_they_say_otherwise():
    table = one(
        "CREATE TABLE t (a CHAR(3), b TEXT, c VARCHAR(5) CHARSET utf8mb4, d ENUM('x')) DEFAULT CHARSET = binary"
    )

    assert [c.type.kind for c in table_columns(table, table.collation)] == [
        Kind.BINARY,
        Kind.BLOB,
        Kind.VARCHAR,
        Kind.ENUM,
    ]


PARTITIONINGS = [
    ("HASH (`id`) PARTITIONS 3", Partitioning("HASH", ("id",), count=3)),
    ("LINEAR HASH (YEAR(`d`)) PARTITIONS 4", Partitioning("HASH", (), "YEAR(`d`)", count=4)),
    ("KEY () PARTITIONS 2", Partitioning("KEY", count=2)),
    ("KEY ALGORITHM = 2 (`id`) (PARTITION a, PARTITION b)", Partitioning("KEY", ("id",), partitions=(PartitionDefinition("a"), PartitionDefinition("b")), count=2)),
    ("RANGE (TO_DAYS(`d`)) (PARTITION p VALUES LESS THAN (TO_DAYS('2024-01-01')), PARTITION m VALUES LESS THAN MAXVALUE)",
     Partitioning("RANGE", (), "TO_DAYS(`d`)", (PartitionDefinition("p", ("TO_DAYS('2024-01-01')",)), PartitionDefinition("m", (None,))))),
    ("RANGE COLUMNS (`a`, `d`) (PARTITION p VALUES LESS THAN (-5, _UTF8MB4'2024-01-01'), PARTITION q VALUES LESS THAN (7, MAXVALUE))",
     Partitioning("RANGE", ("a", "d"), partitions=(PartitionDefinition("p", ("-5", "'2024-01-01'")), PartitionDefinition("q", ("7", None))))),
    ("LIST (`a`) (PARTITION p VALUES IN (1, NULL), PARTITION o DEFAULT)",
     Partitioning("LIST", ("a",), partitions=(PartitionDefinition("p", values_in=("1", None)), PartitionDefinition("o", values_in=("DEFAULT",))))),
    ("LIST COLUMNS (`a`, `b`) (PARTITION p VALUES IN ((1,'o''k'),(2,NULL)))",
     Partitioning("LIST", ("a", "b"), partitions=(PartitionDefinition("p", values_in=("1", "'o''k'", "2", None)),))),
    ("RANGE (`a`) SUBPARTITION BY HASH (`b`) SUBPARTITIONS 2 (PARTITION p VALUES LESS THAN (3) (SUBPARTITION s0, SUBPARTITION s1))",
     Partitioning("RANGE", ("a",), partitions=(PartitionDefinition("p", ("3",)),))),
    ("RANGE (`a`) INTERVAL (100) FIRST PARTITION LESS THAN (0) LAST PARTITION LESS THAN (1000) MAXVALUE PARTITION",
     Partitioning("RANGE", ("a",))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), PARTITIONINGS)
def test_partitioning_is_read_with_its_bounds(text, expected):
    plain = one(f"CREATE TABLE t (a INT) PARTITION BY {text}")
    hidden = one(f"CREATE TABLE t (a INT) /*!50100 PARTITION BY {text} */")

    assert expected == plain.partitioning == hidden.partitioning


# -- other statements -------------------------------------------------------------------------------------------------

STATEMENTS = [
    ("CREATE DATABASE `shop`", ddl.CreateDatabase("shop")),
    ("create schema if not exists S /*!40100 DEFAULT CHARACTER SET utf8mb4 */", ddl.CreateDatabase("S", if_not_exists=True, collation=Collation("utf8mb4"))),
    ("DROP DATABASE IF EXISTS `gone`", ddl.DropDatabase("gone", if_exists=True)),
    ("ALTER DATABASE `d` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", ddl.AlterDatabase("d", Collation("utf8mb4", "utf8mb4_bin"))),
    ("ALTER SCHEMA COLLATE = gbk_bin", ddl.AlterDatabase("shop", Collation(None, "gbk_bin"))),
    ("ALTER DATABASE `d` SET TIFLASH REPLICA 1", ddl.NoEffect("ALTER DATABASE")),
    ("CREATE TABLE `t2` LIKE `o`.`t`", ddl.CreateTable("shop", "t2", like=("o", "t"))),
    ("CREATE TABLE IF NOT EXISTS t2 (LIKE t)", ddl.CreateTable("shop", "t2", like=("shop", "t"), if_not_exists=True)),
    ("DROP TABLE IF EXISTS `a`.`b`, c CASCADE", ddl.DropTables((("a", "b"), ("shop", "c")), if_exists=True)),
    ("TRUNCATE `t`", ddl.TruncateTable("shop", "t")),
    ("RENAME TABLE a TO b, `x`.`c` TO `y`.`a`", ddl.RenameTables(((("shop", "a"), ("shop", "b")), (("x", "c"), ("y", "a"))))),
    ("CREATE UNIQUE INDEX `u` USING BTREE ON `s`.`t` (`a` DESC, b(3)) COMMENT 'x' ALGORITHM = INPLACE",
     ddl.AlterTable("s", "t", (ddl.AddIndex(Index("u", ("a", "b"), unique=True)),))),
    ("CREATE INDEX IF NOT EXISTS i ON t (a)", ddl.AlterTable("shop", "t", (ddl.AddIndex(Index("i", ("a",)), True),))),
    ("DROP INDEX `i` ON `t` LOCK=NONE", ddl.AlterTable("shop", "t", (ddl.DropIndex("i"),))),
    ("DROP INDEX `PRIMARY` ON `t`", ddl.AlterTable("shop", "t", (ddl.DropPrimaryKey(),))),
    ("RECOVER TABLE `t`", ddl.RecoverTable("shop", "t")),
    ("RECOVER TABLE BY JOB 53", ddl.RecoverTable("shop", None)),
    ("FLASHBACK TABLE t TO t2", ddl.RecoverTable("shop", "t", "t2")),
    ("CREATE OR REPLACE ALGORITHM = UNDEFINED DEFINER=`r`@`%` SQL SECURITY DEFINER VIEW v AS SELECT ';' FROM t", ddl.NoEffect("ALGORITHM")),
    ("DROP VIEW v", ddl.NoEffect("VIEW")),
    ("CREATE SEQUENCE s START WITH 1", ddl.NoEffect("SEQUENCE")),
    ("ALTER PLACEMENT POLICY p FOLLOWERS=4", ddl.NoEffect("PLACEMENT")),
    ("CREATE USER 'u'@'%' IDENTIFIED BY 'secret'", ddl.NoEffect("USER")),
    ("ANALYZE TABLE t", ddl.NoEffect("ANALYZE")),
    ("CREATE TEMPORARY TABLE x (a GEOMETRY)", ddl.NoEffect("TABLE")),
]  # fmt: skip


@pytest.mark.parametrize(("query", "expected"), STATEMENTS)
def test_a_statement_is_read(query, expected):
    assert expected == one(query)


def test_use_names_the_schema_of_what_follows():
    statements = parse("USE `a`; DROP TABLE t;; USE b; TRUNCATE TABLE t;", "shop")

    assert [ddl.DropTables((("a", "t"),)), ddl.TruncateTable("b", "t")] == [
        s for s in statements if not isinstance(s, ddl.NoEffect)
    ]


def test_text_without_a_statement_has_none():
    assert parse(" ; /* nothing */ -- here\n ;", "s") == ()


A = ddl.ColumnDefinition(Column("a", INT))
ACTIONS = [
    ("ADD COLUMN `a` INT", (ddl.AddColumns(((A, None),)),)),
    ("ADD a INT FIRST", (ddl.AddColumns(((A, ddl.ColumnPosition()),)),)),
    ("ADD COLUMN IF NOT EXISTS a INT AFTER `x y`", (ddl.AddColumns(((A, ddl.ColumnPosition("x y")),), if_not_exists=True),)),
    ("ADD COLUMN (a INT, KEY i (a))", (ddl.AddColumns(((A, None),)), ddl.AddIndex(Index("i", ("a",))))),
    ("DROP COLUMN IF EXISTS `a` CASCADE", (ddl.DropColumn("a", if_exists=True),)),
    ("DROP `a`", (ddl.DropColumn("a"),)),
    ("MODIFY a INT AFTER b", (ddl.ModifyColumn("a", A, ddl.ColumnPosition("b")),)),
    ("CHANGE COLUMN `z` `a` INT FIRST", (ddl.ModifyColumn("z", A, ddl.ColumnPosition()),)),
    ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", (ddl.RenameColumn("a", "b"), ddl.RenameColumn("b", "a"))),
    ("ALTER a DROP DEFAULT", (ddl.AlterDefault("a", None),)),
    ("ALTER COLUMN a SET DEFAULT (now())", (ddl.AlterDefault("a", ComputedDefault("CURRENT_TIMESTAMP")),)),
    ("ADD UNIQUE KEY IF NOT EXISTS u (a)", (ddl.AddIndex(Index("u", ("a",), unique=True), if_not_exists=True),)),
    ("ADD CONSTRAINT `p` PRIMARY KEY(`a`) /*T![clustered_index] NONCLUSTERED */", (ddl.AddPrimaryKey(("a",)),)),
    ("ADD CONSTRAINT c CHECK (a > 1)", (ddl.NoEffect("a constraint"),)),
    ("DROP PRIMARY KEY, DROP KEY IF EXISTS k", (ddl.DropPrimaryKey(), ddl.DropIndex("k", if_exists=True))),
    ("DROP CONSTRAINT u", (ddl.DropIndex("u"),)),
    ("DROP FOREIGN KEY f", (ddl.NoEffect("a constraint or statistics"),)),
    ("RENAME INDEX a TO b", (ddl.RenameIndex("a", "b"),)),
    ("RENAME AS `n`", (ddl.RenameTable("shop", "n"),)),
    ("RENAME `o`.`n`", (ddl.RenameTable("o", "n"),)),
    ("TRUNCATE PARTITION `p1`,`P2`", (ddl.TruncatePartitions(("p1", "P2")),)),
    ("TRUNCATE PARTITION ALL", (ddl.TruncatePartitions(None),)),
    ("DROP PARTITION IF EXISTS p", (ddl.DropPartitions(("p",), if_exists=True),)),
    ("ADD PARTITION (PARTITION p VALUES LESS THAN (5))", (ddl.AddPartitions((PartitionDefinition("p", ("5",)),)),)),
    ("ADD PARTITION PARTITIONS 3", (ddl.AddPartitions(count=3),)),
    ("COALESCE PARTITION 2", (ddl.CoalescePartitions(2),)),
    ("REORGANIZE PARTITION a, b INTO (PARTITION c VALUES LESS THAN (9))", (ddl.ReorganizePartitions(("a", "b"), (PartitionDefinition("c", ("9",)),)),)),
    ("EXCHANGE PARTITION p WITH TABLE o.x WITHOUT VALIDATION", (ddl.ExchangePartition("p", ("o", "x")),)),
    ("REMOVE PARTITIONING", (ddl.Repartition(None),)),
    ("PARTITION BY KEY (a) PARTITIONS 2", (ddl.Repartition(Partitioning("KEY", ("a",), count=2)),)),
    ("CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", (ddl.ConvertCharset(Collation("utf8mb4", "utf8mb4_general_ci"), converts=True),)),
    ("DEFAULT CHARSET=gbk", (ddl.ConvertCharset(Collation("gbk")),)),
    ("COMMENT = 'x', AUTO_ID_CACHE 1", (ddl.SetComment("x"),)),
    ("ENGINE=InnoDB ROW_FORMAT=DYNAMIC, ADD a INT", (ddl.NoEffect("table options"), ddl.AddColumns(((A, None),)))),
    ("SET TIFLASH REPLICA 2 LOCATION LABELS 'a', 'b'", (ddl.NoEffect("TiFlash replicas"),)),
    ("/*T![ttl] REMOVE TTL */", (ddl.NoEffect("TTL"),)),
    ("/*T![ttl] TTL = `c` + INTERVAL 2 DAY */ /*T![ttl] TTL_ENABLE = 'OFF' */", (ddl.NoEffect("table options"),)),
    ("OPTIMIZE PARTITION p0, p1", (ddl.NoEffect("upkeep of partitions"),)),
    ("ADD STATS_EXTENDED s CORRELATION(a, b)", (ddl.NoEffect("statistics"),)),
    ("CACHE", (ddl.NoEffect("how the statement runs, or caching"),)),
    ("ALTER INDEX i INVISIBLE", (ddl.NoEffect("visibility of an index or constraint"),)),
    ("ADD COLUMN a INT, ALGORITHM=INSTANT", (ddl.AddColumns(((A, None),)), ddl.NoEffect("how the statement runs"))),
    ("FORCE AUTO_INCREMENT = 7", (ddl.NoEffect("table options"),)),
    ("", ()),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ACTIONS)
def test_an_alter_is_read_as_its_actions(text, expected):
    assert expected == actions(text)
