"""Statements are read in full or refused; the cases are tables of text and meaning."""

# ruff: noqa: E501 (a case a line)

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema import ddl
from ticdc_assets.schema.ddl_tokens import TEXT_CHARS_MAX, cursor_over
from ticdc_assets.schema.defaults import Expression, Literal
from ticdc_assets.schema.model import Column, Default, Index, Kind, MySqlType, Partition, Partitioning
from ticdc_assets.schema.mysql_types import format_type, parse_type

INT = MySqlType(Kind.INT)


def one(query: str, schema: str = "shop") -> ddl.Statement:
    (statement,) = ddl.parse(query, schema)
    return statement


def columns(body: str) -> dict[str, Column]:
    statement = one(f"CREATE TABLE t ({body})")
    assert isinstance(statement, ddl.CreateTable)
    return {column.name: column for column in statement.columns}


def column(definition: str) -> Column:
    (only,) = columns(f"`c` {definition}").values()
    return only


def default(definition: str) -> Default | None:
    return column(definition).default


def actions(text: str) -> tuple[ddl.Action, ...]:
    statement = one(f"ALTER TABLE `t` {text}")
    assert isinstance(statement, ddl.AlterTable)
    return statement.actions


# -- types ------------------------------------------------------------------------------------------------------------

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
    assert expected == parse_type(format_type(expected))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GEOMETRY",
        "POINT",
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

    assert of == parse_type(format_type(of))


# -- columns ----------------------------------------------------------------------------------------------------------

