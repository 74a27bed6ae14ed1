"""The character set and collation of text in a table, by the first definition that names one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.evolution.evolve import create
from ticdc_assets.schema.history.fold.events import Known, fold
from ticdc_assets.schema.model import Column, Default, Index, Kind, MySqlType, TableSchema
from ticdc_assets_tests.schema.history.histories import event

COPIES = [
    [event(15, "u", "CREATE TABLE `u` LIKE `t`")],
    [event(15, "u", "RENAME TABLE `t` TO `u`")],
]


@pytest.mark.parametrize("copies", COPIES)
def test_a_copied_or_renamed_table_keeps_how_its_text_compares(copies: list[DdlEvent]):
    """By code points `Z` is below `m`, by this collation it is not: no row may be taken for one of `p`."""
    history = fold([
        event(10, "t", "CREATE TABLE `t` (`v` VARCHAR(10) PRIMARY KEY) DEFAULT COLLATE = UTF8MB4_GENERAL_CI "
                       "PARTITION BY RANGE COLUMNS (`v`) (PARTITION `p` VALUES LESS THAN (_UTF8MB4'm'))"),
        *copies,
        event(20, "u", "ALTER TABLE `u` TRUNCATE PARTITION `p`"),
    ])  # fmt: skip

    stop = history.source_tables[-1].stop
    assert stop is not None
    assert "binary collation" in stop.reason


@pytest.mark.parametrize("option", ["CHARACTER SET = BINARY", "COLLATE = BINARY"])
@pytest.mark.parametrize("copies", COPIES)
def test_text_added_to_a_table_of_binary_text_is_binary(option: str, copies: list[DdlEvent]):
    history = fold([
        event(10, "t", f"CREATE TABLE `t` (`id` INT PRIMARY KEY) DEFAULT {option}"),
        *copies,
        event(20, "u", "ALTER TABLE `u` ADD COLUMN `w` VARCHAR(10) DEFAULT _UTF8MB4'é'"),
        event(30, "u", "ALTER TABLE `u` ADD COLUMN `x` CHAR(2) DEFAULT x'ff'"),
    ])  # fmt: skip

    [_, w, x] = history.source_tables[-1].newest.columns
    assert (w.type.kind, x.type.kind) == (Kind.VARBINARY, Kind.BINARY)
    assert (w.default, x.default) == (Default("é".encode()), Default(b"\xff"))
    fills = [effect.value for version in history.source_tables[-1].versions for effect in version.effects]
    assert fills == [Default("é".encode()), Default("\ufffd".encode()[:2])]  # as TiDB fills rows


DUMPED = """CREATE TABLE `t` (
  `v` varchar(10) NOT NULL,
  PRIMARY KEY (`v`) /*T![clustered_index] CLUSTERED */
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=%s
PARTITION BY RANGE COLUMNS(`v`)
(PARTITION `p` VALUES LESS THAN ('m'))"""


@pytest.mark.parametrize(("collation", "stops"), [("utf8mb4_general_ci", True), ("utf8mb4_bin", False)])
def test_a_table_that_the_user_describes_compares_as_described(collation: str, stops: bool):
    (statement,) = parse(DUMPED % collation, "shop", restored=False)
    described = create(statement).table

    history = fold([
        event(10, "t", "", after=described),
        event(20, "t", "ALTER TABLE `t` TRUNCATE PARTITION `p`"),
    ], Known({("shop", "t"): described}))  # fmt: skip

    assert (history.source_tables[0].stop is not None) == stops


@pytest.mark.parametrize(
    "database",
    ["CREATE DATABASE `shop` COLLATE = UTF8MB4_GENERAL_CI", "ALTER DATABASE `shop` CHARACTER SET = GBK"],
)
def test_a_table_that_names_no_collation_has_that_of_its_database(database: str):
    cut = "PARTITION BY RANGE COLUMNS (`v`) (PARTITION `p` VALUES LESS THAN (_UTF8MB4'm'))"
    own = "DEFAULT COLLATE = UTF8MB4_BIN "

    history = fold([
        event(1, "", "CREATE DATABASE `shop`"),
        event(2, "", database),
        event(10, "t", f"CREATE TABLE `t` (`v` VARCHAR(10) PRIMARY KEY) {cut}"),
        event(10, "u", f"CREATE TABLE `u` (`v` VARCHAR(10) PRIMARY KEY) {own}{cut}"),
        event(20, "t", "ALTER TABLE `t` TRUNCATE PARTITION `p`"),
        event(20, "u", "ALTER TABLE `u` TRUNCATE PARTITION `p`"),
    ])  # fmt: skip

    assert [source_table.stop is not None for source_table in history.source_tables] == [True, False]


def test_an_exchange_by_text_of_unknown_collation_stops_the_table():
    schema = TableSchema("shop", "t", (Column("v", MySqlType(Kind.VARCHAR, 10), nullable=False),))
    cut = "PARTITION BY RANGE COLUMNS (`v`) (PARTITION `p` VALUES LESS THAN (_UTF8MB4'm'))"

    history = fold([
        event(10, "t", "", after=schema),
        event(20, "t", f"ALTER TABLE `t` {cut}"),
        event(30, "t", "ALTER TABLE `t` TRUNCATE PARTITION `p`"),
    ])  # fmt: skip

    assert history.source_tables[0].stop is not None
    assert history.source_tables[0].stop.ts == 30


@pytest.mark.parametrize(
    ("charset", "size", "kind"),
    [
        ("UTF8", 80, Kind.TINYTEXT),
        ("LATIN1", 200, Kind.TINYTEXT),
        ("BINARY", 200, Kind.TINYBLOB),
        ("GBK", 100, Kind.TINYTEXT),
        ("UTF8MB4", 80, Kind.TEXT),
    ],
)
def test_a_sized_text_is_as_large_as_its_tables_character_set_makes_it(charset: str, size: int, kind: Kind):
    columns = (Column("id", MySqlType(Kind.INT), nullable=False), Column("v", MySqlType(kind)))
    schema = TableSchema("shop", "t", columns, (Index("PRIMARY", ("id",), unique=True, primary=True),))
    create = f"CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` TEXT({size})) DEFAULT CHARACTER SET = {charset}"

    history = fold([event(10, "t", create, after=schema)])

    assert history.source_tables[0].stop is None
    assert history.source_tables[0].newest.columns == tuple(replace(c, uid=u) for u, c in enumerate(columns, start=1))


def test_a_sized_text_fits_the_sent_type_where_only_its_database_names_the_character_set():
    columns = (Column("id", MySqlType(Kind.INT), nullable=False), Column("v", MySqlType(Kind.TINYTEXT)))
    schema = TableSchema("shop", "t", columns, (Index("PRIMARY", ("id",), unique=True, primary=True),))

    history = fold([event(10, "t", "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` TEXT(80))", after=schema)])

    assert history.source_tables[0].stop is None


@pytest.mark.parametrize(
    "database", ["CREATE DATABASE `shop` CHARACTER SET = BINARY", "ALTER DATABASE `shop` COLLATE = BINARY"]
)
def test_text_of_a_table_in_a_database_of_binary_text_is_binary_unless_something_nearer_says_otherwise(database: str):
    history = fold([
        event(1, "", database),
        event(10, "t", "CREATE TABLE `t` (`a` VARCHAR(9) DEFAULT _UTF8MB4'é',`b` TEXT CHARACTER SET UTF8MB4)"),
        event(10, "u", "CREATE TABLE `u` (`a` VARCHAR(9)) DEFAULT CHARACTER SET = UTF8MB4"),
        event(20, "t", "ALTER TABLE `t` ADD COLUMN `c` CHAR(2)"),
    ])  # fmt: skip

    kinds = {
        source_table.name[1]: [c.type.kind for c in source_table.newest.columns]
        for source_table in history.source_tables
    }
    assert kinds == {"t": [Kind.VARBINARY, Kind.TEXT, Kind.BINARY], "u": [Kind.VARCHAR]}
    assert history.source_tables[0].newest.columns[0].default == Default("é".encode())
