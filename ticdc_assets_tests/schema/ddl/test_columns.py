"""Definitions of columns: defaults as MySQL prints them, attributes, names and strings in any spelling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.defaults import LiteralDefault
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.ddl.token_cursor import cursor_over
from ticdc_assets.schema.model import Column, Default, Kind, MySqlType
from ticdc_assets_tests.schema.ddl.statements import INT, column, columns, default

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
    ("DECIMAL(5) DEFAULT 0xff", Default("255")),
    ("DOUBLE DEFAULT x'FF'", Default("255")),
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
    ("FLOAT(7,2) DEFAULT 1.239", Default("1.24")),
    ("DOUBLE(7,1) DEFAULT 0.25", Default("0.2")),
    ("DOUBLE(7,3) DEFAULT '-1'", Default("-1.000")),
    ("DOUBLE DEFAULT ' 1.5'", Default("1.5")),
    ("DOUBLE DEFAULT 1e-7", Default("1e-7")),
    ("VARCHAR(9) DEFAULT _UTF8MB4'o''k'", Default("o'k")),
    ("VARCHAR(9) DEFAULT 'a' 'b'", Default("ab")),
    ('VARCHAR(9) DEFAULT "o""k"', Default('o"k')),
    ("VARCHAR(9) DEFAULT N'x'", Default("x")),
    ("VARCHAR(9) DEFAULT 5", Default("5")),
    ("VARCHAR(9) DEFAULT 1.50", Default("1.50")),
    ("VARCHAR(9) DEFAULT 1.5e+03", Default("1500")),
    ("VARCHAR(9) DEFAULT -1e-07", Default("-0.0000001")),
    ("VARCHAR(30) DEFAULT 1e+21", Default("1000000000000000000000")),
    ("VARCHAR(9) DEFAULT '1.5e+03'", Default("1.5e+03")),
    ("VARBINARY(9) DEFAULT 2.5e+00", Default(b"2.5")),
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
    ("YEAR DEFAULT 0", Default("2000")),
    ("YEAR DEFAULT '0'", Default("2000")),
    ("YEAR DEFAULT '0000'", Default("0000")),
    ("YEAR DEFAULT 0000", Default("2000")),
    ("VARCHAR(9) DEFAULT -0.0", Default("0.0")),
    ("DOUBLE DEFAULT '+5'", Default("5")),
    ("DATE DEFAULT '2020-12-31 23:59:59.5'", Default("2021-01-01")),
    ("DATE DEFAULT '2020-12-31 23:59:59.49'", Default("2020-12-31")),
    ("DATETIME DEFAULT '1999-12-31 23:59:59.4999999'", Default("1999-12-31 23:59:59")),
    ("DATETIME(6) DEFAULT '1999-12-31 23:59:59.9999995'", Default("2000-01-01 00:00:00.000000")),
    ("TIME DEFAULT '12:34:56.4999999'", Default("12:34:56")),
    ("TIME DEFAULT '-0:0:0.4'", Default("00:00:00")),
    ("TIME(1) DEFAULT '-0:0:0.4'", Default("-00:00:00.4")),
    ("DATE DEFAULT '2024-1-2'", Default("2024-01-02")),
    ("DATE DEFAULT 20240102", Default("2024-01-02")),
    ("DATE DEFAULT '00-01-02'", Default("2000-01-02")),
    ("DATE DEFAULT '70-01-02'", Default("1970-01-02")),
    ("DATE DEFAULT '00-00-00'", Default("0000-00-00")),
    ("DATE DEFAULT 0", Default("0000-00-00")),
    ("DATETIME(1) DEFAULT 0", Default("0000-00-00 00:00:00.0")),
    ("TIMESTAMP NULL DEFAULT 0", Default("0000-00-00 00:00:00")),
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
    ("TIME DEFAULT '1 10:00:00'", Default("34:00:00")),
    ("TIME(1) DEFAULT '-2 3:04:05.67'", Default("-51:04:05.7")),
    ("TIME DEFAULT '1 2:03'", Default("26:03:00")),
    ("TIME DEFAULT '1 2'", Default("26:00:00")),
    ("TIME DEFAULT 0", Default("00:00:00")),
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


@given(st.text(st.characters(codec="utf-8")), st.booleans(), st.sampled_from(["_UTF8MB4", ""]))
def test_a_value_round_trips_in_restored_text_and_in_mysql_text(value, restored, introducer):
    """Text of table routes has no introducers."""
    literal = f"{introducer}'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    (statement,) = parse(f"ALTER TABLE `t` ALTER COLUMN `c` SET DEFAULT {literal}", "s", restored=restored)

    assert statement.actions == (ddl.AlterDefault("c", LiteralDefault(value, is_string=True)),)


@given(st.text(st.characters(codec="utf-8")), st.booleans())
def test_a_label_round_trips_in_restored_text_and_in_mysql_text(value, restored):
    escaped = value if restored else value.replace("\\", "\\\\")
    literal = "'" + escaped.replace("'", "''") + "'"
    (statement,) = parse(f"ALTER TABLE `t` ADD COLUMN `c` ENUM({literal})", "s", restored=restored)

    [(definition, _)] = statement.actions[0].columns
    assert definition.column.type.elements == (value.rstrip(" "),)


def test_restored_text_doubles_the_backslashes_of_values_alone_and_written_text_those_of_all():
    """TiDB restores values with an introducer and doubled backslashes, labels and comments as they are."""
    restored = "CREATE TABLE `t` (`a` VARCHAR(9) DEFAULT _UTF8MB4'C:\\\\new\\\\' COMMENT 'a\\',`b` ENUM('x\\','y'))"
    shown = "CREATE TABLE `t` (\n  `a` varchar(9) DEFAULT 'C:\\\\new\\\\' COMMENT 'a\\\\',\n  `b` enum('x\\\\','y')\n)"

    for text in (restored, shown):
        (table,) = parse(text, "s")
        assert Default("C:\\new\\") == table.columns[0].column.default
        assert table.columns[1].column.type.elements == ("x\\", "y")


@pytest.mark.parametrize("introducer", ["_UTF8MB4", ""])
def test_a_default_is_the_label_that_it_names_where_labels_hold_backslashes(introducer):
    text = f"ALTER TABLE `t` ADD COLUMN `c` ENUM('a\\b','c') NOT NULL DEFAULT {introducer}'a\\\\b'"
    (statement,) = parse(text, "s", restored=True)

    [(definition, _)] = statement.actions[0].columns
    assert definition.column.default == Default("a\\b")


def test_labels_and_comments_of_restored_text_keep_each_backslash():
    text = "CREATE TABLE `t` (`b` ENUM('x\\\\y') COMMENT 'a\\\\',`c` VARCHAR(9) DEFAULT 'a\\\\b\\c')"
    (table,) = parse(text, "s", restored=True)

    assert table.columns[0].column.type.elements == ("x\\\\y",)
    assert table.columns[1].column.default == Default("a\\\\b\\c")  # of an older TiDB, which doubled none


@pytest.mark.parametrize("introducer", ["_UTF8MB4", ""])
def test_a_partitions_values_have_their_backslashes_once(introducer):
    cut = f"PARTITION BY LIST COLUMNS (`v`) (PARTITION `p` VALUES IN ({introducer}'a\\\\b'))"
    (table,) = parse(f"CREATE TABLE `t` (`v` VARCHAR(9)) {cut}", "s", restored=True)

    assert table.partitioning.partitions[0].values_in == ("'a\\b'",)