DEFAULTS = [
    ("INT", None),
    ("INT DEFAULT NULL", Default()),
    ("INT DEFAULT -5", Default("-5")),
    ("INT DEFAULT - 5", Default("-5")),
    ("INT DEFAULT +5", Default("5")),
    ("INT DEFAULT '15'", Default("15")),
    ("INT DEFAULT (15)", Default("15")),
    ("INT DEFAULT 1.5", Default("2")),
    ("INT DEFAULT TRUE", Default("1")),
    ("TINYINT(1) DEFAULT false", Default("0")),
    ("BIGINT UNSIGNED DEFAULT 18446744073709551615", Default("18446744073709551615")),
    ("BIGINT DEFAULT x'FF'", Default("255")),
    ("BIGINT DEFAULT 0xff", Default("255")),
    ("INT DEFAULT b'101'", Default("5")),
    ("BIT(10) DEFAULT b'101'", Default("5")),
    ("BIT(10) DEFAULT 0b101", Default("5")),
    ("BIT(8) DEFAULT 5", Default("5")),
    ("BIT(8) DEFAULT 'A'", Default("65")),
    ("DECIMAL(12,4) DEFAULT 1.5000", Default("1.5000")),
    ("DECIMAL(12,4) DEFAULT 1.5", Default("1.5000")),
    ("DECIMAL(12,4) DEFAULT '1.5'", Default("1.5000")),
    ("DECIMAL(12,4) DEFAULT -0.00005", Default("-0.0001")),
    ("DECIMAL(12,4) DEFAULT 1e2", Default("100.0000")),
    ("DECIMAL DEFAULT 7", Default("7")),
    (
        "DECIMAL(65,30) DEFAULT 12345678901234567890123456789012345.5",
        Default("12345678901234567890123456789012345.5" + "0" * 29),
    ),
    ("FLOAT DEFAULT 3.25", Default("3.25")),
    ("DOUBLE DEFAULT 1e-7", Default("1e-7")),
    ("VARCHAR(9) DEFAULT _UTF8MB4'o''k'", Default("o'k")),
    ("VARCHAR(9) DEFAULT 'a' 'b'", Default("ab")),
    ('VARCHAR(9) DEFAULT "o""k"', Default('o"k')),
    ("VARCHAR(9) DEFAULT N'x'", Default("x")),
    ("VARCHAR(9) DEFAULT 5", Default("5")),
    ("VARCHAR(9) DEFAULT x'6162'", Default("ab")),
    ("VARCHAR(9) DEFAULT ''", Default("")),
    ("VARCHAR(9) DEFAULT 'NULL'", Default("NULL")),
    ("TEXT DEFAULT ('abc')", Default("abc")),
    ("VARBINARY(9) DEFAULT _UTF8MB4'bin'", Default(b"bin")),
    ("BINARY(4) DEFAULT x'00ff'", Default(b"\0\xff")),
    ("BINARY(4) DEFAULT 0xf", Default(b"\x0f")),
    ("VARBINARY(4) DEFAULT _binary'a'", Default(b"a")),
    ("ENUM('a','B') DEFAULT 'b'", Default("B")),
    ("ENUM('a','B') DEFAULT 1", Default("a")),
    ("SET('x','y') DEFAULT 'Y,x'", Default("x,y")),
    ("SET('x','y') DEFAULT ''", Default("")),
    ("SET('x','y') DEFAULT 3", Default("x,y")),
    ("YEAR DEFAULT 2023", Default("2023")),
    ("YEAR DEFAULT 24", Default("2024")),
    ("YEAR DEFAULT '99'", Default("1999")),
    ("YEAR DEFAULT 0", Default("0000")),
    ("YEAR DEFAULT '0'", Default("2000")),
    ("YEAR DEFAULT '0000'", Default("0000")),
    ("DATE DEFAULT '2024-1-2'", Default("2024-01-02")),
    ("DATE DEFAULT 20240102", Default("2024-01-02")),
    ("DATE DEFAULT DATE '2024-01-02'", Default("2024-01-02")),
    ("DATETIME DEFAULT '2024-01-02'", Default("2024-01-02 00:00:00")),
    ("DATETIME(3) DEFAULT '2024-01-02 03:04:05'", Default("2024-01-02 03:04:05.000")),
    ("DATETIME DEFAULT '2024-01-02 03:04:05.5'", Default("2024-01-02 03:04:06")),
    ("DATETIME(2) DEFAULT '2023-12-31 23:59:59.995'", Default("2024-01-01 00:00:00.00")),
    ("DATETIME(1) DEFAULT '0000-00-00 00:00:00'", Default("0000-00-00 00:00:00.0")),
    ("TIMESTAMP DEFAULT '2024-01-02 03:04:05+08:00'", Default("2024-01-02 03:04:05+08:00")),
    ("TIME DEFAULT _UTF8MB4'12:27:23'", Default("12:27:23")),
    ("TIME(3) DEFAULT '-1:2:3.5'", Default("-01:02:03.500")),
    ("TIME DEFAULT '838:59:59'", Default("838:59:59")),
    ("TIME DEFAULT 1122", Default("00:11:22")),
    ("JSON DEFAULT ('{\"a\": 1}')", Default('{"a": 1}')),
    ("TIMESTAMP DEFAULT CURRENT_TIMESTAMP", Default(expression="CURRENT_TIMESTAMP")),
    ("TIMESTAMP(3) DEFAULT NOW(3) ON UPDATE NOW(3)", Default(expression="CURRENT_TIMESTAMP(3)")),
    ("DATETIME DEFAULT CURRENT_TIMESTAMP() ON UPDATE CURRENT_TIMESTAMP", Default(expression="CURRENT_TIMESTAMP")),
    ("DATE DEFAULT (CURRENT_DATE)", Default(expression="CURRENT_DATE")),
    ("VARCHAR(36) DEFAULT (UUID())", Default(expression="(UUID())")),
    ("VARCHAR(36) DEFAULT UUID()", Default(expression="UUID()")),
    ("BIGINT DEFAULT NEXT VALUE FOR `s`.`q`", Default(expression="NEXT VALUE FOR `s`.`q`")),
    ("INT DEFAULT ((1 + 2) * 3)", Default(expression="((1 + 2) * 3)")),
]


@pytest.mark.parametrize(("definition", "expected"), DEFAULTS)
def test_a_default_is_what_mysql_would_print_for_its_column(definition, expected):
    assert expected == default(definition)


ATTRIBUTES = [
    ("INT NOT NULL", Column("c", INT, nullable=False)),
    ("INT NULL", Column("c", INT)),
    ("INT PRIMARY KEY", Column("c", INT, nullable=False)),
    ("INT KEY AUTO_INCREMENT", Column("c", INT, nullable=False)),
    ("BIGINT NOT NULL /*T![auto_rand] AUTO_RANDOM(5, 54) */", Column("c", MySqlType(Kind.BIGINT), nullable=False)),
    ("INT COMMENT 'it''s; /* no */ -- comment' COLUMN_FORMAT FIXED STORAGE DISK", Column("c", INT)),
    ("BIGINT GENERATED ALWAYS AS(`a`+(1*(2))) STORED NOT NULL", Column("c", MySqlType(Kind.BIGINT), nullable=False)),
    ("BIGINT AS (a)", Column("c", MySqlType(Kind.BIGINT), virtual=True)),
    ("BIGINT GENERATED ALWAYS AS (concat(')', `x``)`)) VIRTUAL", Column("c", MySqlType(Kind.BIGINT), virtual=True)),
    ("INT CHECK (c > 0) NOT ENFORCED", Column("c", INT)),
    ("INT CONSTRAINT k CHECK (c > 0)", Column("c", INT)),
    ("INT REFERENCES p (id) ON DELETE SET NULL ON UPDATE CASCADE", Column("c", INT)),
    ("INT INVISIBLE", Column("c", INT)),
    ("VARCHAR(3) NOT NULL COLLATE binary", Column("c", MySqlType(Kind.VARBINARY, 3), nullable=False)),
    ("SERIAL", Column("c", MySqlType(Kind.BIGINT, unsigned=True), nullable=False)),
    ("/*!40101 INT */ /*!50100NOT NULL*/ /* plain */ # more\n-- end\n", Column("c", INT, nullable=False)),
]


@pytest.mark.parametrize(("definition", "expected"), ATTRIBUTES)
def test_column_attributes_are_read_or_passed_over(definition, expected):
    assert expected == column(definition)


NAMES = [
    "`a b`",
    "`sel``ect`",
    "`select`",
    "naïve",
    "列",
    '`q"x,y`',
    "1a",
    "$x",
    "`1`",
    '"ansi"',
    "t.x",
    "`s`.`t`.`x`",
    "`vector`",
    "Vector",
    "status",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_spelling_of_a_name_names_the_column(name):
    expected = name.split("`.")[-1] if "`." in name else name.removeprefix("t.")
    expected = expected.strip('`"').replace("``", "`")

    assert [expected] == list(columns(f"{name} INT"))


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1), st.booleans())
def test_a_quoted_name_round_trips_whatever_it_holds(name, in_comment):
    quoted = "`" + name.replace("`", "``") + "`"
    text = f"/*T![x] {quoted} */" if in_comment else quoted

    assert name == cursor_over(text).identifier()


@given(st.text(st.characters(codec="utf-8")), st.booleans())
def test_a_string_round_trips_in_restored_text_and_in_mysql_text(value, restored):
    escaped = value if restored else value.replace("\\", "\\\\")
    literal = "_UTF8MB4'" + escaped.replace("'", "''") + "'"
    (statement,) = ddl.parse(f"ALTER TABLE `t` ALTER COLUMN `c` SET DEFAULT {literal}", "s", restored=restored)

    assert statement.actions == (ddl.AlterDefault("c", Literal(value, is_string=True)),)


def test_a_backslash_of_restored_text_is_one_and_of_written_text_escapes():
    """TiCDC restores strings without escaping backslashes; SHOW CREATE TABLE and people escape them."""
    restored = "CREATE TABLE `t` (`a` VARCHAR(9) DEFAULT _UTF8MB4'C:\\new\\',`b` ENUM('x\\','y'))"
    shown = "CREATE TABLE `t` (\n  `a` varchar(9) DEFAULT 'C:\\\\new\\\\',\n  `b` enum('x\\\\','y')\n)"

    for text in (restored, shown):
        (table,) = ddl.parse(text, "s")
        assert Default("C:\\new\\") == table.columns[0].default
        assert table.columns[1].type.elements == ("x\\", "y")


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
    *settings, table = ddl.parse(SHOWN, "shop")

    assert [ddl.NoEffect("SET"), ddl.NoEffect("SET")] == settings
    assert table == ddl.CreateTable(
        "shop",
        "orders",
        columns=(
            Column("id", MySqlType(Kind.BIGINT, 20), nullable=False),
            Column("Email", MySqlType(Kind.VARCHAR, 200), default=Default()),
            Column(
                "at", MySqlType(Kind.TIMESTAMP, 3), nullable=False, default=Default(expression="CURRENT_TIMESTAMP(3)")
            ),
            Column("v", MySqlType(Kind.INT, 11), virtual=True),
            Column("doc", MySqlType(Kind.JSON), default=Default()),
        ),
        indexes=(
            Index("PRIMARY", ("id",), unique=True, primary=True),
            Index("uk", ("Email",), unique=True),
            Index("plain", ("at", "(lower(`Email`))")),
            Index("ft", ("Email",)),
        ),
        partitioning=Partitioning(
            "RANGE", ("id",), partitions=(Partition("p0", less_than=("100",)), Partition("pM", less_than=(None,)))
        ),
        charset="utf8mb4",
        folded=frozenset({"email"}),
    )


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

    assert {c.name: c.nullable for c in table.columns} == {"a": False, "B": False, "c": True}


def test_text_columns_of_a_table_in_binary_are_binary_unless_they_say_otherwise():
    table = one(
        "CREATE TABLE t (a CHAR(3), b TEXT, c VARCHAR(5) CHARSET utf8mb4, d ENUM('x')) DEFAULT CHARSET = binary"
    )

    assert [c.type.kind for c in table.columns] == [Kind.BINARY, Kind.BLOB, Kind.VARCHAR, Kind.ENUM]


PARTITIONINGS = [
    ("HASH (`id`) PARTITIONS 3", Partitioning("HASH", ("id",), count=3)),
    ("LINEAR HASH (YEAR(`d`)) PARTITIONS 4", Partitioning("HASH", (), "YEAR(`d`)", count=4)),
    ("KEY () PARTITIONS 2", Partitioning("KEY", count=2)),
    ("KEY ALGORITHM = 2 (`id`) (PARTITION a, PARTITION b)", Partitioning("KEY", ("id",), partitions=(Partition("a"), Partition("b")), count=2)),
    ("RANGE (TO_DAYS(`d`)) (PARTITION p VALUES LESS THAN (TO_DAYS('2024-01-01')), PARTITION m VALUES LESS THAN MAXVALUE)",
     Partitioning("RANGE", (), "TO_DAYS(`d`)", (Partition("p", ("TO_DAYS('2024-01-01')",)), Partition("m", (None,))))),
    ("RANGE COLUMNS (`a`, `d`) (PARTITION p VALUES LESS THAN (-5, _UTF8MB4'2024-01-01'), PARTITION q VALUES LESS THAN (7, MAXVALUE))",
     Partitioning("RANGE", ("a", "d"), partitions=(Partition("p", ("-5", "'2024-01-01'")), Partition("q", ("7", None))))),
    ("LIST (`a`) (PARTITION p VALUES IN (1, NULL), PARTITION o DEFAULT)",
     Partitioning("LIST", ("a",), partitions=(Partition("p", values_in=("1", None)), Partition("o", values_in=("DEFAULT",))))),
    ("LIST COLUMNS (`a`, `b`) (PARTITION p VALUES IN ((1,'o''k'),(2,NULL)))",
     Partitioning("LIST", ("a", "b"), partitions=(Partition("p", values_in=("1", "'o''k'", "2", None)),))),
    ("RANGE (`a`) SUBPARTITION BY HASH (`b`) SUBPARTITIONS 2 (PARTITION p VALUES LESS THAN (3) (SUBPARTITION s0, SUBPARTITION s1))",
     Partitioning("RANGE", ("a",), partitions=(Partition("p", ("3",)),))),
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
    ("create schema if not exists S /*!40100 DEFAULT CHARACTER SET utf8mb4 */", ddl.CreateDatabase("S", if_not_exists=True)),
    ("DROP DATABASE IF EXISTS `gone`", ddl.DropDatabase("gone", if_exists=True)),
    ("ALTER DATABASE `d` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", ddl.NoEffect("ALTER DATABASE")),
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
    statements = ddl.parse("USE `a`; DROP TABLE t;; USE b; TRUNCATE TABLE t;", "shop")

    assert [ddl.DropTables((("a", "t"),)), ddl.TruncateTable("b", "t")] == [
        s for s in statements if not isinstance(s, ddl.NoEffect)
    ]


def test_text_without_a_statement_has_none():
    assert ddl.parse(" ; /* nothing */ -- here\n ;", "s") == ()


A = ddl.ColumnDefinition(Column("a", INT))
ACTIONS = [
    ("ADD COLUMN `a` INT", (ddl.AddColumns(((A, None),)),)),
    ("ADD a INT FIRST", (ddl.AddColumns(((A, ddl.Place()),)),)),
    ("ADD COLUMN IF NOT EXISTS a INT AFTER `x y`", (ddl.AddColumns(((A, ddl.Place("x y")),), if_not_exists=True),)),
    ("ADD COLUMN (a INT, KEY i (a))", (ddl.AddColumns(((A, None),)), ddl.AddIndex(Index("i", ("a",))))),
    ("DROP COLUMN IF EXISTS `a` CASCADE", (ddl.DropColumn("a", if_exists=True),)),
    ("DROP `a`", (ddl.DropColumn("a"),)),
    ("MODIFY a INT AFTER b", (ddl.ModifyColumn("a", A, ddl.Place("b")),)),
    ("CHANGE COLUMN `z` `a` INT FIRST", (ddl.ModifyColumn("z", A, ddl.Place()),)),
    ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", (ddl.RenameColumn("a", "b"), ddl.RenameColumn("b", "a"))),
    ("ALTER a DROP DEFAULT", (ddl.AlterDefault("a", None),)),
    ("ALTER COLUMN a SET DEFAULT (now())", (ddl.AlterDefault("a", Expression("CURRENT_TIMESTAMP")),)),
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
    ("ADD PARTITION (PARTITION p VALUES LESS THAN (5))", (ddl.AddPartitions((Partition("p", ("5",)),)),)),
    ("ADD PARTITION PARTITIONS 3", (ddl.AddPartitions(count=3),)),
    ("COALESCE PARTITION 2", (ddl.CoalescePartitions(2),)),
    ("REORGANIZE PARTITION a, b INTO (PARTITION c VALUES LESS THAN (9))", (ddl.ReorganizePartitions(("a", "b"), (Partition("c", ("9",)),)),)),
    ("EXCHANGE PARTITION p WITH TABLE o.x WITHOUT VALIDATION", (ddl.ExchangePartition("p", ("o", "x")),)),
    ("REMOVE PARTITIONING", (ddl.Repartition(None),)),
    ("PARTITION BY KEY (a) PARTITIONS 2", (ddl.Repartition(Partitioning("KEY", ("a",), count=2)),)),
    ("CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", (ddl.ConvertCharset("utf8mb4", "utf8mb4_general_ci", converts=True),)),
    ("DEFAULT CHARSET=gbk", (ddl.ConvertCharset("gbk"),)),
    ("COMMENT = 'x', AUTO_ID_CACHE 1", (ddl.NoEffect("table options"),)),
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


# -- refusals ---------------------------------------------------------------------------------------------------------

REFUSED = [
    "CREATE TABLE t (a INT) AS SELECT 1",
    "CREATE TABLE t AS SELECT 1",
    "CREATE TABLE t (a GEOMETRY)",
    "CREATE TABLE t (a INT WHATEVER)",
    "CREATE TABLE t (a INT) NEW_OPTION=3",
    "CREATE TABLE t ()",
    "CREATE TABLE t (a INT,)",
    "CREATE TABLE t (a INT",
    "CREATE TABLE t (a INT DEFAULT)",
    "CREATE TABLE t (a INT DEFAULT other)",
    "CREATE DATABASE d CHARACTER SET binary",
    "CREATE WIDGET w",
    "ALTER TABLE t ADD COLUMN a INT,",
    "ALTER TABLE t ADD COLUMN a INT ADD COLUMN b INT",
    "ALTER TABLE t IMPORT TABLESPACE",
    "ALTER TABLE t CONVERT TO CHARACTER SET BINARY",
    "ALTER TABLE t FIRST PARTITION LESS THAN (3)",
    "ALTER TABLE t SPLIT MAXVALUE PARTITION LESS THAN (3)",
    "ALTER TABLE t FROBNICATE",
    "ALTER TABLE t DROP COLUMN a b",
    "FLASHBACK TABLE t TO TIMESTAMP '2024-01-01'",
    "FLASHBACK CLUSTER TO TIMESTAMP '2024-01-01'",
    "FLASHBACK DATABASE d",
    "IMPORT INTO t FROM 'x'",
    "DROP WIDGET w",
    "RENAME WIDGET a TO b",
    "TRUNCATE TABLE t u",
    "DROP TABLE ``",
    "DROP TABLE 't'",
    "DROP TABLE `t",
    "DROP TABLE t /* open",
    "DROP TABLE t /*!40101 open",
    "DROP TABLE t */",
    "ALTER TABLE t ALTER a SET DEFAULT 'open",
    "ALTER TABLE t ALTER a SET DEFAULT x'0g'",
    "DROP TABLE \x00",
]  # fmt: skip


@pytest.mark.parametrize("query", REFUSED)
def test_what_is_not_understood_in_full_is_refused(query):
    with pytest.raises(SchemaError):
        ddl.parse(query, "s")


def test_the_error_names_the_place_and_the_word_and_no_value():
    with pytest.raises(SchemaError) as caught:
        ddl.parse("ALTER TABLE t ALTER a SET DEFAULT 'secret' BOGUS", "s")

    assert "character 44" in str(caught.value)
    assert "the word BOGUS" in str(caught.value)
    with pytest.raises(SchemaError) as caught:
        ddl.parse("ALTER TABLE t ALTER a SET DEFAULT 1 'secret'", "s")

    assert "a string literal" in str(caught.value)
    assert "secret" not in str(caught.value)


MIB = 1024 * 1024
HOSTILE = {
    "open string": "ALTER TABLE t ALTER a SET DEFAULT '" + "''" * (MIB // 2),
    "open string of escapes": "ALTER TABLE t ALTER a SET DEFAULT '" + "\\'" * (MIB // 2),
    "open name": "DROP TABLE `" + "``" * (MIB // 2),
    "open comment": "/*" + "*" * MIB,
    "open comments": "/*! " * (MIB // 4),
    "deep parentheses": "CREATE TABLE t (a INT DEFAULT " + "(" * MIB,
    "deep parentheses closed": "CREATE TABLE t (a INT CHECK " + "(" * (MIB // 2) + ")" * (MIB // 2) + ") nonsense",
    "deep bounds": "CREATE TABLE t (a INT) PARTITION BY RANGE " + "(" * MIB,
    "long number": "ALTER TABLE t AUTO_INCREMENT=1, ADD a INT(" + "9" * MIB + ")",
    "many columns": "CREATE TABLE t (" + "a INT," * (MIB // 6) + ")",
    "many signs": "CREATE TABLE t (a INT DEFAULT " + "-" * (MIB // 2) + "x)",
    "many statements": "DROP TABLE t;" * (MIB // 13) + "DROP",
    "too long": " " * (TEXT_CHARS_MAX + 1),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_refused_in_a_few_seconds(text):
    started = time.process_time()
    with pytest.raises(SchemaError):
        ddl.parse(text, "s")

    assert time.process_time() - started < 10


def test_a_huge_exponent_costs_no_memory():
    assert Default("1e999999999") == default("INT DEFAULT 1e999999999")
    assert Default("0.00") == default("DECIMAL(5,2) DEFAULT 1e-999999999")


@given(st.text(st.sampled_from(list("`'\"\\()/*!T[]-#;,. \nax0_")), max_size=60))
def test_any_text_is_read_or_refused(text):
    for prefix in ("", "ALTER TABLE t ", "CREATE TABLE t ("):
        try:
            ddl.parse(prefix + text, "s")
        except SchemaError:
            continue
